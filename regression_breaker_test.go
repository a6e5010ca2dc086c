package steady_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// resilience4j#544, Polly#1979: the probe ended with an ignored error, and the breaker stayed half-open for
// ever. unkey#6453: an ignored error closed it.
func TestAnIgnoredProbeIsGivenBack(t *testing.T) {
	b, mock := halfOpened(t, steady.BreakerConfig{HalfOpenProbes: 1})
	p, err := steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{b}, Clock: mock})
	require.NoError(t, err)

	for range 10 {
		allow(t, b).Done(steady.Ignored)
		allow(t, b).Done(steady.Throttled)
		_, err := p.Do(t.Context(), returns(0, steady.Mark(errBoom, steady.Ignored)))
		require.ErrorIs(t, err, errBoom)
		require.Equal(t, steady.StateHalfOpen, b.State())
	}

	_, err = p.Do(t.Context(), returns(1, nil))
	require.NoError(t, err)
	assert.Equal(t, steady.StateClosed, b.State())
}

// sentinel-golang#196: a policy further in rejected the probe, and the breaker waited for its verdict for
// ever.
func TestAProbeRejectedFurtherInIsGivenBack(t *testing.T) {
	b, _ := halfOpened(t, steady.BreakerConfig{HalfOpenProbes: 1})
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))
	p := pipeline(t, b, bulkhead)

	slot, err := bulkhead.Acquire(t.Context())
	require.NoError(t, err)
	for range 10 {
		_, err := p.Do(t.Context(), mustNotRun(t))
		require.ErrorIs(t, err, steady.ErrBulkheadFull)
		require.Equal(t, steady.StateHalfOpen, b.State())
	}
	slot.Release()

	_, err = p.Do(t.Context(), returns(1, nil))
	require.NoError(t, err)
	assert.Equal(t, steady.StateClosed, b.State())
}

// s3-orchestrator#424: the caller of the two-step form panicked before it reported.
func TestAProbeWhoseCallerPanickedBeforeDoneTimesOut(t *testing.T) {
	b, mock := halfOpened(t, steady.BreakerConfig{HalfOpenProbes: 1, NoSlowCalls: true, ProbeTimeout: time.Second})
	assert.Panics(t, func() {
		allow(t, b)
		panic("before Done")
	})
	requireRejected(t, b)

	mock.Add(time.Second)
	assert.Equal(t, steady.StateOpen, b.State())
	mock.Add(10 * time.Second)
	allow(t, b).Done(steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
}

// OmniRoute#13836: the probe never returned; six days later the breaker had rejected 49 607 calls.
func TestAProbeThatNeverReturnsFailsWhileItRuns(t *testing.T) {
	for reason, cfg := range map[steady.Reason]steady.BreakerConfig{
		steady.ReasonProbeSlow:    {HalfOpenProbes: 1, SlowThreshold: 500 * time.Millisecond},
		steady.ReasonProbeTimeout: {HalfOpenProbes: 1, NoSlowCalls: true, ProbeTimeout: 500 * time.Millisecond},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			var seen transitions
			cfg.Hooks = seen.hooks()
			b, mock := halfOpened(t, cfg)
			begun := mock.Now()
			allow(t, b) // the one that never returns

			mock.Add(6 * 24 * time.Hour)
			last := allow(t, b)
			opened := heard(t, &seen, 2)
			assert.Equal(t, reason, opened.Reason)
			assert.WithinDuration(t, begun.Add(500*time.Millisecond), opened.At, 0)
			last.Done(steady.Success)
			assert.Equal(t, steady.StateClosed, b.State())
			assert.Equal(t, 1, b.Stats().InFlight, "it still runs, and that can be seen")
		})
	}
}

// resilience4j#903, #935, #1389: permits that were taken and never reported blocked breakers in production.
func TestPermitsThatAreNeverReportedBlockNothing(t *testing.T) {
	b, mock := halfOpened(t, steady.BreakerConfig{HalfOpenProbes: 3})
	for range 20 {
		for range 3 {
			allow(t, b)
		}
		requireRejected(t, b)
		mock.Add(10*time.Second + 500*time.Millisecond)
	}
	for range 3 {
		allow(t, b).Done(steady.Success)
	}
	assert.Equal(t, steady.StateClosed, b.State())
	assert.Equal(t, 60, b.Stats().InFlight)

	for range 10 { // closed, too
		allow(t, b)
	}
	mock.Add(time.Minute)
	allow(t, b).Done(steady.Success)
}

