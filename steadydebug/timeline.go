package steadydebug

import (
	"strings"
	"sync"

	"github.com/steady-go/steady"
)

// timelineSize is how many transitions are kept.
const timelineSize = 256

// timeline keeps the last transitions of all breakers, and the last one of each breaker that is shown. It
// has a lock of its own, held only for a few moves in memory: transitions are told on the path of a call.
type timeline struct {
	mu   sync.Mutex
	ring [timelineSize]transition
	seq  uint64 // of the latest, counted from 1
	last map[string]transition
}

// transition is a steady.Transition as the page is told it.
type transition struct {
	Sequence uint64 `json:"sequence"`
	Breaker  string `json:"breaker"`
	From     string `json:"from"`
	To       string `json:"to"`
	Reason   string `json:"reason"`
	Why      string `json:"why"`
	At       moment `json:"at"`
	OpenFor  millis `json:"openForMs"`
	Shadow   bool   `json:"shadow"`
}

// add is the hook.
func (l *timeline) add(t steady.Transition) {
	entry := transition{
		Breaker: t.Breaker,
		From:    t.From.String(),
		To:      t.To.String(),
		Reason:  t.Reason.String(),
		Why:     why(t),
		At:      moment(t.At),
		OpenFor: millis(t.OpenFor),
		Shadow:  t.Shadow,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	entry.Sequence = l.seq
	l.ring[l.seq%timelineSize] = entry
	if _, shown := l.last[t.Breaker]; shown {
		l.last[t.Breaker] = entry
	}
}

// why returns the words after the moment in Transition.String, which begins with names and states that the
// page shows by themselves.
func why(t steady.Transition) string {
	_, words, _ := strings.Cut(t.String(), t.At.Format(" at 15:04:05.000: "))
	return words
}

// latest returns the number of the last transition, 0 if there was none.
func (l *timeline) latest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// between returns the transitions after one and up to another, newest first.
func (l *timeline) between(after, upTo uint64) []transition {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := []transition{}
	for n := upTo; n > after && n+timelineSize > l.seq; n-- {
		entries = append(entries, l.ring[n%timelineSize])
	}
	return entries
}

// watch keeps the last transition of each of these breakers, and of no others: names that come and go must
// not pile up. One that is new may have made its last before it was known.
func (l *timeline) watch(breakers []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := make(map[string]transition, len(breakers))
	for _, name := range breakers {
		last[name] = l.last[name]
	}
	for n := max(l.seq, timelineSize) - timelineSize + 1; n <= l.seq; n++ {
		entry := l.ring[n%timelineSize]
		if known, shown := last[entry.Breaker]; shown && known.Sequence < n {
			last[entry.Breaker] = entry
		}
	}
	l.last = last
}

// lastOf returns the last transition that was heard of this breaker, zero if none was.
func (l *timeline) lastOf(breaker string) transition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[breaker]
}
