//go:build !race

package steady

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A call may find nothing due just before another goroutine's look begins, and enter the function while that
// goes on. That takes millions of tries to see, which the race detector makes a minute of.
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
	for at := instant(0); at < 5_000_000; at++ {
		now.Store(int64(at))
		c.gen = b.gen.Load()
		b.start(c, at)
		b.mu.Lock() // no look is going on
		if !c.overdue && b.nextDue.Load() > int64(at+100) {
			missed++
		}
		b.mu.Unlock()
		b.finish(c, at, Success, false)
	}
	close(ended)
	looking.Wait()
	assert.Zero(t, missed)
}
