package steady_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// abandoning is a pipeline with an abandoning Timeout of one second, and what it tells of itself.
type abandoning struct {
	*steady.Pipeline[int]
	timeout  *steady.Timeout
	breaker  *steady.Breaker  // inside
	bulkhead *steady.Bulkhead // inside that, with two slots

	mu        sync.Mutex
	attempts  []steady.Attempt
	done      []steady.Completion
	expiries  []steady.Expiry
	discarded []int
}

// newAbandoning makes one, to be used in a synctest bubble, with other policies outside.
func newAbandoning(t *testing.T, outside ...steady.Policy) *abandoning {
	t.Helper()
	a := &abandoning{
		breaker:  wallBreaker(steady.BreakerConfig{}),
		bulkhead: newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 2}),
	}
	a.timeout = steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "limit", Limit: time.Second, Abandon: true, Hooks: a.hooks()}))
	a.Pipeline = a.through(t, append(outside, a.timeout, a.breaker, a.bulkhead)...)
	return a
}

// through makes a pipeline through the policies that tells a of itself.
func (a *abandoning) through(t *testing.T, policies ...steady.Policy) *steady.Pipeline[int] {
	t.Helper()
	p, err := steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: policies,
		Hooks:    a.hooks(),
		Discard:  func(v int) { record(a, &a.discarded, v) },
	})
	require.NoError(t, err)
	return p
}

func (a *abandoning) hooks() *steady.Hooks {
	return &steady.Hooks{
		OnAttempt: func(_ context.Context, e steady.Attempt) { record(a, &a.attempts, e) },
		OnDone:    func(_ context.Context, e steady.Completion) { record(a, &a.done, e) },
		OnTimeout: func(_ context.Context, e steady.Expiry) { record(a, &a.expiries, e) },
	}
}

func record[E any](a *abandoning, list *[]E, e E) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*list = append(*list, e)
}

func (a *abandoning) attemptsEnded() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.attempts)
}

// assertIdle checks that nothing is left of the calls.
func (a *abandoning) assertIdle(t *testing.T) {
	t.Helper()
	assert.Zero(t, a.timeout.Stats().AbandonedNow)
	assert.Zero(t, a.bulkhead.Stats().InFlight)
	assert.Zero(t, a.breaker.Stats().InFlight)
	assert.Zero(t, a.breaker.Stats().Overdue)
}

// wallBreaker returns a breaker on the system clock, for a bubble.
func wallBreaker(cfg steady.BreakerConfig) *steady.Breaker {
	if cfg.SlowThreshold == 0 {
		cfg.SlowThreshold = 5 * time.Second
	}
	cfg.NoOpenJitter = true
	return steady.Must(steady.NewBreaker(cfg))
}

// sleeps makes a function that takes its time, whatever its context says.
func sleeps(d time.Duration, v int, err error) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		time.Sleep(d)
		return v, err
	}
}

func panics(after time.Duration, value any) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		time.Sleep(after)
		panic(value)
	}
}

func exits(after time.Duration) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		time.Sleep(after)
		runtime.Goexit()
		return 0, nil
	}
}

// counted is a breaker's calls, failures, and slow ones.
func counted(b *steady.Breaker) [3]int {
	s := b.Stats()
	return [3]int{s.Calls, s.Failures, s.Slow}
}

// later lets so much time pass, and everything happen that then does.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func requireTimeout(t *testing.T, err error, policy string) *steady.TimeoutError {
	t.Helper()
	var timeout *steady.TimeoutError
	require.ErrorAs(t, err, &timeout)
	require.Equal(t, policy, timeout.Policy)
	return timeout
}

func TestAbandonReturnsWhatAFunctionInTimeReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		v, err := a.Do(t.Context(), sleeps(999*time.Millisecond, 7, nil))
		require.NoError(t, err)
		assert.Equal(t, 7, v)
		_, err = a.Do(t.Context(), sleeps(time.Millisecond, 0, errBoom))
		assert.Equal(t, errBoom, err)
		assert.NoError(t, a.Run(t.Context(), func(context.Context) error { return nil }))

		assert.Equal(t, steady.TimeoutStats{Name: "limit"}, a.timeout.Stats())
		assert.Equal(t, [3]int{3, 1, 0}, counted(a.breaker))
		assert.Len(t, a.attempts, 3)
		assert.Empty(t, a.discarded)
		a.assertIdle(t)
	})
}

