package steady_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
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

// bubbleBulkhead returns a bulkhead on the system clock, which a bubble fakes.
func bubbleBulkhead(t testing.TB, cfg steady.BulkheadConfig) *steady.Bulkhead {
	t.Helper()
	b, err := steady.NewBulkhead(cfg)
	require.NoError(t, err)
	return b
}

// bubbleTimeout likewise.
func bubbleTimeout(t testing.TB, cfg steady.TimeoutConfig) *steady.Timeout {
	t.Helper()
	timeout, err := steady.NewTimeout(cfg)
	require.NoError(t, err)
	return timeout
}

// requireEmpty shows that no slot was lost and none doubled: all can be taken, and no more.
func requireEmpty(t testing.TB, b *steady.Bulkhead) {
	t.Helper()
	s := b.Stats()
	require.Zero(t, s.InFlight)
	require.Zero(t, s.Waiting)
	var slots []steady.Slot
	for range s.MaxConcurrent {
		slot, err := b.Acquire(context.Background())
		require.NoError(t, err)
		slots = append(slots, slot)
	}
	require.Equal(t, s.MaxConcurrent, b.Stats().InFlight)
	for _, slot := range slots {
		slot.Release()
	}
}

// failsafe-lib#365: the third caller in the queue never ran, as a release did not hand the permit over.
func TestEveryQueuedCallerGetsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubbleBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Minute, MaxQueue: 5})
		p := pipeline(t, b)
		var order []int
		var answers []<-chan error
		for i := range 6 {
			answers = append(answers, inBackground(t, t.Context(), p, func(context.Context) (int, error) {
				time.Sleep(time.Second)
				order = append(order, i)
				return 0, nil
			}))
			synctest.Wait() // the next one comes later
		}
		for _, answer := range answers {
			require.NoError(t, <-answer)
		}
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5}, order)
		requireEmpty(t, b)
	})
}

// concurrency-limits#179, #70: a token was lost when the grant and the timeout of a waiter coincided.
func TestNoSlotIsLostWhenGrantAndGivingUpCoincide(t *testing.T) {
	for _, alsoCancelled := range []bool{false, true} {
		for range 20 { // a select would choose either
			ctx, cancel := context.WithCancel(t.Context())
			together := &coincidence{Mock: clock.NewMock()}
			b := bubbleBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Second, Clock: together})
			slot, err := b.Acquire(t.Context())
			require.NoError(t, err)
			together.then = func() {
				slot.Release()
				if alsoCancelled {
					cancel()
				}
			}
			slot, err = b.Acquire(ctx)
			if alsoCancelled {
				require.Equal(t, context.Canceled, err)
			} else {
				require.NoError(t, err, "it was granted, and granted it stays")
			}
			slot.Release()
			requireEmpty(t, b)
			cancel()
		}
	}
}

// The same reports, under load.
func TestNoSlotIsLostAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubbleBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 2, MaxWait: time.Second, MaxQueue: 8})
		for range 200 {
			var callers sync.WaitGroup
			for i := range 10 {
				callers.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if i%2 == 0 {
						time.AfterFunc(time.Second, cancel)
					}
					if slot, err := b.Acquire(ctx); err == nil {
						time.Sleep(time.Second) // released in the very instant in which the others give up
						slot.Release()
					}
				})
			}
			callers.Wait()
			requireEmpty(t, b)
		}
	})
}

// go-concurrency-limits#154, #162: a wake-up between a failed acquire and the wait for it was lost.
func TestNoWakeUpIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubbleBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Hour})
		began := time.Now()
		for range 5000 { // a release and a failed acquire, alone with each other
			slot, err := b.Acquire(t.Context())
			require.NoError(t, err)
			var releasing sync.WaitGroup
			releasing.Go(slot.Release)
			slot, err = b.Acquire(t.Context())
			require.NoError(t, err)
			slot.Release()
			releasing.Wait()
		}
		assert.Zero(t, time.Since(began), "nobody has slept for want of a wake-up")
		requireEmpty(t, b)
	})
}