// resilience4j#2028: with little traffic and ten probes wanted, a breaker was half-open for hours. That is
// fine, if it then closes.
func TestProbesMayComeHoursApart(t *testing.T) {
	b, mock := halfOpened(t, steady.BreakerConfig{HalfOpenProbes: 10})
	for range 10 {
		require.Equal(t, steady.StateHalfOpen, b.State())
		mock.Add(5 * time.Hour)
		allow(t, b).Done(steady.Success)
	}
	assert.Equal(t, steady.StateClosed, b.State())
}

// opossum#276: the minimum number of calls gated the half-open breaker, too.
func TestMinCallsPlaysNoPartWhileHalfOpen(t *testing.T) {
	b, mock := halfOpened(t, steady.BreakerConfig{MinCalls: 20, HalfOpenProbes: 1})
	allow(t, b).Done(steady.Transient)
	assert.Equal(t, steady.StateOpen, b.State())
	mock.Add(10 * time.Second)
	allow(t, b).Done(steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
}

// Polly#216; gobreaker, mercari, eapache and goresilience (50 of 50 admitted): any number of callers got
// through a half-open breaker.
func TestAHalfOpenBreakerAdmitsItsProbesAndNobodyElse(t *testing.T) {
	b, _ := halfOpened(t, steady.BreakerConfig{HalfOpenProbes: 3})
	probes := []steady.Permit{allow(t, b), allow(t, b), allow(t, b)}
	for range 50 {
		requireRejected(t, b)
	}
	probes[0].Done(steady.Success)
	requireRejected(t, b) // one has passed, two are out
	probes[1].Done(steady.Ignored)
	allow(t, b).Done(steady.Success) // in the place of the one given back
	requireRejected(t, b)
	probes[2].Done(steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
}

// resilience4j#1432, #1090: at the edge from open to half-open, racing callers took more permits than there
// are.
func TestRacingToTheEdgeOfHalfOpenAdmitsNoMoreThanItsProbes(t *testing.T) {
	b, mock := halfOpened(t, steady.BreakerConfig{HalfOpenProbes: 3})
	for range 100 {
		var admitted atomic.Int64
		permits := make([]steady.Permit, 32)
		var callers sync.WaitGroup
		for i := range permits {
			callers.Go(func() {
				if p, err := b.Allow(); err == nil {
					admitted.Add(1)
					permits[i] = p
				}
			})
		}
		callers.Wait()
		require.EqualValues(t, 3, admitted.Load())
		for _, p := range permits {
			p.Done(steady.Transient)
		}
		mock.Add(10 * time.Second)
	}
}

// virtrigaud#70: the call that made the transition was not counted as a probe.
func TestTheCallThatFindsThePeriodOverIsTheFirstProbe(t *testing.T) {
	b, _ := halfOpened(t, steady.BreakerConfig{HalfOpenProbes: 1})
	probe := allow(t, b)
	requireRejected(t, b)
	probe.Done(steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
}

// Polly#239: one lucky probe closed the breaker.
func TestOneLuckyProbeDoesNotClose(t *testing.T) {
	b, _ := halfOpened(t, steady.BreakerConfig{}) // three by default
	allow(t, b).Done(steady.Success)
	allow(t, b).Done(steady.Success)
	assert.Equal(t, steady.StateHalfOpen, b.State())
	allow(t, b).Done(steady.Transient)
	assert.Equal(t, steady.StateOpen, b.State())
}

// Polly#311: a probe that timed out used up the only trial, and the breaker blocked for another period.
func TestAProbeThatTimedOutHasFailedAndNewOnesFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{
			MinCalls: 1, HalfOpenProbes: 1, NoSlowCalls: true, OpenDuration: 5 * time.Second, NoOpenJitter: true,
		}))
		p := pipeline(t, steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second})), b)
		openByFailures(t, b)
		time.Sleep(5 * time.Second)

		_, err := p.Do(t.Context(), neverAnswers)
		require.ErrorIs(t, err, steady.ErrTimeout)
		require.Equal(t, steady.StateOpen, b.State())
		assert.Equal(t, 5*time.Second, time.Until(b.Stats().OpenUntil))

		time.Sleep(5 * time.Second)
		_, err = p.Do(t.Context(), returns(1, nil))
		require.NoError(t, err)
		assert.Equal(t, steady.StateClosed, b.State())
	})
}