func TestAbandonReturnsAtTheLimitThoughTheFunctionDoesNot(t *testing.T) { // T3, T1
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		began := time.Now()
		var saw error
		_, err := a.Do(t.Context(), func(ctx context.Context) (int, error) {
			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.Equal(t, time.Second, deadline.Sub(began))
			time.Sleep(time.Minute)
			saw = ctx.Err()
			return 7, nil
		})
		assert.Equal(t, time.Second, time.Since(began))
		timeout := requireTimeout(t, err, "limit")
		assert.Equal(t, time.Second, timeout.Limit)
		assert.ErrorIs(t, err, steady.ErrTimeout)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []steady.Expiry{{Policy: "limit", Limit: time.Second, Abandoned: true}}, a.expiries)
		assert.Equal(t, steady.TimeoutStats{Name: "limit", Expired: 1, Abandoned: 1, AbandonedNow: 1}, a.timeout.Stats())
		assert.Zero(t, a.attemptsEnded())
		require.Len(t, a.done, 1)
		assert.Equal(t, steady.Completion{Attempts: 1, Duration: time.Second, Outcome: steady.Transient, Err: err}, a.done[0])

		later(time.Minute)
		assert.Equal(t, context.DeadlineExceeded, saw)
		assert.Equal(t, []steady.Attempt{{Attempt: 1, Duration: time.Minute, Outcome: steady.Transient}}, a.attempts)
		assert.Equal(t, []int{7}, a.discarded)
		assert.Len(t, a.done, 1)
		assert.Equal(t, steady.TimeoutStats{Name: "limit", Expired: 1, Abandoned: 1}, a.timeout.Stats())
		a.assertIdle(t)
	})
}

func TestAbandonAsksTheFallbackAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		began := time.Now()
		v, err := a.DoOr(t.Context(), sleeps(time.Minute, 7, nil), func(_ context.Context, err error) (int, error) {
			assert.ErrorIs(t, err, steady.ErrTimeout)
			return 8, nil
		})
		assert.NoError(t, err)
		assert.Equal(t, 8, v)
		assert.Equal(t, time.Second, time.Since(began))
		later(time.Minute)
		assert.Equal(t, []int{7}, a.discarded)
	})
}

func TestAbandonReturnsWhenTheCallerCancels(t *testing.T) { // T3
	for _, tc := range []struct {
		name    string
		slow    time.Duration
		counted [3]int
	}{
		{"which the breaker inside ignores", 0, [3]int{}},
		{"which the breaker inside counts as slow if it was", 300 * time.Millisecond, [3]int{1, 0, 1}}, // O3
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAbandoning(t)
				b := wallBreaker(steady.BreakerConfig{SlowThreshold: tc.slow})
				p := a.through(t, a.timeout, b, a.bulkhead)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(400*time.Millisecond, func() { cancel(errBoom) })
				began := time.Now()
				_, err := p.Do(ctx, sleeps(time.Minute, 7, nil))
				assert.Equal(t, context.Canceled, err)
				assert.Equal(t, 400*time.Millisecond, time.Since(began))
				assert.Equal(t, tc.counted, counted(b))
				assert.Equal(t, 1, b.Stats().InFlight)
				assert.Equal(t, steady.TimeoutStats{Name: "limit", Abandoned: 1, AbandonedNow: 1}, a.timeout.Stats())
				assert.Empty(t, a.expiries)
				assert.Equal(t, steady.Ignored, a.done[0].Outcome)

				later(time.Minute)
				assert.Equal(t, tc.counted, counted(b))
				assert.Equal(t, []int{7}, a.discarded)
				assert.Equal(t, steady.Ignored, a.attempts[0].Outcome)
				a.assertIdle(t)
			})
		})
	}
}

func TestAbandonReturnsAtTheCallersOwnDeadlineWithItsError(t *testing.T) { // T3, O2
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := a.Do(ctx, sleeps(time.Minute, 7, nil))
		assert.Equal(t, context.DeadlineExceeded, err)
		assert.Equal(t, 400*time.Millisecond, time.Since(began))
		assert.Equal(t, [3]int{1, 1, 0}, counted(a.breaker), "a failure: the caller still wanted to know")
		assert.Equal(t, steady.TimeoutStats{Name: "limit", Abandoned: 1, AbandonedNow: 1}, a.timeout.Stats())
		later(time.Minute)
	})
}

func TestAbandonedCallCountsOnceInTheBreakerInside(t *testing.T) { // T3
	for _, tc := range []struct {
		name string
		fn   func(context.Context) (int, error)
	}{
		{"and succeeds later", sleeps(time.Minute, 7, nil)},
		{"and fails later", sleeps(time.Minute, 0, errBoom)},
		{"and panics later", panics(time.Minute, "late")},
		{"and exits later", exits(time.Minute)},
	} {
		for _, slow := range []struct {
			threshold time.Duration
			counted   [3]int
		}{
			{500 * time.Millisecond, [3]int{1, 1, 1}}, // before the limit: one outcome, slow and failed
			{2 * time.Second, [3]int{1, 1, 0}},        // after it: overdue is all it can be any more
		} {
			t.Run(tc.name+", threshold "+slow.threshold.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := newAbandoning(t)
					b := wallBreaker(steady.BreakerConfig{SlowThreshold: slow.threshold})
					_, err := a.through(t, a.timeout, b).Do(t.Context(), tc.fn)
					require.ErrorIs(t, err, steady.ErrTimeout)
					assert.Equal(t, slow.counted, counted(b))
					assert.Equal(t, 1, b.Stats().InFlight)
					later(2 * time.Second)
					assert.Equal(t, slow.counted, counted(b))
					assert.Equal(t, 1, b.Stats().InFlight)
					assert.Equal(t, 1, b.Stats().Overdue)
					later(time.Minute)
					assert.Equal(t, slow.counted, counted(b))
					assert.Equal(t, steady.BreakerTotals{Transient: 1, Slow: 1}, b.Stats().Totals)
					assert.Zero(t, b.Stats().InFlight)
					assert.Zero(t, b.Stats().Overdue)
					assert.Zero(t, b.Stats().LatencyP99, "the latencies are of calls that did not fail")
				})
			})
		}
	}
}

