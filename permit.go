package steady

import (
	"context"
	"sync/atomic"
	"time"
)

// ticket is a permit as its breaker keeps it: from the admission of a call, through its stays in the
// function, to the verdict. Its memory belongs to the call. The fields are guarded by the breaker's lock, but
// for gen, started and entered, which the call's goroutine writes: others look at gen only once entered says
// that the call is in the function, which it does not leave without the lock. started and probe are written
// on behalf of the call only, which so may read them without it.
type ticket struct {
	b      *Breaker
	number uint64      // in the order in which tickets were made
	once   bool        // one permit is one run of the function: nothing further in repeats it
	gen    *generation // the one it was given in; nil when there is no permit
	ticketState
	entrant
	took   time.Duration // its last stay in the function, once that has ended
	place  uint64        // the number of its outcome in the window, when that is recorded
	slowAt due           // in Breaker.running: when it will have been in the function for SlowThreshold
	failAt due           // in Breaker.probes: when it times out, or is given back if it has not started
}

// ticketState is what a ticket begins anew with.
type ticketState struct {
	probe    bool
	started  bool // has been in the function
	overdue  bool // is in the function, and has been for SlowThreshold
	reported bool // its verdict has been heard, or it was given back: it counts for nothing more
	recorded bool // its outcome is in the window
	passed   bool // it was a probe, and succeeded
	slow     bool // has been counted as slow
	counted  bool // its outcome has been
}

// tickets counts them.
var tickets atomic.Uint64

func newTicket(b *Breaker, once bool) *ticket {
	return &ticket{b: b, number: tickets.Add(1), once: once, entrant: entrant{entered: outside}}
}

// clear ends the permit. Its dues are in no queue any more.
func (t *ticket) clear() { t.gen, t.ticketState = nil, ticketState{} }

// Allow asks for a permit, for callers that cannot use a Pipeline. It returns a *RejectedError when the
// breaker does not let the call through; otherwise the call has begun, and Done of the permit must be
// called when it ends. A permit whose Done is forgotten stays in flight, and, as a probe, fails after
// ProbeTimeout. Nothing here sees the caller's context: when the caller has cancelled, Done(Ignored) says so.
// OnReject gets context.Background().
func (b *Breaker) Allow() (Permit, error) {
	p := Permit{newTicket(b, true)}
	now := b.time.now()
	rejected, hooked := b.admit(context.Background(), now, p.t)
	if rejected != nil {
		return Permit{}, rejected
	}
	if hooked {
		now = b.time.now()
	}
	given := false
	defer func() {
		if !given { // a hook panicked
			b.back(p.t, false)
			b.finish(p.t, now, Ignored, false)
			b.settle()
		}
	}()
	if b.start(p.t, now) {
		b.settle()
	}
	given = true
	return p, nil
}

// Permit lets one call through a Breaker. The zero value is one that is done.
type Permit struct {
	t *ticket
}

// Done says that the call has ended, and how. An outcome of 0 means Success, not the default classification,
// which is Done(Classify(err)). The stopwatch has run since Allow. Only the first Done of a permit, and of its copies, counts.
func (p Permit) Done(o Outcome) {
	if p.t == nil {
		return
	}
	if o == outcomeDefault {
		o = Success
	}
	if b := p.t.b; b.finish(p.t, b.time.now(), o.known(), false) {
		b.settle()
	}
}

// admit lets a call through, which then holds a permit, or returns the rejection. While the breaker is
// closed and nothing can have become due, and while it is open, it takes no lock. It reports whether
// hooks may have run since now.
func (b *Breaker) admit(ctx context.Context, now instant, t *ticket) (rejected *RejectedError, hooked bool) {
	due := b.due(now) // before the state, which a look changes before it moves what is due
	switch g := b.gen.Load(); g.state {
	case StateClosed, StateForcedClosed:
		if !due {
			t.gen = g
			return nil, false
		}
	case StateOpen:
		if now < g.until && !b.cfg.Shadow {
			b.reject(ctx, g.rejected, false)
			return g.rejected, true
		}
	case StateForcedOpen:
		b.reject(ctx, g.rejected, false)
		return g.rejected, true
	}
	return b.admitLocked(ctx, now, t), true
}

