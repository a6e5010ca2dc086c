package steady_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// handClock is moved by hand, without the real millisecond that each move of a clock.Mock takes. It is for
// breakers, which need no timers. Its times have a monotonic reading, as those of the system have, and its
// time of day can be set apart from that.
type handClock struct {
	*clock.Mock
	now    time.Time
	behind uint64 // seconds by which the time of day is
}

func newHandClock() *handClock { return &handClock{Mock: clock.NewMock(), now: time.Now()} }

func (c *handClock) Add(d time.Duration) { c.now = c.now.Add(d) }

func (c *handClock) Now() time.Time {
	t := c.now
	const secondsShift = 30 // in the first word of a time.Time that has a monotonic reading
	*(*uint64)(unsafe.Pointer(&t)) -= c.behind << secondsShift
	return t
}

// onHandClock returns a breaker on a handClock, and a function that makes a call which takes d.
func onHandClock(t testing.TB, cfg steady.BreakerConfig) (*steady.Breaker, *handClock, func(d time.Duration, o steady.Outcome)) {
	t.Helper()
	hand := newHandClock()
	cfg.Clock, cfg.NoOpenJitter = hand, true
	if cfg.SlowThreshold == 0 {
		cfg.SlowThreshold = 500 * time.Millisecond
	}
	b, err := steady.NewBreaker(cfg)
	require.NoError(t, err)
	return b, hand, func(d time.Duration, o steady.Outcome) {
		t.Helper()
		p := allow(t, b)
		hand.Add(d)
		p.Done(o)
	}
}

// rubyist#42, cockroach#35433, failsafe-go (seen): callers that cancelled tripped the breaker of a healthy
// backend.
func TestCallersThatCancelDoNotOpen(t *testing.T) {
	b, _ := newBreaker(t, steady.BreakerConfig{})
	p := pipeline(t, b)
	for _, failure := range []error{context.Canceled, errBoom, errors.Join(errBoom, context.DeadlineExceeded)} {
		for range 20 {
			ctx, cancel := context.WithCancelCause(t.Context())
			_, err := p.Do(ctx, func(context.Context) (int, error) {
				cancel(errors.New("the user left the page"))
				return 0, failure
			})
			require.Equal(t, failure, err)
		}
	}
	assert.Zero(t, b.Stats().Calls)
	assert.Equal(t, steady.StateClosed, b.State())
}

// cep21/circuit#94: when the caller's deadline passed nothing was counted, so a backend that hung never
// tripped the breaker.
func TestACallersDeadlineIsAFailureOfTheDependency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true}))
		p := pipeline(t, b)
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := p.Do(ctx, neverAnswers)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		assert.Equal(t, steady.StateOpen, b.State())
	})
}

// ai-gateway#199: context errors were ignored though the caller was still there.
func TestAContextErrorCountsWhileTheCallerIsThere(t *testing.T) {
	for _, failure := range []error{context.Canceled, context.DeadlineExceeded} {
		b, _ := newBreaker(t, steady.BreakerConfig{})
		p := pipeline(t, b)
		for range 10 {
			_, err := p.Do(t.Context(), returns(0, failure))
			require.Equal(t, failure, err)
		}
		assert.Equal(t, steady.StateOpen, b.State(), failure)
	}
}

// go-service#3173, go-zero#4091: a call whose context was dead at the start was counted.
func TestACallWithADeadContextDoesNotHappen(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, ctx := range []context.Context{cancelled, late} {
		b, _ := halfOpened(t, steady.BreakerConfig{HalfOpenProbes: 1})
		bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))
		retry := steady.Must(steady.NewRetry(steady.RetryConfig{}))
		p := pipeline(t, retry, b, bulkhead)
		before := b.Stats()
		for range 20 {
			_, err := p.Do(ctx, mustNotRun(t))
			require.Equal(t, ctx.Err(), err)
		}
		assert.Equal(t, before, b.Stats())
		assert.Zero(t, bulkhead.Stats().Rejected)
		assert.Equal(t, 10.0, retry.Config().Budget.Stats().Tokens)
		allow(t, b).Done(steady.Success) // no probe was taken
		assert.Equal(t, steady.StateClosed, b.State())
	}
}