func TestAbandonedProbeOpensTheBreakerInsideAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		var ts transitions
		b := wallBreaker(steady.BreakerConfig{WindowSize: 1, HalfOpenProbes: 1, Hooks: ts.hooks()})
		p := a.through(t, a.timeout, b)
		_, _ = p.Do(t.Context(), returns(0, errBoom))
		later(10 * time.Second)
		_, err := p.Do(t.Context(), sleeps(15*time.Second, 7, nil))
		require.ErrorIs(t, err, steady.ErrTimeout)
		assert.Equal(t, steady.StateOpen, b.State())
		later(12 * time.Second) // half-open again, with the old probe still running
		require.Equal(t, steady.StateHalfOpen, b.State())
		_, err = p.Do(t.Context(), sleeps(time.Second/2, 1, nil))
		assert.NoError(t, err)
		later(time.Minute)
		assert.Equal(t, steady.StateClosed, b.State())
		assert.Equal(t, []steady.Reason{
			steady.ReasonFailureRate, steady.ReasonOpenElapsed, steady.ReasonProbeFailed,
			steady.ReasonOpenElapsed, steady.ReasonProbesSucceeded,
		}, ts.reasons())
	})
}

func TestAbandonedProbeOfACallerWhoCancelledIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		b := wallBreaker(steady.BreakerConfig{WindowSize: 1, HalfOpenProbes: 1})
		p := a.through(t, a.timeout, b)
		_, _ = p.Do(t.Context(), returns(0, errBoom))
		later(10 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		_, err := p.Do(ctx, sleeps(2*time.Second, 7, nil))
		require.Equal(t, context.Canceled, err)
		assert.Equal(t, steady.StateHalfOpen, b.State())

		permit := allow(t, b) // the place is free
		later(3 * time.Second)
		assert.Equal(t, steady.StateHalfOpen, b.State(), "the late success closes nothing")
		_, err = b.Allow()
		assert.ErrorIs(t, err, steady.ErrBreakerOpen, "nor does it free what is not its own")
		permit.Done(steady.Success)
		assert.Equal(t, steady.StateClosed, b.State())
	})
}

func TestAbandonBreakerOutsideHearsTheTimeoutAndItsStopwatchStopsAtTheLimit(t *testing.T) { // T3
	synctest.Test(t, func(t *testing.T) {
		outside := wallBreaker(steady.BreakerConfig{SlowThreshold: 1001 * time.Millisecond})
		a := newAbandoning(t, outside)
		_, err := a.Do(t.Context(), sleeps(time.Minute, 7, nil))
		require.ErrorIs(t, err, steady.ErrTimeout)
		assert.Equal(t, [3]int{1, 1, 0}, counted(outside))
		assert.Zero(t, outside.Stats().InFlight)
		later(2 * time.Minute)
		assert.Equal(t, [3]int{1, 1, 0}, counted(outside))

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		_, err = a.Do(ctx, sleeps(time.Minute, 7, nil))
		require.Equal(t, context.Canceled, err)
		later(2 * time.Minute)
		assert.Equal(t, [3]int{1, 1, 0}, counted(outside), "a caller who cancelled counts for nothing")

		_, err = a.Do(t.Context(), sleeps(time.Second/2, 7, nil))
		require.NoError(t, err)
		assert.Equal(t, [3]int{2, 1, 0}, counted(outside))
		assert.Zero(t, outside.Stats().InFlight)
	})
}

func TestAbandonedWorkThatReturnsTouchesNoOtherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside := wallBreaker(steady.BreakerConfig{SlowThreshold: 700 * time.Millisecond})
		a := newAbandoning(t, outside)
		_, err := a.Do(t.Context(), sleeps(1400*time.Millisecond, 7, nil))
		require.ErrorIs(t, err, steady.ErrTimeout)
		time.AfterFunc(600*time.Millisecond, func() { // the first has returned, the second has not
			assert.Equal(t, 1, a.attemptsEnded())
			assert.Equal(t, 1, outside.Stats().InFlight)
		})
		v, err := a.Do(t.Context(), sleeps(800*time.Millisecond, 8, nil))
		require.NoError(t, err)
		assert.Equal(t, 8, v)
		assert.Equal(t, [3]int{2, 1, 2}, counted(outside))
		a.assertIdle(t)
	})
}

