package steady_test

// resilience4j#1597 (open since 2022), Polly#935: calls that hang are invisible until they return, so a
// breaker that waits for answers lets a dependency that gives none take everything. This file shows that,
// here, a call counts as slow from the moment that it has run for the threshold, in every shape that a
// hanging call has.

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

const slowAfter = 500 * time.Millisecond // newBreaker's threshold

func TestCallsThatHangOpenTheBreakerLongBeforeTheyReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen transitions
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{
			SlowThreshold: slowAfter, OpenDuration: 10 * time.Second, NoOpenJitter: true, Hooks: seen.hooks(),
		}))
		p := pipeline(t, b)
		began := time.Now()
		var answers []<-chan error
		for range 20 {
			answers = append(answers, inBackground(t, t.Context(), p, after(8*time.Second, 1, nil)))
		}
		time.Sleep(slowAfter - 1)
		require.Equal(t, steady.StateClosed, b.State())
		time.Sleep(time.Nanosecond)
		_, err := p.Do(t.Context(), mustNotRun(t))
		require.ErrorIs(t, err, steady.ErrBreakerOpen)

		opened := heard(t, &seen, 0)
		assert.Equal(t, steady.ReasonSlowRate, opened.Reason)
		assert.Equal(t, slowAfter, opened.At.Sub(began))
		assert.Equal(t, 20, b.Stats().InFlight, "none has answered")
		for _, answer := range answers {
			require.NoError(t, <-answer)
		}
		assert.Equal(t, []steady.Reason{steady.ReasonSlowRate}, seen.reasons(), "their answers come too late to matter")
		assert.Zero(t, b.Stats().InFlight)
		assert.Zero(t, b.Stats().Overdue)
	})
}

// Whoever looks, and however late: what happened, happened when it became true.
func TestWhoNoticesHangingCallsDoesNotChangeWhatHappened(t *testing.T) {
	looks := map[string]func(*testing.T, *steady.Breaker, steady.Permit){
		"a call that asks for a permit": func(t *testing.T, b *steady.Breaker, _ steady.Permit) { requireRejected(t, b) },
		"a call through a pipeline": func(t *testing.T, b *steady.Breaker, _ steady.Permit) {
			_, err := pipeline(t, b).Do(t.Context(), mustNotRun(t))
			require.ErrorIs(t, err, steady.ErrBreakerOpen)
		},
		"a call that returns":     func(_ *testing.T, _ *steady.Breaker, p steady.Permit) { p.Done(steady.Success) },
		"a call that is given up": func(_ *testing.T, _ *steady.Breaker, p steady.Permit) { p.Done(steady.Ignored) },
		"State":                   func(_ *testing.T, b *steady.Breaker, _ steady.Permit) { b.State() },
		"Stats":                   func(_ *testing.T, b *steady.Breaker, _ steady.Permit) { b.Stats() },
		"ForceOpen":               func(_ *testing.T, b *steady.Breaker, _ steady.Permit) { b.ForceOpen("by hand") },
	}
	for who, look := range looks {
		for _, late := range []time.Duration{0, 1, 3 * time.Second} {
			t.Run(fmt.Sprintf("%s, %v late", who, late), func(t *testing.T) {
				var seen transitions
				b, mock := newBreaker(t, steady.BreakerConfig{Hooks: seen.hooks()})
				began := mock.Now()
				for range 9 {
					allow(t, b)
				}
				mock.Add(100 * time.Millisecond)
				tenth := allow(t, b)
				mock.Add(slowAfter)
				mock.Add(late)
				look(t, b, tenth)

				opened := heard(t, &seen, 0)
				assert.Equal(t, steady.StateOpen, opened.To)
				assert.Equal(t, steady.ReasonSlowRate, opened.Reason)
				assert.Equal(t, 100*time.Millisecond+slowAfter, opened.At.Sub(began), "when the tenth became slow")
				assert.Equal(t, 10, opened.Window.Slow)
			})
		}
	}
}

func TestTheOpenPeriodOfHangingCallsBeginsWhenTheyBecameSlow(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{HalfOpenProbes: 1})
	for range 10 {
		allow(t, b)
	}
	mock.Add(slowAfter + 10*time.Second) // nobody has looked all the while
	assert.Equal(t, steady.StateHalfOpen, b.State())
	allow(t, b).Done(steady.Success)
	assert.Equal(t, steady.StateClosed, b.State())
	assert.Equal(t, 10*time.Second, b.Stats().TimeOpen)
}

