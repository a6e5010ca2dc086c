package steady_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// The stories that the library is for.

func TestTenSlowSuccessesOpenTheBreakerAndTheEleventhCallDoesNotRun(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond})
	p := pipelineOn(t, mock, b)
	for range 10 {
		v, err := p.Do(context.Background(), func(context.Context) (int, error) {
			mock.Add(800 * time.Millisecond)
			return 200, nil
		})
		require.NoError(t, err)
		require.Equal(t, 200, v)
	}

	_, err := p.Do(context.Background(), func(context.Context) (int, error) {
		t.Error("the eleventh call ran")
		return 0, nil
	})

	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	assert.Zero(t, b.Stats().Failures, "there was no error to count")
}

func TestThreeFastProbesCloseTheBreakerAfterTheOpenPeriod(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{OpenDuration: 10 * time.Second})
	call(t, b, mock, 10, 800*time.Millisecond, steady.Success)
	require.Equal(t, steady.StateOpen, b.State())

	mock.Add(10 * time.Second)
	for range 3 {
		require.Equal(t, steady.StateHalfOpen, b.State())
		call(t, b, mock, 1, 50*time.Millisecond, steady.Success)
	}

	assert.Equal(t, steady.StateClosed, b.State())
	assert.Zero(t, b.Stats().Calls, "it begins with an empty window")
}

func TestOneProbeThatSucceedsInThreeSecondsOpensTheBreakerAgain(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	call(t, b, mock, 10, 800*time.Millisecond, steady.Success)
	mock.Add(10 * time.Second)

	call(t, b, mock, 1, 3*time.Second, steady.Success)

	assert.Equal(t, steady.StateOpen, b.State())
}

func TestOneSlowCallAmongFastOnesOpensNothing(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	call(t, b, mock, 10, 50*time.Millisecond, steady.Success)
	call(t, b, mock, 1, 3*time.Second, steady.Success)
	call(t, b, mock, 10, 50*time.Millisecond, steady.Success)

	stats := b.Stats()
	assert.Equal(t, steady.StateClosed, stats.State)
	assert.Equal(t, 1, stats.Slow)
}

func TestADependencyThatNeverAnswersIsEndedByTheTimeoutAndCountsAsFailedAndSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond}))
		p := pipeline(t, steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "catalog", Limit: 2 * time.Second})), b)

		_, err := p.Do(context.Background(), func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})

		require.ErrorIs(t, err, steady.ErrTimeout)
		stats := b.Stats()
		assert.Equal(t, []int{1, 1, 1}, []int{stats.Calls, stats.Failures, stats.Slow})
	})
}

func TestACallInFlightWhenTheBreakerOpensChangesNothingWhenItReturns(t *testing.T) {
	for _, o := range []steady.Outcome{steady.Success, steady.Transient, steady.Ignored} {
		b, mock := newBreaker(t, steady.BreakerConfig{})
		late := allow(t, b)
		call(t, b, mock, 10, 0, steady.Transient)
		before := b.Stats()
		require.Equal(t, steady.StateOpen, before.State)

		late.Done(o)

		after := b.Stats()
		after.InFlight, after.Totals = before.InFlight, before.Totals
		assert.Equal(t, before, after)
	}
}

func TestTwentyHangingCallsOpenTheBreakerAtTheThresholdLongBeforeAnyAnswers(t *testing.T) {
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond, Hooks: seen.hooks()})
	began := mock.Now()
	var permits []steady.Permit
	for range 20 {
		permits = append(permits, allow(t, b))
	}
	mock.Add(8 * time.Second) // nobody has looked, and nothing has answered

	_, err := b.Allow()

	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	require.Len(t, seen.list(), 1)
	opened := seen.list()[0]
	assert.Equal(t, began.Add(500*time.Millisecond), opened.At, "it opened when it became true, not when it was noticed")
	assert.Equal(t, steady.ReasonSlowRate, opened.Reason)
	assert.Equal(t, 10, opened.Window.Calls, "the tenth overdue call decided")
	for _, p := range permits {
		p.Done(steady.Success)
	}
	assert.Equal(t, steady.StateOpen, b.State())
}

// pipelineOn is pipeline on the mock clock.
func pipelineOn(t testing.TB, mock *clock.Mock, policies ...steady.Policy) *steady.Pipeline[int] {
	t.Helper()
	p, err := steady.NewPipeline(steady.PipelineConfig[int]{Policies: policies, Clock: mock})
	require.NoError(t, err)
	return p
}

// What decides.

func TestTheBreakerDecidesAfterEveryOutcomeSuccessesToo(t *testing.T) { // W3
	b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 10})
	call(t, b, mock, 9, 0, steady.Transient)
	require.Equal(t, steady.StateClosed, b.State(), "nine are not enough")

	call(t, b, mock, 1, 0, steady.Success)

	assert.Equal(t, steady.StateOpen, b.State())
}

func TestARateThatEqualsTheLimitOpens(t *testing.T) { // W3
	for _, tt := range []struct {
		name           string
		failed, slow   int
		want           steady.State
		reasonIfOpened steady.Reason
	}{
		{"failures just below", 4, 0, steady.StateClosed, 0},
		{"failures equal", 5, 0, steady.StateOpen, steady.ReasonFailureRate},
		{"slow just below", 0, 4, steady.StateClosed, 0},
		{"slow equal", 0, 5, steady.StateOpen, steady.ReasonSlowRate},
		{"never added", 4, 4, steady.StateClosed, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen transitions
			b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 10, WindowSize: 10, Hooks: seen.hooks()})
			call(t, b, mock, tt.slow, 500*time.Millisecond, steady.Success)
			call(t, b, mock, tt.failed, 0, steady.Transient)
			call(t, b, mock, 10-tt.slow-tt.failed, 0, steady.Success)
			assert.Equal(t, tt.want, b.State())
			if tt.reasonIfOpened != 0 {
				assert.Equal(t, []steady.Reason{tt.reasonIfOpened}, seen.reasons())
			}
		})
	}
}

