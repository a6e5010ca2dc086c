package steady

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAClockDeadlineKeepsThePromiseOfAfterFunc(t *testing.T) { // T1
	// See the documentation of context.AfterFunc, of whose stop this one takes the place.
	calls := 0
	fresh := func() *clockDeadline { return &clockDeadline{Context: context.Background(), done: make(chan struct{})} }

	d := fresh()
	stop := d.AfterFunc(func() { calls++ })
	assert.True(t, stop(), "stopped before it ran")
	assert.False(t, stop(), "it was stopped before")
	d.end(context.DeadlineExceeded)
	assert.Zero(t, calls)

	d = fresh()
	stop = d.AfterFunc(func() { calls++ })
	d.end(context.DeadlineExceeded)
	d.end(context.Canceled)
	assert.Equal(t, 1, calls)
	assert.False(t, stop(), "it has run")
	assert.Equal(t, context.DeadlineExceeded, d.Err())
}

func TestAnInstantPastTheEndOfTimeIsNever(t *testing.T) {
	assert.Equal(t, never, instant(1).add(time.Duration(never)))
	assert.Equal(t, never, never.add(1))
	assert.Equal(t, never-1, instant(0).add(time.Duration(never-1)))
	assert.Equal(t, instant(-3), instant(-5).add(2))
	assert.Equal(t, instant(-7), instant(-5).add(-2))
}