// A dependency that hangs for half of its calls: fast answers for the other half do not hide it, nor do
// those from before.
func TestHangingCallsCountAmongFastAnswers(t *testing.T) {
	b, hand, call := onHandClock(t, steady.BreakerConfig{})
	for range 20 {
		call(0, steady.Success)
	}
	for range 10 {
		allow(t, b) // hangs
		call(10*time.Millisecond, steady.Success)
	}
	require.Equal(t, steady.StateClosed, b.State())
	hand.Add(slowAfter)
	assert.Equal(t, steady.StateOpen, b.State())
	assert.Equal(t, 10, b.Stats().Slow)
	assert.Equal(t, 20, b.Stats().Calls)
}

func TestOneHangingCallAmongFastAnswersOpensNothing(t *testing.T) {
	b, hand, call := onHandClock(t, steady.BreakerConfig{})
	hanging := allow(t, b)
	for range 100 {
		call(10*time.Millisecond, steady.Success)
	}
	hand.Add(time.Hour)
	assert.Equal(t, steady.StateClosed, b.State())
	assert.Equal(t, 1, b.Stats().Overdue)
	hanging.Done(steady.Success)
	assert.Zero(t, b.Stats().Overdue)
}

// However a call that hung comes to an end, it has counted once.
func TestAHangingCallCountsOnceHoweverItEnds(t *testing.T) {
	const hangs = 8 * time.Second
	ends := map[string]struct {
		failed int // 1 if it adds a failure
		call   func(*testing.T, *steady.Pipeline[int])
	}{
		"it succeeds": {0, func(t *testing.T, p *steady.Pipeline[int]) {
			_, err := p.Do(t.Context(), after(hangs, 1, nil))
			require.NoError(t, err)
		}},
		"it fails": {1, func(t *testing.T, p *steady.Pipeline[int]) {
			_, err := p.Do(t.Context(), after(hangs, 0, errBoom))
			require.Equal(t, errBoom, err)
		}},
		"it is refused": {0, func(t *testing.T, p *steady.Pipeline[int]) {
			_, err := p.Do(t.Context(), after(hangs, 0, steady.Mark(errBoom, steady.Throttled)))
			require.ErrorIs(t, err, errBoom)
		}},
		"the caller cancels": {0, func(t *testing.T, p *steady.Pipeline[int]) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(hangs, cancel)
			_, err := p.Do(ctx, neverAnswers)
			require.Equal(t, context.Canceled, err)
		}},
		"the caller's deadline passes": {1, func(t *testing.T, p *steady.Pipeline[int]) {
			ctx, cancel := context.WithTimeout(t.Context(), hangs)
			defer cancel()
			_, err := p.Do(ctx, neverAnswers)
			require.Equal(t, context.DeadlineExceeded, err)
		}},
		"it panics": {1, func(t *testing.T, p *steady.Pipeline[int]) {
			require.Panics(t, func() {
				_, _ = p.Do(t.Context(), func(context.Context) (int, error) {
					time.Sleep(hangs)
					panic("boom")
				})
			})
		}},
		"it exits": {1, func(t *testing.T, p *steady.Pipeline[int]) {
			var exiting sync.WaitGroup
			exiting.Go(func() {
				_, _ = p.Do(t.Context(), func(context.Context) (int, error) {
					time.Sleep(hangs)
					runtime.Goexit()
					return 0, nil
				})
			})
			exiting.Wait()
		}},
		"it is held": {0, func(t *testing.T, p *steady.Pipeline[int]) {
			_, release, err := p.Hold(t.Context(), after(hangs, 1, nil))
			require.NoError(t, err)
			time.Sleep(hangs)
			release(nil)
		}},
		"it is held and fails": {1, func(t *testing.T, p *steady.Pipeline[int]) {
			_, release, err := p.Hold(t.Context(), after(hangs, 1, nil))
			require.NoError(t, err)
			time.Sleep(hangs)
			release(errBoom)
			release(errBoom)
		}},
	}
	for how, end := range ends {
		for _, watched := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, watched: %v", how, watched), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: slowAfter}))
					if watched { // so that it is noticed while it runs
						time.AfterFunc(slowAfter, func() { assert.Equal(t, 1, b.Stats().Slow) })
						time.AfterFunc(3*time.Second, func() { assert.Equal(t, 1, b.Stats().Overdue) })
					}
					end.call(t, pipeline(t, b))
					s := b.Stats()
					assert.Equal(t, [3]int{1, 1, end.failed}, [3]int{s.Calls, s.Slow, s.Failures}, "calls, slow, failures")
					assert.Zero(t, s.InFlight)
					assert.Zero(t, s.Overdue)
				})
			})
		}
	}
}

