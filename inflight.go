package steady

// due is a moment at which something becomes true of a ticket unless it ends before: an element of a
// dueQueue.
type due struct {
	at         instant
	ticket     *ticket
	prev, next *due
	queued     bool
}

// dueQueue holds dues in the order of their moments. All of one queue are armed with the same delay, so a
// new one belongs at the end, or, when another goroutine read the clock later and got here before, a few
// places ahead of it: every operation takes constant time, however many calls are in flight. The elements
// are part of the tickets, so that nothing is allocated.
type dueQueue struct {
	first, last *due
}

func (q *dueQueue) add(d *due, t *ticket, at instant) {
	d.at, d.ticket, d.queued = at, t, true
	prev := q.last
	for prev != nil && prev.at > at {
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

// catchUp brings in what has become true of the calls in flight by now, in the order in which it did, each
// at its own moment, as if a timer had fired then. b.mu must be held.
func (b *Breaker) catchUp(now instant) {
	for {
		slow, fail := b.running.first, b.probes.first
		switch {
		case slow != nil && slow.at <= now && (fail == nil || slow.at <= fail.at):
			t, at := slow.ticket, slow.at
			b.running.remove(slow)
			t.overdue = true
			b.overdue++
			if b.live(t) {
				b.recordSlow(t, at)
			}
		case fail != nil && fail.at <= now:
			t, at := fail.ticket, fail.at
			b.probes.remove(fail)
			if t.running {
				b.trip(at, ReasonProbeTimeout)
			} else {
				t.reported = true
				b.probesOut--
			}
		default:
			if instant(b.nextDue.Load()) <= now {
				next := never
				if slow != nil {
					next = slow.at
				}
				b.nextDue.Store(int64(next))
			}
			return
		}
	}
}

// recordSlow counts a call as slow that has been in the function for SlowThreshold at the given moment.
func (b *Breaker) recordSlow(t *ticket, at instant) {
	switch t.gen.state {
	case StateClosed, StateForcedClosed:
		if !t.recorded {
			t.recorded, t.number = true, b.window.record(at, false, true)
			b.decide(at)
		}
	case StateHalfOpen:
		if t.probe {
			b.trip(at, ReasonProbeSlow)
		}
	}
}
