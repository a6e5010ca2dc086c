package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/steady-go/steady"
)

// patience is how long a wait may be before the closing table counts it as too long.
const patience = time.Second

// side is one half of the comparison: a catalogue, a checkout that calls it, and what its customers saw. The
// two sides share nothing, so that one's trouble is not the other's.
type side struct {
	dependency *steady.Dependency
	catalogue  *catalogue
	checkout   *checkout
	customers  sync.WaitGroup

	mu             sync.Mutex
	counts         counts
	waits          []time.Duration // one for every customer that got an end
	lastImpatience time.Time       // when the last wait ended that was longer than patience
	transitions    []steady.Transition
}

// counts is what has become of the customers so far.
type counts struct {
	arrived, inFlight, mostInFlight int
	fresh, failed                   int
	breakerOpen, bulkheadFull       int // answered from the cache, and why
	timedOut, otherwise             int
	impatient                       int // waited longer than patience
}

func (c counts) cached() int { return c.breakerOpen + c.bulkheadFull + c.timedOut + c.otherwise }

// newDependency makes one of the two dependencies in checkout.go.
type newDependency func(openFor time.Duration, hooks *steady.Hooks) (*steady.Dependency, error)

// newSide opens one half. Every transition of its breaker is shown as it happens.
func newSide(newDependency newDependency, openFor time.Duration, show func(steady.Transition)) (s *side, err error) {
	s = new(side)
	s.dependency, err = newDependency(openFor, &steady.Hooks{OnTransition: func(t steady.Transition) {
		s.mu.Lock()
		s.transitions = append(s.transitions, t)
		s.mu.Unlock()
		show(t)
	}})
	if err != nil {
		return nil, err
	}
	if s.catalogue, err = openCatalogue(); err != nil {
		return nil, err
	}
	if s.checkout, err = newCheckout(s.catalogue.url, s.dependency); err != nil {
		return nil, errors.Join(err, s.catalogue.close())
	}
	return s, nil
}

// serve lets a customer in, and does not wait for the end of it. The customer's own wait began when the
// visit was due, even if the program was late to notice.
func (s *side) serve(ctx context.Context, due time.Time, product int) {
	s.arrive()
	s.customers.Go(func() {
		q, err := s.checkout.price(ctx, product)
		s.leave(due, q, err)
	})
}

func (s *side) arrive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.arrived++
	s.counts.inFlight++
	s.counts.mostInFlight = max(s.counts.mostInFlight, s.counts.inFlight)
}

func (s *side) leave(due time.Time, q quote, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	wait := now.Sub(due)
	s.waits = append(s.waits, wait)
	if wait > patience {
		s.counts.impatient++
		s.lastImpatience = now
	}
	s.counts.inFlight--
	switch {
	case err != nil:
		s.counts.failed++
	case q.insteadOf == nil:
		s.counts.fresh++
	case errors.Is(q.insteadOf, steady.ErrBreakerOpen):
		s.counts.breakerOpen++
	case errors.Is(q.insteadOf, steady.ErrBulkheadFull):
		s.counts.bulkheadFull++
	case errors.Is(q.insteadOf, steady.ErrTimeout):
		s.counts.timedOut++
	default:
		s.counts.otherwise++
	}
}

// soFar returns the counts as they are now.
func (s *side) soFar() counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// result is what became of a side.
type result struct {
	counts

	name           string
	p50, p99       time.Duration // of all customers' waits
	mostInside     int           // requests at the catalogue at one time, at the most
	firstSlow      time.Time     // arrival of the first slow request at the catalogue; zero if there was none
	healthyAgain   time.Time     // zero if the run was cut short before
	lastImpatience time.Time     // zero if nobody waited longer than patience
	transitions    []steady.Transition
	breaker        steady.BreakerStats
}

// result is called when all customers have left.
func (s *side) result(healthyAgain time.Time) result {
	r := result{name: s.dependency.Name(), healthyAgain: healthyAgain, breaker: s.dependency.Breaker().Stats()}
	r.firstSlow, r.mostInside = s.catalogue.seen()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.waits)
	r.p50, r.p99 = quantile(s.waits, 0.50), quantile(s.waits, 0.99)
	r.counts, r.lastImpatience, r.transitions = s.counts, s.lastImpatience, slices.Clone(s.transitions)
	return r
}

// quantile returns the smallest of the sorted durations that a share q of them does not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// opened returns when the breaker first opened.
func (r result) opened() (at time.Time, ok bool) {
	return r.first(func(t steady.Transition) bool { return t.To == steady.StateOpen })
}

// closed returns when the breaker first closed after the catalogue was healthy again.
func (r result) closed() (at time.Time, ok bool) {
	if r.healthyAgain.IsZero() {
		return time.Time{}, false
	}
	return r.first(func(t steady.Transition) bool { return t.To == steady.StateClosed && t.At.After(r.healthyAgain) })
}

func (r result) first(match func(steady.Transition) bool) (at time.Time, ok bool) {
	i := slices.IndexFunc(r.transitions, match)
	if i < 0 {
		return time.Time{}, false
	}
	return r.transitions[i].At, true
}

// close ends the connections, which nobody uses any more, and the catalogue.
func (s *side) close() error {
	s.checkout.client.CloseIdleConnections()
	return s.catalogue.close()
}
