package steady

import (
	"math"
	"time"
)

// window is the record of the most recent outcomes: a ring of the last size of them, each with a failed
// and a slow bit and the moment of its completion, and running totals, so that the cost of a record does
// not depend on the size. It knows nothing of breakers and is guarded by its owner's lock.
//
// Each outcome has a number, counted from 0 over the window's whole life, so that it can be told later
// whether it is still in the window. One outcome takes 8 bytes: the moment in the upper 62 bits, enough
// for 73 years on either side of the base, and the two bits below.
type window struct {
	// What every record writes.
	first, next    uint64  // the outcomes first <= n < next are in the window
	end            int     // where in the ring the next one goes
	latest         instant // of the last record; the ring never goes back in time
	failures, slow int     // of those in the window

	ring []int64 // made at the first record: a breaker that is never called stays small
	size int
	age  time.Duration // outcomes older than this do not count; 0 for no age limit
	base instant       // moments are stored relative to this one
}

const (
	failedBit = 1 << iota
	slowBit
	momentShift = iota
)

func newWindow(size int, age time.Duration, base instant) window {
	return window{size: size, age: age, base: base, latest: math.MinInt64}
}

// len returns how many outcomes are in the window.
func (w *window) len() int { return int(w.next - w.first) }

// record adds an outcome that completed at now, after dropping those that are too old by then, and
// returns its number.
func (w *window) record(now instant, failed, slow bool) (n uint64) {
	if w.ring == nil {
		w.ring = make([]int64, w.size)
	}
	w.expire(now)
	if w.len() == w.size {
		w.dropFirst()
	}
	w.latest = max(w.latest, now)
	outcome := int64(w.latest-w.base) << momentShift
	if failed {
		outcome |= failedBit
		w.failures++
	}
	if slow {
		outcome |= slowBit
		w.slow++
	}
	w.ring[w.end] = outcome
	if w.end++; w.end == w.size {
		w.end = 0
	}
	n = w.next
	w.next++
	return n
}

// fail adds the failed bit to the outcome number n, after dropping what is too old at now. It reports
// false, and changes nothing, when that outcome has left the window.
func (w *window) fail(now instant, n uint64) bool {
	w.expire(now)
	if n < w.first {
		return false
	}
	outcome := w.at(n)
	if *outcome&failedBit == 0 {
		*outcome |= failedBit
		w.failures++
	}
	return true
}

// expire drops the outcomes that are older than the age limit at now.
func (w *window) expire(now instant) {
	if w.age == 0 {
		return
	}
	for w.first < w.next && now.since(w.moment(w.first)) > w.age {
		w.dropFirst()
	}
}

// clear empties the window. Numbers go on.
func (w *window) clear() {
	w.first = w.next
	w.failures, w.slow = 0, 0
}

func (w *window) dropFirst() {
	outcome := *w.at(w.first)
	if outcome&failedBit != 0 {
		w.failures--
	}
	if outcome&slowBit != 0 {
		w.slow--
	}
	w.first++
}

func (w *window) moment(n uint64) instant { return w.base + instant(*w.at(n)>>momentShift) }

// at returns where in the ring the outcome n is, counting back from the end: a division would cost more than
// all the rest of a record.
func (w *window) at(n uint64) *int64 {
	i := w.end - int(w.next-n)
	if i < 0 {
		i += w.size
	}
	return &w.ring[i]
}
