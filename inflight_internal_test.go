package steady

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/stretchr/testify/assert"
)

func TestTheOrderOfCallsThatEnteredAtTheSameMomentDoesNotDependOnWhoLooked(t *testing.T) { // B7
	for _, looked := range []bool{false, true} {
		b := Must(NewBreaker(BreakerConfig{SlowThreshold: 100, MinCalls: 20}))
		first, second := newTicket(b, true), newTicket(b, true)
		now := b.time.now()
		first.gen = b.gen.Load()
		b.start(first, now)
		b.finish(first, now, Ignored, false)

		first.gen, second.gen = b.gen.Load(), b.gen.Load()
		b.start(second, now+1)
		if looked {
			b.mu.Lock()
			b.collect()
			b.mu.Unlock()
		}
		b.start(first, now+1)
		b.look(now + 101)
		assert.True(t, first.recorded && second.recorded)
		assert.Less(t, first.place, second.place)
	}
}

func TestFinishedCallsAreNotKept(t *testing.T) { // B7
	for _, cfg := range []BreakerConfig{{SlowThreshold: time.Hour}, {NoSlowCalls: true}} {
		b := Must(NewBreaker(cfg))
		for range 1000 {
			Must(b.Allow()).Done(Success)
		}
		kept := 0
		for t := b.entrants.top.Load(); t != nil; t = t.next {
			kept++
		}
		assert.LessOrEqual(t, kept, maxEntrants)
	}
}

// What every call writes shares its cache lines with nothing that calls only read.
func TestWhatEveryCallWritesIsTogether(t *testing.T) {
	var b Breaker
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("laid out for 64 bits")
	}
	const line = 64
	size, lock, written := unsafe.Sizeof(b), unsafe.Offsetof(b.mu), unsafe.Offsetof(b.window.ring)
	assert.LessOrEqual(t, size, uintptr(512))
	assert.Greater(t, size, uintptr(480), "a smaller one the allocator does not put at the beginning of a line")
	assert.Zero(t, lock%line)
	assert.Equal(t, lock/line, (unsafe.Offsetof(b.window)+written-1)/line)
}

func TestWhoeverComesAfterADueMomentFindsTheBreakerOpen(t *testing.T) { // B3, B7
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // so that one may be stopped at any point
	const callers, rounds = 3, 5000
	var current atomic.Pointer[Breaker]
	var round, ready, done, missed atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := int64(1); n <= rounds; n++ {
				for round.Load() < n {
					runtime.Gosched()
				}
				b := current.Load()
				ready.Add(1)
				for spins := 0; ready.Load() < n*callers; spins++ {
					if spins > 200 {
						runtime.Gosched()
					}
				}
				for range 10 {
					if rejected, _ := b.admit(context.Background(), 100, newTicket(b, true)); rejected == nil {
						missed.Add(1)
					}
				}
				done.Add(1)
			}
		})
	}
	for n := int64(1); n <= rounds; n++ {
		b := Must(NewBreaker(BreakerConfig{SlowThreshold: 100, WindowSize: 1, NoOpenJitter: true, OpenDuration: time.Hour}))
		hanging := newTicket(b, true)
		hanging.gen = b.gen.Load()
		b.start(hanging, 0) // slow, and the breaker open, at 100
		current.Store(b)
		round.Store(n)
		for done.Load() < n*callers {
			runtime.Gosched()
		}
	}
	all.Wait()
	assert.Zero(t, missed.Load())
}

// The last of those who enter may count itself just before the list is emptied, or just after.
func TestTheListIsUsedAgainAfterItWasFull(t *testing.T) { // B7
	b := Must(NewBreaker(BreakerConfig{SlowThreshold: time.Hour}))
	b.entrants.count.Store(maxEntrants) // as if all had come between the two
	for range 2 {
		Must(b.Allow()).Done(Success)
	}
	assert.LessOrEqual(t, b.entrants.count.Load(), int32(1))
	assert.NotNil(t, b.entrants.top.Load())
}

func TestCallsThatNeverBecomeSlowAreInNoOrder(t *testing.T) { // B7
	b := Must(NewBreaker(BreakerConfig{NoSlowCalls: true}))
	older := newTicket(b, true)
	for range 1000 {
		Must(b.Allow())
	}
	b.mu.Lock()
	b.collect()
	b.mu.Unlock()
	older.gen = b.gen.Load()
	b.startLocked(older, 0)
	assert.Same(t, older, b.running.last.ticket, "it did not look for its place among the others")
}

func TestAListedTicketKeepsNoOtherBreaker(t *testing.T) {
	outer := Must(NewBreaker(BreakerConfig{NoSlowCalls: true}))
	var freed atomic.Int64
	for range 20 {
		inner := Must(NewBreaker(BreakerConfig{NoSlowCalls: true}))
		runtime.AddCleanup(inner, func(int) { freed.Add(1) }, 0)
		p := Must(NewPipeline(PipelineConfig[int]{Policies: []Policy{outer, inner}}))
		_, _ = p.Do(t.Context(), func(context.Context) (int, error) { return 1, nil })
	}
	require.Eventually(t, func() bool { runtime.GC(); return freed.Load() == 20 }, 10*time.Second, 10*time.Millisecond)
	runtime.KeepAlive(outer)
}

func TestACallThatAHookKeptFromTheFunctionIsNotCounted(t *testing.T) { // B14
	b := Must(NewBreaker(BreakerConfig{NoSlowCalls: true}))
	kept := newTicket(b, true)
	kept.gen = b.gen.Load()
	b.start(kept, 0)
	b.back(kept, false)
	b.finish(kept, 0, Ignored, false)
	assert.Zero(t, b.Stats().Totals)
	assert.Zero(t, b.Stats().InFlight)
}