func TestTheRateIsTheQuotientUnrounded(t *testing.T) { // W3
	b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 400, MinCalls: 400})
	call(t, b, mock, 199, 0, steady.Transient)
	call(t, b, mock, 201, 0, steady.Success)
	assert.Equal(t, steady.StateClosed, b.State(), "199 of 400 is less than a half")

	third, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 3, MinCalls: 3, FailureRate: 1.0 / 3})
	call(t, third, mock, 1, 0, steady.Transient)
	call(t, third, mock, 2, 0, steady.Success)
	assert.Equal(t, steady.StateOpen, third.State())
}

func TestSlowMeansTheThresholdOrLonger(t *testing.T) { // W4
	b, mock := newBreaker(t, steady.BreakerConfig{SlowThreshold: time.Second})
	call(t, b, mock, 1, time.Second-1, steady.Success)
	assert.Equal(t, 0, b.Stats().Slow)
	call(t, b, mock, 1, time.Second, steady.Success)
	assert.Equal(t, 1, b.Stats().Slow)
	call(t, b, mock, 1, time.Second, steady.Transient)
	stats := b.Stats()
	assert.Equal(t, []int{3, 1, 2}, []int{stats.Calls, stats.Failures, stats.Slow}, "failed and slow counts in both")
}

func TestAgeingDropsOutcomesAndAloneNeverDecides(t *testing.T) { // W2, W5
	b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 100, WindowAge: time.Minute, MinCalls: 4, FailureRate: 0.5})
	call(t, b, mock, 3, 0, steady.Success)
	mock.Add(time.Second)
	call(t, b, mock, 2, 0, steady.Transient)
	require.Equal(t, steady.StateClosed, b.State())

	mock.Add(time.Minute - time.Second)
	require.Equal(t, 5, b.Stats().Calls, "an outcome as old as the limit still counts")
	mock.Add(1)
	stats := b.Stats()
	assert.Equal(t, 2, stats.Calls)
	assert.Equal(t, 1.0, stats.FailureRate)
	assert.False(t, stats.Deciding)
	assert.Equal(t, steady.StateClosed, stats.State)

	mock.Add(time.Second) // the failures are as old as the limit: dropping comes first, and leaves nothing
	call(t, b, mock, 4, 0, steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
	assert.Equal(t, 0, b.Stats().Failures)
}

func TestAnOutcomeIsAsOldAsItsCompletion(t *testing.T) { // W1
	b, mock := newBreaker(t, steady.BreakerConfig{WindowAge: time.Second, SlowThreshold: time.Hour})
	call(t, b, mock, 1, time.Minute, steady.Transient)
	assert.Equal(t, 1, b.Stats().Failures)
}

func TestIgnoredAndThrottledCallsCountOnlyWhenTheyAreSlow(t *testing.T) { // O3
	for _, o := range []steady.Outcome{steady.Ignored, steady.Throttled} {
		b, mock := newBreaker(t, steady.BreakerConfig{})
		call(t, b, mock, 5, 100*time.Millisecond, o)
		assert.Zero(t, b.Stats().Calls)
		call(t, b, mock, 1, 500*time.Millisecond, o)
		stats := b.Stats()
		assert.Equal(t, []int{1, 0, 1}, []int{stats.Calls, stats.Failures, stats.Slow})
	}
}

func TestAnUnknownOutcomeCountsAsTransient(t *testing.T) {
	b, _ := newBreaker(t, steady.BreakerConfig{})
	allow(t, b).Done(steady.Outcome(42))
	assert.Equal(t, 1, b.Stats().Failures)
}

// Generations.

func TestAnOutcomeOfAnotherGenerationIsDroppedInEveryState(t *testing.T) { // B1
	into := map[string]func(*steady.Breaker, *clock.Mock){
		"open": func(b *steady.Breaker, mock *clock.Mock) { call(t, b, mock, 10, 0, steady.Transient) },
		"half-open": func(b *steady.Breaker, mock *clock.Mock) {
			call(t, b, mock, 10, 0, steady.Transient)
			mock.Add(10 * time.Second)
			allow(t, b).Done(steady.Ignored) // makes the transition, and gives the probe back
		},
		"closed again": func(b *steady.Breaker, mock *clock.Mock) {
			call(t, b, mock, 10, 0, steady.Transient)
			mock.Add(10 * time.Second)
			call(t, b, mock, 3, 0, steady.Success)
		},
		"forced open":   func(b *steady.Breaker, _ *clock.Mock) { b.ForceOpen("test") },
		"forced closed": func(b *steady.Breaker, _ *clock.Mock) { b.ForceClosed("test") },
		"reset":         func(b *steady.Breaker, _ *clock.Mock) { b.Reset("test") },
	}
	for name, enter := range into {
		for _, o := range []steady.Outcome{steady.Success, steady.Transient} {
			t.Run(name+" "+o.String(), func(t *testing.T) {
				b, mock := newBreaker(t, steady.BreakerConfig{SlowThreshold: time.Hour})
				var stale []steady.Permit
				for range 20 {
					stale = append(stale, allow(t, b))
				}
				enter(b, mock)
				before := b.Stats()

				for _, p := range stale {
					p.Done(o)
				}

				after := b.Stats()
				assert.Equal(t, 20, before.InFlight-after.InFlight)
				after.InFlight = before.InFlight
				after.Totals = before.Totals // which count every call
				assert.Equal(t, before, after)
			})
		}
	}
}

func TestAStaleOutcomeFreesNoProbeThatIsNotItsOwn(t *testing.T) { // B1
	b, mock := newBreaker(t, steady.BreakerConfig{SlowThreshold: time.Hour, HalfOpenProbes: 3})
	stale := []steady.Permit{allow(t, b), allow(t, b)}
	call(t, b, mock, 10, 0, steady.Transient)
	mock.Add(10 * time.Second)
	for range 3 {
		allow(t, b)
	}
	for _, p := range stale {
		p.Done(steady.Ignored)
	}
	_, err := b.Allow()
	assert.ErrorIs(t, err, steady.ErrBreakerOpen)
}

func TestAnOverdueCallOfAnotherGenerationIsOverdueButNoEvidence(t *testing.T) { // B1, B7
	b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 1, WindowSize: 1})
	p := allow(t, b)
	b.Reset("test")
	mock.Add(time.Second)
	stats := b.Stats()
	assert.Equal(t, steady.StateClosed, stats.State)
	assert.Equal(t, []int{0, 1, 1}, []int{stats.Calls, stats.InFlight, stats.Overdue})
	p.Done(steady.Success)
	stats = b.Stats()
	assert.Equal(t, []int{0, 0, 0}, []int{stats.Calls, stats.InFlight, stats.Overdue})
}

