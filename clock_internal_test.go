package steady

import (
	"context"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
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

func TestTheSystemClockIsReadWithoutADetour(t *testing.T) {
	for _, c := range []Clock{nil, clock.New(), systemClock} {
		assert.Equal(t, timekeeper{}, newTimekeeper(c))
		assert.True(t, sameClock(c, nil))
	}
	mock := clock.NewMock()
	assert.Equal(t, timekeeper{clock: mock}, newTimekeeper(mock))
	assert.True(t, sameClock(mock, mock))
	assert.False(t, sameClock(mock, clock.NewMock()))
	assert.False(t, sameClock(nil, mock))
}

func TestAClockDeadlineTellsTheEarlierDeadline(t *testing.T) { // T1
	at := time.Now()
	for _, parent := range []time.Time{at.Add(-time.Minute), at.Add(time.Minute)} {
		ctx, cancel := context.WithDeadline(t.Context(), parent)
		defer cancel()
		want := at
		if parent.Before(at) {
			want = parent
		}
		got, ok := (&clockDeadline{Context: ctx, at: at}).Deadline()
		assert.True(t, ok)
		assert.Equal(t, want, got)
	}
	got, ok := (&clockDeadline{Context: context.Background(), at: at}).Deadline()
	assert.True(t, ok)
	assert.Equal(t, at, got)
}
