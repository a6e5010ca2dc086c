package steady

import (
	"context"
	"time"
)

// call is the state of one call, as the policies see it. It belongs to the goroutine of the call.
type call struct {
	owner   owner
	plan    *plan
	tickets []*ticket  // one for each of plan.breakers
	kept    []keepsake // for the result that is held
	progress
}

// progress is what a call begins anew with.
type progress struct {
	ctx    context.Context // the caller's
	forked *fork           // of the abandoning Timeout around, when it runs in that one's goroutine

	runs      int            // of the function
	err       error          // its last
	rejection *RejectedError // when the fate is rejected
	gaveUp    error          // why a Retry did not go on with the current attempt
	retries   int            // attempts after the first, of the outermost Retry that has seen one end
	began     instant        // when the call began, if OnDone is to know
	at        instant        // a reading of the clock

	fate    fate    // of the current attempt
	outcome Outcome // of the current attempt: Ignored unless the function ran
	verdict Outcome // of the last run of the function

	fresh bool // nothing has waited, and no user code has run, since the reading of the clock
	made  bool // there is a result, returned with a nil error, that nobody has taken yet
	hold  bool // what such a result needs is kept until it is released
	ended bool // OnDone knows
}

// owner is the record that a call is part of, which knows the type of its result.
type owner interface {
	// dispatch runs the function.
	dispatch(ctx context.Context) error
	// retryAfter returns what the last result said of coming back.
	retryAfter() time.Duration
	// drop discards the last result, if it was made, and releases what was kept for it.
	drop()
	// fork returns a call of the same function for the goroutine of an abandoning Timeout.
	fork(f *fork) *call
	// adopt takes over the result of such a call.
	adopt(child *call)
}

// fate is what became of an attempt.
type fate uint8

const (
	unreached fate = iota // nothing ran: a Middleware did not call next, or something panicked before
	rejected              // by a policy
	cut                   // its context ended before the function was called
	ran                   // the function was called
)

// begin starts another attempt of the call.
func (c *call) begin() {
	c.gaveUp = nil
	c.end(unreached)
}

// end says that the attempt is over without a run of the function.
func (c *call) end(f fate) {
	c.fate, c.outcome, c.fresh = f, Ignored, false
}

// now reads the clock, or returns the last reading if nothing can have taken time since.
func (c *call) now() instant {
	if !c.fresh {
		c.at, c.fresh = c.plan.time.now(), true
	}
	return c.at
}

// gone reports whether the caller has cancelled. Its deadline is another matter: the caller still wants to
// know then.
func (c *call) gone() bool { return c.ctx.Err() == context.Canceled }

// look lets the breakers bring in, and their hooks hear of, what has happened by now: before the function's
// time begins.
func (c *call) look(now instant) {
	for _, t := range c.tickets {
		if t.gen != nil && t.b.due(now) {
			c.fresh = false
			t.b.look(now)
		}
	}
}

// start tells the breakers that the function is about to be called. It reports false when it must not be,
// because the caller has abandoned it.
func (c *call) start(now instant) bool {
	if c.forked != nil {
		return c.forked.start(c, now)
	}
	if c.startTickets(now) {
		c.settle()
	}
	return true
}

// startTickets starts the stopwatches, without running a hook. It reports whether one has to.
func (c *call) startTickets(now instant) (changed bool) {
	for _, t := range c.tickets {
		if t.gen != nil && t.b.start(t, now) {
			changed = true
		}
	}
	return changed
}

// back tells the breakers that the function is not called after all.
func (c *call) back() {
	for _, t := range c.tickets {
		if t.gen != nil {
			t.b.back(t, !t.once && c.runs > 0)
		}
	}
}

// halt stops the stopwatches, and leaves all the rest to stop.
func (c *call) halt(now instant) {
	for _, t := range c.tickets {
		if t.gen != nil {
			t.b.stop(t, now)
		}
	}
	if c.forked != nil {
		c.forked.halt(now)
	}
}

// stop tells the breakers that the function has ended, and those that hear of one run only, how.
func (c *call) stop(now instant) {
	changed := c.stopTickets(now)
	if c.forked != nil {
		changed = c.forked.stopTickets(c, now) || changed
	}
	if changed {
		c.settle()
	}
}

// stopTickets stops the stopwatches, without running a hook. It reports whether one has to.
func (c *call) stopTickets(now instant) (changed bool) {
	for _, t := range c.tickets {
		switch {
		case t.gen == nil:
		case t.once:
			changed = t.b.finish(t, now, c.outcome, c.hold) || changed
		default:
			changed = t.b.stop(t, now) || changed
		}
	}
	return changed
}

// settle lets the breakers' hooks run.
func (c *call) settle() { settle(c.tickets) }

func settle(tickets []*ticket) {
	if len(tickets) == 0 {
		return
	}
	defer settle(tickets[1:]) // even if a hook panics
	tickets[0].b.settle()
}