// Opening.

func TestAnOpenPeriodIsStretchedByTheJitter(t *testing.T) { // B9
	for _, tt := range []struct {
		rand float64
		want time.Duration
	}{{0, 10 * time.Second}, {0.5, 11 * time.Second}, {0.75, 11500 * time.Millisecond}} {
		var seen transitions
		b, mock := newBreaker(t, steady.BreakerConfig{
			OpenJitter: 0.2, Rand: func() float64 { return tt.rand }, Hooks: seen.hooks(),
		})
		call(t, b, mock, 10, 0, steady.Transient)
		assert.Equal(t, tt.want, seen.list()[0].OpenFor)
		assert.Equal(t, mock.Now().Add(tt.want), b.Stats().OpenUntil)
		mock.Add(tt.want - 1)
		assert.Equal(t, steady.StateOpen, b.State())
		mock.Add(1)
		assert.Equal(t, steady.StateHalfOpen, b.State())
	}
}

func TestAnOpenPeriodAtTheEndOfTimeStaysThere(t *testing.T) { // B9
	for _, period := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1024, 1<<62 + 1<<61} {
		var seen transitions
		b, mock := newBreaker(t, steady.BreakerConfig{
			OpenDuration: period, OpenJitter: 1, Rand: func() float64 { return 0.5 }, Hooks: seen.hooks(),
		})
		call(t, b, mock, 10, 0, steady.Transient)
		assert.Equal(t, time.Duration(math.MaxInt64), seen.list()[0].OpenFor)
		mock.Add(1000 * time.Hour)
		assert.Equal(t, steady.StateOpen, b.State())
	}
}

func TestOpenPeriodsAreSpreadWithoutARandOfTheCallers(t *testing.T) { // B9
	periods := make(map[time.Duration]bool)
	for range 20 {
		var seen transitions
		b, mock := newBreaker(t, steady.BreakerConfig{OpenJitter: 0.2, Hooks: seen.hooks()})
		call(t, b, mock, 10, 0, steady.Transient)
		period := seen.list()[0].OpenFor
		assert.GreaterOrEqual(t, period, 10*time.Second)
		assert.LessOrEqual(t, period, 12*time.Second)
		periods[period] = true
	}
	assert.Greater(t, len(periods), 10)
}

func TestReopeningDoublesThePeriodUntilACloseResetsIt(t *testing.T) { // B9
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{
		OpenDuration: time.Second, MaxOpenDuration: 5 * time.Second, HalfOpenProbes: 1, Hooks: seen.hooks(),
	})
	var periods []time.Duration
	reopen := func() {
		opened := seen.list()[len(seen.list())-1]
		periods = append(periods, opened.OpenFor)
		mock.Add(opened.OpenFor)
	}
	call(t, b, mock, 10, 0, steady.Transient)
	for range 4 {
		reopen()
		call(t, b, mock, 1, 0, steady.Transient)
	}
	reopen()
	call(t, b, mock, 1, 0, steady.Success)
	require.Equal(t, steady.StateClosed, b.State())
	call(t, b, mock, 10, 0, steady.Transient)
	reopen()

	assert.Equal(t, []time.Duration{1e9, 2e9, 4e9, 5e9, 5e9, 1e9}, periods)
}

func TestARandOutsideItsRangeCountsAsZero(t *testing.T) { // B2
	for _, r := range []float64{-1, 1, 7, math.NaN(), math.Inf(1)} {
		b, mock := newBreaker(t, steady.BreakerConfig{OpenJitter: 1, Rand: func() float64 { return r }})
		call(t, b, mock, 10, 0, steady.Transient)
		assert.Equal(t, mock.Now().Add(10*time.Second), b.Stats().OpenUntil)
	}
}

func TestAPanickingRandLeavesThePeriodWithoutJitterAndThePanicGoesOn(t *testing.T) { // B2
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{
		OpenJitter: 1, Rand: func() float64 { panic("no luck") }, Hooks: seen.hooks(),
	})
	call(t, b, mock, 9, 0, steady.Transient)
	p := allow(t, b)

	assert.PanicsWithValue(t, "no luck", func() { p.Done(steady.Transient) })

	stats := b.Stats()
	assert.Equal(t, steady.StateOpen, stats.State)
	assert.Equal(t, mock.Now().Add(10*time.Second), stats.OpenUntil)
	assert.Equal(t, 0, stats.InFlight)
	assert.Equal(t, []steady.Reason{steady.ReasonFailureRate}, seen.reasons())
}

func TestRandMayUseTheBreaker(t *testing.T) { // B2: no lock is held
	var b *steady.Breaker
	asked := 0
	b, mock := newBreaker(t, steady.BreakerConfig{OpenJitter: 1, Rand: func() float64 {
		asked++
		_, err := b.Allow()
		assert.ErrorIs(t, err, steady.ErrBreakerOpen)
		return 0.5
	}})
	call(t, b, mock, 10, 0, steady.Transient)
	assert.Equal(t, 1, asked)
	stats := b.Stats()
	assert.EqualValues(t, 1, stats.Transitions)
	assert.WithinRange(t, stats.OpenUntil, mock.Now().Add(10*time.Second), mock.Now().Add(20*time.Second))
}

func TestAnOpenBreakerKeepsTheNumbersThatOpenedIt(t *testing.T) { // B15
	b, mock := newBreaker(t, steady.BreakerConfig{WindowAge: time.Second})
	call(t, b, mock, 4, 0, steady.Success)
	call(t, b, mock, 6, 0, steady.Transient)
	mock.Add(9 * time.Second)
	stats := b.Stats()
	assert.Equal(t, []int{10, 6}, []int{stats.Calls, stats.Failures})
	assert.Equal(t, 0.6, stats.FailureRate)

	mock.Add(time.Second)
	call(t, b, mock, 1, 0, steady.Success)
	assert.Zero(t, b.Stats().Calls, "and empties the window after; probes are not recorded in it")
}

// Half-open.