// opossum#484: while the breaker changed from half-open to closed, every predicate of its state was false.
func TestThereIsAStateAtEveryMoment(t *testing.T) {
	var b *steady.Breaker
	readFromOutside := func() (s steady.State) {
		var reader sync.WaitGroup
		reader.Go(func() { s = b.State() })
		reader.Wait()
		return s
	}
	var during steady.State // an opening
	hear := func(tr steady.Transition) { assert.Equal(t, tr.To, readFromOutside()) }
	b, mock := newBreaker(t, steady.BreakerConfig{
		HalfOpenProbes: 1,
		Hooks:          &steady.Hooks{OnTransition: hear},
		Rand: func() float64 {
			during = readFromOutside()
			return 0
		},
	})
	openByFailures(t, b)
	mock.Add(12 * time.Second) // the longest that the period can be
	allow(t, b).Done(steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
	assert.Equal(t, steady.StateOpen, during)
}

// resilience4j#562, #646, #674: callers whose transitions raced were thrown an "illegal transition".
func TestRacingTransitionsNeverReachTheCallers(t *testing.T) {
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{
		MinCalls: 2, WindowSize: 2, HalfOpenProbes: 2, OpenDuration: time.Millisecond, Hooks: seen.hooks(),
	})
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for j := range 300 {
				p, err := b.Allow()
				if err != nil {
					assert.ErrorIs(t, err, steady.ErrBreakerOpen)
				}
				p.Done([]steady.Outcome{steady.Success, steady.Transient, steady.Ignored}[(i+j/3)%3])
				switch {
				case i == 0 && j%50 == 0:
					b.ForceOpen("race")
				case i == 0 && j%50 == 10, i == 1 && j%50 == 0:
					b.Reset("race")
				case i == 2 && j%10 == 0:
					mock.Add(time.Millisecond)
				}
			}
		})
	}
	callers.Wait()

	state := steady.StateClosed
	for _, tr := range seen.list() {
		require.Equal(t, state, tr.From, "a chain without a gap: %v", tr)
		state = tr.To
	}
	assert.EqualValues(t, len(seen.list()), b.Stats().Transitions)
}

// Polly#217, #218, #219, #223; Hystrix#1350; mercari, hystrix-go, sentinel, goresilience, failsafe-go and
// resilience4j (all seen): calls begun while the breaker was closed decided when it was half-open.
func TestCallsBegunWhileClosedDecideNothingLater(t *testing.T) {
	for _, o := range []steady.Outcome{steady.Success, steady.Transient, steady.Permanent, steady.Unsent, steady.Ignored, steady.Throttled} {
		t.Run(o.String(), func(t *testing.T) {
			b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 1, HalfOpenProbes: 2, NoSlowCalls: true})
			stale := func() steady.Permit { return allow(t, b) }
			first, second, third := stale(), stale(), stale()
			p := pipeline(t, b)
			inside, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(left)
				_, _ = p.Do(t.Context(), func(context.Context) (int, error) {
					close(inside)
					<-leave
					return 0, steady.Mark(errBoom, o)
				})
			}()
			<-inside
			openByFailures(t, b)
			until := b.Stats().OpenUntil

			first.Done(o)
			assert.Equal(t, steady.StateOpen, b.State())
			assert.Equal(t, until, b.Stats().OpenUntil)

			mock.Add(10 * time.Second)
			probe := allow(t, b)
			second.Done(o)
			close(leave)
			<-left
			require.Equal(t, steady.StateHalfOpen, b.State())
			probe.Done(steady.Success)
			require.Equal(t, steady.StateHalfOpen, b.State(), "only probes count")

			allow(t, b).Done(steady.Success)
			third.Done(o)
			assert.Equal(t, steady.StateClosed, b.State())
			assert.Zero(t, b.Stats().Calls)
			assert.Zero(t, b.Stats().InFlight)
		})
	}
}

// cep21/circuit#159: a slow success that was started before the opening closed the breaker at once.
func TestASlowSuccessFromBeforeTheOpeningDoesNotClose(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	slow := allow(t, b)
	openByFailures(t, b)
	mock.Add(3 * time.Second)
	slow.Done(steady.Success)
	assert.Equal(t, steady.StateOpen, b.State())
	requireRejected(t, b)
}

