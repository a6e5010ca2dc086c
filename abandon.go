package steady

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// abandonStage is a Timeout with Abandon: it runs what is inside it in a goroutine, and leaves that alone
// when the limit comes first.
type abandonStage struct {
	timeoutStage
	inside  int  // so many breakers, the first ones of the plan
	retries bool // what is inside does
}

// fork is the meeting of the caller and the goroutine of one call.
type fork struct {
	stage  *abandonStage
	parent *call
	done   chan struct{} // closed when the goroutine has ended

	mu        sync.Mutex
	runs      int
	running   bool    // the function is being run
	last      error   // of the function
	ended     bool    // the goroutine has, and what it leaves can be read
	abandoned bool    // the caller has gone, and parent is not to be touched any more
	outcome   Outcome // what the breakers were told then

	// The goroutine's own, until it has ended:
	err        error
	panicked   *PanicError
	exited     bool     // by runtime.Goexit
	unreported *attempt // one that a panic has unwound, for OnAttempt
}

func (s *abandonStage) handle(ctx context.Context, c *call) error {
	d := s.deadline(ctx, c)
	defer d.cancel()
	f := &fork{stage: s, parent: c, done: make(chan struct{})}
	child := c.owner.fork(f)
	go f.run(d, child)

	select {
	case <-f.done:
	case <-d.Done():
		if f.abandon() {
			d.cancel()
			return s.abandon(ctx, c, f, child)
		}
		<-f.done
	}
	c.owner.adopt(child)
	f.report(c)
	switch {
	case f.panicked != nil:
		panic(f.panicked)
	case f.exited:
		runtime.Goexit()
	}
	if f.err != nil && s.caused(ctx, d.at, f.err) {
		return s.expire(ctx, f.err, false)
	}
	return f.err
}

// abandon ends a call whose function goes on.
func (s *abandonStage) abandon(ctx context.Context, c *call, f *fork, child *call) error {
	now := s.time.now()
	c.runs += f.runs
	c.err = f.last
	if f.runs == 0 {
		c.end(cut)
	} else {
		c.fate, c.fresh = ran, false
		c.outcome, c.verdict = f.outcome, f.outcome
		for _, t := range child.tickets[:s.inside] {
			t.b.giveUp(t, now, f.outcome)
		}
		c.stop(now)
		c.settle()
	}
	err := ctx.Err()
	expired := err == nil
	if expired {
		err = context.DeadlineExceeded
	}
	if s.retries {
		c.gaveUp = err
	}
	if f.last != nil {
		err = fmt.Errorf("%w; last error: %w", err, f.last)
	}
	if expired {
		return s.expire(ctx, err, f.running)
	}
	return err
}

// abandon reports whether the caller leaves, which it does not when the goroutine has ended meanwhile.
func (f *fork) abandon() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	f.abandoned = true
	f.outcome = Transient
	if f.parent.gone() {
		f.outcome = Ignored
	}
	if f.running {
		f.stage.t.abandoned.Add(1)
		f.stage.t.abandonedNow.Add(1)
	}
	return true
}

// left returns what was told of the call, if it has been abandoned.
func (f *fork) left() (Outcome, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outcome, f.abandoned
}

// start begins a run of the function, unless the call has been abandoned.
func (f *fork) start(child *call, now instant) bool {
	changed, ok := f.startTickets(child, now)
	if changed {
		child.settle()
	}
	return ok
}

// startTickets starts the stopwatches of child and of the calls around it, all or, when one of those has
// been abandoned, none.
func (f *fork) startTickets(child *call, now instant) (changed, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.abandoned {
		return false, false
	}
	if outer := f.parent.forked; outer != nil {
		if changed, ok = outer.startTickets(f.parent, now); !ok {
			return changed, false
		}
	} else {
		changed = f.parent.startTickets(now)
	}
	f.runs++
	f.running = true
	return child.startTickets(now) || changed, true
}

// halt stops the stopwatches of the breakers around the Timeout, unless they have been told of the call's end.
func (f *fork) halt(now instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.abandoned {
		f.parent.halt(now)
	}
}

// stopTickets ends a run of the function for the breakers around the Timeout, unless they have been told of
// it. It runs no hook, and reports whether one has to.
func (f *fork) stopTickets(child *call, now instant) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.abandoned {
		return false
	}
	f.last, f.running = child.err, false
	changed = f.parent.stopTickets(now)
	if outer := f.parent.forked; outer != nil {
		changed = outer.stopTickets(child, now) || changed
	}
	return changed
}

// run is the goroutine.
func (f *fork) run(ctx context.Context, child *call) {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			f.panicked = panicError(v)
		} else {
			f.exited = !returned
		}
		f.mu.Lock()
		f.ended = true
		abandoned := f.abandoned
		f.mu.Unlock()
		close(f.done)
		if abandoned {
			f.endAlone(ctx, child)
		}
	}()
	f.err = f.stage.next.handle(ctx, child)
	returned = true
}

// endAlone is the end of a goroutine that nobody waits for. Nothing that the caller's code does here, not
// even a panic in the hook that is told of the panics, may end the process.
func (f *fork) endAlone(ctx context.Context, child *call) {
	if f.running {
		f.stage.t.abandonedNow.Add(-1)
	}
	defer func() { _ = recover() }()
	func() {
		defer func() {
			if v := recover(); v != nil {
				f.panicked = panicError(v)
			}
		}()
		child.owner.drop()
	}()
	if f.unreported == nil && f.panicked != nil {
		f.unreported = &attempt{ctx: ctx, number: child.runs, outcome: f.outcome}
	}
	f.report(child)
}

// report tells the hook of an attempt that a panic or Goexit has unwound.
func (f *fork) report(c *call) {
	if f.unreported == nil {
		return
	}
	a, err := f.unreported, f.panicked
	f.unreported = nil
	if err == nil {
		err = &PanicError{}
	}
	c.report(a, err)
}

func panicError(v any) *PanicError {
	if p, ok := v.(*PanicError); ok {
		return p
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}
