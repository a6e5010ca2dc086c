package steady_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

const misusedNext = "steady: a Middleware may call next only before it returns, and one call at a time"

// O10
func TestAMiddlewareThatDoesNotCallNextIsTheAnswer(t *testing.T) {
	b, mock := probingBreaker(t, steady.BreakerConfig{HalfOpenProbes: 1})
	var done []steady.Completion
	answer := error(nil)
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{
			newRetry(t, steady.RetryConfig{NoDelay: true}), b,
			steady.Middleware(func(context.Context, func(context.Context) error) error { return answer }),
		},
		Clock: mock,
		Hooks: &steady.Hooks{OnDone: func(_ context.Context, c steady.Completion) { done = append(done, c) }},
	}))
	for _, answer = range []error{nil, errBoom} {
		v, err := p.Do(t.Context(), func(context.Context) (int, error) { t.Error("ran"); return 42, nil })
		assert.Equal(t, answer, err)
		assert.Zero(t, v)
	}
	for _, c := range done {
		assert.Equal(t, steady.Ignored, c.Outcome)
		assert.Zero(t, c.Attempts)
	}
	assert.Equal(t, steady.StateHalfOpen, b.State(), "the breaker around it hears Ignored")
	allow(t, b) // and the probe was given back
}

// O10
func TestAMiddlewareMayCallNextMoreThanOnce(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	var attempts []int
	var discarded []int
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{
			b,
			steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
				_ = next(ctx)
				_ = next(ctx)
				return next(ctx)
			}),
			newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1}),
		},
		Discard: func(v int) { discarded = append(discarded, v) },
		Clock:   mock,
		Hooks:   &steady.Hooks{OnAttempt: func(_ context.Context, a steady.Attempt) { attempts = append(attempts, a.Attempt) }},
	}))
	n := 0
	v, err := p.Do(t.Context(), func(context.Context) (int, error) {
		n++
		if n == 2 {
			return 0, errBoom
		}
		return n, nil
	})
	require.NoError(t, err)
	assert.Equal(t, 3, v)
	assert.Equal(t, []int{1, 2, 3}, attempts)
	assert.Equal(t, []int{1}, discarded, "the results before the last")
	assert.Equal(t, []int{1, 0}, []int{b.Stats().Calls, b.Stats().Failures}, "one permit, one outcome: the last one's")
}

// O10
func TestTheLastCallOfNextIsWhatCounts(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	calls := 0
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{
			b,
			steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
				_ = next(ctx)
				return next(ctx)
			}),
			steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
				if calls++; calls == 2 {
					return nil // nothing runs
				}
				return next(ctx)
			}),
		},
		Clock: mock,
		Hooks: &steady.Hooks{OnDone: func(_ context.Context, c steady.Completion) {
			assert.Equal(t, steady.Ignored, c.Outcome)
		}},
	}))
	v, err := p.Do(t.Context(), returns(42, nil))
	require.NoError(t, err)
	assert.Zero(t, v)
}

// O10
func TestAMiddlewareGivesTheContextToTheFunctionAndTheErrorToItsCaller(t *testing.T) {
	type key struct{}
	p := pipeline(t, steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		err := next(context.WithValue(ctx, key{}, 7))
		require.ErrorIs(t, err, errBoom)
		return &typedError{code: 8}
	}))
	_, err := p.Do(t.Context(), func(ctx context.Context) (int, error) { return ctx.Value(key{}).(int), errBoom })
	var typed *typedError
	require.ErrorAs(t, err, &typed)
}

// O10
func TestACallOfNextAfterTheMiddlewareReturnedIsAnError(t *testing.T) {
	var late func(context.Context) error
	p := pipeline(t, steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		late = next
		return next(ctx)
	}))
	runs := 0
	fn := func(context.Context) (int, error) { runs++; return runs, nil }
	v, err := p.Do(t.Context(), fn)
	require.NoError(t, err)
	assert.Equal(t, 1, v)

	first := late
	require.EqualError(t, first(t.Context()), misusedNext)
	v, err = p.Do(t.Context(), fn) // on the same record
	require.NoError(t, err)
	assert.Equal(t, 2, v)
	require.EqualError(t, first(t.Context()), misusedNext)
	assert.Equal(t, 2, runs)
}

// O10
func TestACallOfNextAfterAPanicIsAnError(t *testing.T) {
	var late func(context.Context) error
	p := pipeline(t, steady.Middleware(func(_ context.Context, next func(context.Context) error) error {
		late = next
		explodeNow()
		return nil
	}))
	unwound(t, "panic", func() { _, _ = p.Do(t.Context(), returns(1, nil)) })
	require.EqualError(t, late(t.Context()), misusedNext)
}

// O10
func TestTwoCallsOfNextAtOnceAreAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		p := pipeline(t, steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
			errs := make(chan error)
			go func() { errs <- next(ctx) }()
			synctest.Wait() // it is in the function
			require.EqualError(t, next(ctx), misusedNext)
			return <-errs
		}))
		v, err := p.Do(t.Context(), func(context.Context) (int, error) {
			runs++
			time.Sleep(time.Second)
			return 42, nil
		})
		require.NoError(t, err)
		assert.Equal(t, 42, v)
		assert.Equal(t, 1, runs)
	})
}

// O10: the call's record must not be given away while somebody is in it.
func TestAMiddlewareThatReturnsTooEarlyIsHeldBack(t *testing.T) {
	bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	running, returning := make(chan struct{}), make(chan struct{})
	finished := false
	p := pipeline(t, steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		defer close(returning)
		go func() { _ = next(ctx) }()
		<-running
		return nil
	}), bulkhead)
	v, err := p.Do(t.Context(), func(context.Context) (int, error) {
		close(running)
		<-returning
		for range 1000 {
			runtime.Gosched()
		}
		finished = true
		return 42, nil
	})
	require.NoError(t, err)
	assert.True(t, finished)
	assert.Equal(t, 42, v)
	assert.Zero(t, bulkhead.Stats().InFlight)
}

// A Middleware of one's own may rewrite what an attempt came to; the outcome stays that of the function.
func TestTheOutcomeIsTheFunctions(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{b, steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
			_ = next(ctx)
			return nil
		})},
		Clock: mock,
	}))
	_, err := p.Do(t.Context(), returns(0, errBoom))
	require.NoError(t, err)
	assert.Equal(t, 1, b.Stats().Failures)
}

func TestWhatAMiddlewareMakesOfAFailureIsTheAnswerWhenNothingIsLeftToTry(t *testing.T) { // O5, O10
	swallow := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		_ = next(ctx)
		return nil
	})
	runs := 0
	_, err := pipeline(t, newRetry(t, steady.RetryConfig{NoDelay: true}), swallow).Do(t.Context(), func(context.Context) (int, error) {
		runs++
		return 0, errBoom
	})
	require.NoError(t, err)
	assert.Equal(t, 3, runs, "the outcome was a failure all the same")
}

func TestAProbeThatAMiddlewareKeepsAwayIsGivenBackAfterAnAttemptThatFailed(t *testing.T) { // O10
	b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 1, HalfOpenProbes: 1})
	retry := newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2, Hooks: &steady.Hooks{
		OnRetry: func(context.Context, steady.RetryDelay) { mock.Add(10 * time.Second) },
	}})
	_, err := pipelineOn(t, mock, retry, b, once()).Do(t.Context(), returns(0, errBoom))
	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, steady.StateHalfOpen, b.State(), "the first attempt opened it; the second says nothing")
	allow(t, b).Done(steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
}