// halfOpen returns a breaker whose open period has just ended.
func halfOpen(t testing.TB, cfg steady.BreakerConfig) (*steady.Breaker, *clock.Mock) {
	t.Helper()
	b, mock := newBreaker(t, cfg)
	call(t, b, mock, b.Config().MinCalls, 0, steady.Transient)
	require.Equal(t, steady.StateOpen, b.State())
	mock.Add(b.Config().OpenDuration)
	return b, mock
}

func TestTheCallThatEndsTheOpenPeriodIsTheFirstProbe(t *testing.T) { // B4
	var seen transitions
	b, mock := halfOpen(t, steady.BreakerConfig{HalfOpenProbes: 1, Hooks: seen.hooks()})
	ended := mock.Now()
	mock.Add(time.Second)
	assert.Equal(t, steady.StateHalfOpen, b.State(), "by the clock, traffic or not")
	assert.Equal(t, ended, b.Stats().Since)
	assert.Zero(t, b.Stats().OpenUntil)
	assert.Len(t, seen.list(), 1, "the transition waits for a caller, and looking is none")

	allow(t, b)

	require.Len(t, seen.list(), 2)
	assert.Equal(t, steady.ReasonOpenElapsed, seen.list()[1].Reason)
	assert.Equal(t, mock.Now(), seen.list()[1].At)
	assert.Equal(t, ended, b.Stats().Since)
	_, err := b.Allow()
	assert.ErrorIs(t, err, steady.ErrBreakerOpen, "it was the only probe")
}

func TestNeverMoreProbesThanConfigured(t *testing.T) { // B4, B5
	b, _ := halfOpen(t, steady.BreakerConfig{HalfOpenProbes: 3})
	var wg sync.WaitGroup
	var mu sync.Mutex
	var permits []steady.Permit
	for range 50 {
		wg.Go(func() {
			if p, err := b.Allow(); err == nil {
				mu.Lock()
				permits = append(permits, p)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, permits, 3)

	permits[0].Done(steady.Success)
	_, err := b.Allow()
	assert.Error(t, err, "a probe that succeeded is not given to another")
	permits[1].Done(steady.Throttled)
	again := allow(t, b)
	permits[2].Done(steady.Success)
	assert.Equal(t, steady.StateHalfOpen, b.State())
	again.Done(steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
}

func TestTheFirstFailedProbeOpensAgain(t *testing.T) { // B5
	for _, o := range []steady.Outcome{steady.Transient, steady.Unsent, steady.Permanent} {
		var seen transitions
		b, mock := halfOpen(t, steady.BreakerConfig{Hooks: seen.hooks()})
		call(t, b, mock, 2, 0, steady.Success)
		call(t, b, mock, 1, 0, o)
		assert.Equal(t, steady.StateOpen, b.State())
		assert.Equal(t, steady.ReasonProbeFailed, seen.list()[2].Reason)
	}
}

func TestASlowProbeOpensAgainWhileItRunsWhateverItsOutcome(t *testing.T) { // B5, B7, O3
	for _, o := range []steady.Outcome{steady.Success, steady.Ignored, steady.Throttled} {
		var seen transitions
		b, mock := halfOpen(t, steady.BreakerConfig{Hooks: seen.hooks()})
		p := allow(t, b)
		began := mock.Now()
		mock.Add(500 * time.Millisecond)
		assert.Equal(t, steady.StateOpen, b.State())
		mock.Add(time.Second)
		p.Done(o)
		last := seen.list()[len(seen.list())-1]
		assert.Equal(t, steady.ReasonProbeSlow, last.Reason)
		assert.Equal(t, began.Add(500*time.Millisecond), last.At)
	}
}

func TestAProbeThatRunsForProbeTimeoutHasFailed(t *testing.T) { // B6
	var seen transitions
	b, mock := halfOpen(t, steady.BreakerConfig{NoSlowCalls: true, ProbeTimeout: 3 * time.Second, Hooks: seen.hooks()})
	began := mock.Now()
	allow(t, b) // whose Done is forgotten
	mock.Add(3*time.Second - 1)
	require.Equal(t, steady.StateHalfOpen, b.State())

	mock.Add(time.Minute)

	require.Equal(t, steady.StateHalfOpen, b.State(), "it opened, and that period has ended too")
	last := seen.list()[len(seen.list())-1]
	assert.Equal(t, steady.ReasonProbeTimeout, last.Reason)
	assert.Equal(t, began.Add(3*time.Second), last.At)
	call(t, b, mock, 3, 0, steady.Success)
	assert.Equal(t, steady.StateClosed, b.State(), "it is not stuck")
	assert.Equal(t, 1, b.Stats().InFlight)
}

func TestTheEarlierOfSlowAndProbeTimeoutGivesTheReason(t *testing.T) { // B6
	for _, tt := range []struct {
		timeout time.Duration
		want    steady.Reason
	}{
		{499 * time.Millisecond, steady.ReasonProbeTimeout},
		{500 * time.Millisecond, steady.ReasonProbeSlow},
		{501 * time.Millisecond, steady.ReasonProbeSlow},
	} {
		var seen transitions
		b, mock := halfOpen(t, steady.BreakerConfig{ProbeTimeout: tt.timeout, Hooks: seen.hooks()})
		allow(t, b)
		mock.Add(time.Second)
		require.Equal(t, steady.StateOpen, b.State())
		assert.Equal(t, tt.want, seen.list()[2].Reason)
	}
}

func TestAProbeThatDoesNotReachTheFunctionInTimeIsGivenBack(t *testing.T) { // B6
	b, mock := halfOpen(t, steady.BreakerConfig{HalfOpenProbes: 1, ProbeTimeout: time.Second})
	var inner error
	hold := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		mock.Add(time.Second)
		inner = steadyProbe(b) // another caller gets the probe
		return next(ctx)       // and this one comes too late
	})
	p := pipelineOn(t, mock, b, hold)
	_, err := p.Do(context.Background(), returns(0, errBoom))
	require.ErrorIs(t, err, errBoom)
	require.NoError(t, inner)
	assert.Equal(t, steady.StateClosed, b.State(), "the late failure counts for nothing")
}

// steadyProbe makes one successful call.
func steadyProbe(b *steady.Breaker) error {
	p, err := b.Allow()
	p.Done(steady.Success)
	return err
}

func TestNoWayOutOfAProbeLeavesTheBreakerStuck(t *testing.T) { // B6
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	full := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))
	slot, err := full.Acquire(context.Background())
	require.NoError(t, err)
	defer slot.Release()
	for name, leave := range map[string]func(*testing.T, *steady.Breaker, *clock.Mock){
		"panic": func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
			p := pipelineOn(t, mock, b)
			assert.Panics(t, func() {
				_, _ = p.Do(context.Background(), func(context.Context) (int, error) { panic("boom") })
			})
			mock.Add(time.Minute)
		},
		"goexit": func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
			p := pipelineOn(t, mock, b)
			var wg sync.WaitGroup
			wg.Go(func() {
				_, _ = p.Do(context.Background(), func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
			})
			wg.Wait()
			mock.Add(time.Minute)
		},
		"cancelled before": func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
			_, err := pipelineOn(t, mock, b).Do(cancelled, returns(0, nil))
			assert.ErrorIs(t, err, context.Canceled)
		},
		"cancelled inside": func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
			ctx, cancel := context.WithCancel(context.Background())
			_, err := pipelineOn(t, mock, b).Do(ctx, func(context.Context) (int, error) { cancel(); return 0, errBoom })
			assert.ErrorIs(t, err, errBoom)
		},
		"rejected further in": func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
			_, err := pipelineOn(t, mock, b, full).Do(context.Background(), returns(0, nil))
			assert.ErrorIs(t, err, steady.ErrBulkheadFull)
		},
		"middleware that calls nothing": func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
			skip := steady.Middleware(func(context.Context, func(context.Context) error) error { return errBoom })
			_, err := pipelineOn(t, mock, b, skip).Do(context.Background(), returns(0, nil))
			assert.ErrorIs(t, err, errBoom)
		},
		"forgotten": func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
			allow(t, b)
			mock.Add(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, mock := halfOpen(t, steady.BreakerConfig{HalfOpenProbes: 1})
			leave(t, b, mock)
			require.Equal(t, steady.StateHalfOpen, b.State())
			require.NoError(t, steadyProbe(b))
			assert.Equal(t, steady.StateClosed, b.State())
		})
	}
}