// flow-go#4910, go-zero#3437, #4238, gobreaker#29, cerberus#2900: bad requests, things not found and
// duplicate keys opened the breaker for everybody.
func TestADomainsNoOpensNothing(t *testing.T) {
	errNotFound := errors.New("not found")
	b, _ := newBreaker(t, steady.BreakerConfig{MinCalls: 1, FailureRate: 0.01})
	classified, err := steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{b},
		Classify: func(_ int, err error) steady.Outcome {
			if errors.Is(err, errNotFound) {
				return steady.Success
			}
			return 0
		},
		Clock: b.Config().Clock,
	})
	require.NoError(t, err)
	marked := pipeline(t, b)
	for range 100 {
		_, err := classified.Do(t.Context(), returns(0, errNotFound))
		require.Equal(t, errNotFound, err)
		_, err = marked.Do(t.Context(), returns(0, steady.Mark(errNotFound, steady.Success)))
		require.ErrorIs(t, err, errNotFound)
	}
	assert.Equal(t, 20, b.Stats().Calls)
	assert.Zero(t, b.Stats().Failures)

	_, err = classified.Do(t.Context(), returns(0, errBoom))
	require.Equal(t, errBoom, err)
	assert.Equal(t, steady.StateOpen, b.State(), "a real failure counts")
}

// kratos#2777, Hystrix#235, #1031, opossum#45: the breaker's own rejections entered its rate, and it never
// recovered.
func TestABreakersRejectionsDoNotEnterItsRate(t *testing.T) {
	b, hand, _ := onHandClock(t, steady.BreakerConfig{HalfOpenProbes: 1})
	outer, err := steady.NewBreaker(steady.BreakerConfig{MinCalls: 1, NoSlowCalls: true, Clock: hand})
	require.NoError(t, err)
	p := pipeline(t, outer, b)
	openByFailures(t, b)
	for range 1000 {
		_, err := p.Do(t.Context(), mustNotRun(t))
		require.ErrorIs(t, err, steady.ErrBreakerOpen)
		hand.Add(5 * time.Millisecond)
	}
	assert.Equal(t, 10, b.Stats().Calls)
	assert.EqualValues(t, 1000, b.Stats().Rejected)
	assert.Zero(t, outer.Stats().Calls, "a breaker around it has nothing to count either")

	hand.Add(5 * time.Second)
	_, err = p.Do(t.Context(), returns(1, nil))
	require.NoError(t, err)
	assert.Equal(t, steady.StateClosed, b.State())
}

// resilience4j#1656, vald#1811, failsafe-go (seen): a full bulkhead further in counted as a failure of the
// dependency. hystrix-go (seen): twenty bulkhead rejections and not one failure of the backend opened the
// circuit.
func TestAFullBulkheadIsNoFailureOfTheDependency(t *testing.T) {
	b, _ := newBreaker(t, steady.BreakerConfig{MinCalls: 1})
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))
	p := pipeline(t, b, bulkhead)
	slot, err := bulkhead.Acquire(t.Context())
	require.NoError(t, err)
	for range 20 {
		_, err := p.Do(t.Context(), mustNotRun(t))
		require.ErrorIs(t, err, steady.ErrBulkheadFull)
	}
	alone := pipeline(t, bulkhead)
	for range 20 { // nor when it is the function that has met it
		_, err := pipeline(t, b).Do(t.Context(), func(ctx context.Context) (int, error) { return alone.Do(ctx, mustNotRun(t)) })
		require.ErrorIs(t, err, steady.ErrBulkheadFull)
	}
	slot.Release()
	assert.Equal(t, steady.StateClosed, b.State())
	assert.Zero(t, b.Stats().Calls)
}

// resilience4j#667: one slow call and one failed one of four stayed closed at 50 %. That is right: the two
// rates are never added.
func TestTheSlowAndTheFailedRateAreNotAdded(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 4, MinCalls: 4})
	call(t, b, mock, 1, time.Second, steady.Success)
	call(t, b, mock, 1, 0, steady.Transient)
	call(t, b, mock, 2, 0, steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
	assert.Equal(t, 0.25, b.Stats().FailureRate)
	assert.Equal(t, 0.25, b.Stats().SlowRate)

	call(t, b, mock, 1, time.Second, steady.Transient) // counts in both, in the place of the slow one
	assert.Equal(t, steady.StateOpen, b.State())
	assert.Equal(t, 0.5, b.Stats().FailureRate)
	assert.Equal(t, 0.25, b.Stats().SlowRate)
}

// resilience4j (seen): errors that were not to be recorded counted as successes, and could open the breaker
// by their slowness.
func TestAnIgnoredOutcomeDilutesNothingButItsSlownessCounts(t *testing.T) {
	for _, o := range []steady.Outcome{steady.Ignored, steady.Throttled} {
		b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 2, FailureRate: 1, SlowRate: 1})
		call(t, b, mock, 1, 0, steady.Transient)
		call(t, b, mock, 10, 499*time.Millisecond, o)
		require.Equal(t, 1, b.Stats().Calls)
		call(t, b, mock, 1, 0, steady.Transient)
		require.Equal(t, steady.StateOpen, b.State(), "two of two failed")

		b.Reset("again")
		call(t, b, mock, 2, 500*time.Millisecond, o)
		assert.Equal(t, steady.StateOpen, b.State(), "two of two were slow")
		assert.Equal(t, 2, b.Stats().Slow)
		assert.Zero(t, b.Stats().Failures)
	}
}