func (b *Breaker) admitLocked(ctx context.Context, now instant, t *ticket) *RejectedError {
	b.mu.Lock()
	b.catchUp(now)
	b.commit()
	b.halfOpen(now)
	g := b.gen.Load()
	rejected := g.rejected
	if g.state == StateHalfOpen && b.probesOut+b.probesPassed < b.cfg.HalfOpenProbes {
		rejected = nil
		b.probesOut++
		t.probe = true
		b.awaitProbe(t, now)
	}
	shadow := b.cfg.Shadow && g.state != StateForcedOpen
	admitted := rejected == nil || shadow
	if admitted {
		t.gen = g
	}

	told := false
	defer func() {
		if !told && admitted { // a hook panicked
			b.finish(t, now, Ignored, false)
			b.settle()
		}
	}()
	b.unlock()
	if rejected != nil {
		b.reject(ctx, rejected, shadow)
	}
	told = true
	if admitted {
		return nil
	}
	return rejected
}

// reject counts a rejection and tells the hook.
func (b *Breaker) reject(ctx context.Context, e *RejectedError, shadow bool) {
	b.rejected.Add(1)
	if b.hooks.OnReject != nil {
		b.hooks.OnReject(ctx, Rejection{Policy: b.cfg.Name, Err: e, Shadow: shadow})
	}
}

// look brings in what has become true by now, before a stopwatch starts: hooks are not the dependency's time.
func (b *Breaker) look(now instant) {
	b.mu.Lock()
	b.catchUp(now)
	b.unlock()
}

// The steps that follow run no hook. They report whether settle has to.

// start notes that the call has entered the function at now. It takes no lock, unless it is a probe, or
// something may have become due, or the list of those that have done the same is full.
func (b *Breaker) start(t *ticket, now instant) (changed bool) {
	if t.probe || t.entered != outside || b.due(now) {
		return b.startLocked(t, now)
	}
	t.started = true
	if !b.entrants.add(t, now) {
		return b.startLocked(t, now)
	}
	b.expect(b.overdueAt(now))
	return false
}

func (b *Breaker) startLocked(t *ticket, now instant) (changed bool) {
	b.mu.Lock()
	before, tripped := b.transitions, b.tripped
	b.catchUp(now)
	b.halt(t, now) // a run before this one may have been unwound
	b.collect()
	t.started, t.entered = true, now
	b.run(t)
	b.expect(t.slowAt.at)
	if t.probe && b.live(t) {
		b.awaitProbe(t, now)
	}
	// Whoever made a change delivers it: what others made is not to be told in this call's time.
	changed = (b.transitions != before || b.tripped != tripped) && b.unsettled()
	b.mu.Unlock()
	return changed
}

// back takes back a start: a hook panicked, and the call does not enter the function. Others may have been in
// it before with the same permit.
func (b *Breaker) back(t *ticket, again bool) {
	b.mu.Lock()
	t.started = again
	b.mu.Unlock()
}

// stop notes that the call has left the function at now, with its permit: a Retry inside may send it there
// again.
func (b *Breaker) stop(t *ticket, now instant) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.catchUp(now)
	b.halt(t, now)
	return b.unsettled()
}

// finish takes the permit back, with the call's outcome. It has no effect on a ticket that has none. When
// keep is set, the ticket remembers what became of it, for a late failure.
func (b *Breaker) finish(t *ticket, now instant, o Outcome, keep bool) (changed bool) {
	b.mu.Lock()
	if t.gen != nil {
		b.catchUp(now)
		b.halt(t, now)
		b.count(t, now, o)
		b.report(t, now, o)
		if !keep {
			t.clear()
		}
	}
	changed = b.unsettled()
	b.mu.Unlock()
	return changed
}

// giveUp reports the outcome of a call whose caller has gone while it is in the function. It stays in
// flight. A call that never got there will report for itself.
func (b *Breaker) giveUp(t *ticket, now instant, o Outcome) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.catchUp(now)
	if t.started {
		b.probes.remove(&t.failAt)
		b.count(t, now, o)
		b.report(t, now, o)
	}
	return b.unsettled()
}

// failLate adds a failure to the outcome of a finished call.
func (b *Breaker) failLate(t *ticket, now instant) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.catchUp(now)
	switch {
	case t.gen == nil || t.gen != b.gen.Load():
	case t.recorded:
		b.failRecorded(t, now)
	case t.passed:
		b.trip(now, ReasonProbeFailed)
	}
	return b.unsettled()
}

// unsettled reports whether a transition waits to be completed or delivered. b.mu must be held.
func (b *Breaker) unsettled() bool { return b.tripped != nil || len(b.changes) > 0 && !b.delivering }

