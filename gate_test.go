package steady_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

func TestAnOpenBreakerRejectsBeforeAnythingIsSetUp(t *testing.T) { // B3
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	d := steady.Must(steady.NewDependency(catalogConfig()))
	p := steady.Must(steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[int]{}))
	d.Breaker().ForceOpen("test")
	fn := returns(1, nil)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := p.Do(context.Background(), fn); err == nil {
			t.Error("it was let through")
		}
	})
	assert.Zero(t, allocs, "not even the context of the Timeout around it")
}

func TestTheShortcutOfAnOpenBreakerChangesNothing(t *testing.T) { // B3, O1, R7
	retry := newRetry(t, steady.RetryConfig{})
	b, mock := newBreaker(t, steady.BreakerConfig{})
	limit := newTimeout(t, steady.TimeoutConfig{Limit: time.Second})
	p := pipelineOn(t, mock, limit, retry, b)
	call(t, b, mock, 10, 0, steady.Transient)

	_, err := p.Do(t.Context(), returns(1, nil))
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	err = p.Run(t.Context(), func(context.Context) error { return nil })
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	v, err := p.DoOr(t.Context(), returns(1, nil), func(_ context.Context, err error) (int, error) {
		assert.ErrorIs(t, err, steady.ErrBreakerOpen)
		return 2, nil
	})
	require.NoError(t, err)
	assert.Equal(t, 2, v)
	assert.EqualValues(t, 3, retry.Stats().Calls)
	assert.EqualValues(t, 3, b.Stats().Rejected)

	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Do(done, returns(1, nil))
	require.ErrorIs(t, err, context.Canceled, "a done context comes first")
	assert.EqualValues(t, 3, b.Stats().Rejected)

	mock.Add(10 * time.Second)
	v, err = p.Do(t.Context(), returns(1, nil))
	require.NoError(t, err, "the period is over")
	assert.Equal(t, 1, v)
}

func TestWhatStandsOutsideAnOpenBreakerIsNotSkipped(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	b.ForceOpen("test")
	asked := 0
	m := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		asked++
		return next(ctx)
	})
	_, err := pipelineOn(t, mock, m, b).Do(t.Context(), returns(1, nil))
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	assert.Equal(t, 1, asked)

	full := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	_, err = full.Acquire(t.Context())
	require.NoError(t, err)
	_, err = pipelineOn(t, mock, full, b).Do(t.Context(), returns(1, nil))
	require.ErrorIs(t, err, steady.ErrBulkheadFull)
}
