package steady_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

func TestErrorTexts(t *testing.T) {
	bulkheadFull := &steady.RejectedError{Policy: "catalog", Reason: steady.ErrBulkheadFull}
	timeout := &steady.TimeoutError{Policy: "catalog", Limit: 2 * time.Second, Err: context.DeadlineExceeded}
	retry := &steady.RetryError{Policy: "catalog", Attempts: 3, Elapsed: 1234567 * time.Microsecond, Reason: steady.ErrRetriesExhausted, Last: timeout}
	for _, test := range []struct {
		err  error
		want string
	}{
		{steady.ErrBreakerOpen, "steady: breaker open"},
		{steady.ErrBulkheadFull, "steady: bulkhead full"},
		{steady.ErrTimeout, "steady: timeout"},
		{steady.ErrRetriesExhausted, "steady: retries exhausted"},
		{steady.ErrRetryBudget, "steady: retry budget empty"},
		{steady.ErrRetryDeadline, "steady: no time left to retry"},
		{bulkheadFull, `steady: bulkhead full: "catalog"`},
		{timeout, `steady: timeout "catalog" of 2s: context deadline exceeded`},
		{&steady.TimeoutError{Policy: "catalog", Limit: time.Second}, `steady: timeout "catalog" of 1s`},
		{retry, `steady: retry "catalog" gave up after 3 attempts in 1.23s: retries exhausted; last error: timeout "catalog" of 2s: context deadline exceeded`},
		{
			&steady.TimeoutError{Policy: "total", Limit: 5 * time.Second, Err: retry},
			`steady: timeout "total" of 5s: retry "catalog" gave up after 3 attempts in 1.23s: retries exhausted; last error: timeout "catalog" of 2s: context deadline exceeded`,
		},
		{
			&steady.RetryError{Attempts: 1, Reason: bulkheadFull},
			`steady: retry "" gave up after 1 attempt in 0s: bulkhead full: "catalog"`,
		},
		{&steady.RetryError{Attempts: 0, Last: errBoom}, `steady: retry "" gave up after 0 attempts in 0s; last error: boom`},
		{&steady.PanicError{Value: "ouch", Stack: []byte("goroutine 1")}, "steady: panic: ouch\n\ngoroutine 1"},
	} {
		assert.Equal(t, test.want, test.err.Error())
	}
}

func TestElapsedTimesAreRoundedToBeRead(t *testing.T) {
	for elapsed, want := range map[time.Duration]string{
		7: "7ns", 1234: "1.23µs", 1234567: "1.23ms", 1234567890: "1.23s", 83*time.Second + 1234567: "1m23s",
	} {
		err := &steady.RetryError{Attempts: 1, Elapsed: elapsed, Reason: steady.ErrRetryBudget}
		assert.Contains(t, err.Error(), "in "+want+": retry budget empty")
	}
}

func TestARejectionMatchesItsReason(t *testing.T) {
	b, _ := openedBreaker(t, steady.BreakerConfig{Name: "catalog"})
	_, err := b.Allow()
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	assert.NotErrorIs(t, err, steady.ErrBulkheadFull)
	var rejected *steady.RejectedError
	require.ErrorAs(t, fmt.Errorf("checkout: %w", err), &rejected)
	assert.Equal(t, "catalog", rejected.Policy)
	assert.Equal(t, `steady: breaker open: "catalog", for another 9s`, err.Error())
}

func TestRetryAfterTellsWhatIsLeftWhenAsked(t *testing.T) {
	b, mock := openedBreaker(t, steady.BreakerConfig{})
	_, err := b.Allow()
	var rejected *steady.RejectedError
	require.ErrorAs(t, err, &rejected)

	assert.Equal(t, 9*time.Second, rejected.RetryAfter())
	mock.Add(8 * time.Second)
	assert.Equal(t, time.Second, rejected.RetryAfter(), "the same value, later")
	mock.Add(time.Second)
	assert.Zero(t, rejected.RetryAfter())
	mock.Add(time.Hour)
	assert.Zero(t, rejected.RetryAfter(), "never negative")

	_, again := b.Allow()
	require.NoError(t, again)
}

func TestOneRejectionServesAnOpenPeriod(t *testing.T) {
	b, mock := openedBreaker(t, steady.BreakerConfig{})
	_, first := b.Allow()
	mock.Add(time.Second)
	_, second := b.Allow()
	assert.Same(t, first, second)

	mock.Add(time.Hour)
	call(t, b, mock, 1, 0, steady.Transient)
	_, third := b.Allow()
	assert.NotSame(t, first, third)
}

func TestRetryAfterIsZeroWhereNobodyCanKnow(t *testing.T) {
	retryAfter := func(err error) time.Duration {
		var rejected *steady.RejectedError
		require.ErrorAs(t, err, &rejected)
		return rejected.RetryAfter()
	}
	b, _ := probingBreaker(t, steady.BreakerConfig{HalfOpenProbes: 1})
	allow(t, b)
	_, err := b.Allow()
	assert.Zero(t, retryAfter(err), "half-open")
	b.ForceOpen("maintenance")
	_, err = b.Allow()
	assert.Zero(t, retryAfter(err), "forced open")

	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))
	steady.Must(bulkhead.Acquire(t.Context()))
	_, err = bulkhead.Acquire(t.Context())
	assert.Zero(t, retryAfter(err), "bulkhead")
	assert.Zero(t, (&steady.RejectedError{Reason: steady.ErrBreakerOpen}).RetryAfter(), "one of the caller's own")
}

