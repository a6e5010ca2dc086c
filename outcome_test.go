package steady_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

var allOutcomes = []steady.Outcome{
	steady.Success, steady.Transient, steady.Unsent, steady.Permanent, steady.Throttled, steady.Ignored,
}

func TestClassifyByDefault(t *testing.T) {
	rejected := &steady.RejectedError{Policy: "catalog", Reason: steady.ErrBreakerOpen}
	for _, test := range []struct {
		err  error
		want steady.Outcome
	}{
		{nil, steady.Success},
		{errBoom, steady.Transient},
		{context.Canceled, steady.Transient},
		{context.DeadlineExceeded, steady.Transient},
		{&steady.TimeoutError{Err: context.DeadlineExceeded}, steady.Transient},
		{rejected, steady.Ignored},
		{fmt.Errorf("catalog: %w", rejected), steady.Ignored},
		{&steady.RetryError{Reason: rejected, Last: errBoom}, steady.Ignored},
		{steady.Mark(errBoom, steady.Permanent), steady.Permanent},
		{errors.Join(errBoom, steady.Mark(errBoom, steady.Success)), steady.Success},
		{errors.Join(steady.Mark(errBoom, steady.Unsent), steady.Mark(errBoom, steady.Success)), steady.Unsent},
		{steady.Mark(rejected, steady.Transient), steady.Transient},
	} {
		assert.Equal(t, test.want, steady.Classify(test.err), "%v", test.err)
	}
}

type typedError struct{ code int }

func (e *typedError) Error() string { return "typed" }

func TestMarksAreSeenThrough(t *testing.T) {
	for _, o := range allOutcomes {
		err := fmt.Errorf("once: %w", fmt.Errorf("twice: %w", steady.Mark(&typedError{code: 7}, o)))
		assert.Equal(t, o, steady.Classify(err))
		var typed *typedError
		require.ErrorAs(t, err, &typed)
		assert.Equal(t, 7, typed.code)
	}
	err := steady.Mark(io.EOF, steady.Success)
	assert.ErrorIs(t, err, io.EOF)
	assert.Equal(t, "EOF", err.Error())
}

func TestTheOuterMarkCounts(t *testing.T) {
	err := steady.Mark(steady.Mark(errBoom, steady.Permanent), steady.Success)
	assert.Equal(t, steady.Success, steady.Classify(err))
}

func TestAMarkOfNothingIsNothing(t *testing.T) {
	assert.NoError(t, steady.Mark(nil, steady.Transient))
	assert.NoError(t, steady.MarkRetryAfter(nil, steady.Transient, time.Second))
	assert.Equal(t, errBoom, steady.Mark(errBoom, 0))
	assert.Equal(t, errBoom, steady.MarkRetryAfter(errBoom, 0, -time.Second))
	assert.Equal(t, errBoom, steady.MarkRetryAfter(errBoom, 0, 0))
	assert.Equal(t, steady.Transient, steady.Classify(steady.Mark(errBoom, 99)), "an outcome that does not exist")
}

// An o of 0 speaks of the time alone.
func TestMarkRetryAfterLeavesTheOutcomeToTheError(t *testing.T) {
	err := steady.MarkRetryAfter(steady.Mark(errBoom, steady.Throttled), 0, time.Second)
	assert.Equal(t, steady.Throttled, steady.Classify(err))
	assert.Equal(t, steady.Transient, steady.Classify(steady.MarkRetryAfter(errBoom, 0, time.Second)))
	assert.Equal(t, steady.Ignored, steady.Classify(steady.MarkRetryAfter(
		&steady.RejectedError{Reason: steady.ErrBulkheadFull}, 0, time.Second)))
}

// Source: backoff v7.0.1, where a typed nil inside errors.As panics.
func TestTypedNilsAreHarmless(t *testing.T) {
	var (
		rejected *steady.RejectedError
		timeout  *steady.TimeoutError
		gaveUp   *steady.RetryError
		panicked *steady.PanicError
	)
	for _, err := range []error{rejected, timeout, gaveUp, panicked} {
		for _, err := range []error{err, fmt.Errorf("wrapped: %w", err), steady.Mark(err, steady.Transient)} {
			assert.NotPanics(t, func() {
				steady.Classify(err)
				steady.IsRejected(err)
				_ = err.Error()
				_ = errors.Is(err, io.EOF)
				_ = pipeline(t, newRetry(t, steady.RetryConfig{NoDelay: true})).Run(t.Context(),
					func(context.Context) error { return err })
			}, "%T", err)
		}
	}
	assert.Zero(t, rejected.RetryAfter())
}

