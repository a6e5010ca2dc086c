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

	dated   atomic.Bool // date can be read
	made    atomic.Bool // real and stop can be read
	retired atomic.Bool // cancel was called

	mu   sync.Mutex // of those who write what follows
	date time.Time  // at, as a time of day
	real context.Context
	stop context.CancelFunc
}

// need makes the real context, unless there is one. That asks the clock and the parent, the caller's code, and so is
// done without the lock.
func (d *deadline) need() context.Context {
	if d.made.Load() {
		return d.real
	}
	real, stop := d.realize()
	d.mu.Lock()
	if d.made.Load() { // somebody else was sooner
		d.mu.Unlock()
		stop()
		return d.real
	}
	d.real, d.stop = real, stop
	d.made.Store(true)
	d.mu.Unlock()
	if d.retired.Load() { // cancel may have missed it
		stop()
	}
	return real
}

func (d *deadline) realize() (context.Context, context.CancelFunc) {
	if !d.retired.Load() {
		return d.time.withDeadline(d.parent, d.timeOfDay())
	}
	// Whatever becomes of the parent, and of the time, after the call.
	ctx, cancel := context.WithCancel(context.WithoutCancel(d.parent))
	cancel()
	return ctx, cancel
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
	if d.dated.Load() {
		return d.date
	}
	date := d.time.wall().of(d.at)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.dated.Load() {
		d.date = date
		d.dated.Store(true)
	}
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