func TestATimeoutMatchesWhatEverybodyLooksFor(t *testing.T) {
	err := error(&steady.TimeoutError{Policy: "catalog", Limit: time.Second, Err: io.ErrUnexpectedEOF})
	require.ErrorIs(t, err, steady.ErrTimeout)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "what the function returned is not masked")
	assert.NotErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded)

	var timeout interface{ Timeout() bool }
	require.ErrorAs(t, fmt.Errorf("checkout: %w", err), &timeout)
	assert.True(t, timeout.Timeout())
	assert.ErrorIs(t, &steady.TimeoutError{}, context.DeadlineExceeded)
}

func TestARetryErrorMatchesBothItsReasonAndTheLastError(t *testing.T) {
	last := &net.OpError{Op: "dial", Err: io.ErrClosedPipe}
	err := error(&steady.RetryError{Reason: steady.ErrRetryDeadline, Last: steady.Mark(last, steady.Unsent)})
	require.ErrorIs(t, err, steady.ErrRetryDeadline)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	assert.Same(t, last, op)

	assert.Len(t, (&steady.RetryError{Reason: steady.ErrRetryBudget}).Unwrap(), 1, "a failing value has no last error")
	assert.Empty(t, (&steady.RetryError{}).Unwrap())
}

func TestAPanicErrorIsSeenThroughWhenItsValueIsAnError(t *testing.T) {
	require.ErrorIs(t, &steady.PanicError{Value: errBoom}, errBoom)
	assert.NoError(t, (&steady.PanicError{Value: "ouch"}).Unwrap())
}

func TestIsRejectedTellsRejectionsFromFailures(t *testing.T) {
	rejected := &steady.RejectedError{Reason: steady.ErrBulkheadFull}
	for _, err := range []error{
		rejected,
		fmt.Errorf("checkout: %w", rejected),
		&steady.RetryError{Attempts: 1, Reason: rejected, Last: errBoom},
		&steady.RetryError{Attempts: 0, Reason: steady.ErrRetriesExhausted, Last: rejected},
		steady.Mark(rejected, steady.Transient),
		errors.Join(errBoom, rejected),
	} {
		assert.True(t, steady.IsRejected(err), "%v", err)
	}
	for _, err := range []error{
		nil,
		errBoom,
		steady.ErrBreakerOpen, // just the sentinel: nobody's rejection
		&steady.TimeoutError{Err: context.DeadlineExceeded},
		&steady.RetryError{Attempts: 3, Reason: steady.ErrRetriesExhausted, Last: errBoom},
	} {
		assert.False(t, steady.IsRejected(err), "%v", err)
	}
}

// O7: the attempt that failed and the rejection of the next one are both to be seen.
func TestARejectionAfterAFailedAttemptKeepsTheAttemptsError(t *testing.T) {
	mock := clock.NewMock()
	b := steady.Must(steady.NewBreaker(steady.BreakerConfig{Name: "catalog", NoSlowCalls: true, MinCalls: 1, WindowSize: 1, Clock: mock}))
	var done steady.Completion
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true}), b},
		Hooks:    &steady.Hooks{OnDone: func(_ context.Context, c steady.Completion) { done = c }},
	}))
	v, err := p.Do(t.Context(), returns(7, errBoom))

	assert.Zero(t, v, "the value is the last attempt's, which has none")
	assert.Equal(t, steady.Ignored, done.Outcome)
	assert.Equal(t, 1, done.Attempts)
	assert.True(t, steady.IsRejected(err))
	require.ErrorIs(t, err, errBoom)
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	var gaveUp *steady.RetryError
	require.ErrorAs(t, err, &gaveUp)
	assert.Equal(t, 1, gaveUp.Attempts)
	assert.Equal(t, errBoom, gaveUp.Last)

	_, err = p.Do(t.Context(), returns(0, errBoom))
	var rejected *steady.RejectedError
	require.ErrorAs(t, err, &rejected)
	assert.Same(t, rejected, err, "without an attempt, just the rejection")
}

func TestMustPanicsWithTheError(t *testing.T) {
	assert.Equal(t, 7, steady.Must(7, nil))
	assert.PanicsWithValue(t, errBoom, func() { steady.Must(7, errBoom) })
}

// net/http's url.Error asks the error that it wraps, and that one only.
func TestARetryErrorIsATimeoutIfWhatEndedItIs(t *testing.T) {
	timeout := &steady.TimeoutError{Policy: "t", Limit: time.Second, Err: errBoom}
	assert.True(t, (&steady.RetryError{Reason: steady.ErrRetriesExhausted, Last: fmt.Errorf("read: %w", timeout)}).Timeout())
	assert.True(t, (&steady.RetryError{Reason: context.DeadlineExceeded, Last: errBoom}).Timeout())
	assert.True(t, (&url.Error{Op: "Get", URL: "/", Err: &steady.RetryError{Last: timeout}}).Timeout())
	assert.False(t, (&steady.RetryError{Reason: steady.ErrRetriesExhausted, Last: errBoom}).Timeout())
	assert.False(t, (&steady.RetryError{Reason: steady.ErrRetryDeadline}).Timeout())
	assert.False(t, (*steady.RetryError)(nil).Timeout())
}

func TestARetryErrorOfAJoinedDeadlineIsATimeout(t *testing.T) {
	err := &steady.RetryError{
		Reason: steady.ErrRetriesExhausted,
		Last:   errors.Join(&net.OpError{Op: "read", Err: errors.New("reset")}, context.DeadlineExceeded),
	}
	assert.True(t, err.Timeout())
}
