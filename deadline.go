package steady

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// deadline is the context that a Timeout gives its function. Most functions pass it on or ask for its Deadline,
// and return in time: for those it is its parent and a moment. What a context of the standard library has
// beside that, a timer, a channel and a place in its parent's list, it gets by becoming the child of one, the
// first time that somebody asks for something that needs it. If by then both the limit has passed and the parent
// has ended, the parent counts as the first; only a timer could tell.
type deadline struct {
	parent context.Context
	at     instant
	time   timekeeper

	dating sync.Once
	date   time.Time // at, as a time of day

	making  sync.Once
	made    atomic.Bool // real and stop can be read
	retired atomic.Bool // cancel was called
	real    context.Context
	stop    context.CancelFunc
}

// need makes the real context, unless there is one.
func (d *deadline) need() context.Context {
	d.making.Do(func() {
		if d.retired.Load() { // whatever becomes of the parent, and of the time, after the call
			d.real, d.stop = context.WithCancel(context.WithoutCancel(d.parent))
			d.stop()
		} else {
			d.real, d.stop = d.time.withDeadline(d.parent, d.timeOfDay())
		}
		d.made.Store(true)
		if d.retired.Load() { // cancel may have missed it
			d.stop()
		}
	})
	return d.real
}

// cancel ends the context, and stops its timer. It must be called.
func (d *deadline) cancel() {
	d.retired.Store(true)
	if d.made.Load() {
		d.stop()
	}
}

// timeOfDay returns when the context ends, always the same.
func (d *deadline) timeOfDay() time.Time {
	d.dating.Do(func() { d.date = d.time.wallOf(d.at) })
	return d.date
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) {
	at := d.timeOfDay()
	if outer, ok := d.parent.Deadline(); ok && outer.Before(at) {
		return outer, true
	}
	return at, true
}

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.need().Done() }

// Err implements context.Context.
func (d *deadline) Err() error {
	if d.made.Load() {
		return d.real.Err()
	}
	return d.errAt(d.time.now())
}

// errAt is Err for who has just read the clock.
func (d *deadline) errAt(now instant) error {
	if !d.made.Load() && now < d.at && !d.retired.Load() && d.time.errAt(d.parent, now) == nil {
		return nil
	}
	return d.need().Err()
}

// errAt returns the error of a context by a reading that was just taken. A context of another clock takes its
// own.
func (k timekeeper) errAt(ctx context.Context, now instant) error {
	if d, ok := ctx.(*deadline); ok && sameClock(d.time.clock, k.clock) {
		return d.errAt(now)
	}
	return ctx.Err()
}

// Value implements context.Context. The context package finds a context's cause, and its own kind among the
// ancestors of a new one, under a key that is an *int.
func (d *deadline) Value(key any) any {
	if _, ok := key.(*int); ok {
		return d.need().Value(key)
	}
	return d.parent.Value(key)
}

// String describes it as the context package would.
func (d *deadline) String() string { return fmt.Sprint(d.need()) }
