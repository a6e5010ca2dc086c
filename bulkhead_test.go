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

// acquire takes a slot that must be given.
func acquire(t testing.TB, b *steady.Bulkhead) steady.Slot {
	t.Helper()
	s, err := b.Acquire(t.Context())
	require.NoError(t, err)
	return s
}

// acquired is how an Acquire in a goroutine of its own ended.
type acquired struct {
	slot steady.Slot
	err  error
	done bool
	at   time.Time
}

// acquireLater begins an Acquire in a goroutine of the bubble, and returns when it waits or has ended. Its
// result may be read after the next synctest.Wait.
func acquireLater(ctx context.Context, b *steady.Bulkhead) *acquired {
	var a acquired
	go func() {
		a.slot, a.err = b.Acquire(ctx)
		a.done, a.at = true, time.Now()
	}()
	synctest.Wait()
	return &a
}

func TestBulkheadWithoutMaxWaitRejectsAtOnceWhenFull(t *testing.T) { // H2
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "caller")
	var told []steady.Rejection
	b := newBulkhead(t, steady.BulkheadConfig{
		Name:          "pool",
		MaxConcurrent: 2,
		Hooks: &steady.Hooks{OnReject: func(ctx context.Context, r steady.Rejection) {
			assert.Equal(t, "caller", ctx.Value(key{}))
			told = append(told, r)
		}},
	})
	first := acquire(t, b)
	acquire(t, b)

	_, err := b.Acquire(ctx)
	var rejected *steady.RejectedError
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, "pool", rejected.Policy)
	assert.ErrorIs(t, err, steady.ErrBulkheadFull)
	assert.NotErrorIs(t, err, steady.ErrBreakerOpen)
	assert.True(t, steady.IsRejected(err))
	assert.Zero(t, rejected.RetryAfter())
	assert.EqualError(t, err, `steady: bulkhead full: "pool"`)
	assert.Equal(t, []steady.Rejection{{Policy: "pool", Err: rejected}}, told)
	assert.Equal(t, steady.BulkheadStats{Name: "pool", MaxConcurrent: 2, InFlight: 2, Rejected: 1}, b.Stats())

	first.Release()
	acquire(t, b)
	assert.Equal(t, 2, b.Stats().InFlight)
}

func TestBulkheadInAPipelineHoldsItsSlotWhileTheFunctionRuns(t *testing.T) {
	b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	p := pipeline(t, b)
	v, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
		assert.Equal(t, 1, b.Stats().InFlight)
		_, err := p.Do(ctx, func(context.Context) (int, error) {
			t.Error("the function ran in a full bulkhead")
			return 0, nil
		})
		assert.True(t, steady.IsRejected(err), "%v", err)
		return 7, nil
	})
	require.NoError(t, err)
	assert.Equal(t, 7, v)
	assert.Zero(t, b.Stats().InFlight)
}

func TestBulkheadGetsItsSlotBackHoweverTheFunctionEnds(t *testing.T) {
	b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	p := pipeline(t, b)
	for range 3 {
		_, err := p.Do(t.Context(), returns(0, errBoom))
		require.ErrorIs(t, err, errBoom)
		require.PanicsWithError(t, "boom", func() {
			_, _ = p.Do(t.Context(), func(context.Context) (int, error) { panic(errBoom) })
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = p.Do(t.Context(), func(context.Context) (int, error) {
				runtime.Goexit()
				return 0, nil
			})
		})
		wg.Wait()
		require.Zero(t, b.Stats().InFlight)
	}
}

func TestBulkheadServesWaitersInTheOrderOfTheirArrival(t *testing.T) { // H2
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Second, MaxQueue: 5})
		slot := acquire(t, b)
		var queue []*acquired
		for range 5 {
			queue = append(queue, acquireLater(t.Context(), b))
		}
		require.Equal(t, 5, b.Stats().Waiting)
		for i, a := range queue {
			slot.Release()
			synctest.Wait()
			require.True(t, a.done, "waiter %d", i)
			require.NoError(t, a.err)
			require.Equal(t, 4-i, b.Stats().Waiting, "exactly one was let in")
			require.Equal(t, 1, b.Stats().InFlight)
			slot = a.slot
		}
	})
}

func TestBulkheadNewcomerDoesNotOvertakeAWaiter(t *testing.T) { // H2
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Second, MaxQueue: 2})
		slot := acquire(t, b)
		waiter := acquireLater(t.Context(), b)
		slot.Release() // the waiter has the slot now, though it has not run yet
		newcomer := acquireLater(t.Context(), b)
		assert.True(t, waiter.done)
		assert.False(t, newcomer.done)
		waiter.slot.Release()
		synctest.Wait()
		assert.True(t, newcomer.done)
		assert.NoError(t, newcomer.err)
	})
}

