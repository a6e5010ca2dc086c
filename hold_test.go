package steady_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// hold makes a call that must succeed, and returns its release.
func hold(t testing.TB, p *steady.Pipeline[int]) (release func(error)) {
	t.Helper()
	v, release, err := p.Hold(t.Context(), returns(42, nil))
	require.NoError(t, err)
	require.Equal(t, 42, v)
	return release
}

// O9
func TestAHeldValueKeepsItsSlotAndItsContextsUntilTheRelease(t *testing.T) {
	bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	p := pipeline(t, newTimeout(t, steady.TimeoutConfig{Limit: time.Hour}), newTimeout(t, steady.TimeoutConfig{Limit: time.Minute}), bulkhead)
	var inside context.Context
	v, release, err := p.Hold(t.Context(), func(ctx context.Context) (int, error) {
		inside = ctx
		return 42, nil
	})
	require.NoError(t, err)
	assert.Equal(t, 42, v)
	assert.Equal(t, 1, bulkhead.Stats().InFlight)
	require.NoError(t, inside.Err())
	_, err = p.Do(t.Context(), returns(0, nil))
	require.ErrorIs(t, err, steady.ErrBulkheadFull)

	release(nil)
	assert.Zero(t, bulkhead.Stats().InFlight)
	require.ErrorIs(t, inside.Err(), context.Canceled)
	_, err = p.Do(t.Context(), returns(0, nil))
	require.NoError(t, err)
}

// O9
func TestAReleaseCountsOnce(t *testing.T) {
	b, _ := newBreaker(t, steady.BreakerConfig{})
	bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 2})
	p := pipeline(t, b, bulkhead)
	first := hold(t, p)
	first(nil)
	second := hold(t, p)
	first(errBoom)
	first(nil)
	assert.Equal(t, 1, bulkhead.Stats().InFlight, "the slot of another call is not given back")
	assert.Zero(t, b.Stats().Failures, "and its outcome not changed")
	second(errBoom)
	second(errBoom)
	assert.Zero(t, bulkhead.Stats().InFlight)
	assert.Equal(t, 1, b.Stats().Failures)
}

// O9
func TestTheDeadlinesKeepRunningWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempt := newTimeout(t, steady.TimeoutConfig{Limit: time.Second})
		var inside context.Context
		_, release, err := pipeline(t, attempt).Hold(t.Context(), func(ctx context.Context) (int, error) {
			inside = ctx
			return 42, nil
		})
		require.NoError(t, err)
		begin := time.Now()
		<-inside.Done()
		assert.Equal(t, time.Second, time.Since(begin))
		require.ErrorIs(t, inside.Err(), context.DeadlineExceeded)
		release(inside.Err())
	})
}

// O9: the verdict is that of the return.
func TestTheVerdictIsThatOfTheReturnAndAHeldValueIsNotInFlight(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	p := pipeline(t, b)
	v, release, err := p.Hold(t.Context(), func(context.Context) (int, error) {
		mock.Add(100 * time.Millisecond)
		return 42, nil
	})
	require.NoError(t, err)
	assert.Equal(t, 42, v)
	want := []int{1, 0, 0, 0, 0}
	seen := func() []int {
		s := b.Stats()
		return []int{s.Calls, s.Failures, s.Slow, s.InFlight, s.Overdue}
	}
	assert.Equal(t, want, seen())
	assert.InEpsilon(t, 100*time.Millisecond, b.Stats().LatencyP99, 0.05)
	mock.Add(time.Hour)
	assert.Equal(t, want, seen(), "a long stream is no slow call")
	release(nil)
	assert.Equal(t, want, seen())
}

// O9
func TestALateFailureAddsItsBitToTheSameOutcomeAndTheBreakerDecides(t *testing.T) {
	ts := new(transitions)
	b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 4, Hooks: ts.hooks()})
	p := pipeline(t, b)
	first, second := hold(t, p), hold(t, p)
	call(t, b, mock, 2, 0, steady.Success)

	first(errBoom)
	stats := b.Stats()
	assert.Equal(t, []int{4, 1}, []int{stats.Calls, stats.Failures})
	assert.Equal(t, steady.StateClosed, stats.State)
	second(errBoom)
	assert.Equal(t, []steady.Reason{steady.ReasonFailureRate}, ts.reasons())
	assert.Equal(t, 4, ts.list()[0].Window.Calls)
	assert.Equal(t, 2, ts.list()[0].Window.Failures)
}