func TestAHangingCallThatTheTimeoutEndsIsSlowAtTheThresholdAndFailedAtTheLimit(t *testing.T) {
	for _, abandon := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: slowAfter}))
			limit := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: 2 * time.Second, Abandon: abandon}))
			p := pipeline(t, limit, b)
			answer := inBackground(t, t.Context(), p, neverAnswers)
			time.Sleep(slowAfter)
			assert.Equal(t, 1, b.Stats().Slow)
			assert.Zero(t, b.Stats().Failures)
			require.ErrorIs(t, <-answer, steady.ErrTimeout)
			assert.Equal(t, 1, b.Stats().Calls)
			assert.Equal(t, 1, b.Stats().Slow)
			assert.Equal(t, 1, b.Stats().Failures)
			synctest.Wait()
			assert.Zero(t, b.Stats().InFlight)
		})
	}
}

// A function that is deaf to its context hangs on after it was abandoned: it has counted once, and can be
// seen.
func TestAnAbandonedCallStaysInFlightAndCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: slowAfter, MinCalls: 2}))
		limit := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second, Abandon: true}))
		_, err := pipeline(t, limit, b).Do(t.Context(), after(time.Minute, 0, errBoom))
		require.ErrorIs(t, err, steady.ErrTimeout)
		for range 2 {
			s := b.Stats()
			assert.Equal(t, [4]int{1, 1, 1, 1}, [4]int{s.InFlight, s.Overdue, s.Slow, s.Failures})
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Minute)
		s := b.Stats()
		assert.Equal(t, [4]int{0, 0, 1, 1}, [4]int{s.InFlight, s.Overdue, s.Slow, s.Failures})
		assert.Equal(t, 1, s.Calls)
	})
}

func TestAHangingProbeOpensTheBreakerAgainAtTheThreshold(t *testing.T) {
	var seen transitions
	b, mock := halfOpened(t, steady.BreakerConfig{HalfOpenProbes: 2, Hooks: seen.hooks()})
	began := mock.Now()
	allow(t, b)
	allow(t, b).Done(steady.Success)
	mock.Add(time.Second)
	requireRejected(t, b)
	again := heard(t, &seen, 2)
	assert.Equal(t, steady.ReasonProbeSlow, again.Reason)
	assert.Equal(t, slowAfter, again.At.Sub(began))
	assert.Equal(t, slowAfter+10*time.Second, b.Stats().OpenUntil.Sub(began))
}

// Calls that hang since before an opening say nothing of what came after it.
func TestCallsThatHangSinceAnEarlierGenerationAreOnlySeen(t *testing.T) {
	for _, later := range []string{"open", "half-open", "closed", "reset", "forced closed"} {
		t.Run(later, func(t *testing.T) {
			b, mock := newBreaker(t, steady.BreakerConfig{OpenDuration: 100 * time.Millisecond, HalfOpenProbes: 1})
			for range 20 {
				allow(t, b)
			}
			openByFailures(t, b)
			switch later {
			case "half-open":
				mock.Add(100 * time.Millisecond)
				allow(t, b).Done(steady.Ignored)
			case "closed":
				mock.Add(100 * time.Millisecond)
				allow(t, b).Done(steady.Success)
			case "reset":
				b.Reset("mended")
			case "forced closed":
				b.ForceClosed("mended")
			}
			before := b.Stats()
			mock.Add(slowAfter)
			s := b.Stats()
			assert.Equal(t, 20, s.Overdue)
			assert.Equal(t, before.Slow, s.Slow)
			assert.Equal(t, before.Calls, s.Calls)
			assert.Equal(t, before.Transitions, s.Transitions)
		})
	}
}

// What waits in this process is not hanging in the dependency.
func TestWaitingInAQueueOrBetweenAttemptsIsNotHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: slowAfter, MinCalls: 1, SlowRate: 0.01}))
		bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Minute}))
		retry := steady.Must(steady.NewRetry(steady.RetryConfig{BaseDelay: 10 * time.Second, Jitter: steady.NoJitter}))
		p := pipeline(t, b, retry, bulkhead)
		slot, err := bulkhead.Acquire(t.Context())
		require.NoError(t, err)
		time.AfterFunc(20*time.Second, slot.Release)

		attempts := 0
		_, err = p.Do(t.Context(), func(context.Context) (int, error) {
			time.Sleep(400 * time.Millisecond)
			if attempts++; attempts == 1 {
				return 0, errBoom
			}
			return 1, nil
		})
		require.NoError(t, err)
		assert.Equal(t, 2, attempts)
		assert.Equal(t, 1, b.Stats().Calls)
		assert.Zero(t, b.Stats().Slow)
		assert.Equal(t, steady.StateClosed, b.State())
	})
}