func TestBulkheadWaiterIsRejectedAfterMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: 300 * time.Millisecond})
		acquire(t, b)
		began := time.Now()
		_, err := b.Acquire(t.Context())
		assert.ErrorIs(t, err, steady.ErrBulkheadFull)
		assert.Equal(t, 300*time.Millisecond, time.Since(began))
		assert.Equal(t, steady.BulkheadStats{MaxConcurrent: 1, InFlight: 1, MaxQueue: 1, Rejected: 1}, b.Stats())
	})
}

func TestBulkheadMeasuresMaxWaitOnItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mock := clock.NewMock()
		b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Hour, Clock: mock})
		acquire(t, b)
		a := acquireLater(t.Context(), b)
		mock.Add(time.Hour - 1)
		synctest.Wait()
		assert.False(t, a.done)
		mock.Add(1)
		synctest.Wait()
		assert.True(t, a.done)
		assert.ErrorIs(t, a.err, steady.ErrBulkheadFull)
	})
}

func TestBulkheadRejectsWhomTheQueueHasNoRoomFor(t *testing.T) { // H2
	for _, tc := range []struct{ configured, room int }{{0, 3}, {1, 1}, {5, 5}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 3, MaxWait: time.Second, MaxQueue: tc.configured})
			for range 3 {
				acquire(t, b)
			}
			for range tc.room {
				require.False(t, acquireLater(t.Context(), b).done)
			}
			a := acquireLater(t.Context(), b)
			require.True(t, a.done)
			assert.ErrorIs(t, a.err, steady.ErrBulkheadFull)
			assert.Equal(t, tc.room, b.Stats().Waiting)
			assert.Equal(t, tc.room, b.Stats().MaxQueue)
			time.Sleep(time.Second)
		})
	}
}

func TestBulkheadWaiterLeavesWithItsContextAndThoseBehindItMove(t *testing.T) { // H2, H3
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Minute, MaxQueue: 4})
		slot := acquire(t, b)
		cancelled, cancel := context.WithCancelCause(t.Context())
		expiring, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		first := acquireLater(cancelled, b)
		second := acquireLater(t.Context(), b)
		third := acquireLater(expiring, b)
		fourth := acquireLater(t.Context(), b)

		cancel(errBoom)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, context.Canceled, first.err, "the context's own error")
		assert.Equal(t, context.DeadlineExceeded, third.err)
		assert.Equal(t, 2, b.Stats().Waiting)
		assert.Zero(t, b.Stats().Rejected, "leaving is no rejection")

		slot.Release()
		synctest.Wait()
		require.True(t, second.done)
		require.NoError(t, second.err)
		assert.False(t, fourth.done)
		second.slot.Release()
		synctest.Wait()
		require.True(t, fourth.done)
		require.NoError(t, fourth.err)
		fourth.slot.Release()
		assert.Zero(t, b.Stats().InFlight)
	})
}

func TestBulkheadDoneContextBeatsAFreeSlot(t *testing.T) { // H3
	b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Second})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	_, err := b.Acquire(ctx)
	assert.Equal(t, context.Canceled, err)

	acquire(t, b)
	_, err = b.Acquire(ctx)
	assert.Equal(t, context.Canceled, err, "and a full bulkhead's rejection")
	assert.Equal(t, 1, b.Stats().InFlight)
	assert.Zero(t, b.Stats().Rejected)
}

func TestBulkheadDoneContextBeatsASlotGrantedAtTheSameMoment(t *testing.T) { // H2, H3
	for i := range 200 {
		synctest.Test(t, func(t *testing.T) {
			b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Second, MaxQueue: 2})
			slot := acquire(t, b)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			leaver := acquireLater(ctx, b)
			behind := acquireLater(t.Context(), b)
			if i%2 == 0 {
				cancel()
				slot.Release()
				synctest.Wait()
				require.Equal(t, context.Canceled, leaver.err)
			} else { // it may have gone in before the cancel
				slot.Release()
				cancel()
				synctest.Wait()
				leaver.slot.Release()
				synctest.Wait()
			}
			require.True(t, behind.done, "the slot went on to the next")
			require.NoError(t, behind.err)
			require.Equal(t, 1, b.Stats().InFlight)
		})
	}
}

// quietly is a context that has ended before its Done says so.
type quietly struct {
	context.Context
	ended atomic.Bool
}

func (q *quietly) Err() error {
	if q.ended.Load() {
		return context.Canceled
	}
	return nil
}