func TestMinCallsPlaysNoPartInHalfOpen(t *testing.T) { // B5
	b, mock := halfOpen(t, steady.BreakerConfig{MinCalls: 20, HalfOpenProbes: 1})
	call(t, b, mock, 1, 0, steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
}

// Evidence in flight.

func TestAnOverdueCallCountsOnceWhateverBecomesOfIt(t *testing.T) { // B7
	for _, look := range []bool{false, true} {
		for _, o := range []steady.Outcome{steady.Success, steady.Transient, steady.Ignored, steady.Throttled} {
			b, mock := newBreaker(t, steady.BreakerConfig{})
			p := allow(t, b)
			mock.Add(time.Second)
			if look {
				stats := b.Stats()
				require.Equal(t, []int{1, 0, 1, 1, 1}, []int{stats.Calls, stats.Failures, stats.Slow, stats.InFlight, stats.Overdue})
			}
			p.Done(o)
			p.Done(steady.Transient)
			failures := 0
			if o == steady.Transient {
				failures = 1
			}
			stats := b.Stats()
			assert.Equal(t, []int{1, failures, 1, 0, 0}, []int{stats.Calls, stats.Failures, stats.Slow, stats.InFlight, stats.Overdue})
		}
	}
}

func TestALateFailureIsAddedToTheSameOutcomeAndDecides(t *testing.T) { // B7
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 4, WindowSize: 4, SlowRate: 1, Hooks: seen.hooks()})
	p := allow(t, b)
	mock.Add(time.Second)
	call(t, b, mock, 2, 0, steady.Success)
	call(t, b, mock, 1, 0, steady.Transient)
	require.Equal(t, steady.StateClosed, b.State())
	mock.Add(time.Second)

	p.Done(steady.Transient)

	require.Equal(t, []steady.Reason{steady.ReasonFailureRate}, seen.reasons())
	assert.Equal(t, mock.Now(), seen.list()[0].At)
	assert.Equal(t, []int{4, 2, 1}, []int{seen.list()[0].Window.Calls, seen.list()[0].Window.Failures, seen.list()[0].Window.Slow})
}

func TestALateFailureWhoseOutcomeHasLeftTheWindowIsDropped(t *testing.T) { // B7
	b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 2, WindowSize: 2, SlowRate: 1})
	p := allow(t, b)
	mock.Add(time.Second)
	call(t, b, mock, 2, 0, steady.Success)
	p.Done(steady.Transient)
	stats := b.Stats()
	assert.Equal(t, []int{2, 0, 0}, []int{stats.Calls, stats.Failures, stats.Slow})
}

func TestWhatHappenedDoesNotDependOnWhoLooked(t *testing.T) { // B7
	run := func(look func(*steady.Breaker)) []steady.Transition {
		var seen transitions
		b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 3, WindowSize: 5, OpenDuration: time.Second, Hooks: seen.hooks()})
		step := func(d time.Duration) {
			for range 10 {
				mock.Add(d / 10)
				look(b)
			}
		}
		call(t, b, mock, 2, 0, steady.Success)
		slow := []steady.Permit{allow(t, b)}
		step(200 * time.Millisecond)
		slow = append(slow, allow(t, b))
		step(400 * time.Millisecond) // the first one is due at 500 ms, the second at 700 ms
		call(t, b, mock, 1, 0, steady.Success)
		slow = append(slow, allow(t, b))
		step(time.Second)
		_, err := b.Allow() // opened at 1100 ms, by the third, until 2100 ms
		require.Error(t, err)
		step(time.Second)
		slow = append(slow, allow(t, b)) // a probe
		step(time.Second)                // overdue: open again
		for _, p := range slow {
			p.Done(steady.Success)
		}
		step(2 * time.Second)
		call(t, b, mock, 3, 0, steady.Success)
		return seen.list()
	}
	unseen := run(func(*steady.Breaker) {})
	seen := run(func(b *steady.Breaker) { b.State(); b.Stats() })
	require.Len(t, unseen, 5)
	assert.Equal(t, steady.ReasonSlowRate, unseen[0].Reason)
	assert.Equal(t, time.Unix(0, 0).Add(1100*time.Millisecond), unseen[0].At)
	require.Len(t, seen, len(unseen))
	for i := range seen {
		assert.Equal(t, unseen[i].String(), seen[i].String())
		assert.Equal(t, unseen[i].At, seen[i].At)
	}
}