// failsafe-go#14: a caller in the queue ignored its cancellation.
func TestAQueuedCallerLeavesWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubbleBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Hour, MaxQueue: 2})
		p := pipeline(t, b)
		slot, err := b.Acquire(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		leaver := inBackground(t, ctx, p, mustNotRun(t))
		synctest.Wait()
		behind := inBackground(t, t.Context(), p, returns(1, nil))
		synctest.Wait()
		require.Equal(t, 2, b.Stats().Waiting)

		began := time.Now()
		cancel()
		require.Equal(t, context.Canceled, <-leaver)
		assert.Equal(t, 1, b.Stats().Waiting)
		slot.Release()
		require.NoError(t, <-behind, "the one behind moved up")
		assert.Zero(t, time.Since(began))
		requireEmpty(t, b)
	})
}

// resilience4j#1569: a permission released twice let more in than the limit.
func TestReleasingASlotTwiceFreesOne(t *testing.T) {
	b := bubbleBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 2})
	first, err := b.Acquire(t.Context())
	require.NoError(t, err)
	_, err = b.Acquire(t.Context())
	require.NoError(t, err)
	same := first
	first.Release()
	same.Release()
	first.Release()
	assert.Equal(t, 1, b.Stats().InFlight)
	_, err = b.Acquire(t.Context())
	require.NoError(t, err)
	_, err = b.Acquire(t.Context())
	assert.ErrorIs(t, err, steady.ErrBulkheadFull)
}

// sentinel-golang#394: 20 036 calls were in flight with a limit of 20 000.
func TestNoMoreThanTheLimitAreEverInside(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			const limit = 4
			p := pipeline(t, bubbleBulkhead(t, steady.BulkheadConfig{MaxConcurrent: limit, MaxWait: wait}))
			var inside, ran atomic.Int64
			var callers sync.WaitGroup
			for range 32 {
				callers.Go(func() {
					for range 100 {
						_, err := p.Do(t.Context(), func(context.Context) (int, error) {
							if inside.Add(1) > limit {
								t.Error("more than the limit are inside")
							}
							time.Sleep(time.Nanosecond)
							inside.Add(-1)
							ran.Add(1)
							return 0, nil
						})
						if err != nil {
							assert.ErrorIs(t, err, steady.ErrBulkheadFull)
						}
					}
				})
			}
			callers.Wait()
			assert.GreaterOrEqual(t, ran.Load(), int64(limit))
		})
	}
}

// resilience4j#2296, spring-cloud-circuitbreaker#163: the timeout freed the slot while the work ran on.
func TestASlotIsHeldUntilTheWorkHasEndedNotTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubbleBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
		limit := bubbleTimeout(t, steady.TimeoutConfig{Limit: time.Second, Abandon: true})
		p := pipeline(t, limit, b)
		_, err := p.Do(t.Context(), after(time.Minute, 0, nil))
		require.ErrorIs(t, err, steady.ErrTimeout)
		assert.Equal(t, 1, b.Stats().InFlight)
		_, err = p.Do(t.Context(), mustNotRun(t))
		require.ErrorIs(t, err, steady.ErrBulkheadFull)

		time.Sleep(time.Minute)
		requireEmpty(t, b)
	})
	_, err := steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{
		bubbleBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1}),
		bubbleTimeout(t, steady.TimeoutConfig{Limit: time.Second, Abandon: true}),
	}})
	assert.ErrorContains(t, err, "put the Bulkhead inside the Timeout", "where the slot would be given away")
}

// failsafe-go (seen): ten thousand callers were let into a queue. Duo 2018, and incident.io's pool timeouts:
// an unbounded queue before a database made an outage of a slowness.
func TestTheQueueIsBoundedAndByDefaultThereIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			cfg   steady.BulkheadConfig
			waits int
		}{
			{steady.BulkheadConfig{MaxConcurrent: 2}, 0},
			{steady.BulkheadConfig{MaxConcurrent: 2, MaxWait: time.Second}, 2},
			{steady.BulkheadConfig{MaxConcurrent: 2, MaxWait: time.Second, MaxQueue: 5}, 5},
		} {
			b := bubbleBulkhead(t, c.cfg)
			p := pipeline(t, b)
			began := time.Now()
			var atOnce atomic.Int64
			var callers sync.WaitGroup
			for range 10_000 {
				callers.Go(func() {
					_, err := p.Do(t.Context(), after(time.Minute, 0, nil))
					if errors.Is(err, steady.ErrBulkheadFull) && time.Since(began) == 0 {
						atOnce.Add(1)
					}
				})
			}
			synctest.Wait()
			assert.Equal(t, 2, b.Stats().InFlight)
			assert.Equal(t, c.waits, b.Stats().Waiting)
			assert.EqualValues(t, 10_000-2-c.waits, atOnce.Load())
			callers.Wait()
			assert.EqualValues(t, 10_000-2, b.Stats().Rejected)
			requireEmpty(t, b)
		}
	})
}

