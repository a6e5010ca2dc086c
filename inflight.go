package steady

import (
	"math"
	"sync/atomic"
)

// due is a moment at which something becomes true of a ticket unless it ends before: an element of a
// dueQueue.
type due struct {
	at         instant
	ticket     *ticket
	prev, next *due
	queued     bool
}

func (d *due) moment() instant {
	if d == nil {
		return never
	}
	return d.at
}

// dueQueue holds dues in the order of their moments. All of one queue are armed with the same delay, so a
// new one belongs at the end, or, when another goroutine read the clock later and got here before, a few
// places ahead of it: every operation takes constant time, however many calls are in flight. Those of the same
// moment are in an order that does not depend on when they got here. The elements are part of the tickets, so
// that nothing is allocated.
type dueQueue struct {
	first, last *due
}

func (q *dueQueue) add(d *due, t *ticket, at instant) {
	d.at, d.ticket, d.queued = at, t, true
	prev := q.last
	for prev != nil && (prev.at > at || prev.at == at && at != never && prev.ticket.number > t.number) {
		prev = prev.prev
	}
	d.prev = prev
	if prev == nil {
		d.next, q.first = q.first, d
	} else {
		d.next, prev.next = prev.next, d
	}
	if d.next == nil {
		q.last = d
	} else {
		d.next.prev = d
	}
}

func (q *dueQueue) remove(d *due) {
	if !d.queued {
		return
	}
	if d.prev == nil {
		q.first = d.next
	} else {
		d.prev.next = d.next
	}
	if d.next == nil {
		q.last = d.prev
	} else {
		d.next.prev = d.prev
	}
	d.prev, d.next, d.queued = nil, nil, false
}

// entrant is what a ticket is on the list of those that have entered the function.
type entrant struct {
	_       [0]atomic.Int64 // 32-bit processors want entered to be aligned like one
	entered instant         // when it did, outside when it is not in there
	listed  atomic.Bool
	next    *ticket
}

// outside is no moment at all.
const outside = instant(math.MinInt64)

// entrants is the list of the calls that have entered the function and not been collected yet. A call adds
// itself without the breaker's lock, and stays listed when it leaves: when it, or the call after it that has
// its memory, enters again before the list is collected, it has only to say when.
type entrants struct {
	top   atomic.Pointer[ticket]
	count atomic.Int32
}

// maxEntrants is how long the list may get: it keeps the memory of calls that have ended from being freed, 160 bytes each.
const maxEntrants = 4

// add notes that the call is in the function since now. It reports false if it is not on the list, which is full.
func (e *entrants) add(t *ticket, now instant) bool {
	atomic.StoreInt64((*int64)(&t.entered), int64(now))
	if t.listed.Load() {
		return true
	}
	if e.count.Add(1) > maxEntrants {
		return false
	}
	t.listed.Store(true)
	for {
		t.next = e.top.Load()
		if e.top.CompareAndSwap(t.next, t) {
			return true
		}
	}
}

// collect makes those on the list that are in the function part of what runs. A call that enters meanwhile
// either is seen to, or finds itself off the list and adds itself. b.mu must be held.
func (b *Breaker) collect() {
	b.entrants.count.Store(0) // even if the list is empty, for the last who counted may have come between these two lines
	var t *ticket             // the first to be listed
	for next := b.entrants.top.Swap(nil); next != nil; {
		t, next, next.next = next, next.next, t
	}
	for t != nil {
		next := t.next
		t.next = nil
		t.listed.Store(false)
		if atomic.LoadInt64((*int64)(&t.entered)) != int64(outside) && !t.slowAt.queued && !t.overdue {
			b.run(t)
		}
		t = next
	}
}

// run counts a call that is in the function, and expects it to become overdue. b.mu must be held.
func (b *Breaker) run(t *ticket) {
	b.inFlight++
	b.running.add(&t.slowAt, t, b.overdueAt(t.entered))
}

// awaitProbe expects a probe to time out, counted from now. b.mu must be held.
func (b *Breaker) awaitProbe(t *ticket, now instant) {
	b.probes.add(&t.failAt, t, now.add(b.cfg.ProbeTimeout))
	b.expect(t.failAt.at)
}

// overdueAt returns when a call becomes overdue that entered the function at the given moment.
func (b *Breaker) overdueAt(entered instant) instant {
	if b.cfg.NoSlowCalls {
		return never
	}
	return entered.add(b.cfg.SlowThreshold)
}

// expect sees to it that the breaker does not miss that moment.
func (b *Breaker) expect(at instant) {
	for {
		next := b.nextDue.Load()
		if int64(at) >= next || b.nextDue.CompareAndSwap(next, int64(at)) {
			return
		}
	}
}

// due reports whether there may be something to bring in.
func (b *Breaker) due(now instant) bool { return now >= instant(b.nextDue.Load()) }

// catchUp brings in what has become true of the calls in flight by now. b.mu must be held.
func (b *Breaker) catchUp(now instant) {
	if b.due(now) {
		b.bringIn(now)
	}
}

func (b *Breaker) bringIn(now instant) {
	for {
		b.nextDue.Store(math.MinInt64) // whoever comes meanwhile waits for the lock
		b.collect()
		next := b.pass(now)
		b.nextDue.Store(int64(next))
		if b.entrants.top.Load() == nil { // else somebody came who had not seen that
			return
		}
	}
}

// pass brings in what is due by now in the order in which it became true, each at its own moment, as if a
// timer had fired then. It returns the next moment at which something does.
func (b *Breaker) pass(now instant) instant {
	for {
		slow, fail := b.running.first, b.probes.first
		switch {
		case slow != nil && slow.at <= now && (fail == nil || slow.at <= fail.at):
			t, at := slow.ticket, slow.at
			b.running.remove(slow)
			t.overdue = true
			b.overdue++
			if !t.slow {
				t.slow = true
				b.tally(at).slow++
			}
			if b.live(t) {
				b.recordSlow(t, at)
			}
		case fail != nil && fail.at <= now:
			t, at := fail.ticket, fail.at
			b.probes.remove(fail)
			if t.entered != outside {
				b.trip(at, ReasonProbeTimeout)
			} else {
				t.reported = true
				b.probesOut--
			}
		default:
			return min(slow.moment(), fail.moment())
		}
	}
}

// recordSlow counts a call as slow that has been in the function for SlowThreshold at the given moment.
func (b *Breaker) recordSlow(t *ticket, at instant) {
	switch t.gen.state {
	case StateClosed, StateForcedClosed:
		if !t.recorded {
			t.recorded, t.place = true, b.window.record(at, false, true)
			b.decide(at)
		}
	case StateHalfOpen:
		if t.probe {
			b.trip(at, ReasonProbeSlow)
		}
	}
}