// failsafe-go (seen): outcomes from before the opening made five probe permits of three.
func TestStaleOutcomesFreeNoProbes(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{HalfOpenProbes: 3})
	stale := []steady.Permit{allow(t, b), allow(t, b)}
	openByFailures(t, b)
	mock.Add(10 * time.Second)
	for range 3 {
		allow(t, b)
	}
	for _, p := range stale {
		p.Done(steady.Ignored)
		requireRejected(t, b)
	}
}

// Polly#218: several opened events were raised for one open period.
func TestOneOpenPeriodIsOneTransition(t *testing.T) {
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{Hooks: seen.hooks()})
	permits := make([]steady.Permit, 40)
	for i := range permits {
		permits[i] = allow(t, b)
	}
	for _, p := range permits {
		p.Done(steady.Transient)
		mock.Add(time.Millisecond)
	}
	assert.Equal(t, []steady.Reason{steady.ReasonFailureRate}, seen.reasons())
	assert.EqualValues(t, 1, b.Stats().Transitions)
	assert.Equal(t, 10, b.Stats().Calls, "the rest came after the decision")
}

// baseplate.go#697, failsafe-go#142, failsafe-lib#70: a fleet of breakers went half-open in step.
func TestAFleetDoesNotGoHalfOpenInStep(t *testing.T) {
	var soonest, latest time.Duration = math.MaxInt64, 0
	for range 200 {
		var seen transitions
		b, _ := newBreaker(t, steady.BreakerConfig{OpenJitter: 0.2, MinCalls: 1, Hooks: seen.hooks()})
		openByFailures(t, b)
		period := heard(t, &seen, 0).OpenFor
		soonest, latest = min(soonest, period), max(latest, period)
	}
	assert.GreaterOrEqual(t, soonest, 10*time.Second)
	assert.LessOrEqual(t, latest, 12*time.Second)
	assert.Less(t, soonest, 10500*time.Millisecond, "two hundred are spread over the two seconds")
	assert.Greater(t, latest, 11500*time.Millisecond)
}

// resilience4j#671, Polly#653, #1895: the open period should grow while probes keep failing.
func TestTheOpenPeriodDoublesUntilTheBreakerCloses(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{
		HalfOpenProbes: 1, OpenDuration: time.Second, MaxOpenDuration: 5 * time.Second,
	})
	period := func() time.Duration {
		d := b.Stats().OpenUntil.Sub(mock.Now())
		mock.Add(d)
		return d
	}
	openByFailures(t, b)
	for _, want := range []time.Duration{1, 2, 4, 5, 5} {
		require.Equal(t, want*time.Second, period())
		allow(t, b).Done(steady.Transient)
	}
	period()
	allow(t, b).Done(steady.Success)
	openByFailures(t, b)
	assert.Equal(t, time.Second, period())
}

// resilience4j (seen): a wait function that threw left the breaker closed, and unable to open.
func TestARandomSourceThatPanicsStillOpensTheBreaker(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{
		MinCalls: 1, HalfOpenProbes: 1, Rand: func() float64 { panic("no entropy") },
	})
	failing := allow(t, b)
	assert.PanicsWithValue(t, "no entropy", func() { failing.Done(steady.Transient) })
	assert.Equal(t, steady.StateOpen, b.State())
	assert.Equal(t, 10*time.Second, b.Stats().OpenUntil.Sub(mock.Now()))
	mock.Add(10 * time.Second)
	allow(t, b).Done(steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())

	for _, nonsense := range []float64{-1, 1, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)} {
		b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 1, Rand: func() float64 { return nonsense }})
		openByFailures(t, b)
		assert.Equal(t, 10*time.Second, b.Stats().OpenUntil.Sub(mock.Now()), "%v counts as 0", nonsense)
	}
}

// gobreaker#37, #119: asking for the state inside the callback deadlocked.
func TestAHookMayUseItsBreaker(t *testing.T) {
	var b *steady.Breaker
	var states []steady.State
	b, _ = newBreaker(t, steady.BreakerConfig{Hooks: &steady.Hooks{
		OnTransition: func(tr steady.Transition) {
			states = append(states, tr.To)
			assert.Equal(t, tr.To, b.State())
			assert.Equal(t, tr.To, b.Stats().State)
			if tr.To == steady.StateOpen {
				_, err := b.Allow()
				assert.ErrorIs(t, err, steady.ErrBreakerOpen)
				b.Reset("by the hook")
				allow(t, b).Done(steady.Success)
			}
		},
		OnReject: func(context.Context, steady.Rejection) { assert.Equal(t, steady.StateOpen, b.State()) },
	}})
	for range 10 {
		allow(t, b).Done(steady.Transient)
	}
	assert.Equal(t, []steady.State{steady.StateOpen, steady.StateClosed}, states)
}

