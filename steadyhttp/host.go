package steadyhttp

import (
	"container/list"
	"net/http"
	"time"

	"github.com/steady-go/steady"
)

// host is a Dependency with its pipelines.
type host struct {
	name       string
	dependency *steady.Dependency
	repeating  [3]*steady.Pipeline[*exchange] // by intent
	once       *steady.Pipeline[*exchange]    // for a body that cannot be had twice
	clock      steady.Clock                   // nil for the system's
	classify   func(error) steady.Outcome     // the Dependency's; may be nil

	// Guarded by the mutex of the hosts it is one of.
	calls int           // that have begun, and whose body has not ended
	uses  uint64        // calls there have been
	place *list.Element // among the hosts without calls; nil while it has some
}

// newHost makes a host's Dependency and pipelines.
func (t *Transport) newHost(name string) (*host, error) {
	cfg := t.cfg.Dependency
	if t.cfg.PerHost != nil {
		cfg = t.cfg.PerHost(name)
		setDefault(&cfg.Name, name)
	}
	var f faults
	t.cfg.Timeouts.hand(&cfg, &f)
	d, err := steady.NewDependency(cfg)
	f.add(err)
	t.checkPool(&cfg, &f)
	if err := f.err(); err != nil {
		return nil, err
	}
	h := &host{name: name, dependency: d, clock: cfg.Clock, classify: cfg.Classify}
	pipeline := steady.PipelineConfig[*exchange]{
		Classify:   (*exchange).classify,
		RetryAfter: (*exchange).retryAfter,
		Discard:    (*exchange).discard,
	}
	for intent := range h.repeating {
		h.repeating[intent], err = steady.NewPipelineFor(d, steady.Intent(intent), pipeline)
		f.add(err)
	}
	pipeline.Name, pipeline.Hooks, pipeline.Clock = d.Name(), cfg.Hooks, cfg.Clock
	for _, policy := range d.Policies(steady.WriteNonIdempotent) {
		if _, retry := policy.(*steady.Retry); !retry {
			pipeline.Policies = append(pipeline.Policies, policy)
		}
	}
	h.once, err = steady.NewPipeline(pipeline)
	f.add(err)
	return h, f.err()
}

// hand gives Attempt and Total to the dependency, and checks the steps against what it has of its own.
func (t Timeouts) hand(cfg *steady.DependencyConfig, f *faults) {
	const why = "Timeouts.%s (%v) is not the %s (%v) of dependency %q: leave one of them out"
	f.refuse(t.Total != 0 && cfg.Timeout != 0 && t.Total != cfg.Timeout, why, "Total", t.Total, "Timeout", cfg.Timeout, cfg.Name)
	f.refuse(t.Attempt != 0 && cfg.AttemptTimeout != 0 && t.Attempt != cfg.AttemptTimeout, why, "Attempt", t.Attempt, "AttemptTimeout", cfg.AttemptTimeout, cfg.Name)
	setDefault(&cfg.Timeout, t.Total)
	setDefault(&cfg.AttemptTimeout, t.Attempt)
	if cfg.AttemptTimeout != t.Attempt || cfg.Timeout != t.Total {
		t.checkSteps(f, cfg.AttemptTimeout, cfg.Timeout)
	}
}

// checkPool checks the bulkhead against the base transport's connections.
func (t *Transport) checkPool(cfg *steady.DependencyConfig, f *faults) {
	base, ok := t.base.(*http.Transport)
	if !ok || base == nil || base.MaxConnsPerHost <= 0 || cfg.NoBulkhead {
		return
	}
	f.refuse(cfg.Bulkhead.MaxConcurrent >= base.MaxConnsPerHost,
		"Bulkhead.MaxConcurrent (%d) of dependency %q must be less than the base transport's MaxConnsPerHost (%d): "+
			"calls that it let through would wait for connections; lower MaxConcurrent, or raise MaxConnsPerHost or leave it out",
		cfg.Bulkhead.MaxConcurrent, cfg.Name, base.MaxConnsPerHost)
}

// pipeline returns the pipeline for a request.
func (h *host) pipeline(intent steady.Intent, replayable bool) *steady.Pipeline[*exchange] {
	switch {
	case !replayable:
		return h.once
	case int(intent) < len(h.repeating):
		return h.repeating[intent]
	default:
		return h.repeating[steady.WriteNonIdempotent]
	}
}

// forgettable reports whether nothing is lost with a host that has no calls: its breaker is closed, and nobody calls it
// by another way than the Transport.
func (h *host) forgettable() bool {
	if slots := h.dependency.Bulkhead(); slots != nil && slots.Stats().InFlight > 0 {
		return false
	}
	b := h.dependency.Breaker()
	return b == nil || b.State() == steady.StateClosed
}

func (h *host) now() time.Time {
	if h.clock != nil {
		return h.clock.Now()
	}
	return time.Now()
}

// timer is what both kinds of clock have for a function that is called later.
type timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

func (h *host) afterFunc(d time.Duration, f func()) timer {
	if h.clock != nil {
		return h.clock.AfterFunc(d, f)
	}
	return time.AfterFunc(d, f)
}