// settle completes and delivers it.
func (b *Breaker) settle() {
	b.mu.Lock()
	b.unlock()
}

// halt stops the ticket's clocks. b.mu must be held, and catchUp done.
func (b *Breaker) halt(t *ticket, now instant) {
	b.probes.remove(&t.failAt)
	if t.entered == outside {
		return
	}
	t.took = now.since(t.entered)
	t.entered = outside
	switch {
	case t.slowAt.queued:
		b.running.remove(&t.slowAt)
		b.inFlight--
	case t.overdue:
		t.overdue = false
		b.overdue--
		b.inFlight--
	}
}

// count adds the outcome of a call that has been in the function to the totals, once. b.mu must be held.
func (b *Breaker) count(t *ticket, now instant, o Outcome) {
	if t.started && !t.counted {
		t.counted = true
		b.tally(now).outcomes[o]++
	}
}

func (b *Breaker) tally(now instant) *tallies {
	if b.tallies == nil {
		b.tallies = &tallies{latencies: newLatencies(now)}
	}
	return b.tallies
}

// live reports whether the ticket still counts. b.mu must be held.
func (b *Breaker) live(t *ticket) bool { return !t.reported && t.gen == b.gen.Load() }

// report lets a ticket's outcome count, once. b.mu must be held.
func (b *Breaker) report(t *ticket, now instant, o Outcome) {
	if !b.live(t) {
		t.reported = true
		return
	}
	t.reported = true
	switch t.gen.state {
	case StateClosed, StateForcedClosed:
		b.reportCall(t, now, o)
	case StateHalfOpen:
		if t.probe {
			b.reportProbe(t, now, o)
		}
	}
}

func (b *Breaker) reportCall(t *ticket, now instant, o Outcome) {
	switch {
	case t.recorded && o.failed():
		b.failRecorded(t, now)
	case t.recorded: // as slow, which is all there is to say
		b.recordLatency(t, now)
	case o.failed():
		t.recorded, t.place = true, b.window.record(now, true, false)
		b.decide(now)
	case o == Success:
		b.recordLatency(t, now)
		t.recorded, t.place = true, b.window.record(now, false, false)
		b.decide(now)
	}
}

func (b *Breaker) reportProbe(t *ticket, now instant, o Outcome) {
	if o.failed() {
		b.trip(now, ReasonProbeFailed)
		return
	}
	b.probesOut--
	if o != Success {
		return
	}
	b.recordLatency(t, now)
	t.passed = true
	b.probesPassed++
	if b.probesPassed == b.cfg.HalfOpenProbes {
		b.enter(StateClosed, now, b.change(now, ReasonProbesSucceeded, ""))
	}
}

// recordLatency takes in how long the call was in the function, if it has returned.
func (b *Breaker) recordLatency(t *ticket, now instant) {
	if t.started && t.entered == outside {
		b.tally(now).latencies.record(now, t.took)
	}
}

func (b *Breaker) failRecorded(t *ticket, now instant) {
	if b.window.fail(now, t.place) {
		b.decide(now)
	}
}

// breakerStage is a Breaker in a pipeline.
type breakerStage struct {
	b     *Breaker
	index int  // of its ticket
	once  bool // see ticket
	next  handler
}

func (b *Breaker) absent() bool { return b == nil }

func (b *Breaker) stage(p *plan, next handler) handler {
	s := &breakerStage{b: b, index: len(p.breakers), once: !p.repeats, next: next}
	p.breakers = append(p.breakers, s)
	return s
}

func (s *breakerStage) handle(ctx context.Context, c *call) error {
	t := c.tickets[s.index]
	if c.hold {
		t.clear() // it remembered the attempt before
	}
	e, hooked := s.b.admit(ctx, c.now(), t)
	if hooked {
		c.fresh = false
	}
	if e != nil {
		c.end(rejected)
		c.rejection = e
		return e
	}
	defer s.leave(c, t)
	return s.next.handle(ctx, c)
}

// leave takes the permit back from a call that still has one: it did not reach the function, or may have
// been there more than once.
func (s *breakerStage) leave(c *call, t *ticket) {
	switch {
	case t.gen == nil:
	case !t.started && !t.probe:
		t.gen = nil // there is nothing to give back
	default:
		o := c.verdict
		if !t.started || c.fate == cut && c.gone() {
			o = Ignored
		}
		if s.b.finish(t, s.b.time.now(), o, c.hold) {
			s.b.settle()
		}
	}
}