func TestOutcomesHaveNames(t *testing.T) {
	var names []string
	for o := range steady.Outcome(8) {
		names = append(names, o.String())
	}
	assert.Equal(t, []string{
		"default", "success", "transient", "unsent", "permanent", "throttled", "ignored", "outcome 7",
	}, names)
}

// openedBreaker returns a breaker that has opened a second ago, on a mock clock.
func openedBreaker(t testing.TB, cfg steady.BreakerConfig) (*steady.Breaker, *clock.Mock) {
	t.Helper()
	cfg.MinCalls = 1
	b, mock := newBreaker(t, cfg)
	call(t, b, mock, 1, 0, steady.Transient)
	mock.Add(time.Second)
	require.Equal(t, steady.StateOpen, b.State())
	return b, mock
}

// probingBreaker returns a breaker that will take its first probe, on a mock clock.
func probingBreaker(t testing.TB, cfg steady.BreakerConfig) (*steady.Breaker, *clock.Mock) {
	t.Helper()
	b, mock := openedBreaker(t, cfg)
	mock.Add(b.Config().OpenDuration)
	require.Equal(t, steady.StateHalfOpen, b.State())
	return b, mock
}

// O1
func TestADoneContextRunsAndCountsNothing(t *testing.T) {
	for name, newBreaker := range map[string]func(testing.TB, steady.BreakerConfig) (*steady.Breaker, *clock.Mock){
		"closed": newBreaker, "open": openedBreaker, "half-open": probingBreaker,
	} {
		t.Run(name, func(t *testing.T) {
			cause := errors.New("the user left")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			b, mock := newBreaker(t, steady.BreakerConfig{HalfOpenProbes: 1})
			before := b.Stats()
			attempts := 0
			p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
				Policies: []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true, RetryRejected: true}), b},
				Clock:    mock,
				Hooks:    &steady.Hooks{OnAttempt: func(context.Context, steady.Attempt) { attempts++ }},
			}))

			_, err := p.Do(ctx, returns(1, nil))
			assert.Equal(t, context.Canceled, err)
			_, err = p.DoOr(ctx, returns(1, nil), func(context.Context, error) (int, error) { return 2, nil })
			assert.Equal(t, context.Canceled, err, "a caller that left wants no fallback")
			_, _, err = p.Hold(ctx, returns(1, nil))
			assert.Equal(t, context.Canceled, err)
			assert.Equal(t, context.Canceled, p.Run(ctx, func(context.Context) error { attempts++; return nil }))

			assert.Zero(t, attempts)
			assert.Equal(t, before, b.Stats())
			if name == "half-open" {
				allow(t, b) // the probe is still there
			}
		})
	}
}

// O1
func TestAPassedDeadlineGoesToTheFallback(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	p := pipeline(t)

	_, err := p.Do(ctx, func(context.Context) (int, error) { t.Error("ran"); return 0, nil })
	assert.Equal(t, context.DeadlineExceeded, err)
	v, err := p.DoOr(ctx, returns(1, nil), func(got context.Context, err error) (int, error) {
		assert.Equal(t, ctx, got)
		assert.Equal(t, context.DeadlineExceeded, err)
		return 2, nil
	})
	require.NoError(t, err)
	assert.Equal(t, 2, v)
}

// O1
func TestAContextThatEndsInAQueueGivesBackWhatWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{
			NoSlowCalls: true, MinCalls: 1, HalfOpenProbes: 1, NoOpenJitter: true,
		}))
		bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Hour}))
		var done []steady.Completion
		p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
			Policies: []steady.Policy{breaker, bulkhead},
			Hooks:    &steady.Hooks{OnDone: func(_ context.Context, c steady.Completion) { done = append(done, c) }},
		}))
		_, err := p.Do(t.Context(), returns(0, errBoom))
		require.ErrorIs(t, err, errBoom)
		time.Sleep(10 * time.Second)
		slot := steady.Must(bulkhead.Acquire(t.Context()))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.Do(ctx, func(context.Context) (int, error) { t.Error("ran"); return 0, nil })
		assert.Equal(t, context.DeadlineExceeded, err)
		assert.Equal(t, steady.StateHalfOpen, breaker.State(), "its probe was no failure")
		assert.Equal(t, 0, done[1].Attempts)
		assert.Equal(t, steady.Ignored, done[1].Outcome)

		slot.Release()
		assert.Zero(t, bulkhead.Stats().InFlight)
		_, err = p.Do(t.Context(), returns(1, nil))
		require.NoError(t, err, "the probe has been given back")
		assert.Equal(t, steady.StateClosed, breaker.State())
	})
}

