package steady

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Hold is Do for a value whose work goes on after the function has returned: a response body, rows, a
// stream. The outcome, and whether the call was slow, is recorded when the function returns. When there is
// no error, the bulkhead's slot and the contexts of the attempt that made v stay until release, and the
// deadlines keep running; release must be called, also for a failing value with a nil error, and only its
// first call counts. With an error there is nothing to release, and release does nothing.
//
// release(err) with an error says that the work failed later: the outcome that was recorded becomes a
// failure, if it is still in the window of its generation, and the breaker decides again. An err that is
// classified as something else than a failure, or comes when the caller has cancelled, changes nothing.
// OnDone is called at the release.
//
// A Timeout with Abandon cannot hold: Hold then returns an error, and the function is not called.
func (p *Pipeline[T]) Hold(ctx context.Context, fn func(context.Context) (T, error)) (v T, release func(err error), err error) {
	release = func(error) {}
	if ctx == nil || fn == nil {
		return v, release, p.misused("Hold")
	}
	if p.abandons != nil {
		return v, release, fmt.Errorf("steady: pipeline %q: Hold cannot be used with the abandoning Timeout %q: "+
			"the function's goroutine may outlive what is held; use a Timeout without Abandon", p.name, p.abandons.cfg.Name)
	}
	r := p.record(ctx)
	r.fn, r.hold = fn, true
	ended := false
	defer func() {
		if !ended {
			r.abort()
		}
	}()
	err = r.through()
	if err == nil && r.made {
		v, ended = r.v, true
		return v, r.holding(), nil
	}
	r.done(err, false)
	v = r.take()
	ended = true
	p.retire(r)
	return v, release, err
}

// holding returns the release of a held result.
func (r *record[T]) holding() func(error) {
	var released atomic.Bool
	return func(err error) {
		if !released.Swap(true) {
			r.letGo(err)
		}
	}
}

// letGo ends a call whose result was held. Whatever panics on the way, the rest is done.
func (r *record[T]) letGo(err error) {
	defer r.p.retire(r)
	defer func() { r.done(err, false) }()
	defer r.release()
	if err == nil {
		return
	}
	r.err = err
	if o := r.classify(); o.failed() {
		r.outcome = o
		r.failLate(r.plan.time.now())
	}
}

// failLate tells the breakers that the result failed.
func (c *call) failLate(now instant) {
	changed := false
	for _, t := range c.tickets {
		changed = t.b.failLate(t, now) || changed
	}
	if changed {
		c.settle()
	}
}

// retire recycles the record of a held call, whose tickets have remembered what became of them.
func (p *Pipeline[T]) retire(r *record[T]) {
	r.take()
	for _, t := range r.tickets {
		t.clear()
	}
	p.recycle(r)
}

// keepsake is what a held result needs: a bulkhead's slot, or a context.
type keepsake struct {
	bulkhead *Bulkhead
	deadline *deadline
}

func (k keepsake) release() {
	if k.bulkhead != nil {
		k.bulkhead.release()
	}
	if k.deadline != nil {
		k.deadline.cancel()
	}
}

// leave gives back what an attempt needed, or keeps it for the result that is held.
func (c *call) leave(k keepsake) {
	if c.hold && c.made {
		c.kept = append(c.kept, k)
		return
	}
	k.release()
}

// release gives back what was kept, the innermost first.
func (c *call) release() {
	for _, k := range c.kept {
		k.release()
	}
	clear(c.kept)
	c.kept = c.kept[:0]
}