// failsafe-go (seen): the function saw no deadline, and Canceled where DeadlineExceeded belongs.
func TestTheFunctionSeesTheDeadline(t *testing.T) {
	for name, c := range map[string]steady.Clock{"system clock": nil, "mock clock": clock.NewMock()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now, wait := time.Now, time.Sleep
				if mock, ok := c.(*clock.Mock); ok {
					now, wait = mock.Now, mock.Add
				}
				p := pipeline(t, bubbleTimeout(t, steady.TimeoutConfig{Limit: time.Second, Clock: c}))
				began := now()
				_, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
					deadline, ok := ctx.Deadline()
					assert.True(t, ok)
					assert.Equal(t, time.Second, deadline.Sub(began))
					wait(time.Second)
					<-ctx.Done()
					assert.Equal(t, context.DeadlineExceeded, ctx.Err())
					assert.Equal(t, context.DeadlineExceeded, context.Cause(ctx))
					return 0, ctx.Err()
				})
				require.ErrorIs(t, err, steady.ErrTimeout)
			})
		})
	}
}

// failsafe-go (seen), Polly: a success after the limit was thrown away.
func TestALateSuccessIsASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := bubbleTimeout(t, steady.TimeoutConfig{Limit: time.Second})
		v, err := pipeline(t, limit).Do(t.Context(), after(2*time.Second, 42, nil))
		require.NoError(t, err)
		assert.Equal(t, 42, v)
		assert.Zero(t, limit.Stats().Expired)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		v, err = pipeline(t).Do(ctx, after(2*time.Second, 43, nil))
		require.NoError(t, err)
		assert.Equal(t, 43, v, "nor is it after the caller's own deadline")
	})
}

// Polly#620: the timeout masked the function's own error.
func TestAnErrorOfItsOwnIsNotMaskedByTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipeline(t, bubbleTimeout(t, steady.TimeoutConfig{Limit: time.Second}))
		_, err := p.Do(t.Context(), after(2*time.Second, 0, errBoom))
		assert.Equal(t, errBoom, err)

		_, err = p.Do(t.Context(), func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, fmt.Errorf("%w: %w", errBoom, ctx.Err())
		})
		require.ErrorIs(t, err, steady.ErrTimeout)
		assert.ErrorIs(t, err, errBoom, "and where the limit is to blame, nothing is lost")
	})
}

// heimdall#63: a function that had timed out wrote the caller's variables.
func TestAnAbandonedFunctionsResultDoesNotReachTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var discarded []int
		p, err := steady.NewPipeline(steady.PipelineConfig[int]{
			Policies: []steady.Policy{bubbleTimeout(t, steady.TimeoutConfig{Limit: time.Second, Abandon: true})},
			Discard:  func(v int) { discarded = append(discarded, v) },
		})
		require.NoError(t, err)
		v, err := p.Do(t.Context(), after(2*time.Second, 42, nil))
		require.ErrorIs(t, err, steady.ErrTimeout)
		other, err := p.Do(t.Context(), after(0, 1, nil)) // which has no part in the first one's record
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Zero(t, v)
		assert.Equal(t, 1, other)
		assert.Equal(t, []int{42}, discarded)
	})
}

// resilience4j's TimeLimiter (seen): somebody else's timeout was counted as its own.
func TestATimeoutClaimsOnlyWhatItsOwnLimitEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer := bubbleTimeout(t, steady.TimeoutConfig{Name: "outer", Limit: 10 * time.Second})
		inner := bubbleTimeout(t, steady.TimeoutConfig{Name: "inner", Limit: time.Second})
		p := pipeline(t, outer, inner)
		for _, theirs := range []error{context.DeadlineExceeded, context.Canceled, os.ErrDeadlineExceeded} {
			_, err := p.Do(t.Context(), returns(0, theirs))
			require.Equal(t, theirs, err, "a deadline of the function's own")
		}
		_, err := p.Do(t.Context(), neverAnswers)
		var timeout *steady.TimeoutError
		require.ErrorAs(t, err, &timeout)
		assert.Equal(t, "inner", timeout.Policy)
		assert.Equal(t, time.Second, timeout.Limit)
		assert.EqualValues(t, 1, inner.Stats().Expired)
		assert.Zero(t, outer.Stats().Expired)
	})
}