// With a Retry inside, a look sees the attempt that hangs; the call counts once, as slow.
func TestAnAttemptThatHangsInsideARetryIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: slowAfter}))
		retry := steady.Must(steady.NewRetry(steady.RetryConfig{NoDelay: true}))
		attempts := 0
		answer := inBackground(t, t.Context(), pipeline(t, b, retry), func(context.Context) (int, error) {
			if attempts++; attempts == 1 {
				return 0, errBoom
			}
			time.Sleep(8 * time.Second)
			return 1, nil
		})
		time.Sleep(slowAfter)
		assert.Equal(t, 1, b.Stats().Slow)
		assert.Equal(t, 1, b.Stats().Overdue)
		require.NoError(t, <-answer)
		assert.Equal(t, 1, b.Stats().Calls)
		assert.Equal(t, 1, b.Stats().Slow)
		assert.Zero(t, b.Stats().Failures)
	})
}

func TestAHangingCallAgesFromTheMomentItBecameSlow(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{WindowAge: 10 * time.Second})
	hanging := allow(t, b)
	mock.Add(slowAfter + 10*time.Second)
	require.Equal(t, 1, b.Stats().Slow)
	mock.Add(1)
	require.Zero(t, b.Stats().Calls)
	hanging.Done(steady.Transient)
	assert.Zero(t, b.Stats().Calls, "it does not come back when it fails")
	assert.Zero(t, b.Stats().Overdue)
}

func TestAHangingCallThatFellOutOfTheWindowDoesNotFailAnotherOutcome(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 2, MinCalls: 2})
	b.ForceClosed("to record without deciding")
	hanging := allow(t, b)
	mock.Add(slowAfter)
	call(t, b, mock, 2, 0, steady.Success)
	hanging.Done(steady.Transient)
	s := b.Stats()
	assert.Equal(t, [3]int{2, 0, 0}, [3]int{s.Calls, s.Slow, s.Failures})
}

func TestShadowReportsHangingCallsAndRejectsNothing(t *testing.T) {
	var seen transitions
	b, mock := newBreaker(t, steady.BreakerConfig{Shadow: true, Hooks: seen.hooks()})
	for range 10 {
		allow(t, b)
	}
	mock.Add(slowAfter)
	allow(t, b)
	require.Equal(t, []steady.Reason{steady.ReasonSlowRate}, seen.reasons())
	assert.True(t, heard(t, &seen, 0).Shadow)
	assert.EqualValues(t, 1, b.Stats().Rejected)
}

func TestTenThousandHangingCallsNeedNoGoroutineOfTheBreaker(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	b, mock := newBreaker(t, steady.BreakerConfig{})
	permits := make([]steady.Permit, 10_000)
	for i := range permits {
		permits[i] = allow(t, b)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	mock.Add(slowAfter)
	assert.Equal(t, steady.StateOpen, b.State())
	assert.Equal(t, 10_000, b.Stats().Overdue)
	for _, p := range permits {
		p.Done(steady.Success)
	}
	assert.Zero(t, b.Stats().InFlight)
	assert.Zero(t, b.Stats().Overdue)
}

// Calls that return, hang and are looked at all at once: none counts twice, none is lost.
func TestEveryCallCountsOnceWhileOthersLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 400
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: slowAfter, WindowSize: calls}))
		b.ForceClosed("to record without deciding")
		p := pipeline(t, b)
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() { // a quarter each: fast, just slow, failed in the instant it becomes slow, hanging
				d := []time.Duration{slowAfter - 1, slowAfter, slowAfter, 8 * time.Second}[i%4]
				var err error
				if i%4 == 2 {
					err = errBoom
				}
				_, got := p.Do(t.Context(), after(d, 1, err))
				assert.Equal(t, err, got)
			})
		}
		for range 4 {
			all.Go(func() {
				for range 10 {
					b.Stats()
					time.Sleep(slowAfter / 5)
				}
			})
		}
		all.Wait()
		s := b.Stats()
		assert.Equal(t, [3]int{calls, calls * 3 / 4, calls / 4}, [3]int{s.Calls, s.Slow, s.Failures})
		assert.Zero(t, s.InFlight)
		assert.Zero(t, s.Overdue)
	})
}