// O2, O3
func TestWhatTheCallersCancelMeans(t *testing.T) {
	failing := func(v int, _ error) steady.Outcome {
		if v == 503 {
			return steady.Transient
		}
		return 0
	}
	for _, test := range []struct {
		name string
		v    int
		err  error
		want steady.Outcome
	}{
		{"its own error", 0, context.Canceled, steady.Ignored},
		{"an error about something else", 0, errBoom, steady.Ignored},
		{"the cause", 0, io.ErrClosedPipe, steady.Ignored},
		{"a marked error", 0, steady.Mark(errBoom, steady.Permanent), steady.Ignored},
		{"a deadline's error", 0, context.DeadlineExceeded, steady.Ignored},
		{"an error marked as an answer", 0, steady.Mark(errBoom, steady.Success), steady.Ignored},
		{"a failing value", 503, nil, steady.Ignored},
		{"a success", 200, nil, steady.Success},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, mock := newBreaker(t, steady.BreakerConfig{})
			ctx, cancel := context.WithCancelCause(t.Context())
			var got []steady.Outcome
			p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
				Policies: []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true}), b},
				Classify: failing,
				Clock:    mock,
				Hooks:    &steady.Hooks{OnAttempt: func(_ context.Context, a steady.Attempt) { got = append(got, a.Outcome) }},
			}))

			v, err := p.Do(ctx, func(context.Context) (int, error) {
				cancel(io.ErrClosedPipe)
				return test.v, test.err
			})
			assert.Equal(t, test.v, v)
			assert.Equal(t, test.err, err, "it comes back untouched")
			assert.Equal(t, []steady.Outcome{test.want}, got)
			stats := b.Stats()
			assert.Zero(t, stats.Failures)
			assert.Equal(t, test.want == steady.Success, stats.Calls == 1)
		})
	}
}

// O2: only the caller's context tells whether the caller cancelled.
func TestACancelThatIsNotTheCallersIsAFailure(t *testing.T) {
	own := func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx.Err()
	}
	b, _ := newBreaker(t, steady.BreakerConfig{})
	require.ErrorIs(t, pipeline(t, b).Run(t.Context(), own), context.Canceled)
	assert.Equal(t, 1, b.Stats().Failures)
}

// O2: a dependency that hangs until the callers' deadlines is counted.
func TestTheCallersDeadlineIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true}))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, io.ErrClosedPipe)
		defer cancel()
		err := pipeline(t, b).Run(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		assert.Equal(t, context.DeadlineExceeded, err)
		assert.Equal(t, 1, b.Stats().Failures)
	})
}

// O2
func TestClassifyIsAskedOnceAnAttemptAndZeroMeansTheDefault(t *testing.T) {
	asked := 0
	var got []steady.Outcome
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2})},
		Classify: func(int, error) steady.Outcome { asked++; return 0 },
		Hooks:    &steady.Hooks{OnAttempt: func(_ context.Context, a steady.Attempt) { got = append(got, a.Outcome) }},
	}))
	_, _ = p.Do(t.Context(), returns(0, errBoom))
	_, _ = p.Do(t.Context(), returns(0, steady.Mark(errBoom, steady.Permanent)))
	assert.Equal(t, []steady.Outcome{steady.Transient, steady.Transient, steady.Permanent}, got)
	assert.Equal(t, 3, asked)
}

// O3
func TestWhatIsIgnoredOrThrottledCountsForNothing(t *testing.T) {
	for _, o := range []steady.Outcome{steady.Ignored, steady.Throttled} {
		b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 2, FailureRate: 1})
		call(t, b, mock, 1, 0, steady.Transient)
		call(t, b, mock, 50, time.Millisecond, o)
		assert.Equal(t, 1, b.Stats().Calls, "%v dilutes nothing", o)
		call(t, b, mock, 1, 0, steady.Transient)
		assert.Equal(t, steady.StateOpen, b.State(), "%v", o)

		mock.Add(10 * time.Second)
		call(t, b, mock, 50, time.Millisecond, o)
		assert.Equal(t, steady.StateHalfOpen, b.State(), "%v closes nothing, and its probes are given back", o)
		call(t, b, mock, 3, 0, steady.Success)
		assert.Equal(t, steady.StateClosed, b.State(), "%v", o)
	}
}

// O3: the caller gave up because of that slowness.
func TestWhatIsIgnoredOrThrottledAfterTheThresholdIsSlow(t *testing.T) {
	for _, o := range []steady.Outcome{steady.Ignored, steady.Throttled} {
		ts := new(transitions)
		b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 2, Hooks: ts.hooks()})
		call(t, b, mock, 1, 500*time.Millisecond, o)
		stats := b.Stats()
		assert.Equal(t, []int{1, 1, 0}, []int{stats.Calls, stats.Slow, stats.Failures}, "%v", o)
		call(t, b, mock, 1, 500*time.Millisecond, o)
		mock.Add(10 * time.Second)
		call(t, b, mock, 1, 500*time.Millisecond, o)
		assert.Equal(t, []steady.Reason{steady.ReasonSlowRate, steady.ReasonOpenElapsed, steady.ReasonProbeSlow}, ts.reasons(), "%v", o)
	}
}