// mercari, rubyist (seen): a panic was not recorded. failsafe-go (seen): a panic left a bulkhead of one full
// for ever.
func TestAPanicIsRecordedAndGivesTheSlotBack(t *testing.T) {
	b, _ := newBreaker(t, steady.BreakerConfig{})
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))
	p := pipeline(t, b, bulkhead)
	for range 5 {
		assert.PanicsWithValue(t, "boom", func() {
			_, _ = p.Do(t.Context(), func(context.Context) (int, error) { panic("boom") })
		})
		var exiting sync.WaitGroup
		exiting.Go(func() {
			_, _ = p.Do(t.Context(), func(context.Context) (int, error) {
				runtime.Goexit()
				return 0, nil
			})
		})
		exiting.Wait()
	}
	assert.Zero(t, bulkhead.Stats().InFlight)
	assert.Zero(t, b.Stats().InFlight)
	assert.Equal(t, 10, b.Stats().Failures)
	assert.Equal(t, steady.StateOpen, b.State())
}

// gobreaker#21, #64: a tumbling window's reset made 9 % of failures look like 90 %.
func TestAHandfulOfFailuresIsSeenAgainstTheWholeWindow(t *testing.T) {
	for _, age := range []time.Duration{0, time.Minute} {
		b, hand, call := onHandClock(t, steady.BreakerConfig{WindowSize: 100, WindowAge: age})
		for range 100 {
			call(0, steady.Success)
		}
		for range 100 { // rounds of 101 calls: the failures come at every place in a hundred, the first ones included
			for range 9 {
				call(100*time.Millisecond, steady.Transient)
			}
			require.Equal(t, steady.StateClosed, b.State())
			require.Equal(t, 0.09, b.Stats().FailureRate)
			for range 92 {
				call(100*time.Millisecond, steady.Success)
			}
			hand.Add(7 * time.Second)
		}
	}
}

// gobreaker (seen): nine failures, then a success as the tenth call of ten that are needed: it stayed closed
// at 90 %.
func TestASuccessDecidesToo(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 10})
	call(t, b, mock, 9, 0, steady.Transient)
	require.Equal(t, steady.StateClosed, b.State())
	call(t, b, mock, 1, 0, steady.Success)
	assert.Equal(t, steady.StateOpen, b.State())
}

// resilience4j#1335, #1262, #1017: counters were negative, or of quadratic cost, once the ring had wrapped.
func TestTheCountsAreRightHoweverOftenTheRingWraps(t *testing.T) {
	type outcome struct {
		at           time.Time
		failed, slow bool
	}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		size := 1 + random.IntN(12)
		age := time.Duration(random.IntN(3)) * time.Second
		b, hand, call := onHandClock(t, steady.BreakerConfig{WindowSize: size, WindowAge: age})
		b.ForceClosed("to record without deciding")
		var model []outcome
		for range 300 {
			hand.Add(time.Duration(random.IntN(400)) * time.Millisecond)
			o := outcome{failed: random.IntN(2) == 0, slow: random.IntN(3) == 0}
			took, means := 50*time.Millisecond, steady.Success
			if o.slow {
				took = 500 * time.Millisecond
			}
			if o.failed {
				means = steady.Transient
			}
			call(took, means)
			o.at = hand.Now()

			model = append(model, o)
			if len(model) > size {
				model = model[len(model)-size:]
			}
			for age > 0 && hand.Now().Sub(model[0].at) > age {
				model = model[1:]
			}
			want := [3]int{len(model)}
			for _, m := range model {
				if m.failed {
					want[1]++
				}
				if m.slow {
					want[2]++
				}
			}
			s := b.Stats()
			require.Equal(t, want, [3]int{s.Calls, s.Failures, s.Slow}, "calls, failures, slow; seed %d", seed)
		}
	}
}

// hystrix-go#115: two counters were read at different moments, and the circuit opened at a rate that never
// was.
func TestARateIsOneConsistentReading(t *testing.T) {
	consistent := func(s steady.BreakerStats) {
		assert.Equal(t, s.Calls, s.Failures, "every call fails")
		if s.Calls > 0 {
			assert.Equal(t, 1.0, s.FailureRate)
		}
	}
	b, _ := newBreaker(t, steady.BreakerConfig{Hooks: &steady.Hooks{
		OnTransition: func(tr steady.Transition) { consistent(tr.Window) },
	}})
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			b.ForceClosed("empties the window")
			for range 10 {
				allow(t, b).Done(steady.Transient)
			}
		}
	})
	for range 5000 {
		consistent(b.Stats())
	}
	close(stop)
	writer.Wait()
}

