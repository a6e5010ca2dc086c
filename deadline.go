package steady

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// deadline is the context that a Timeout gives its function. Most functions pass it on or ask for its Deadline,
// and return in time: for those it is two words and a moment. What a context of the standard library has
// beside that, a timer, a channel and a place in its parent's list, it gets by becoming the child of one, the
// first time that somebody asks for something that needs it.
type deadline struct {
	parent  context.Context
	at      instant
	time    timekeeper
	real    atomic.Pointer[realContext] // nil until it is needed
	retired atomic.Bool                 // cancel was called
}

type realContext struct {
	context.Context
	cancel context.CancelFunc
}

// need makes the real context, unless there is one.
func (d *deadline) need() *realContext {
	if r := d.real.Load(); r != nil {
		return r
	}
	ctx, cancel := d.time.withDeadline(d.parent, d.time.wall()(d.at))
	r := &realContext{ctx, cancel}
	if !d.real.CompareAndSwap(nil, r) {
		cancel()
		return d.real.Load()
	}
	if d.retired.Load() { // cancel may have missed it
		cancel()
	}
	return r
}

// cancel ends the context, and stops its timer. It must be called.
func (d *deadline) cancel() {
	d.retired.Store(true)
	if r := d.real.Load(); r != nil {
		r.cancel()
	}
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) {
	at := d.time.wall()(d.at)
	if outer, ok := d.parent.Deadline(); ok && outer.Before(at) {
		return outer, true
	}
	return at, true
}

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.need().Done() }

// Err implements context.Context.
func (d *deadline) Err() error {
	if r := d.real.Load(); r != nil {
		return r.Err()
	}
	return d.errAt(d.time.now())
}

// errAt is Err for who has just read the clock.
func (d *deadline) errAt(now instant) error {
	if d.real.Load() == nil && now < d.at && !d.retired.Load() && errAt(d.parent, now) == nil {
		return nil
	}
	return d.need().Err()
}

// errAt returns the error of a context by a reading of the clock that was just taken.
func errAt(ctx context.Context, now instant) error {
	if d, ok := ctx.(*deadline); ok {
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
func (d *deadline) String() string { return fmt.Sprint(d.need().Context) }
