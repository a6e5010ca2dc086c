package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/steady-go/steady"
)

// screen is where everything is printed, one thing at a time.
type screen struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *screen) printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, format, args...)
}

// introduce prints what is compared, and how to read it.
func (s *screen) introduce(sides []*side, rate int) {
	s.printf("Two checkouts, the same code, each with %d connections to its own catalogue and %d customers a second:\n", connections, rate)
	for _, one := range sides {
		cfg := one.dependency.Config()
		policies := fmt.Sprintf("a timeout of %v, a breaker that counts errors", cfg.Timeout)
		if !cfg.Breaker.NoSlowCalls {
			policies += fmt.Sprintf(" and slow calls (from %v on)", cfg.Breaker.SlowThreshold)
		}
		if !cfg.NoBulkhead {
			policies += fmt.Sprintf(", a bulkhead of %d", cfg.Bulkhead.MaxConcurrent)
		}
		s.printf("  %-20s %s\n", cfg.Name, policies)
	}
	s.printf("A line is a second: the customers who got a fresh price, a cached one or none in it, and those still waiting.\n")
}

// say prints what happens to everybody.
func (s *screen) say(format string, args ...any) {
	s.printf("--- "+format+"\n", args...)
}

// transition prints a breaker's change of state, in the breaker's own words.
func (s *screen) transition(t steady.Transition) {
	s.printf(">>> %v\n", t)
}

// follow prints a line a second with what happened in it, until the function that it returns is called.
func (s *screen) follow(sides []*side) (stop func()) {
	s.heading(sides)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		before := make([]counts, len(sides))
		for second := 1; ; second++ {
			select {
			case <-ticker.C:
				s.second(second, sides, before)
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func (s *screen) heading(sides []*side) {
	above, below := strings.Repeat(" ", 5), " time"
	for _, one := range sides {
		above += fmt.Sprintf(" │ %-40s", one.dependency.Name())
		below += fmt.Sprintf(" │ %5s %5s %6s %9s  %-9s ", "fresh", "cache", "failed", "in flight", "breaker")
	}
	s.printf("\n%s\n%s\n", strings.TrimRight(above, " "), strings.TrimRight(below, " "))
}

// second prints the line of a second, and leaves in before what the next one is compared with.
func (s *screen) second(n int, sides []*side, before []counts) {
	line := fmt.Sprintf("%4ds", n)
	for i, one := range sides {
		now, last := one.soFar(), before[i]
		line += fmt.Sprintf(" │ %5d %5d %6d %9d  %-10v", now.fresh-last.fresh, now.cached()-last.cached(),
			now.failed-last.failed, now.inFlight, one.dependency.Breaker().State())
		before[i] = now
	}
	s.printf("%s\n", strings.TrimRight(line, " "))
}

// stats prints what the breakers have seen.
func (s *screen) stats(sides []*side) {
	for _, one := range sides {
		b := one.dependency.Breaker().Stats()
		s.printf("    Stats of %q: %v; failure rate %.2f, slow rate %.2f of %d calls; %d in flight; %d rejected; p99 %v\n",
			b.Name, b.State, b.FailureRate, b.SlowRate, b.Calls, b.InFlight, b.Rejected, short(b.LatencyP99))
	}
}

// table prints the end of it.
func (s *screen) table(results []result) {
	row := func(label string, value func(r result) string) {
		line := fmt.Sprintf("%-48s", label)
		for _, r := range results {
			line += fmt.Sprintf("%20s", value(r))
		}
		s.printf("%s\n", line)
	}
	count := func(label string, value func(r result) int) {
		row(label, func(r result) string { return strconv.Itoa(value(r)) })
	}
	s.printf("\n")
	row("", func(r result) string { return r.name })
	count("customers who came", func(r result) int { return r.arrived })
	count("answered fresh", func(r result) int { return r.fresh })
	count("answered from cache", func(r result) int { return r.cached() })
	count("  the breaker was open", func(r result) int { return r.breakerOpen })
	count("  the bulkhead was full", func(r result) int { return r.bulkheadFull })
	count("  the timeout had passed", func(r result) int { return r.timedOut })
	count("  another error", func(r result) int { return r.otherwise })
	count("failed", func(r result) int { return r.failed })
	row("wait of a customer, p50", func(r result) string { return short(r.p50) })
	row("wait of a customer, p99", func(r result) string { return short(r.p99) })
	count(fmt.Sprintf("customers who waited longer than %v", patience), func(r result) int { return r.impatient })
	count("most customers in flight at once", func(r result) int { return r.mostInFlight })
	count("most requests at the catalogue at once", func(r result) int { return r.mostInside })
	row("first slow request to the breaker's opening", func(r result) string {
		at, ok := r.opened()
		switch {
		case !ok:
			return "never opened"
		case r.firstSlow.IsZero():
			return "no slow request"
		}
		return short(at.Sub(r.firstSlow))
	})
	row("catalogue healthy to the breaker's closing", func(r result) string {
		if _, ok := r.opened(); !ok {
			return "never opened"
		}
		at, ok := r.closed()
		if !ok {
			return "not in this run"
		}
		return short(at.Sub(r.healthyAgain))
	})
	row(fmt.Sprintf("catalogue healthy to the last wait over %v", patience), func(r result) string {
		switch {
		case r.healthyAgain.IsZero():
			return "not in this run"
		case r.lastImpatience.IsZero():
			return "no such wait"
		case r.lastImpatience.Before(r.healthyAgain):
			return "none after it"
		}
		return short(r.lastImpatience.Sub(r.healthyAgain))
	})
}

// short makes a duration fit for the table.
func short(d time.Duration) string { return d.Round(time.Millisecond).String() }