func TestAbandonBreakerOutsideSeesACallInFlightGetSlow(t *testing.T) { // B7
	synctest.Test(t, func(t *testing.T) {
		outside := wallBreaker(steady.BreakerConfig{SlowThreshold: time.Second / 2})
		a := newAbandoning(t, outside)
		time.AfterFunc(600*time.Millisecond, func() {
			assert.Equal(t, [3]int{1, 0, 1}, counted(outside))
			assert.Equal(t, 1, outside.Stats().Overdue)
		})
		_, err := a.Do(t.Context(), sleeps(time.Minute, 7, nil))
		require.ErrorIs(t, err, steady.ErrTimeout)
		assert.Equal(t, [3]int{1, 1, 1}, counted(outside))
		assert.Zero(t, outside.Stats().Overdue)
		later(time.Minute)
	})
}

func TestAbandonTransitionsOfABreakerOutsideAreToldWhenTheyAreNoticed(t *testing.T) { // B10
	for _, tc := range []struct {
		name    string
		inside  steady.Policy
		noticed time.Duration
	}{
		{"as the function begins", steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
			time.Sleep(600 * time.Millisecond)
			return next(ctx)
		}), 600 * time.Millisecond},
		{
			"as it ends", steady.Must(steady.NewRetry(steady.RetryConfig{BaseDelay: 100 * time.Millisecond, Jitter: steady.NoJitter})),
			700 * time.Millisecond,
		},
	} {
		for _, nested := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, nested %t", tc.name, nested), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					var at, noticed []time.Duration
					outside := wallBreaker(steady.BreakerConfig{WindowSize: 1, SlowThreshold: time.Second / 2, Hooks: &steady.Hooks{
						OnTransition: func(e steady.Transition) {
							at, noticed = append(at, e.At.Sub(began)), append(noticed, time.Since(began))
						},
					}})
					a := newAbandoning(t)
					policies := []steady.Policy{outside, a.timeout, tc.inside}
					if nested {
						policies = []steady.Policy{outside, newTimeout(t, steady.TimeoutConfig{Limit: time.Hour, Abandon: true}), a.timeout, tc.inside}
					}
					permit := allow(t, outside) // of a call that hangs
					_, _ = a.through(t, policies...).Do(t.Context(), sleeps(700*time.Millisecond, 0, errBoom))
					later(time.Minute)
					assert.Equal(t, []time.Duration{time.Second / 2}, at)
					assert.Equal(t, []time.Duration{tc.noticed}, noticed)
					permit.Done(steady.Success)
				})
			})
		}
	}
}

func TestAbandonedWorkKeepsItsSlot(t *testing.T) { // H4
	for name, fn := range map[string]func(context.Context) (int, error){
		"that succeeds later": sleeps(time.Minute, 7, nil),
		"that fails later":    sleeps(time.Minute, 0, errBoom),
		"that panics later":   panics(time.Minute, "late"),
		"that exits later":    exits(time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAbandoning(t)
				for range 2 {
					_, err := a.Do(t.Context(), fn)
					require.ErrorIs(t, err, steady.ErrTimeout)
				}
				assert.Equal(t, 2, a.bulkhead.Stats().InFlight)
				assert.Equal(t, 2, a.timeout.Stats().AbandonedNow)
				_, err := a.Do(t.Context(), returns(1, nil))
				assert.ErrorIs(t, err, steady.ErrBulkheadFull)
				later(time.Minute)
				_, err = a.Do(t.Context(), returns(1, nil))
				assert.NoError(t, err)
				a.assertIdle(t)
			})
		})
	}
}

func TestAbandonRefusesABulkheadOutside(t *testing.T) { // H4
	timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second, Abandon: true}))
	_, err := steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{
		newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1}), timeout,
	}})
	assert.ErrorContains(t, err, "inside")
}

func TestAbandonRefusesToHold(t *testing.T) { // O9
	a := newAbandoning(t)
	_, release, err := a.Hold(t.Context(), func(context.Context) (int, error) {
		t.Error("the function ran")
		return 0, nil
	})
	assert.ErrorContains(t, err, `"limit"`)
	release(nil)
}

func TestAbandonInAQueueInsideNeverRunsTheFunction(t *testing.T) { // T3, O1
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		queue := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Hour})
		p := a.through(t, a.timeout, a.breaker, queue)
		slot := acquire(t, queue)
		_, err := p.Do(t.Context(), func(context.Context) (int, error) {
			t.Error("the function ran")
			return 0, nil
		})
		requireTimeout(t, err, "limit")
		synctest.Wait()
		assert.Zero(t, queue.Stats().Waiting)
		assert.Equal(t, [3]int{}, counted(a.breaker), "it was not dispatched")
		slot.Release()
		acquire(t, queue)
		a.assertIdle(t)
		assert.Empty(t, a.attempts)
		assert.Zero(t, a.done[0].Attempts)
	})
}

