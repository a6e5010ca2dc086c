package steady_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// What policies do to each other, where one of them does something rare.

// recovering calls next, and once more when that panics.
func recovering(ctx context.Context, next func(context.Context) error) (err error) {
	defer func() {
		if recover() != nil {
			err = next(ctx)
		}
	}()
	return next(ctx)
}

func TestAHookThatPanicsAtTheStartOfARunBreaksNoBreaker(t *testing.T) { // B7, B10
	mock := clock.NewMock()
	outer := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: time.Second, Clock: mock}))
	armed := true
	inner := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		SlowThreshold: time.Second, WindowSize: 1, OpenDuration: time.Nanosecond, NoOpenJitter: true, Clock: mock,
		Hooks: &steady.Hooks{OnTransition: func(steady.Transition) {
			if armed {
				armed = false
				panic("hook")
			}
		}},
	}))
	queue := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		if armed {
			mock.Add(2 * time.Second)
		}
		return next(ctx)
	})
	hanging := allow(t, inner)

	_, err := pipeline(t, outer, steady.Middleware(recovering), inner, queue).Do(t.Context(), returns(1, nil))

	require.NoError(t, err)
	hanging.Done(steady.Success)
	mock.Add(time.Second)
	assert.Zero(t, outer.Stats().InFlight)
	assert.Zero(t, inner.Stats().InFlight)
}

func TestAHookThatPanicsBeforeTheFunctionCountsNothing(t *testing.T) { // O1, B10
	synctest.Test(t, func(t *testing.T) {
		outer := steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true}))
		armed := true
		inner := steady.Must(steady.NewBreaker(steady.BreakerConfig{
			SlowThreshold: time.Second, WindowSize: 1,
			Hooks: &steady.Hooks{OnTransition: func(steady.Transition) {
				if armed {
					panic("hook")
				}
			}},
		}))
		queue := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Hour})
		slot, err := queue.Acquire(t.Context())
		require.NoError(t, err)
		permit := allow(t, inner)
		defer permit.Done(0)
		time.AfterFunc(2*time.Second, slot.Release)

		assert.Panics(t, func() { _, _ = pipeline(t, outer, inner, queue).Do(t.Context(), returns(0, nil)) })

		armed = false
		assert.Zero(t, outer.Stats().Calls)
	})
}

// The clock moves on while the hook of one breaker runs, so that another one's hook is called, and panics, when the
// stopwatches have been started.
func TestAHookThatPanicsAtTheVeryStartTakesItBack(t *testing.T) { // B7, B10
	for _, tt := range []struct {
		name string
		runs int // before the one that the hook prevents
		want steady.BreakerTotals
	}{
		{"of the first run", 0, steady.BreakerTotals{}},
		{"of the second run", 1, steady.BreakerTotals{Throttled: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mock := clock.NewMock()
			armed := true
			breaker := func(threshold time.Duration, hook func()) *steady.Breaker {
				return steady.Must(steady.NewBreaker(steady.BreakerConfig{
					SlowThreshold: threshold, WindowSize: 1, Clock: mock, Hooks: &steady.Hooks{OnTransition: func(steady.Transition) {
						if armed {
							hook()
						}
					}},
				}))
			}
			outer := steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true, Clock: mock}))
			slow := breaker(time.Second, func() { mock.Add(time.Second) })
			explosive := breaker(2*time.Second, func() { panic("hook") })
			retry := newRetry(t, steady.RetryConfig{NoDelay: true, Clock: mock})
			runs := 0
			queue := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
				if runs == tt.runs {
					mock.Add(time.Second)
				}
				return next(ctx)
			})
			for _, b := range []*steady.Breaker{slow, explosive} {
				hanging := allow(t, b)
				defer hanging.Done(steady.Ignored)
			}

			assert.PanicsWithValue(t, "hook", func() {
				_, _ = pipelineOn(t, mock, outer, retry, slow, explosive, queue).Do(t.Context(), func(context.Context) (int, error) {
					runs++
					return 0, steady.Mark(errBoom, steady.Throttled)
				})
			})

			armed = false
			assert.Equal(t, tt.runs, runs)
			assert.Equal(t, tt.want, outer.Stats().Totals)
			assert.Equal(t, []int{0, 1, 1}, []int{outer.Stats().InFlight, slow.Stats().InFlight, explosive.Stats().InFlight})
		})
	}
}