// failsafe-go (seen): a panic in a listener crashed the process, beyond recovery.
func TestAPanicInAHookReachesTheCallerAndBreaksNothing(t *testing.T) {
	var told atomic.Int64
	b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 1, HalfOpenProbes: 1, Hooks: &steady.Hooks{
		OnTransition: func(steady.Transition) {
			told.Add(1)
			panic("hook")
		},
	}})
	failing := allow(t, b)
	assert.PanicsWithValue(t, "hook", func() { failing.Done(steady.Transient) })
	assert.Equal(t, steady.StateOpen, b.State())

	mock.Add(10 * time.Second)
	assert.PanicsWithValue(t, "hook", func() { _, _ = b.Allow() })
	probe := allow(t, b) // the one that the hook ended has been given back
	assert.PanicsWithValue(t, "hook", func() { probe.Done(steady.Success) })
	assert.Equal(t, steady.StateClosed, b.State())
	assert.EqualValues(t, 3, told.Load())
	assert.Zero(t, b.Stats().InFlight)
}

// resilience4j#991: a timer of the open period fired after the user had forced the state.
func TestNothingOverridesAForcedState(t *testing.T) {
	force := map[steady.State]func(*steady.Breaker){
		steady.StateForcedOpen:   func(b *steady.Breaker) { b.ForceOpen("maintenance") },
		steady.StateForcedClosed: func(b *steady.Breaker) { b.ForceClosed("emergency") },
		steady.StateClosed:       func(b *steady.Breaker) { b.Reset("mended") },
	}
	for want, force := range force {
		t.Run(want.String(), func(t *testing.T) {
			goroutines := runtime.NumGoroutine()
			b, mock := newBreaker(t, steady.BreakerConfig{})
			stale := allow(t, b)
			openByFailures(t, b)
			mock.Add(5 * time.Second)
			force(b)
			mock.Add(5 * time.Second) // the open period would end
			assert.Equal(t, want, b.State())
			stale.Done(steady.Transient)
			mock.Add(time.Hour)
			assert.Equal(t, want, b.State())
			assert.EqualValues(t, 2, b.Stats().Transitions)
			assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
		})
	}
}

// gobreaker#72: by the time the callback saw the counts they were zero.
func TestATransitionTellsTheCountsThatDecided(t *testing.T) {
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{Hooks: seen.hooks(), HalfOpenProbes: 1})
	call(t, b, mock, 4, 0, steady.Success)
	call(t, b, mock, 6, 0, steady.Transient)
	opened := heard(t, &seen, 0)
	assert.Equal(t, 10, opened.Window.Calls)
	assert.Equal(t, 6, opened.Window.Failures)
	assert.Equal(t, 0.6, opened.Window.FailureRate)
	assert.Equal(t, steady.StateClosed, opened.Window.State)

	b.Reset("mended")
	assert.Equal(t, 6, heard(t, &seen, 1).Window.Failures, "before the reset")
	assert.Zero(t, b.Stats().Failures)
}

// failsafe-go#46: there was no initial state for a dashboard.
func TestStatsAnswerBeforeTheFirstCall(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{Name: "catalog"})
	assert.Equal(t, steady.BreakerStats{Name: "catalog", State: steady.StateClosed, Since: mock.Now()}, b.Stats())
	assert.Equal(t, steady.StateClosed, b.State())
}

// gobreaker#88, #85: a way to trip the breaker by hand was asked for.
func TestABreakerCanBeTrippedByHand(t *testing.T) {
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{Hooks: seen.hooks()})
	p := pipeline(t, b)
	b.ForceOpen("database upgrade")
	mock.Add(24 * time.Hour)
	_, err := p.Do(t.Context(), mustNotRun(t))
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	var rejected *steady.RejectedError
	require.ErrorAs(t, err, &rejected)
	assert.Zero(t, rejected.RetryAfter(), "nobody can know")

	b.Reset("done")
	_, err = p.Do(t.Context(), returns(1, nil))
	require.NoError(t, err)
	assert.Equal(t, []steady.Reason{steady.ReasonManual, steady.ReasonManual}, seen.reasons())
	assert.Equal(t, "database upgrade", heard(t, &seen, 0).Detail)
}