func TestAbandonBeforeTheFunctionIsReachedNeverRunsIt(t *testing.T) {
	heedless := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		time.Sleep(time.Minute)
		return next(context.WithoutCancel(ctx))
	})
	inner := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "inner", Limit: time.Second, Abandon: true}))
	for name, inside := range map[string][]steady.Policy{
		"by a Middleware that heeds no context":    {heedless},
		"through a second Timeout that lets it be": {heedless, inner},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAbandoning(t)
				p := a.through(t, append([]steady.Policy{a.timeout, a.breaker}, inside...)...)
				_, err := p.Do(t.Context(), func(context.Context) (int, error) {
					t.Error("the function ran")
					return 0, nil
				})
				requireTimeout(t, err, "limit")
				later(time.Minute)
				assert.Equal(t, [3]int{}, counted(a.breaker))
				assert.Zero(t, a.attemptsEnded())
				a.assertIdle(t)
			})
		})
	}
}

func TestAbandonInAQueueOnASecondAttemptCountsTheFirstAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		queue := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Hour})
		retry := steady.Must(steady.NewRetry(steady.RetryConfig{BaseDelay: time.Second / 2, Jitter: steady.NoJitter}))
		var slot steady.Slot
		time.AfterFunc(time.Second/4, func() { slot = acquire(t, queue) })
		_, err := a.through(t, a.timeout, retry, a.breaker, queue).Do(t.Context(), returns(0, errBoom))
		requireTimeout(t, err, "limit")
		assert.ErrorIs(t, err, errBoom)
		synctest.Wait()
		assert.Equal(t, [3]int{1, 1, 0}, counted(a.breaker))
		assert.Equal(t, 1, a.done[0].Attempts)
		tokens := retry.Config().Budget.Stats().Tokens
		assert.EqualValues(t, retry.Config().Budget.Stats().Burst, tokens, "a retry that did not run is not paid for")
		slot.Release()
		a.assertIdle(t)
	})
}

func TestAbandonRepeatsAPanicInTheCaller(t *testing.T) { // T3
	synctest.Test(t, func(t *testing.T) {
		outside := wallBreaker(steady.BreakerConfig{})
		a := newAbandoning(t, outside)
		var panicked *steady.PanicError
		func() {
			defer func() { panicked, _ = recover().(*steady.PanicError) }()
			_, _ = a.Do(t.Context(), panics(time.Second/2, errBoom))
		}()
		require.NotNil(t, panicked)
		assert.Equal(t, errBoom, panicked.Value)
		assert.ErrorIs(t, panicked, errBoom)
		assert.Contains(t, string(panicked.Stack), "panics", "the stack of the panic, not of its repetition")
		assert.Equal(t, [3]int{1, 1, 0}, counted(a.breaker))
		assert.Equal(t, [3]int{1, 1, 0}, counted(outside))
		require.Len(t, a.attempts, 1)
		assert.Equal(t, steady.Transient, a.attempts[0].Outcome)
		assert.Equal(t, time.Second/2, a.attempts[0].Duration)
		assert.ErrorIs(t, a.attempts[0].Err, errBoom)
		a.assertIdle(t)
	})
}

func TestAbandonRepeatsAGoexitInTheCaller(t *testing.T) { // T3
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		returned, unwound := false, false
		go func() {
			defer func() { unwound = recover() == nil }()
			_, _ = a.Do(t.Context(), exits(time.Second/2))
			returned = true
		}()
		later(time.Second)
		assert.True(t, unwound)
		assert.False(t, returned)
		assert.Equal(t, [3]int{1, 1, 0}, counted(a.breaker))
		require.Len(t, a.attempts, 1)
		a.assertIdle(t)
	})
}

func TestAbandonGivesALatePanicToOnAttempt(t *testing.T) { // T3
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		_, err := a.Do(t.Context(), panics(time.Minute, "late"))
		require.ErrorIs(t, err, steady.ErrTimeout)
		later(time.Minute)
		require.Len(t, a.attempts, 1)
		assert.Equal(t, steady.Transient, a.attempts[0].Outcome)
		assert.Equal(t, time.Minute, a.attempts[0].Duration)
		var panicked *steady.PanicError
		require.ErrorAs(t, a.attempts[0].Err, &panicked)
		assert.Equal(t, "late", panicked.Value)
		assert.Contains(t, string(panicked.Stack), "panics")
		assert.Empty(t, a.discarded)
		a.assertIdle(t)
	})
}

func TestAbandonGivesALateGoexitToOnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		_, err := a.Do(t.Context(), exits(time.Minute))
		require.ErrorIs(t, err, steady.ErrTimeout)
		later(time.Minute)
		require.Len(t, a.attempts, 1)
		var panicked *steady.PanicError
		require.ErrorAs(t, a.attempts[0].Err, &panicked)
		assert.Nil(t, panicked.Value)
		a.assertIdle(t)
	})
}

