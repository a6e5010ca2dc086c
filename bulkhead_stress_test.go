package steady_test

import (
	"context"
	"math/rand/v2"
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

// crowd counts who is inside a bulkhead, and checks that there are never too many.
type crowd struct {
	t       *testing.T
	inside  atomic.Int64
	ceiling atomic.Int64
}

func (c *crowd) enter() {
	if n, limit := c.inside.Add(1), c.ceiling.Load(); n > limit {
		c.t.Errorf("%d inside, at most %d may be", n, limit)
	}
}

func (c *crowd) leave() { c.inside.Add(-1) }

// assertIdle checks that no slot of the bulkhead was lost or doubled.
func assertIdle(t *testing.T, b *steady.Bulkhead) {
	t.Helper()
	s := b.Stats()
	assert.Zero(t, s.InFlight)
	assert.Zero(t, s.Waiting)
	for range s.MaxConcurrent {
		acquire(t, b)
	}
	assert.Equal(t, s.MaxConcurrent, b.Stats().InFlight)
}

// Callers come, wait, give up for every reason at every moment, and leave, while the limit changes.
func TestBulkheadStressNeverTooManyInsideAndNoSlotLost(t *testing.T) { // H1
	synctest.Test(t, func(t *testing.T) {
		const callers, calls, longest = 40, 150, 5 * time.Millisecond
		b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 4, MaxWait: 12 * time.Millisecond, MaxQueue: 30})
		inside := crowd{t: t}
		inside.ceiling.Store(4)
		var admitted, rejected, left atomic.Uint64
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 0))
				some := func(longest time.Duration) time.Duration {
					return time.Duration(random.Int64N(int64(longest/time.Millisecond)+1)) * time.Millisecond
				}
				for range calls {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					giveUp := time.AfterFunc(some(20*time.Millisecond), cancel) // often at the moment of a release
					slot, err := b.Acquire(ctx)
					switch {
					case err == nil:
						admitted.Add(1)
						inside.enter()
						time.Sleep(some(longest))
						inside.leave()
						slot.Release()
						slot.Release()
					case steady.IsRejected(err):
						rejected.Add(1)
					default:
						assert.Equal(t, ctx.Err(), err)
						left.Add(1)
					}
					giveUp.Stop()
					cancel()
				}
			})
		}
		stop := make(chan struct{})
		changed := make(chan struct{})
		go func() {
			defer close(changed)
			random := rand.New(rand.NewPCG(99, 0))
			for {
				select {
				case <-stop:
					return
				case <-time.After(longest):
				}
				n := random.IntN(8) + 1
				if grows := int64(n) > inside.ceiling.Load(); grows {
					inside.ceiling.Store(int64(n))
					assert.NoError(t, b.SetMaxConcurrent(n))
					continue
				}
				assert.NoError(t, b.SetMaxConcurrent(n))
				time.Sleep(longest + 1) // whoever was inside has left
				inside.ceiling.Store(int64(n))
			}
		}()
		wg.Wait()
		close(stop)
		<-changed

		assert.Equal(t, rejected.Load(), b.Stats().Rejected)
		assert.EqualValues(t, callers*calls, admitted.Load()+rejected.Load()+left.Load())
		for what, n := range map[string]uint64{"admitted": admitted.Load(), "rejected": rejected.Load(), "left": left.Load()} {
			assert.Positive(t, n, "the mix has to have some that were "+what)
		}
		assertIdle(t, b)
	})
}

// Waiters that arrive one after the other are let in in that order, though every third one leaves.
func TestBulkheadStressServesInOrderAroundThoseWhoLeave(t *testing.T) { // H2
	synctest.Test(t, func(t *testing.T) {
		const callers = 600
		b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 3, MaxWait: time.Hour, MaxQueue: callers})
		entered := make([]time.Time, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 1))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.Sleep(time.Duration(i) * time.Millisecond)
				if i%3 == 1 {
					defer time.AfterFunc(time.Duration(random.IntN(500))*time.Millisecond, cancel).Stop()
				}
				slot, err := b.Acquire(ctx)
				if err != nil {
					assert.Equal(t, context.Canceled, err)
					return
				}
				entered[i] = time.Now()
				time.Sleep(time.Duration(random.IntN(9)) * time.Millisecond)
				slot.Release()
			})
		}
		wg.Wait()
		var last time.Time
		left := 0
		for i, at := range entered {
			if at.IsZero() {
				left++
				continue
			}
			require.False(t, at.Before(last), "caller %d came in before one that came earlier", i)
			last = at
		}
		assert.Positive(t, left)
		assert.LessOrEqual(t, left, callers/3)
		assertIdle(t, b)
	})
}