// explodeNow panics.
func explodeNow() { panic(errBoom) }

// leaveNow ends its goroutine.
func leaveNow() { runtime.Goexit() }

// O4
func TestAPanicIsAFailureAndGivesEverythingBack(t *testing.T) {
	for end, blow := range map[string]func(){"panic": explodeNow, "goexit": leaveNow} {
		for _, where := range []string{"function", "classify", "retry after", "discard", "fallback"} {
			t.Run(end+" in "+where, func(t *testing.T) {
				b, mock := newBreaker(t, steady.BreakerConfig{})
				bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))
				retry := newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2})
				at := func(place string) {
					if place == where {
						blow()
					}
				}
				var attempts []steady.Outcome
				p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
					Policies:   []steady.Policy{retry, b, bulkhead},
					Classify:   func(int, error) steady.Outcome { at("classify"); return steady.Transient },
					RetryAfter: func(int, error) time.Duration { at("retry after"); return 0 },
					Discard:    func(int) { at("discard") },
					Clock:      mock,
					Hooks:      &steady.Hooks{OnAttempt: func(_ context.Context, a steady.Attempt) { attempts = append(attempts, a.Outcome) }},
				}))
				err := error(nil)
				if where == "fallback" {
					err = errBoom
				}

				stack := unwound(t, end, func() {
					_, _ = p.DoOr(t.Context(),
						func(context.Context) (int, error) { at("function"); return 503, err },
						func(context.Context, error) (int, error) { at("fallback"); return 0, nil })
				})
				name := "steady_test." + map[string]string{"panic": "explodeNow", "goexit": "leaveNow"}[end]
				assert.Contains(t, stack, name, "it unwinds with its own stack")
				assert.Zero(t, b.Stats().InFlight)
				assert.Equal(t, len(attempts), b.Stats().Failures)
				assert.Equal(t, steady.Transient, attempts[0])
				assert.Zero(t, bulkhead.Stats().InFlight)
				used := uint64(0)
				if where == "fallback" {
					used = 1
				}
				assert.InDelta(t, float64(10-used), retry.Config().Budget.Stats().Tokens, 0, "a token for a retry that did not happen goes back")
			})
		}
	}
}

// unwound calls f, which is to panic with errBoom or to end its goroutine, and returns the stack it did
// that with.
func unwound(t *testing.T, end string, f func()) (stack string) {
	t.Helper()
	done := make(chan struct{})
	returned := false
	go func() {
		defer close(done)
		defer func() {
			stack = string(debug.Stack())
			v := recover()
			if end == "panic" {
				assert.Equal(t, errBoom, v)
			} else {
				assert.Nil(t, v)
			}
		}()
		f()
		returned = true
	}()
	<-done
	assert.False(t, returned)
	return stack
}

// O4
func TestAPanickingProbeOpensAgain(t *testing.T) {
	ts := new(transitions)
	b, mock := probingBreaker(t, steady.BreakerConfig{Hooks: ts.hooks()})
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{b}, Clock: mock}))
	unwound(t, "panic", func() { _ = p.Run(t.Context(), func(context.Context) error { explodeNow(); return nil }) })
	assert.Equal(t, steady.StateOpen, b.State())
	assert.Equal(t, steady.ReasonProbeFailed, ts.reasons()[2])
}

// O6
func TestASuccessAfterTheDeadlineIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		total := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: 2 * time.Second}))
		attempt := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second}))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		v, err := pipeline(t, total, newRetry(t, steady.RetryConfig{}), attempt).Do(ctx, func(context.Context) (int, error) {
			time.Sleep(time.Minute)
			return 42, nil
		})
		require.NoError(t, err)
		assert.Equal(t, 42, v)
		assert.Zero(t, total.Stats().Expired+attempt.Stats().Expired)
	})
}

func TestAContextThatEndsOnTheWayInNeverReachesTheFunction(t *testing.T) { // O1
	b, mock := newBreaker(t, steady.BreakerConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	tooLate := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		cancel()
		return next(ctx)
	})
	_, err := pipelineOn(t, mock, b, tooLate).Do(ctx, func(context.Context) (int, error) {
		t.Error("the function ran")
		return 0, nil
	})
	assert.Equal(t, context.Canceled, err)
	assert.Zero(t, b.Stats().Calls)
}