func TestTheFinishOfOneCallBringsInTheOverdueOnesBeforeIt(t *testing.T) { // B7
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 2, WindowSize: 2, Hooks: seen.hooks()})
	allow(t, b)
	mock.Add(100 * time.Millisecond)
	fast := allow(t, b)
	mock.Add(450 * time.Millisecond) // the first is overdue for 50 ms

	fast.Done(steady.Success)

	stats := b.Stats()
	assert.Equal(t, steady.StateOpen, stats.State)
	require.Len(t, seen.list(), 1)
	assert.Equal(t, []int{2, 1}, []int{seen.list()[0].Window.Calls, seen.list()[0].Window.Slow})
	assert.True(t, seen.list()[0].At.Equal(mock.Now()), "the call that ended decided")
}

func TestTimeSpentWaitingInThisProcessIsNotTheDependencys(t *testing.T) { // B8
	synctest.Test(t, func(t *testing.T) {
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond}))
		queue := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Minute, MaxQueue: 10}))
		p := pipeline(t, b, queue)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				_, err := p.Do(context.Background(), func(context.Context) (int, error) {
					time.Sleep(400 * time.Millisecond)
					return 0, nil
				})
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		stats := b.Stats()
		assert.Equal(t, []int{5, 0}, []int{stats.Calls, stats.Slow})
	})
}

func TestWithRetryInsideOnePermitGivesOneOutcomeTheLastSlowIfAnyWas(t *testing.T) { // B8
	synctest.Test(t, func(t *testing.T) {
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond}))
		retry := steady.Must(steady.NewRetry(steady.RetryConfig{BaseDelay: 2 * time.Second, Jitter: steady.NoJitter}))
		p := pipeline(t, b, retry)
		attempts := 0
		_, err := p.Do(context.Background(), func(context.Context) (int, error) {
			attempts++
			switch attempts {
			case 1:
				time.Sleep(600 * time.Millisecond)
				stats := b.Stats()
				assert.Equal(t, []int{1, 1, 1, 1}, []int{stats.Calls, stats.Slow, stats.InFlight, stats.Overdue})
				return 0, errBoom
			default:
				stats := b.Stats()
				assert.Equal(t, []int{1, 0}, []int{stats.InFlight, stats.Overdue}, "a look sees each attempt's own time")
				return 0, nil
			}
		})
		require.NoError(t, err)
		stats := b.Stats()
		assert.Equal(t, []int{1, 0, 1}, []int{stats.Calls, stats.Failures, stats.Slow})
	})
}

func TestACallCancelledWhileItWaitsToBeRetriedIsIgnored(t *testing.T) { // O1
	synctest.Test(t, func(t *testing.T) {
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond}))
		retry := steady.Must(steady.NewRetry(steady.RetryConfig{BaseDelay: time.Second, Jitter: steady.NoJitter}))
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(100*time.Millisecond, cancel)
		_, err := pipeline(t, b, retry).Do(ctx, returns(0, errBoom))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errBoom)
		assert.Zero(t, b.Stats().Calls)
	})
}

// Rejections.

func TestARejectionSaysWhenToComeBackAndIsOneValueAPeriod(t *testing.T) { // B3
	b, mock := newBreaker(t, steady.BreakerConfig{Name: "catalog"})
	call(t, b, mock, 10, 0, steady.Transient)
	_, first := b.Allow()
	mock.Add(4 * time.Second)
	_, second := b.Allow()
	assert.Same(t, first, second)
	var rejected *steady.RejectedError
	require.ErrorAs(t, second, &rejected)
	assert.Equal(t, "catalog", rejected.Policy)
	assert.Equal(t, 6*time.Second, rejected.RetryAfter())
	mock.Add(time.Minute)
	assert.Zero(t, rejected.RetryAfter())

	b.ForceOpen("test")
	_, err := b.Allow()
	require.ErrorAs(t, err, &rejected)
	assert.Zero(t, rejected.RetryAfter())
	assert.EqualValues(t, 3, b.Stats().Rejected)
}

func TestRejectionsAreReported(t *testing.T) { // B15
	var rejections []steady.Rejection
	b, _ := newBreaker(t, steady.BreakerConfig{Name: "catalog", Hooks: &steady.Hooks{
		OnReject: func(ctx context.Context, r steady.Rejection) {
			assert.Equal(t, context.Background(), ctx)
			rejections = append(rejections, r)
		},
	}})
	b.ForceOpen("test")
	_, err := b.Allow()
	require.Len(t, rejections, 1)
	assert.Equal(t, "catalog", rejections[0].Policy)
	assert.Same(t, err, rejections[0].Err)
}

// Forced states and shadow.

func TestForcedStatesAreManualTransitions(t *testing.T) { // B12
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{Hooks: seen.hooks()})
	b.ForceOpen("maintenance")
	_, err := b.Allow()
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	mock.Add(time.Hour)
	assert.Equal(t, steady.StateForcedOpen, b.State())
	assert.Equal(t, time.Hour, b.Stats().TimeOpen)
	b.ForceClosed("they pay us to")
	call(t, b, mock, 20, 0, steady.Transient)
	stats := b.Stats()
	assert.Equal(t, steady.StateForcedClosed, stats.State)
	assert.Equal(t, 20, stats.Failures, "outcomes are still recorded")
	b.Reset("over")
	assert.Equal(t, steady.StateClosed, b.State())
	assert.Zero(t, b.Stats().Calls)

	var details []string
	from := steady.StateClosed
	for _, tr := range seen.list() {
		assert.Equal(t, steady.ReasonManual, tr.Reason)
		assert.Equal(t, from, tr.From)
		from = tr.To
		details = append(details, tr.Detail)
	}
	assert.Equal(t, []string{"maintenance", "they pay us to", "over"}, details)
}

func TestAManualTransitionComesFromTheStateThatStateWouldTell(t *testing.T) { // B12
	var seen transitions
	b, _ := halfOpen(t, steady.BreakerConfig{Hooks: seen.hooks()})
	b.Reset("enough")
	last := seen.list()[len(seen.list())-1]
	assert.Equal(t, steady.StateHalfOpen, last.From)
	for i, tr := range seen.list()[1:] {
		assert.Equal(t, seen.list()[i].To, tr.From, "transitions form a chain")
	}
}

