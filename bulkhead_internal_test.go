package steady

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestASlotThatBecomesFreeOnTheWayToTheQueueIsTaken(t *testing.T) { // H2
	for _, maxWait := range []time.Duration{0, time.Second} {
		b := Must(NewBulkhead(BulkheadConfig{MaxConcurrent: 1, MaxWait: maxWait}))
		w, ok := b.enqueue() // as after a take that found none
		assert.Nil(t, w)
		assert.True(t, ok)
		assert.Equal(t, 1, b.Stats().InFlight)
		assert.False(t, b.take(), "it was the only one")

		w, ok = b.enqueue()
		assert.Equal(t, maxWait > 0, ok)
		assert.Equal(t, maxWait > 0, w != nil)
		b.release()
		if w != nil {
			<-w.granted
			b.release()
		}
		assert.Zero(t, b.Stats().InFlight)
		assert.True(t, b.take())
		assert.False(t, b.take())
	}
}

func TestASlotThatIsAboutToBeGrantedIsNoNewcomers(t *testing.T) { // H2
	b := Must(NewBulkhead(BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Second}))
	assert.True(t, b.take())
	w, _ := b.enqueue()

	b.mu.Lock()
	b.free.Add(slot) // as release does
	assert.False(t, b.take())
	b.grant()
	b.mu.Unlock()
	<-w.granted
	assert.Equal(t, 1, b.Stats().InFlight)
}