func TestBulkheadPassesOnASlotThatWasGrantedToADoneContext(t *testing.T) { // H2, H3
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Second, MaxQueue: 2})
		slot := acquire(t, b)
		ctx := &quietly{Context: t.Context()}
		leaver, behind := acquireLater(ctx, b), acquireLater(t.Context(), b)
		ctx.ended.Store(true)
		slot.Release()
		synctest.Wait()
		assert.Equal(t, context.Canceled, leaver.err)
		assert.True(t, behind.done)
		assert.NoError(t, behind.err)
		assert.Equal(t, 1, b.Stats().InFlight)
	})
}

func TestBulkheadSlotGrantedAtTheEndOfMaxWaitHasOneAnswer(t *testing.T) { // H2
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Second})
			slot := acquire(t, b)
			waiter := acquireLater(t.Context(), b)
			time.Sleep(time.Second)
			slot.Release()
			synctest.Wait()
			require.True(t, waiter.done)
			inFlight := 0
			if waiter.err == nil {
				inFlight = 1
			}
			require.Equal(t, inFlight, b.Stats().InFlight)
			require.Equal(t, uint64(1-inFlight), b.Stats().Rejected)
			waiter.slot.Release()
			acquire(t, b)
		})
	}
}

func TestBulkheadCallWhoseContextEndsInTheQueueDoesNotRun(t *testing.T) { // O1
	synctest.Test(t, func(t *testing.T) {
		breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: time.Second}))
		b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Minute})
		p := pipeline(t, breaker, b)
		slot := acquire(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := p.Do(ctx, func(context.Context) (int, error) {
			t.Error("the function ran")
			return 0, nil
		})
		assert.Equal(t, context.DeadlineExceeded, err)
		assert.Zero(t, breaker.Stats().Calls, "the breaker hears Ignored, and no slowness")
		assert.Equal(t, 1, b.Stats().InFlight)
		slot.Release()
		_, err = p.Do(t.Context(), returns(1, nil))
		assert.NoError(t, err)
	})
}

func TestBulkheadKeepsTheSlotUntilTheFunctionReturnsPastItsTimeout(t *testing.T) { // H4
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
		p := pipeline(t, steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second})), b)
		go func() {
			_, _ = p.Do(t.Context(), func(context.Context) (int, error) {
				time.Sleep(time.Minute) // heeds no context
				return 0, nil
			})
		}()
		time.Sleep(59 * time.Second)
		_, err := p.Do(t.Context(), returns(0, nil))
		assert.ErrorIs(t, err, steady.ErrBulkheadFull)
		time.Sleep(time.Second)
		synctest.Wait()
		_, err = p.Do(t.Context(), returns(0, nil))
		assert.NoError(t, err)
	})
}

func TestBulkheadReleaseCountsOnce(t *testing.T) {
	b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 2})
	one, two := acquire(t, b), acquire(t, b)
	again := one
	one.Release()
	one.Release()
	again.Release()
	assert.Equal(t, 1, b.Stats().InFlight)
	two.Release()
	assert.Zero(t, b.Stats().InFlight)
	steady.Slot{}.Release()
}

func TestBulkheadGrowingLetsWaitersInInOrder(t *testing.T) { // H5
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Second, MaxQueue: 3})
		acquire(t, b)
		var queue []*acquired
		for range 3 {
			queue = append(queue, acquireLater(t.Context(), b))
		}
		require.NoError(t, b.SetMaxConcurrent(3))
		synctest.Wait()
		assert.True(t, queue[0].done)
		assert.True(t, queue[1].done)
		assert.False(t, queue[2].done)
		assert.Equal(t, steady.BulkheadStats{MaxConcurrent: 3, InFlight: 3, Waiting: 1, MaxQueue: 3}, b.Stats())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.ErrorIs(t, queue[2].err, steady.ErrBulkheadFull)
	})
}

func TestBulkheadShrinkingTakesEffectAsCallsFinish(t *testing.T) { // H5
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 3, MaxWait: time.Second})
		slots := []steady.Slot{acquire(t, b), acquire(t, b), acquire(t, b)}
		require.NoError(t, b.SetMaxConcurrent(1))
		assert.Equal(t, 3, b.Stats().InFlight, "those inside stay there")
		assert.Equal(t, 1, b.Stats().MaxConcurrent)
		assert.Equal(t, 1, b.Config().MaxConcurrent)

		waiter := acquireLater(t.Context(), b)
		for _, slot := range slots[:2] {
			slot.Release()
			synctest.Wait()
			require.False(t, waiter.done, "one is still inside")
		}
		slots[2].Release()
		synctest.Wait()
		require.True(t, waiter.done)
		require.NoError(t, waiter.err)
		assert.Equal(t, 1, b.Stats().InFlight)
	})
}