func TestAManualTransitionTellsOfNoOutcomeThatIsTooOld(t *testing.T) { // W2, B12
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{WindowAge: time.Second, Hooks: seen.hooks()})
	call(t, b, mock, 1, 0, steady.Transient)
	mock.Add(time.Second + 1)
	b.ForceOpen("maintenance")
	assert.Equal(t, 0, seen.list()[0].Window.Calls)
}

func TestShadowDecidesAndReportsButRejectsNothing(t *testing.T) { // B11
	var seen transitions
	var rejections []steady.Rejection
	hooks := seen.hooks()
	hooks.OnReject = func(_ context.Context, r steady.Rejection) { rejections = append(rejections, r) }
	b, mock := newBreaker(t, steady.BreakerConfig{Shadow: true, HalfOpenProbes: 2, Hooks: hooks})
	call(t, b, mock, 10, 0, steady.Transient)
	require.Equal(t, steady.StateOpen, b.State())

	call(t, b, mock, 5, 0, steady.Transient)
	require.Len(t, rejections, 5)
	assert.True(t, rejections[0].Shadow)
	assert.EqualValues(t, 5, b.Stats().Rejected)

	mock.Add(10 * time.Second)
	probes := []steady.Permit{allow(t, b), allow(t, b)}
	call(t, b, mock, 5, 0, steady.Transient) // not probes: they count for nothing
	assert.Equal(t, steady.StateHalfOpen, b.State())
	assert.Len(t, rejections, 10)
	for _, p := range probes {
		p.Done(steady.Success)
	}
	assert.Equal(t, steady.StateClosed, b.State())
	for _, tr := range seen.list() {
		assert.True(t, tr.Shadow)
	}

	b.ForceOpen("test")
	_, err := b.Allow()
	assert.ErrorIs(t, err, steady.ErrBreakerOpen, "ForceOpen still rejects")
}

// Hooks.

func TestTransitionHooksMayUseTheBreakerAndHearEverythingInOrder(t *testing.T) { // B10
	var b *steady.Breaker
	var heard []string
	depth := 0
	b, mock := newBreaker(t, steady.BreakerConfig{Hooks: &steady.Hooks{OnTransition: func(tr steady.Transition) {
		depth++
		assert.Equal(t, 1, depth, "one at a time")
		heard = append(heard, tr.From.String()+" "+tr.To.String())
		b.State()
		if tr.To == steady.StateOpen {
			b.ForceClosed("by the hook")
			b.Reset("by the hook")
		}
		depth--
	}}})
	call(t, b, mock, 10, 0, steady.Transient)
	assert.Equal(t, []string{"closed open", "open forced-closed", "forced-closed closed"}, heard)
}

func TestAPanickingTransitionHookLosesNothing(t *testing.T) { // B10
	for _, leave := range []func(){func() { panic("hook") }, runtime.Goexit} {
		var b *steady.Breaker
		var heard []steady.State
		b, mock := newBreaker(t, steady.BreakerConfig{Hooks: &steady.Hooks{OnTransition: func(tr steady.Transition) {
			heard = append(heard, tr.To)
			if tr.To == steady.StateOpen {
				b.ForceOpen("queued behind")
				leave()
			}
		}}})
		call(t, b, mock, 9, 0, steady.Transient)
		p := allow(t, b)
		var recovered any
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() { recovered = recover() }()
			p.Done(steady.Transient)
			t.Error("the hook did not reach the goroutine that delivers")
		})
		wg.Wait()
		_ = recovered
		assert.Equal(t, []steady.State{steady.StateOpen, steady.StateForcedOpen}, heard, "the queue was handed on")
		b.Reset("test")
		assert.Equal(t, steady.StateClosed, heard[len(heard)-1], "and works on")
		assert.Zero(t, b.Stats().InFlight)
	}
}

func TestAPermitGoesBackWhenAHookPanicsAtItsAdmission(t *testing.T) { // B10
	angry := true
	b, mock := newBreaker(t, steady.BreakerConfig{HalfOpenProbes: 1, Hooks: &steady.Hooks{OnTransition: func(tr steady.Transition) {
		if tr.To == steady.StateHalfOpen && angry {
			panic("hook")
		}
	}}})
	call(t, b, mock, 10, 0, steady.Transient)
	mock.Add(10 * time.Second)
	assert.Panics(t, func() { _, _ = b.Allow() })
	angry = false
	assert.Zero(t, b.Stats().InFlight)
	require.NoError(t, steadyProbe(b))
	assert.Equal(t, steady.StateClosed, b.State())
}

func TestEachTransitionSaysFromWhereToWhereAndWhen(t *testing.T) { // B10
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{HalfOpenProbes: 1, Hooks: seen.hooks()})
	opens := func(o steady.Outcome) time.Time {
		mock.Add(time.Millisecond)
		call(t, b, mock, 1, 0, o)
		return mock.Now()
	}
	call(t, b, mock, 9, 0, steady.Transient)
	opened := opens(steady.Transient)
	mock.Add(11 * time.Second)
	reopened := opens(steady.Transient)
	mock.Add(11 * time.Second)
	closed := opens(steady.Success)
	mock.Add(time.Second)
	b.ForceOpen("test")

	type step struct {
		from, to steady.State
		at       time.Time
	}
	var got []step
	for _, tr := range seen.list() {
		got = append(got, step{tr.From, tr.To, tr.At})
		assert.Equal(t, tr.From, tr.Window.State)
	}
	assert.Equal(t, []step{
		{steady.StateClosed, steady.StateOpen, opened},
		{steady.StateOpen, steady.StateHalfOpen, reopened},
		{steady.StateHalfOpen, steady.StateOpen, reopened},
		{steady.StateOpen, steady.StateHalfOpen, closed},
		{steady.StateHalfOpen, steady.StateClosed, closed},
		{steady.StateClosed, steady.StateForcedOpen, mock.Now()},
	}, got)
}