// failsafe-go (seen): rates were rounded to two decimals, and 199 of 400 tripped a limit of a half.
func TestRatesAreExact(t *testing.T) {
	for _, c := range []struct {
		failed, calls int
		rate          float64
		want          steady.State
	}{
		{199, 400, 0.5, steady.StateClosed},
		{200, 400, 0.5, steady.StateOpen},
		{28, 100, 0.28, steady.StateOpen}, // 0.28·100 is more than 28, in floating point
		{27, 100, 0.28, steady.StateClosed},
		{1, 3, 1.0 / 3, steady.StateOpen},
		{1, 1000, 0.001, steady.StateOpen},
	} {
		for _, slow := range []bool{false, true} {
			b, _, call := onHandClock(t, steady.BreakerConfig{
				WindowSize: c.calls, MinCalls: c.calls, FailureRate: c.rate, SlowRate: c.rate,
			})
			for i := range c.calls {
				switch {
				case i >= c.failed:
					call(0, steady.Success)
				case slow:
					call(500*time.Millisecond, steady.Success)
				default:
					call(0, steady.Transient)
				}
			}
			assert.Equal(t, c.want, b.State(), "%d of %d at %v, slow: %v", c.failed, c.calls, c.rate, slow)
		}
	}
}

// sentinel-golang#409, #327, kratos#671; resilience4j (seen): the time of day stepped back by two seconds,
// and the window never opened again.
func TestAStepOfTheTimeOfDayChangesNothing(t *testing.T) {
	b, hand, call := onHandClock(t, steady.BreakerConfig{
		WindowAge: 10 * time.Second, HalfOpenProbes: 1, OpenDuration: time.Second,
	})
	before := hand.Now()
	hand.behind = 2
	require.EqualValues(t, -2, hand.Now().Unix()-before.Unix(), "the time of day steps back")
	require.Zero(t, hand.Now().Sub(before), "the monotonic reading does not")

	for _, behind := range []uint64{0, 3600, 1} { // forward, far back, forward again
		running := allow(t, b)
		hand.behind = behind
		call(100*time.Millisecond, steady.Success)
		running.Done(steady.Success)
		require.Equal(t, 2, b.Stats().Calls)
		require.Zero(t, b.Stats().Slow)

		hand.behind = 3 - behind%3
		hand.Add(10*time.Second + 1)
		openByFailures(t, b)
		require.Equal(t, 10, b.Stats().Calls, "what went before is too old")
		hand.behind += 2
		hand.Add(time.Second)
		call(0, steady.Success)
		require.Equal(t, steady.StateClosed, b.State())
		b.Reset("again")
	}
}

// The same reports, on a clock that knows nothing but the time of day.
func TestAClockThatStepsBackDoesNotStopTheBreaker(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{WindowAge: 10 * time.Second, HalfOpenProbes: 1})
	call(t, b, mock, 5, 0, steady.Success)
	mock.Set(mock.Now().Add(-2 * time.Second))
	call(t, b, mock, 5, 0, steady.Transient)
	require.Equal(t, steady.StateOpen, b.State())
	mock.Add(10 * time.Second)
	allow(t, b).Done(steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
}

// semian#24, vertx#24: sparse errors never aged out, and one failure after days tripped the breaker.
func TestSparseFailuresAgeOut(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 3, WindowAge: time.Minute})
	for range 30 {
		call(t, b, mock, 1, 0, steady.Transient)
		require.Equal(t, 1, b.Stats().Calls)
		mock.Add(24 * time.Hour)
	}
	assert.Equal(t, steady.StateClosed, b.State())
	call(t, b, mock, 3, 0, steady.Transient)
	assert.Equal(t, steady.StateOpen, b.State())
}

// vertx#18: a sample was stamped with the time it started at, and so vanished when the call took longer
// than the window.
func TestACallLongerThanTheWindowCountsFromItsEnd(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{MinCalls: 3, WindowAge: 10 * time.Second, NoSlowCalls: true})
	for range 2 {
		p := allow(t, b)
		mock.Add(30 * time.Second)
		p.Done(steady.Transient)
		require.Equal(t, 1, b.Stats().Calls)
	}
	mock.Add(10 * time.Second)
	call(t, b, mock, 1, 0, steady.Transient)
	require.Equal(t, 2, b.Stats().Calls, "the last one is ten seconds old, and no older")
	call(t, b, mock, 1, 0, steady.Transient)
	assert.Equal(t, steady.StateOpen, b.State())
}

// solace-broker-mcp#296: in a slow outage failures came nineteen seconds apart, and never reached the
// minimum of a time window. A count window holds them.
func TestFailuresNineteenSecondsApartOpenACountWindow(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{NoSlowCalls: true})
	call(t, b, mock, 9, 19*time.Second, steady.Transient)
	require.Equal(t, steady.StateClosed, b.State())
	call(t, b, mock, 1, 19*time.Second, steady.Transient)
	assert.Equal(t, steady.StateOpen, b.State())
}