func TestASlowHookIsNotTheDependencysTime(t *testing.T) { // B8
	var mock *clock.Mock
	hooks := &steady.Hooks{OnTransition: func(tr steady.Transition) {
		if tr.To == steady.StateHalfOpen {
			mock.Add(time.Second)
		}
	}}
	b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 1, HalfOpenProbes: 1, Hooks: hooks})
	call(t, b, mock, 1, 0, steady.Transient)
	mock.Add(10 * time.Second)
	allow(t, b).Done(steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
}

func TestAHookThatHearsOfWhatFellDueInAQueueIsNotTheDependencysTime(t *testing.T) { // B8
	var mock *clock.Mock
	hooks := &steady.Hooks{OnTransition: func(steady.Transition) { mock.Add(time.Minute) }}
	b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 1, Hooks: hooks})
	allow(t, b) // and it hangs
	queue := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		mock.Add(500 * time.Millisecond)
		return next(ctx)
	})
	var took []time.Duration
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{b, queue},
		Hooks:    &steady.Hooks{OnAttempt: func(_ context.Context, a steady.Attempt) { took = append(took, a.Duration) }},
	}))
	_, err := p.Do(t.Context(), returns(1, nil))
	require.NoError(t, err)
	assert.Equal(t, []time.Duration{0}, took)
	assert.EqualValues(t, 1, b.Stats().Transitions)
}

func TestLatencyIsOfTheFunctionAlone(t *testing.T) { // B8, B14
	b, mock := newBreaker(t, steady.BreakerConfig{})
	p := pipeline(t, b, steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		err := next(ctx)
		mock.Add(10 * time.Second)
		return err
	}))
	_, err := p.Do(t.Context(), func(context.Context) (int, error) {
		mock.Add(10 * time.Millisecond)
		return 1, nil
	})
	require.NoError(t, err)
	assert.InEpsilon(t, 10*time.Millisecond, b.Stats().LatencyP50, 0.05)
}

func TestAnAttemptThatDoesNotRunKeepsTheVerdictThroughAnAbandoningTimeout(t *testing.T) { // B8, T3
	b := steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true}))
	bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	fill := &steady.Hooks{OnRetry: func(context.Context, steady.RetryDelay) { _, _ = bulkhead.Acquire(t.Context()) }}
	retry := newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2, Hooks: fill})
	abandon := newTimeout(t, steady.TimeoutConfig{Limit: time.Hour, Abandon: true})

	_, err := pipeline(t, b, retry, abandon, bulkhead).Do(t.Context(), returns(0, steady.Mark(errBoom, steady.Throttled)))

	require.ErrorIs(t, err, steady.ErrBulkheadFull)
	assert.Zero(t, b.Stats().Failures)
}

func TestACallThatDoesNotRunIsIgnoredThroughAnAbandoningTimeout(t *testing.T) { // O10, T3
	var got steady.Completion
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{
			newTimeout(t, steady.TimeoutConfig{Limit: time.Hour, Abandon: true}),
			steady.Middleware(func(context.Context, func(context.Context) error) error { return nil }),
		},
		Hooks: &steady.Hooks{OnDone: func(_ context.Context, c steady.Completion) { got = c }},
	}))
	_, err := p.Do(t.Context(), returns(1, nil))
	require.NoError(t, err)
	assert.Equal(t, steady.Ignored, got.Outcome)
}

func TestEveryPanicThatAMiddlewareRecoversInsideAnAbandoningTimeoutIsAnAttempt(t *testing.T) { // O4, T3
	var numbers []int
	var outcomes []steady.Outcome
	thrice := steady.Middleware(func(ctx context.Context, next func(context.Context) error) (err error) {
		for range 3 {
			func() {
				defer func() {
					if recover() != nil {
						err = errBoom
					}
				}()
				err = next(ctx)
			}()
		}
		return err
	})
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{newTimeout(t, steady.TimeoutConfig{Limit: time.Hour, Abandon: true}), thrice},
		Hooks: &steady.Hooks{OnAttempt: func(_ context.Context, a steady.Attempt) {
			numbers = append(numbers, a.Attempt)
			outcomes = append(outcomes, a.Outcome)
		}},
	}))
	n := 0
	_, err := p.Do(t.Context(), func(context.Context) (int, error) {
		if n++; n < 3 {
			panic("x")
		}
		return 1, nil
	})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3}, numbers)
	assert.Equal(t, []steady.Outcome{steady.Transient, steady.Transient, steady.Success}, outcomes)
}