// Real threads, as fast as they can: with a wake-up lost, this hangs.
func TestBulkheadStressEveryHandoverArrives(t *testing.T) { // H2
	const callers, calls = 8, 1500
	b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 2, MaxWait: time.Hour, MaxQueue: callers})
	inside := crowd{t: t}
	inside.ceiling.Store(2)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := range calls {
				ctx, cancel := context.WithCancel(t.Context())
				if (n+i)%4 == 0 {
					go cancel()
				}
				slot, err := b.Acquire(ctx)
				if err == nil {
					inside.enter()
					runtime.Gosched()
					inside.leave()
					slot.Release()
				} else if ctx.Err() == nil {
					t.Errorf("rejected with room in the queue: %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	assertIdle(t, b)
}

// Real threads at a bulkhead that rejects at once: taking a slot is one step.
func TestBulkheadStressNoSlotIsTakenTwice(t *testing.T) { // H1
	const callers, calls = 8, 20_000
	b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 3})
	inside := crowd{t: t}
	inside.ceiling.Store(3)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				slot, err := b.Acquire(t.Context())
				if err != nil {
					runtime.Gosched()
					continue
				}
				inside.enter()
				inside.leave()
				slot.Release()
			}
		})
	}
	wg.Wait()
	assertIdle(t, b)
}

// together runs the functions again and again, each on a goroutine of its own, and lets them begin each
// round as nearly at the same moment as can be, one of them a little later than the others. After each
// round it calls between.
func together(rounds int, between func(), fs ...func()) {
	var begun, ended atomic.Int64
	var wg sync.WaitGroup
	for i, f := range fs {
		wg.Go(func() {
			for n := range rounds {
				for begun.Load() <= int64(n) {
					runtime.Gosched()
				}
				if i == n%len(fs) {
					for range n / len(fs) % 100 {
						begun.Load()
					}
				}
				f()
				ended.Add(1)
			}
		})
	}
	for n := range rounds {
		begun.Add(1)
		for ended.Load() < int64((n+1)*len(fs)) {
			runtime.Gosched()
		}
		between()
	}
	wg.Wait()
}

func TestBulkheadStressOfTwoAtOnceOneTakesTheSlot(t *testing.T) { // H1
	b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	var slots [2]steady.Slot
	take := func(i int) func() {
		return func() { slots[i], _ = b.Acquire(t.Context()) }
	}
	inside := 0
	together(30_000, func() {
		inside = max(inside, b.Stats().InFlight)
		slots[0].Release()
		slots[1].Release()
	}, take(0), take(1))
	assert.Equal(t, 1, inside)
	assertIdle(t, b)
}

func TestBulkheadStressTheLastWaitersSlotIsTaken(t *testing.T) { // H1
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	b := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Hour, MaxQueue: 1})
	inside := crowd{t: t}
	inside.ceiling.Store(1)
	visit := func() {
		slot, err := b.Acquire(t.Context())
		if err != nil {
			return // the queue is full
		}
		inside.enter()
		for range 10 {
			runtime.Gosched()
		}
		inside.leave()
		slot.Release()
	}
	var held steady.Slot
	var waiter sync.WaitGroup
	queue := func() {
		waiter.Wait()
		held = acquire(t, b)
		waiter.Go(visit)
		for b.Stats().Waiting == 0 {
			runtime.Gosched()
		}
	}
	queue()
	together(20_000, queue, func() { held.Release() }, visit)
	held.Release()
	waiter.Wait()
	assertIdle(t, b)
}