func TestAbandonGivesALatePanicOfDiscardToOnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
			Policies: []steady.Policy{a.timeout, a.breaker, a.bulkhead},
			Discard:  func(int) { panic("discard") },
			Hooks:    a.hooks(),
		}))
		_, err := p.Do(t.Context(), sleeps(time.Minute, 7, nil))
		require.ErrorIs(t, err, steady.ErrTimeout)
		later(time.Minute)
		require.Len(t, a.attempts, 2, "the attempt, and the panic")
		var panicked *steady.PanicError
		require.ErrorAs(t, a.attempts[1].Err, &panicked)
		assert.Equal(t, "discard", panicked.Value)
		a.assertIdle(t)
	})
}

func TestAbandonSurvivesAHookThatPanicsAfterTheCallerHasGone(t *testing.T) { // T3
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
			Policies: []steady.Policy{a.timeout, a.breaker, a.bulkhead},
			Hooks: &steady.Hooks{OnAttempt: func(_ context.Context, e steady.Attempt) {
				record(a, &a.attempts, e)
				panic("hook")
			}},
		}))
		for _, fn := range []func(context.Context) (int, error){sleeps(time.Minute, 7, nil), panics(time.Minute, "late")} {
			_, err := p.Do(t.Context(), fn)
			require.ErrorIs(t, err, steady.ErrTimeout)
			later(time.Minute)
			a.assertIdle(t)
		}
		assert.NotEmpty(t, a.attempts)
	})
}

// At one moment the function returns and the limit comes: whoever is first, it is one of the two answers,
// and all of it.
func TestAbandonAtTheMomentOfTheLimitHasOneAnswer(t *testing.T) { // O6
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			a := newAbandoning(t)
			v, err := a.Do(t.Context(), sleeps(time.Second, 7, nil))
			synctest.Wait()
			if err == nil {
				require.Equal(t, 7, v)
				require.Empty(t, a.discarded)
				require.Equal(t, [3]int{1, 0, 0}, counted(a.breaker))
				require.Zero(t, a.timeout.Stats().Expired)
			} else {
				requireTimeout(t, err, "limit")
				require.Equal(t, []int{7}, a.discarded)
				require.Equal(t, 1, a.breaker.Stats().Calls) // a success, if the function was first there
				require.Equal(t, uint64(1), a.timeout.Stats().Expired)
			}
			require.Len(t, a.attempts, 1)
			a.assertIdle(t)
		})
	}
}

func TestAbandonOfAFunctionThatHeedsItsContextIsATimeoutEitherWay(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			a := newAbandoning(t)
			_, err := a.Do(t.Context(), func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			})
			requireTimeout(t, err, "limit")
			synctest.Wait()
			require.Equal(t, [3]int{1, 1, 0}, counted(a.breaker))
			require.Equal(t, uint64(1), a.timeout.Stats().Expired)
			a.assertIdle(t)
		})
	}
}

func TestAbandonNestedNamesTheLimitThatCame(t *testing.T) { // T1, T3
	for _, tc := range []struct {
		outer time.Duration
		fired string
	}{
		{3 * time.Second, "limit"},
		{time.Second / 2, "outer"},
	} {
		t.Run(tc.fired, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outer := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "outer", Limit: tc.outer, Abandon: true}))
				outside, between := wallBreaker(steady.BreakerConfig{}), wallBreaker(steady.BreakerConfig{})
				a := newAbandoning(t, outside, outer, between)
				began := time.Now()
				_, err := a.Do(t.Context(), sleeps(time.Minute, 7, nil))
				requireTimeout(t, err, tc.fired)
				assert.Equal(t, min(tc.outer, time.Second), time.Since(began))
				synctest.Wait()
				for _, b := range []*steady.Breaker{outside, between, a.breaker} {
					assert.Equal(t, [3]int{1, 1, 0}, counted(b))
				}
				assert.Zero(t, outside.Stats().InFlight)
				assert.Equal(t, 1, a.breaker.Stats().InFlight)
				assert.Equal(t, 1, a.bulkhead.Stats().InFlight)
				assert.Equal(t, 1, a.timeout.Stats().AbandonedNow)

				later(2 * time.Minute)
				for _, b := range []*steady.Breaker{outside, between, a.breaker} {
					assert.Equal(t, [3]int{1, 1, 0}, counted(b))
				}
				assert.Zero(t, between.Stats().InFlight)
				assert.Zero(t, outer.Stats().AbandonedNow)
				assert.Equal(t, []int{7}, a.discarded)
				assert.Len(t, a.attempts, 1)
				a.assertIdle(t)
			})
		})
	}
}

func TestAbandonNestedRepeatsOnePanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Minute, Abandon: true}))
		a := newAbandoning(t, outer)
		defer func() {
			panicked, ok := recover().(*steady.PanicError)
			require.True(t, ok)
			assert.Equal(t, "early", panicked.Value, "the panic itself, not another one around it")
			assert.Len(t, a.attempts, 1)
			a.assertIdle(t)
		}()
		_, _ = a.Do(t.Context(), panics(time.Millisecond, "early"))
	})
}

func TestAbandonUnderARetryIsRetriedBesideTheAbandonedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retry := steady.Must(steady.NewRetry(steady.RetryConfig{NoDelay: true}))
		a := newAbandoning(t, retry)
		var runs atomic.Int32
		v, err := a.Do(t.Context(), func(context.Context) (int, error) {
			if runs.Add(1) == 1 {
				time.Sleep(time.Minute)
				return 1, nil
			}
			assert.Equal(t, 2, a.bulkhead.Stats().InFlight)
			return 2, nil
		})
		require.NoError(t, err)
		assert.Equal(t, 2, v)
		assert.Equal(t, 2, a.done[0].Attempts)
		assert.Equal(t, time.Second, a.done[0].Duration)
		assert.Equal(t, [3]int{2, 1, 0}, counted(a.breaker))
		later(time.Minute)
		assert.Equal(t, []int{1}, a.discarded)
		assert.Len(t, a.attempts, 2)
		a.assertIdle(t)
	})
}

// Between attempts nothing is in the function, for whichever breaker around.
func TestAbandonBreakersOutsideDoNotCountARetrysDelays(t *testing.T) { // B8
	const slow = 3 * time.Second
	for _, tc := range []struct {
		name   string
		fn     func(context.Context) (int, error)
		second time.Duration // a moment of the second attempt
	}{
		{"after an attempt that failed", sleeps(time.Second/2, 0, errBoom), 10750 * time.Millisecond},
		{"after an attempt that was abandoned", sleeps(time.Second*3/2, 0, errBoom), 11250 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				retry := steady.Must(steady.NewRetry(steady.RetryConfig{BaseDelay: 10 * time.Second, Jitter: steady.NoJitter, MaxAttempts: 2}))
				outer := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Hour, Abandon: true}))
				outside, between := wallBreaker(steady.BreakerConfig{SlowThreshold: slow}), wallBreaker(steady.BreakerConfig{SlowThreshold: slow})
				a := newAbandoning(t, outside, outer, between, retry)
				time.AfterFunc(5*time.Second, func() {
					assert.Zero(t, outside.Stats().InFlight)
					assert.Zero(t, between.Stats().InFlight)
				})
				time.AfterFunc(tc.second, func() {
					assert.Equal(t, 1, outside.Stats().InFlight)
					assert.Equal(t, 1, between.Stats().InFlight)
				})
				_, err := a.Do(t.Context(), tc.fn)
				require.ErrorIs(t, err, steady.ErrRetriesExhausted)
				for _, b := range []*steady.Breaker{outside, between} {
					assert.Equal(t, [3]int{1, 1, 0}, counted(b))
					assert.Zero(t, b.Stats().InFlight)
				}
				later(time.Minute)
				a.assertIdle(t)
			})
		})
	}
}

func TestAbandonUnderARetryThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retry := steady.Must(steady.NewRetry(steady.RetryConfig{NoDelay: true, MaxAttempts: 2}))
		a := newAbandoning(t, retry)
		_, err := a.Do(t.Context(), sleeps(time.Minute, 1, nil))
		var gaveUp *steady.RetryError
		require.ErrorAs(t, err, &gaveUp)
		assert.Equal(t, steady.ErrRetriesExhausted, gaveUp.Reason)
		assert.Equal(t, 2, gaveUp.Attempts)
		requireTimeout(t, gaveUp.Last, "limit")
		assert.Equal(t, 2, a.timeout.Stats().AbandonedNow)
		later(time.Minute)
		assert.Equal(t, []int{1, 1}, a.discarded)
		a.assertIdle(t)
	})
}

func TestAbandonAroundARetryEndsItWhileTheFunctionRuns(t *testing.T) { // O7
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		budget := newBudget(t, 0.1, 10)
		retry := newRetry(t, steady.RetryConfig{BaseDelay: time.Second / 4, Jitter: steady.NoJitter, Budget: budget})
		outside := wallBreaker(steady.BreakerConfig{})
		p := a.through(t, outside, a.timeout, retry, a.breaker, a.bulkhead)
		began, runs := time.Now(), 0
		_, err := p.Do(t.Context(), func(context.Context) (int, error) {
			if runs++; runs == 2 {
				time.Sleep(time.Minute)
			}
			return 0, errBoom
		})
		assert.Equal(t, time.Second, time.Since(began))
		requireTimeout(t, err, "limit")
		assert.ErrorIs(t, err, errBoom, "the last error of the function is not lost")
		assert.Equal(t, [3]int{1, 1, 0}, counted(outside))
		assert.Equal(t, [3]int{2, 2, 0}, counted(a.breaker))
		later(2 * time.Minute)
		assert.Equal(t, 2, runs, "nothing is retried for a caller who has gone")
		assert.Equal(t, 2, a.done[0].Attempts)
		assert.Equal(t, 9.0, budget.Stats().Tokens)
		assert.Equal(t, [3]int{1, 1, 0}, counted(outside))
		assert.Equal(t, [3]int{2, 2, 0}, counted(a.breaker))
		a.assertIdle(t)
	})
}