func TestAMiddlewareIsHeldBackInABubbleToo(t *testing.T) { // O10
	synctest.Test(t, func(t *testing.T) {
		early := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
			go func() { _ = next(ctx) }()
			time.Sleep(time.Second)
			return errBoom
		})
		_, err := pipeline(t, early).Do(t.Context(), func(context.Context) (int, error) {
			time.Sleep(5 * time.Second)
			return 7, nil
		})
		require.ErrorIs(t, err, errBoom)
	})
}

func TestNoValueOfAnEarlierRunComesBack(t *testing.T) { // O10
	m := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		_ = next(ctx)
		func() {
			defer func() { _ = recover() }()
			_ = next(ctx)
		}()
		return nil
	})
	n := 0
	v, err := pipeline(t, m).Do(t.Context(), func(context.Context) (int, error) {
		if n++; n == 1 {
			return 13, errBoom
		}
		panic("x")
	})
	require.NoError(t, err)
	assert.Zero(t, v)
}

func TestATokenIsNotGivenBackForARetryThatRanAndThenWasRejected(t *testing.T) { // R5
	budget := steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{}))
	outer := newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2, Budget: budget})
	inner := newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2, NoBudget: true})
	b := steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true, WindowSize: 3, MinCalls: 3}))
	runs := 0
	_, err := pipeline(t, outer, inner, b).Do(t.Context(), func(context.Context) (int, error) {
		runs++
		return 0, errBoom
	})
	require.Error(t, err)
	require.Equal(t, 3, runs)
	assert.Equal(t, 9.0, budget.Stats().Tokens)
}

func TestTheErrorOfAnAttemptThatWasRejectedFurtherInIsKept(t *testing.T) { // O7
	bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	outer := newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2, RetryRejected: true, NoBudget: true})
	fill := &steady.Hooks{OnRetry: func(context.Context, steady.RetryDelay) { _, _ = bulkhead.Acquire(context.Background()) }}
	inner := newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2, NoBudget: true, Hooks: fill})
	_, err := pipeline(t, outer, inner, bulkhead).Do(t.Context(), returns(0, errBoom))
	require.ErrorIs(t, err, steady.ErrBulkheadFull)
	assert.ErrorIs(t, err, errBoom)
}

func TestACarefulRetryRepeatsNothingThatMayHaveBeenDoneThoughItWasCutLater(t *testing.T) { // R8, D2
	synctest.Test(t, func(t *testing.T) {
		d := steady.Must(steady.NewDependency(steady.DependencyConfig{
			Name: "d", Timeout: time.Minute, AttemptTimeout: time.Second,
			NoBreaker: true, NoBulkhead: true, Retry: steady.RetryConfig{NoDelay: true},
		}))
		m := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
			_ = next(ctx)
			time.Sleep(2 * time.Second)
			return next(ctx) // does not run: the attempt's time is over
		})
		runs := 0
		_, err := pipeline(t, append(d.Policies(steady.WriteNonIdempotent), m)...).Do(t.Context(),
			func(context.Context) (int, error) {
				runs++
				return 0, errBoom
			})
		require.Error(t, err)
		assert.Equal(t, 1, runs)
	})
}

func TestMarksSideBySideAreSeen(t *testing.T) { // O2, R4
	err := errors.Join(steady.MarkRetryAfter(errors.New("a"), 0, time.Second), steady.Mark(errBoom, steady.Permanent))
	assert.Equal(t, steady.Permanent, steady.Classify(err))

	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		both := errors.Join(steady.Mark(errBoom, steady.Transient), steady.MarkRetryAfter(errBoom, steady.Throttled, time.Second))
		_, err := pipeline(t, newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2})).Do(t.Context(), returns(0, both))
		require.ErrorIs(t, err, errBoom)
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestAThrottledDelayThatWouldBeCutIsRefused(t *testing.T) { // C1
	_, err := steady.NewRetry(steady.RetryConfig{ThrottledDelay: time.Minute})
	require.ErrorContains(t, err, "RetryConfig.ThrottledDelay must not be negative or exceed MaxDelay = 30s, got 1m0s")
	assert.Equal(t, 30*time.Second, newRetry(t, steady.RetryConfig{BaseDelay: 20 * time.Second}).Config().ThrottledDelay)
}