// O9: also to one that is slow.
func TestALateFailureOfASlowCallIsBoth(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	_, release, err := pipeline(t, b).Hold(t.Context(), func(context.Context) (int, error) {
		mock.Add(time.Second)
		return 42, nil
	})
	require.NoError(t, err)
	release(errBoom)
	stats := b.Stats()
	assert.Equal(t, []int{1, 1, 1}, []int{stats.Calls, stats.Failures, stats.Slow})
}

// O9
func TestALateFailureThatHasLeftTheWindowCountsForNothing(t *testing.T) {
	t.Run("pushed out", func(t *testing.T) {
		b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 2})
		release := hold(t, pipeline(t, b))
		call(t, b, mock, 2, 0, steady.Success)
		release(errBoom)
		assert.Zero(t, b.Stats().Failures)
		assert.Equal(t, 2, b.Stats().Calls)
	})
	t.Run("too old", func(t *testing.T) {
		b, mock := newBreaker(t, steady.BreakerConfig{WindowAge: time.Minute, MinCalls: 1})
		release := hold(t, pipeline(t, b))
		mock.Add(time.Minute + 1)
		release(errBoom)
		assert.Equal(t, steady.StateClosed, b.State())
		assert.Zero(t, b.Stats().Calls)
	})
}

// O9, B1
func TestALateFailureOfAnotherGenerationCountsForNothing(t *testing.T) {
	for name, turn := range map[string]func(*steady.Breaker){
		"reset":         func(b *steady.Breaker) { b.Reset("test") },
		"forced closed": func(b *steady.Breaker) { b.ForceClosed("test") },
		"forced open":   func(b *steady.Breaker) { b.ForceOpen("test") },
	} {
		t.Run(name, func(t *testing.T) {
			b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 1})
			bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
			release := hold(t, pipeline(t, b, bulkhead))
			turn(b)
			state := b.State()
			if state != steady.StateForcedOpen {
				call(t, b, mock, 1, 0, steady.Success)
			}
			release(errBoom)
			assert.Equal(t, state, b.State())
			assert.Zero(t, b.Stats().Failures)
			assert.Zero(t, bulkhead.Stats().InFlight, "the slot goes back all the same")
		})
	}
	t.Run("half-open", func(t *testing.T) {
		b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 2})
		release := hold(t, pipeline(t, b))
		call(t, b, mock, 1, 0, steady.Transient)
		mock.Add(10 * time.Second)
		allow(t, b)
		release(errBoom)
		assert.Equal(t, steady.StateHalfOpen, b.State())
	})
}

// O9
func TestALateFailureOfAProbeOpensAgain(t *testing.T) {
	ts := new(transitions)
	b, mock := probingBreaker(t, steady.BreakerConfig{Hooks: ts.hooks()})
	p := pipeline(t, b)
	release := hold(t, p)
	mock.Add(20 * time.Second) // a held probe is not in the function, and cannot time out
	require.Equal(t, steady.StateHalfOpen, b.State())
	release(errBoom)
	assert.Equal(t, steady.StateOpen, b.State())
	assert.Equal(t, steady.ReasonProbeFailed, ts.reasons()[2])

	mock.Add(10 * time.Second)
	call(t, b, mock, 2, 0, steady.Success)
	last := hold(t, p)
	require.Equal(t, steady.StateClosed, b.State(), "it passed as the last probe")
	last(errBoom)
	assert.Equal(t, steady.StateClosed, b.State(), "and belongs to another generation now")
}

// O9
func TestOnlyAFailureIsALateFailure(t *testing.T) {
	for name, err := range map[string]error{
		"nothing":     nil,
		"a success":   steady.Mark(io.EOF, steady.Success),
		"throttled":   steady.Mark(errBoom, steady.Throttled),
		"ignored":     steady.Mark(errBoom, steady.Ignored),
		"a rejection": &steady.RejectedError{Reason: steady.ErrBulkheadFull},
	} {
		b, _ := newBreaker(t, steady.BreakerConfig{})
		hold(t, pipeline(t, b))(err)
		assert.Zero(t, b.Stats().Failures, name)
	}
	t.Run("the caller gave up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b, _ := newBreaker(t, steady.BreakerConfig{})
		_, release, err := pipeline(t, b).Hold(ctx, returns(42, nil))
		require.NoError(t, err)
		cancel()
		release(errBoom)
		assert.Zero(t, b.Stats().Failures)
	})
}