func TestBulkheadShrunkBelowItsCallsAndGrownAgainCountsRight(t *testing.T) { // H5
	b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 4})
	for range 4 {
		acquire(t, b)
	}
	require.NoError(t, b.SetMaxConcurrent(2))
	_, err := b.Acquire(t.Context())
	require.ErrorIs(t, err, steady.ErrBulkheadFull)
	require.NoError(t, b.SetMaxConcurrent(5))
	acquire(t, b)
	_, err = b.Acquire(t.Context())
	assert.ErrorIs(t, err, steady.ErrBulkheadFull)
	assert.Equal(t, 5, b.Stats().InFlight)
}

func TestBulkheadSetMaxConcurrentRefusesWhatIsNoLimit(t *testing.T) {
	b := newBulkhead(t, steady.BulkheadConfig{Name: "pool", MaxConcurrent: 4})
	for _, n := range []int{0, -1, 1<<30 + 1} {
		err := b.SetMaxConcurrent(n)
		require.Error(t, err)
		assert.Contains(t, err.Error(), `"pool"`)
		assert.Contains(t, err.Error(), fmt.Sprintf("got %d", n))
	}
	assert.Equal(t, 4, b.Stats().MaxConcurrent)
}

func TestBulkheadSurvivesAPanicInItsHook(t *testing.T) {
	b := newBulkhead(t, steady.BulkheadConfig{
		MaxConcurrent: 1,
		Hooks:         &steady.Hooks{OnReject: func(context.Context, steady.Rejection) { panic(errBoom) }},
	})
	slot := acquire(t, b)
	for range 2 {
		require.PanicsWithError(t, "boom", func() { _, _ = b.Acquire(t.Context()) })
	}
	slot.Release()
	acquire(t, b).Release()
	assert.Zero(t, b.Stats().InFlight)
}

func TestBulkheadServesPipelinesOfSeveralTypes(t *testing.T) {
	b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	numbers := pipeline(t, b)
	words := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{b}}))
	_, err := numbers.Do(t.Context(), func(ctx context.Context) (int, error) {
		_, err := words.Do(ctx, func(context.Context) (string, error) { return "", nil })
		return 0, err
	})
	assert.ErrorIs(t, err, steady.ErrBulkheadFull)
}

func TestOnWaitTellsHowLongACallWaitedAndWhetherItGotIn(t *testing.T) { // H2
	synctest.Test(t, func(t *testing.T) {
		var told []steady.Wait
		var waited []bool // before the rejection
		b := newBulkhead(t, steady.BulkheadConfig{
			Name: "pool", MaxConcurrent: 1, MaxWait: time.Second, MaxQueue: 1,
			Hooks: &steady.Hooks{
				OnWait:   func(_ context.Context, w steady.Wait) { told = append(told, w) },
				OnReject: func(_ context.Context, r steady.Rejection) { waited = append(waited, r.Waited) },
			},
		})
		held := acquire(t, b)
		assert.Empty(t, told, "it did not wait")

		admitted := acquireLater(t.Context(), b)
		_, err := b.Acquire(t.Context())
		require.ErrorIs(t, err, steady.ErrBulkheadFull)
		assert.Empty(t, told, "there was no room for it to wait")
		time.Sleep(300 * time.Millisecond)
		held.Release()
		synctest.Wait()
		require.NoError(t, admitted.err)
		assert.Equal(t, []steady.Wait{{Policy: "pool", Duration: 300 * time.Millisecond, Admitted: true}}, told)

		told = nil
		assert.Equal(t, []bool{false}, waited, "there was no room")
		_, err = b.Acquire(t.Context())
		require.ErrorIs(t, err, steady.ErrBulkheadFull)
		assert.Equal(t, []steady.Wait{{Policy: "pool", Duration: time.Second}}, told)
		assert.Equal(t, []bool{false, true}, waited)

		told = nil
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err = b.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []steady.Wait{{Policy: "pool", Duration: 200 * time.Millisecond}}, told)
	})
}

func TestAnOnWaitThatPanicsGivesTheSlotBack(t *testing.T) { // H2
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, steady.BulkheadConfig{
			MaxConcurrent: 1, MaxWait: time.Minute,
			Hooks: &steady.Hooks{OnWait: func(context.Context, steady.Wait) { explodeNow() }},
		})
		held := acquire(t, b)
		go func() {
			time.Sleep(time.Second)
			held.Release()
		}()
		unwound(t, "panic", func() { _, _ = b.Acquire(t.Context()) })
		assert.Zero(t, b.Stats().InFlight)
		assert.Zero(t, b.Stats().Waiting)
		_, err := b.Acquire(t.Context())
		require.NoError(t, err)
	})
}