func TestAnOpenPeriodWithoutJitterIsExact(t *testing.T) { // B9
	b, mock := newBreaker(t, steady.BreakerConfig{NoSlowCalls: true, WindowSize: 1, OpenDuration: 1<<53 + 1})
	call(t, b, mock, 1, 0, steady.Transient)
	assert.Equal(t, mock.Now().Add(1<<53+1), b.Stats().OpenUntil)
}

func TestADependencyChecksTheLongestTimesToo(t *testing.T) { // D3
	_, err := steady.NewDependency(steady.DependencyConfig{
		Name: "d", NoTimeout: true, AttemptTimeout: math.MaxInt64, NoBulkhead: true,
		Breaker: steady.BreakerConfig{SlowThreshold: time.Second, WindowAge: time.Second},
	})
	assert.ErrorContains(t, err, "WindowAge")
}

func TestTheContextOfAFakeClockEndsWithItsParentAndForItsCause(t *testing.T) { // T4
	mock := clock.NewMock()
	p := pipelineOn(t, mock, newTimeout(t, steady.TimeoutConfig{Limit: time.Second, Clock: mock}))
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := p.Do(ctx, func(ctx context.Context) (int, error) {
		cancel(errBoom)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(ctx), errBoom)
		<-ctx.Done()
		return 0, ctx.Err()
	})
	assert.ErrorIs(t, err, context.Canceled)
}

func TestAFunctionThatWasNotReachedIsNotAbandoned(t *testing.T) { // T3
	synctest.Test(t, func(t *testing.T) {
		abandon := newTimeout(t, steady.TimeoutConfig{Limit: time.Second, Abandon: true})
		queue := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Minute})
		_, err := queue.Acquire(t.Context())
		require.NoError(t, err)
		_, err = pipeline(t, abandon, queue).Do(t.Context(), returns(1, nil))
		require.ErrorIs(t, err, steady.ErrTimeout)
		assert.Equal(t, steady.TimeoutStats{Expired: 1}, abandon.Stats())
	})
}

func TestClassifyIsNotTheFunctionsTimeWhoeverLooks(t *testing.T) { // B7, B8
	for _, abandon := range []bool{false, true} {
		for _, looked := range []bool{false, true} {
			b, mock := newBreaker(t, steady.BreakerConfig{SlowThreshold: time.Second})
			policies := []steady.Policy{b}
			if abandon {
				policies = append(policies, newTimeout(t, steady.TimeoutConfig{Limit: time.Hour, Abandon: true}))
			}
			p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
				Policies: policies,
				Classify: func(int, error) steady.Outcome {
					mock.Add(2 * time.Second)
					if looked {
						b.State()
					}
					return steady.Success
				},
			}))
			_, err := p.Do(t.Context(), returns(1, nil))
			require.NoError(t, err)
			assert.Zero(t, b.Stats().Slow, looked)
			assert.Equal(t, steady.BreakerTotals{Success: 1}, b.Stats().Totals)
		}
	}
}

// A call that enters the function while another one's transition waits to be told does not tell it: that would
// be in its own time.
func TestAHookOfAnothersTransitionIsNotTheCallsTime(t *testing.T) { // B8
	mock := clock.NewMock()
	goes, entered, admitted := make(chan struct{}), make(chan struct{}), make(chan struct{})
	asked, opened := 0, 0
	b := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		SlowThreshold: 500 * time.Millisecond, WindowSize: 1, HalfOpenProbes: 2, OpenDuration: 10 * time.Second, Clock: mock,
		Rand: func() float64 {
			if asked++; asked == 2 {
				close(goes)
				<-entered
			}
			return 0
		},
		Hooks: &steady.Hooks{OnTransition: func(tr steady.Transition) {
			if tr.To == steady.StateOpen {
				if opened++; opened == 2 {
					mock.Add(time.Second)
				}
			}
		}},
	}))
	call(t, b, mock, 1, 0, steady.Transient)
	mock.Add(10 * time.Second)
	sister := allow(t, b)
	var took time.Duration
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{b, steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
			close(admitted)
			<-goes
			return next(ctx)
		})},
		Hooks: &steady.Hooks{OnAttempt: func(_ context.Context, a steady.Attempt) { took = a.Duration }},
	}))
	var probe sync.WaitGroup
	probe.Go(func() {
		_, err := p.Do(t.Context(), func(context.Context) (int, error) { close(entered); return 1, nil })
		assert.NoError(t, err)
	})
	<-admitted
	sister.Done(steady.Transient)
	probe.Wait()
	assert.Zero(t, took)
	assert.Zero(t, b.Stats().Totals.Slow)
}
