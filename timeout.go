package steady

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// TimeoutConfig configures a [Timeout].
type TimeoutConfig struct {
	// Name is what errors, hooks and logs call the timeout.
	Name string
	// Limit is how long what is inside may take. Required, positive.
	Limit time.Duration
	// Abandon returns to the caller at the limit, or when its context ends, even if the function has not
	// returned. See Timeout.
	Abandon bool
	// Hooks are told when the limit ends a call.
	Hooks *Hooks
	// Clock is what the limit is measured on; nil means the pipeline's.
	Clock Clock
}

// Timeout bounds the time of what is inside it. The function sees a context whose Deadline is the limit
// and whose Err is then context.DeadlineExceeded. What it returns because of that becomes a *TimeoutError
// that names this Timeout; a success that comes late is a success.
//
// Without Abandon the call waits for the function, as it must for one that heeds its context. With Abandon
// the function runs in a goroutine of its own, and a call that is over at the limit leaves it there, with
// its context cancelled; each breaker inside that let it through counts that once, as Transient, or Ignored
// if the caller cancelled. A bulkhead inside gives the slot back when the function has really returned, a
// late result goes to Discard, and a late panic to OnAttempt as a *PanicError: it does not end the process.
// While its caller is there, a panic is repeated in it as a *PanicError, and so is a Goexit.
//
// A Timeout may be shared by any number of goroutines and pipelines.
type Timeout struct {
	cfg   TimeoutConfig
	hooks *Hooks

	expired, abandoned atomic.Uint64
	abandonedNow       atomic.Int64
}

// TimeoutStats is a reading of a Timeout.
type TimeoutStats struct {
	Name         string
	Expired      uint64 // calls that the limit ended, since construction
	Abandoned    uint64 // functions left running, since construction
	AbandonedNow int    // of those, not returned yet
}

// NewTimeout returns a Timeout, or an error that names every field that is out of range.
func NewTimeout(cfg TimeoutConfig) (*Timeout, error) {
	f := faults{config: "TimeoutConfig"}
	f.require(cfg.Limit > 0, "Limit", "is required and must be positive", cfg.Limit, "for no limit, leave the Timeout out")
	if err := f.err(); err != nil {
		return nil, err
	}
	return &Timeout{cfg: cfg, hooks: hooksOf(cfg.Hooks)}, nil
}

// Name returns the configured name.
func (t *Timeout) Name() string { return t.cfg.Name }

// Config returns the effective configuration.
func (t *Timeout) Config() TimeoutConfig { return t.cfg }

// Stats returns a reading.
func (t *Timeout) Stats() TimeoutStats {
	return TimeoutStats{
		Name:         t.cfg.Name,
		Expired:      t.expired.Load(),
		Abandoned:    t.abandoned.Load(),
		AbandonedNow: int(t.abandonedNow.Load()),
	}
}

func (t *Timeout) absent() bool { return t == nil }

func (t *Timeout) stage(p *plan, next handler) handler {
	s := timeoutStage{t: t, time: p.time, next: next}
	if t.cfg.Abandon {
		p.repeats = true // a breaker around hears this policy's outcome, not the function's
		p.abandons = t
		return &abandonStage{timeoutStage: s, inside: len(p.breakers), retries: p.retry != nil}
	}
	return &s
}

type timeoutStage struct {
	t    *Timeout
	time timekeeper
	next handler
}

func (s *timeoutStage) handle(ctx context.Context, c *call) error {
	d := s.deadline(ctx, c)
	defer c.leave(keepsake{deadline: d})
	err := s.next.handle(d, c)
	if err != nil && s.caused(ctx, d.at, err) {
		return s.expire(ctx, err, false)
	}
	return err
}

// deadline returns the context for what is inside.
func (s *timeoutStage) deadline(ctx context.Context, c *call) *deadline {
	return &deadline{parent: ctx, at: c.now().add(s.t.cfg.Limit), time: s.time}
}

// caused reports whether this policy's deadline is what err is about: it has been reached, nothing further
// out has ended the call, and err says so. The function's context need not have ended: a connection that
// was given the deadline may return before the context's own timer fires. When it has, its cause is
// context.DeadlineExceeded too.
func (s *timeoutStage) caused(ctx context.Context, deadline instant, err error) bool {
	if ctx.Err() != nil || s.time.now() < deadline {
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, os.ErrDeadlineExceeded)
}

// expire says that the limit ended a call.
func (s *timeoutStage) expire(ctx context.Context, err error, abandoned bool) error {
	s.t.expired.Add(1)
	if s.t.hooks.OnTimeout != nil {
		s.t.hooks.OnTimeout(ctx, Expiry{Policy: s.t.cfg.Name, Limit: s.t.cfg.Limit, Abandoned: abandoned})
	}
	return &TimeoutError{Policy: s.t.cfg.Name, Limit: s.t.cfg.Limit, Err: err}
}
