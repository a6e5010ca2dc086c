package steady

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// A call may find nothing due just before another goroutine's look begins, and enter the function while that
// goes on.
func TestACallThatEntersDuringALookIsNotMissed(t *testing.T) { // B7
	b := Must(NewBreaker(BreakerConfig{SlowThreshold: 100, WindowSize: 1 << 10, MinCalls: 1 << 10}))
	var now atomic.Int64
	var looking sync.WaitGroup
	ended := make(chan struct{})
	looking.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				b.look(instant(now.Load()) + 100)
			}
		}
	})
	c := newTicket(b, true)
	missed := 0
	for at := instant(0); at < 200_000; at++ {
		now.Store(int64(at))
		c.gen = b.gen.Load()
		b.start(&c, at)
		b.mu.Lock() // no look is going on
		if !c.overdue && b.nextDue.Load() > int64(at+100) {
			missed++
		}
		b.mu.Unlock()
		b.finish(&c, at, Success, false)
	}
	close(ended)
	looking.Wait()
	assert.Zero(t, missed)
}

func TestTheOrderOfCallsThatEnteredAtTheSameMomentDoesNotDependOnWhoLooked(t *testing.T) { // B7
	for _, looked := range []bool{false, true} {
		b := Must(NewBreaker(BreakerConfig{SlowThreshold: 100, MinCalls: 20}))
		first, second := newTicket(b, true), newTicket(b, true)
		now := b.time.now()
		first.gen = b.gen.Load()
		b.start(&first, now)
		b.finish(&first, now, Ignored, false)

		first.gen, second.gen = b.gen.Load(), b.gen.Load()
		b.start(&second, now+1)
		if looked {
			b.mu.Lock()
			b.collect()
			b.mu.Unlock()
		}
		b.start(&first, now+1)
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