// O9
func TestRetriedAttemptsAreReleasedAtOnce(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1}) // a second attempt would be rejected if the first still held its slot
	var contexts []context.Context
	var discarded []int
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{
			newRetry(t, steady.RetryConfig{NoDelay: true}),
			newTimeout(t, steady.TimeoutConfig{Limit: time.Minute}), b, bulkhead,
		},
		Classify: func(v int, err error) steady.Outcome {
			if err == nil && v < 3 {
				return steady.Transient
			}
			return 0
		},
		Discard: func(v int) { discarded = append(discarded, v) },
		Clock:   mock,
	}))
	v, release, err := p.Hold(t.Context(), func(ctx context.Context) (int, error) {
		for _, earlier := range contexts {
			require.ErrorIs(t, earlier.Err(), context.Canceled)
		}
		contexts = append(contexts, ctx)
		return len(contexts), nil
	})
	require.NoError(t, err)
	assert.Equal(t, 3, v)
	assert.Equal(t, []int{1, 2}, discarded)
	require.NoError(t, contexts[2].Err())
	assert.Equal(t, 2, b.Stats().Failures)

	release(errBoom)
	assert.Equal(t, []int{3, 3}, []int{b.Stats().Calls, b.Stats().Failures}, "the late failure is the last attempt's")
	assert.Equal(t, []int{1, 2}, discarded, "what reached the caller is the caller's")
	assert.Zero(t, bulkhead.Stats().InFlight)
}

// O9, O5
func TestAFailingValueIsHeldToo(t *testing.T) {
	b, _ := newBreaker(t, steady.BreakerConfig{})
	bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{b, bulkhead},
		Classify: func(v int, _ error) steady.Outcome {
			if v == 503 {
				return steady.Transient
			}
			return 0
		},
		Clock: b.Config().Clock,
	}))
	v, release, err := p.Hold(t.Context(), returns(503, nil))
	require.NoError(t, err)
	assert.Equal(t, 503, v)
	assert.Equal(t, 1, bulkhead.Stats().InFlight)
	release(errBoom)
	assert.Equal(t, []int{1, 1}, []int{b.Stats().Calls, b.Stats().Failures})
	assert.Zero(t, bulkhead.Stats().InFlight)
}

// O9: with a Retry inside, one permit gives one outcome, and the late failure is added to that.
func TestALateFailureThroughARetryInsideTheBreaker(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{b, newRetry(t, steady.RetryConfig{NoDelay: true})}, Clock: mock,
	}))
	attempt := 0
	_, release, err := p.Hold(t.Context(), func(context.Context) (int, error) {
		if attempt++; attempt == 1 {
			return 0, errBoom
		}
		return 42, nil
	})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 0}, []int{b.Stats().Calls, b.Stats().Failures})
	release(errBoom)
	assert.Equal(t, []int{1, 1}, []int{b.Stats().Calls, b.Stats().Failures})
}

// O9
func TestWithAnErrorThereIsNothingToRelease(t *testing.T) {
	b, _ := newBreaker(t, steady.BreakerConfig{})
	bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	done := 0
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{b, bulkhead},
		Hooks:    &steady.Hooks{OnDone: func(context.Context, steady.Completion) { done++ }},
		Clock:    b.Config().Clock,
	}))
	_, release, err := p.Hold(t.Context(), returns(0, errBoom))
	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, 1, done, "it has ended already")
	assert.Zero(t, bulkhead.Stats().InFlight)
	release(errBoom)
	release(nil)
	assert.Equal(t, []int{1, 1}, []int{b.Stats().Calls, b.Stats().Failures})
	assert.Equal(t, 1, done)
}

// O9
func TestWithoutAResultThereIsNothingToRelease(t *testing.T) {
	done := 0
	answers := steady.Middleware(func(context.Context, func(context.Context) error) error { return nil })
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{answers},
		Hooks:    &steady.Hooks{OnDone: func(context.Context, steady.Completion) { done++ }},
	}))
	v, release, err := p.Hold(t.Context(), returns(42, nil))
	require.NoError(t, err)
	assert.Zero(t, v, "the function was not called")
	assert.Equal(t, 1, done, "it has ended already")
	release(errBoom)
	assert.Equal(t, 1, done)
}