func TestAbandonAroundARetryTellsWhyItEnded(t *testing.T) { // O5, T3
	for _, test := range []struct {
		name   string
		cancel bool
		inside []steady.Policy
		want   error
	}{
		{"the limit", false, []steady.Policy{steady.Must(steady.NewRetry(steady.RetryConfig{}))}, context.DeadlineExceeded},
		{"the caller", true, []steady.Policy{steady.Must(steady.NewRetry(steady.RetryConfig{}))}, context.Canceled},
		{"nothing was retried", false, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var done steady.Completion
				p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
					Policies: append([]steady.Policy{newTimeout(t, steady.TimeoutConfig{Limit: time.Second, Abandon: true})}, test.inside...),
					Hooks:    &steady.Hooks{OnDone: func(_ context.Context, c steady.Completion) { done = c }},
				}))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.cancel {
					defer time.AfterFunc(time.Second/2, cancel).Stop()
				}
				_, err := p.Do(ctx, sleeps(2*time.Second, 0, errBoom))
				require.Error(t, err)
				assert.Equal(t, test.want, done.GaveUp)
				later(time.Minute)
			})
		})
	}
}

func TestAbandonAroundARetryEndsItInADelay(t *testing.T) { // R3, O7
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		budget := newBudget(t, 0.1, 10)
		retry := newRetry(t, steady.RetryConfig{BaseDelay: time.Second / 2, Jitter: steady.NoJitter, Budget: budget})
		outside := wallBreaker(steady.BreakerConfig{})
		p := a.through(t, outside, a.timeout, retry, a.breaker, a.bulkhead)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/4, cancel)
		began := time.Now()
		fn := &script{errs: []error{errBoom}}
		_, err := p.Do(ctx, fn.next)
		assert.Equal(t, time.Second/4, time.Since(began))
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, errBoom)
		later(time.Minute)
		assert.Equal(t, 1, fn.runs)
		assert.Equal(t, 10.0, budget.Stats().Tokens)
		assert.Equal(t, [3]int{1, 1, 0}, counted(a.breaker))
		assert.Equal(t, [3]int{}, counted(outside))
		a.assertIdle(t)
	})
}

func TestAbandonRunsOnTheFakeClock(t *testing.T) { // T4
	synctest.Test(t, func(t *testing.T) {
		mock := clock.NewMock()
		timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "limit", Limit: time.Hour, Abandon: true, Clock: mock}))
		p := pipeline(t, timeout)
		var err error
		returned := false
		end := make(chan struct{})
		go func() {
			_, err = p.Do(t.Context(), func(context.Context) (int, error) {
				<-end
				return 0, nil
			})
			returned = true
		}()
		synctest.Wait()
		mock.Add(time.Hour - 1)
		synctest.Wait()
		assert.False(t, returned)
		mock.Add(1)
		synctest.Wait()
		assert.True(t, returned)
		requireTimeout(t, err, "limit")
		close(end)
		synctest.Wait()
		assert.Zero(t, timeout.Stats().AbandonedNow)
	})
}

// Records are reused: no call may see another one's result, however many are abandoned.
func TestAbandonStressEveryResultReachesItsCallerOrDiscard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAbandoning(t)
		a.breaker.ForceClosed("to go on")
		p := a.through(t, a.timeout, a.breaker)
		const callers, calls = 20, 100
		made, kept := make([]bool, callers*calls), make([]bool, callers*calls)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for n := range calls {
					want := i*calls + n
					ctx, cancel := context.WithCancel(t.Context())
					if n%5 == 0 {
						defer time.AfterFunc(time.Duration(n)*10*time.Millisecond, cancel).Stop()
					}
					v, err := p.Do(ctx, func(context.Context) (int, error) {
						time.Sleep(time.Duration(want*7919%2000) * time.Millisecond)
						made[want] = true
						return want, nil
					})
					cancel()
					if err == nil {
						assert.Equal(t, want, v)
						kept[want] = true
					}
				}
			})
		}
		wg.Wait()
		later(time.Minute)
		for _, v := range a.discarded {
			require.False(t, kept[v], "%d was kept, and discarded", v)
			kept[v] = true
		}
		assert.Equal(t, made, kept)
		assert.NotEmpty(t, a.discarded)
		assert.Positive(t, a.timeout.Stats().Abandoned)
		a.assertIdle(t)
	})
}