// Polly#3086: the caller could not tell whose cancellation it was.
func TestItCanBeToldWhoEndedACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, abandon := range []bool{false, true} {
			p := pipeline(t, bubbleTimeout(t, steady.TimeoutConfig{Name: "attempt", Limit: time.Minute, Abandon: abandon}))
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := p.Do(ctx, neverAnswers)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, steady.ErrTimeout)

			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			_, err = p.Do(ctx, neverAnswers)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, steady.ErrTimeout, "the caller's own deadline")

			_, err = p.Do(t.Context(), neverAnswers)
			require.ErrorIs(t, err, steady.ErrTimeout)
			assert.ErrorContains(t, err, `timeout "attempt" of 1m0s`)
			synctest.Wait()
		}
	})
}

// net/http (seen): where the context has a cancel cause it returns that cause itself, so that
// errors.Is(err, context.DeadlineExceeded) is false.
func TestATimeoutIsRecognisedWhateverTheErrorOfItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipeline(t, bubbleTimeout(t, steady.TimeoutConfig{Limit: time.Second}))
		for name, end := range map[string]func(context.Context) error{
			"its error":         context.Context.Err,
			"its cause":         context.Cause,
			"a read's deadline": func(context.Context) error { return &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded} },
			"a cancelled step":  func(context.Context) error { return context.Canceled },
		} {
			var last error
			_, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
				<-ctx.Done()
				last = end(ctx)
				return 0, last
			})
			require.ErrorIs(t, err, steady.ErrTimeout, name)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.ErrorIs(t, err, last, name)
			var timeout interface{ Timeout() bool }
			require.ErrorAs(t, err, &timeout)
			assert.True(t, timeout.Timeout(), name)
		}
	})

	// The other way round: a caller that cancels with a cause gets back just that.
	errLeft := errors.New("the user left the page")
	b, mock := newBreaker(t, steady.BreakerConfig{})
	limit := bubbleTimeout(t, steady.TimeoutConfig{Limit: time.Second, Clock: mock})
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := pipeline(t, limit, b).Do(ctx, func(ctx context.Context) (int, error) {
		cancel(errLeft)
		<-ctx.Done()
		return 0, context.Cause(ctx)
	})
	assert.Equal(t, errLeft, err)
	assert.Zero(t, b.Stats().Calls)
}

// timerClock remembers the timers that were armed on it.
type timerClock struct {
	*clock.Mock
	mu    sync.Mutex
	armed []*clock.Timer
}

func (c *timerClock) Timer(d time.Duration) *clock.Timer { return c.remember(c.Mock.Timer(d)) }

func (c *timerClock) AfterFunc(d time.Duration, f func()) *clock.Timer {
	return c.remember(c.Mock.AfterFunc(d, f))
}

func (c *timerClock) remember(t *clock.Timer) *clock.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = append(c.armed, t)
	return t
}

// resilience4j's TimeLimiter (seen): a thousand calls that had ended left a thousand armed timers.
func TestCallsThatHaveEndedLeaveNoTimer(t *testing.T) {
	for _, abandon := range []bool{false, true} {
		counted := &timerClock{Mock: clock.NewMock()}
		b := bubbleBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Minute, MaxQueue: 100})
		limit := bubbleTimeout(t, steady.TimeoutConfig{Limit: time.Minute, Abandon: abandon, Clock: counted})
		p := pipeline(t, limit, b)
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				_, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
					ctx.Done() // which takes a timer
					return 1, nil
				})
				assert.NoError(t, err)
			})
		}
		callers.Wait()
		require.GreaterOrEqual(t, len(counted.armed), 100)
		for _, timer := range counted.armed {
			require.False(t, timer.Stop(), "it was still armed")
		}

		p = pipeline(t, bubbleTimeout(t, steady.TimeoutConfig{Limit: time.Minute, Abandon: abandon}))
		var inner context.Context
		_, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
			inner = ctx
			return 1, nil
		})
		require.NoError(t, err)
		assert.Equal(t, context.Canceled, inner.Err(), "which is what stops the timer of the system")
	}
}
