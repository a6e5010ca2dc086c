package steadydebug

import (
	"fmt"
	"log/slog"

	"github.com/steady-go/steady"
)

// subject is what a tile shows: a dependency, or a breaker on its own.
type subject struct {
	id       uint64
	entry    string // where it was given, for errors
	name     string
	timeout  *steady.Timeout // these are nil where there is none
	attempt  *steady.Timeout
	retry    *steady.Retry
	budget   *steady.RetryBudget
	breaker  *steady.Breaker
	bulkhead *steady.Bulkhead

	// As of the last reading, guarded by the handler's lock.
	now     reading
	read    bool // there was one
	history history
}

// reading is the Stats of everything that a subject has.
type reading struct {
	expired      uint64
	abandonedNow int
	retry        steady.RetryStats
	budget       steady.RetryBudgetStats
	breaker      steady.BreakerStats
	bulkhead     steady.BulkheadStats
	totals       totals
	last         transition // of the breaker, zero if none was heard of
}

func ofDependency(d *steady.Dependency) *subject {
	return &subject{
		name:     d.Name(),
		timeout:  d.Timeout(),
		attempt:  d.AttemptTimeout(),
		retry:    d.Retry(),
		budget:   d.Budget(),
		breaker:  d.Breaker(),
		bulkhead: d.Bulkhead(),
	}
}

func ofBreaker(b *steady.Breaker) *subject {
	return &subject{name: b.Name(), breaker: b}
}

// subjectsOf returns what the entries of a list are shown as, and an error for each that is nil.
func subjectsOf[V any](list string, entries []*V, of func(*V) *subject) (subjects []*subject, errs []error) {
	for i, v := range entries {
		entry := fmt.Sprintf("%s[%d]", list, i)
		if v == nil {
			errs = append(errs, fmt.Errorf("steadydebug: %s must not be nil (leave it out)", entry))
			continue
		}
		s := of(v)
		s.entry = entry
		subjects = append(subjects, s)
	}
	return subjects, errs
}

// breakerName returns the name that transitions have.
func (s *subject) breakerName() string {
	if s.breaker == nil {
		return s.name
	}
	return s.breaker.Name()
}

// look reads everything. It reports false when a hook has panicked, which a Stats can call. No lock may be
// held: a hook may be the handler's.
func (s *subject) look() (r reading, ok bool) {
	defer func() {
		if v := recover(); v != nil {
			slog.Error("steadydebug: a hook panicked while a breaker was read", "dependency", s.name, "panic", v)
		}
	}()
	for _, t := range []*steady.Timeout{s.timeout, s.attempt} {
		if t != nil {
			stats := t.Stats()
			r.expired += stats.Expired
			r.abandonedNow += stats.AbandonedNow
		}
	}
	if s.retry != nil {
		r.retry = s.retry.Stats()
	}
	if s.budget != nil {
		r.budget = s.budget.Stats()
	}
	if s.bulkhead != nil {
		r.bulkhead = s.bulkhead.Stats()
		r.totals.rejected += r.bulkhead.Rejected
	}
	if s.breaker != nil {
		r.breaker = s.breaker.Stats()
		r.totals.add(r.breaker)
		if !s.breaker.Config().Shadow {
			r.totals.rejected += r.breaker.Rejected
		}
	}
	return r, true
}

// record takes over a reading. It reports whether the configuration has changed with it. The handler's lock
// must be held.
func (s *subject) record(r reading) (reconfigured bool) {
	if s.read {
		s.history.record(r.totals.less(s.now.totals))
		reconfigured = r.bulkhead.MaxConcurrent != s.now.bulkhead.MaxConcurrent
	}
	s.now, s.read = r, true
	return reconfigured
}