func TestOnDoneIsCalledAtTheRelease(t *testing.T) {
	mock := clock.NewMock()
	var done []steady.Completion
	var attempts []steady.Attempt
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Name:  "bodies",
		Clock: mock,
		Hooks: &steady.Hooks{
			OnAttempt: func(_ context.Context, a steady.Attempt) { attempts = append(attempts, a) },
			OnDone:    func(_ context.Context, c steady.Completion) { done = append(done, c) },
		},
	}))
	release := hold(t, p)
	assert.Len(t, attempts, 1)
	mock.Add(time.Minute)
	assert.Empty(t, done)
	release(nil)
	release(nil)
	hold(t, p)(errBoom)
	assert.Equal(t, []steady.Completion{
		{Pipeline: "bodies", Attempts: 1, Duration: time.Minute, Outcome: steady.Success},
		{Pipeline: "bodies", Attempts: 1, Outcome: steady.Transient, Err: errBoom},
	}, done)
	assert.Len(t, attempts, 2)
}

// O9
func TestHoldThroughAnAbandoningTimeoutIsAnError(t *testing.T) {
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Name:     "bodies",
		Policies: []steady.Policy{newTimeout(t, steady.TimeoutConfig{Name: "total", Limit: time.Minute, Abandon: true})},
	}))
	_, release, err := p.Hold(t.Context(), func(context.Context) (int, error) { t.Error("ran"); return 0, nil })
	require.ErrorContains(t, err, `steady: pipeline "bodies": Hold cannot be used with the abandoning Timeout "total"`)
	release(errBoom)
	_, err = p.Do(t.Context(), returns(42, nil))
	require.NoError(t, err)
}

// Whatever panics in a release, the slot and the contexts go back, and OnDone is called.
func TestAPanicInAReleaseGivesEverythingBack(t *testing.T) {
	for _, where := range []string{"Classify", "OnTransition", "OnDone"} {
		t.Run(where, func(t *testing.T) {
			armed := false
			at := func(place string) {
				if armed && place == where {
					explodeNow()
				}
			}
			b, mock := newBreaker(t, steady.BreakerConfig{
				MinCalls: 1, Hooks: &steady.Hooks{OnTransition: func(steady.Transition) { at("OnTransition") }},
			})
			bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
			done := 0
			var inside context.Context
			p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
				Policies: []steady.Policy{newTimeout(t, steady.TimeoutConfig{Limit: time.Hour}), b, bulkhead},
				Classify: func(int, error) steady.Outcome { at("Classify"); return 0 },
				Hooks:    &steady.Hooks{OnDone: func(context.Context, steady.Completion) { done++; at("OnDone") }},
				Clock:    mock,
			}))
			_, release, err := p.Hold(t.Context(), func(ctx context.Context) (int, error) { inside = ctx; return 42, nil })
			require.NoError(t, err)

			armed = true
			unwound(t, "panic", func() { release(errBoom) })
			armed = false
			assert.Zero(t, bulkhead.Stats().InFlight)
			require.ErrorIs(t, inside.Err(), context.Canceled)
			assert.Equal(t, 1, done)
			release(nil)
			assert.Equal(t, 1, done)

			b.Reset("test")
			hold(t, p)(nil)
			_, err = p.Do(t.Context(), returns(7, nil))
			require.NoError(t, err)
		})
	}
}

// A late failure reaches every breaker that the call went through, even if a hook of one panics.
func TestALateFailureReachesEveryBreaker(t *testing.T) {
	outer, mock := newBreaker(t, steady.BreakerConfig{
		MinCalls: 1, Hooks: &steady.Hooks{OnTransition: func(steady.Transition) { explodeNow() }},
	})
	inner := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		MinCalls: 1, NoSlowCalls: true, Clock: mock, Hooks: &steady.Hooks{OnTransition: func(steady.Transition) { explodeNow() }},
	}))
	release := hold(t, pipeline(t, outer, inner))
	unwound(t, "panic", func() { release(errBoom) })
	assert.Equal(t, steady.StateOpen, outer.State())
	assert.Equal(t, steady.StateOpen, inner.State())
}

// Held calls and others use the same records, one after the other.
func TestHeldCallsDoNotDisturbOthers(t *testing.T) {
	b, _ := newBreaker(t, steady.BreakerConfig{WindowSize: 100})
	p := pipeline(t, b, newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 10}))
	var releases []func(error)
	for i := range 10 {
		v, release, err := p.Hold(t.Context(), returns(i, nil))
		require.NoError(t, err)
		require.Equal(t, i, v)
		releases = append(releases, release)
	}
	for i, release := range releases {
		err := error(nil)
		if i%2 == 0 {
			err = errors.New("reset while reading")
		}
		release(err)
		v, err := p.Do(t.Context(), returns(100+i, nil))
		require.NoError(t, err)
		require.Equal(t, 100+i, v)
	}
	assert.Equal(t, []int{20, 5}, []int{b.Stats().Calls, b.Stats().Failures})
}