func TestATransitionSaysWhatTheBreakerSawBeforeAnyReset(t *testing.T) { // B10
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{Name: "catalog", Hooks: seen.hooks()})
	call(t, b, mock, 8, 0, steady.Success)
	call(t, b, mock, 8, 0, steady.Transient)
	w := seen.list()[0].Window
	assert.Equal(t, "catalog", w.Name)
	assert.Equal(t, steady.StateClosed, w.State)
	assert.Equal(t, []int{16, 8}, []int{w.Calls, w.Failures})
	assert.Equal(t, 0.5, w.FailureRate)
	assert.True(t, w.Deciding)
}

// Stats.

func TestStatsTellTheTruthByTheClock(t *testing.T) { // B4, B14
	b, mock := newBreaker(t, steady.BreakerConfig{Name: "catalog", SlowThreshold: time.Second})
	made := mock.Now()
	stats := b.Stats()
	assert.Equal(t, steady.BreakerStats{Name: "catalog", State: steady.StateClosed, Since: made}, stats)

	for i := range 100 {
		call(t, b, mock, 1, time.Duration(i+1)*time.Millisecond, steady.Success)
	}
	stats = b.Stats()
	assert.InEpsilon(t, 50*time.Millisecond, stats.LatencyP50, 0.05)
	assert.InEpsilon(t, 99*time.Millisecond, stats.LatencyP99, 0.05)
	assert.InEpsilon(t, 10.1, stats.Headroom, 0.06)

	call(t, b, mock, 10, 0, steady.Transient)
	opened := mock.Now()
	mock.Add(4 * time.Second)
	stats = b.Stats()
	assert.Equal(t, opened, stats.Since)
	assert.Equal(t, opened.Add(10*time.Second), stats.OpenUntil)
	assert.Equal(t, 4*time.Second, stats.TimeOpen)
	mock.Add(time.Hour)
	assert.Equal(t, 10*time.Second, b.Stats().TimeOpen, "half-open is not open")
}

func TestLatencyIsOfCallsThatDidNotFail(t *testing.T) { // B14
	b, mock := newBreaker(t, steady.BreakerConfig{SlowRate: 1})
	call(t, b, mock, 1, 100*time.Millisecond, steady.Success)
	call(t, b, mock, 3, 400*time.Millisecond, steady.Transient)
	call(t, b, mock, 3, 300*time.Millisecond, steady.Ignored)
	assert.InEpsilon(t, 100*time.Millisecond, b.Stats().LatencyP99, 0.05)
	call(t, b, mock, 1, 900*time.Millisecond, steady.Success)
	assert.InEpsilon(t, 900*time.Millisecond, b.Stats().LatencyP99, 0.05, "slow ones included")
}

func TestTheWallClockDoesNotMatter(t *testing.T) { // B13: what decides is a distance of monotonic readings
	synctest.Test(t, func(t *testing.T) {
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond, NoOpenJitter: true}))
		for range 10 {
			allow(t, b).Done(steady.Transient)
		}
		require.Equal(t, steady.StateOpen, b.State())
		time.Sleep(10 * time.Second)
		assert.Equal(t, steady.StateHalfOpen, b.State())
		assert.True(t, b.Stats().Since.Equal(time.Now()))
	})
}

func TestABreakerMakesNoGoroutine(t *testing.T) { // B13
	before := runtime.NumGoroutine()
	for range 1000 {
		b, _ := newBreaker(t, steady.BreakerConfig{})
		allow(t, b)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
}

func TestDoneOfAZeroPermitDoesNothing(t *testing.T) {
	assert.NotPanics(t, func() { steady.Permit{}.Done(steady.Success) })
}

func TestAPanicInTheFunctionKeepsItsOwnStack(t *testing.T) { // O4
	b, mock := newBreaker(t, steady.BreakerConfig{})
	err := errors.New("thrown")
	assert.PanicsWithValue(t, err, func() {
		_, _ = pipelineOn(t, mock, b).Do(context.Background(), func(context.Context) (int, error) { panic(err) })
	})
	stats := b.Stats()
	assert.Equal(t, []int{1, 1, 0}, []int{stats.Calls, stats.Failures, stats.InFlight})
}

func TestAgeingThatRaisesARateToItsLimitOpensNothing(t *testing.T) { // W2
	b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 100, WindowAge: time.Minute, MinCalls: 2, FailureRate: 0.5})
	call(t, b, mock, 3, 0, steady.Success)
	mock.Add(time.Second)
	call(t, b, mock, 2, 0, steady.Transient)
	mock.Add(time.Minute)
	stats := b.Stats()
	assert.True(t, stats.Deciding)
	assert.Equal(t, 1.0, stats.FailureRate)
	assert.Equal(t, steady.StateClosed, b.State())
	allow(t, b)
}

func TestTotalsCountEveryCallThatHasBeenInTheFunction(t *testing.T) { // B14
	b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 1000, MinCalls: 1000})
	for n, o := range []steady.Outcome{
		steady.Success, steady.Transient, steady.Unsent, steady.Permanent, steady.Throttled, steady.Ignored,
	} {
		for range n + 1 {
			allow(t, b).Done(o)
		}
	}
	want := steady.BreakerTotals{Success: 1, Transient: 2, Unsent: 3, Permanent: 4, Throttled: 5, Ignored: 6}
	assert.Equal(t, want, b.Stats().Totals)

	hanging := allow(t, b)
	mock.Add(500 * time.Millisecond)
	want.Slow++
	assert.Equal(t, want, b.Stats().Totals, "slow already, and not at its end")
	b.ForceOpen("test")
	hanging.Done(steady.Success)
	hanging.Done(steady.Transient)
	want.Success++
	assert.Equal(t, want, b.Stats().Totals, "once, whatever the breaker has become meanwhile")

	_, err := b.Allow()
	require.Error(t, err)
	assert.Equal(t, want, b.Stats().Totals, "a rejected call was not in the function")
}

func TestTotalsCountACallWithSeveralAttemptsOnce(t *testing.T) { // B14
	b, mock := newBreaker(t, steady.BreakerConfig{})
	p := pipeline(t, b, newRetry(t, steady.RetryConfig{NoDelay: true}))
	n := 0
	_, err := p.Do(t.Context(), func(context.Context) (int, error) {
		mock.Add(time.Second)
		if n++; n < 3 {
			return 0, errBoom
		}
		return 1, nil
	})
	require.NoError(t, err)
	assert.Equal(t, steady.BreakerTotals{Success: 1, Slow: 1}, b.Stats().Totals)
}
