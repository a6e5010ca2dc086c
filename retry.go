package steady

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// RetryConfig configures a [Retry].
type RetryConfig struct {
	// Name is what errors, hooks and logs call the retry.
	Name string
	// MaxAttempts is how many attempts are made, the first call included. In [1, 100]; 0 means 3.
	MaxAttempts int
	// BaseDelay is the ceiling of the delay after the first attempt; it doubles with each further one. 0
	// means 100ms.
	BaseDelay time.Duration
	// MaxDelay is where the ceiling stops growing. 0 means 30s.
	MaxDelay time.Duration
	// ThrottledDelay takes the place of BaseDelay after a Throttled outcome. At most MaxDelay; 0 means
	// 10·BaseDelay, or MaxDelay if that is less.
	ThrottledDelay time.Duration
	// NoDelay retries at once, but for what the dependency asked for with RetryAfter.
	NoDelay bool
	// Jitter spreads the delays. The default is FullJitter.
	Jitter Jitter
	// Budget bounds the load that retries add. nil means one of the Retry's own, with the defaults.
	Budget *RetryBudget
	// NoBudget retries without a budget: a dependency that fails gets MaxAttempts times its load.
	NoBudget bool
	// RetryRejected also retries what a Breaker or Bulkhead inside rejected, not before its RetryAfter. The
	// deadline must leave the time for that.
	RetryRejected bool
	// Rand gives the randomness for the Jitter, in [0, 1); anything else counts as 0. Any number of calls
	// may use it at once. nil means math/rand/v2.
	Rand func() float64
	// Hooks are told of each retry.
	Hooks *Hooks
	// Clock is what delays are measured on; nil means the pipeline's.
	Clock Clock
}

// Retry tries again what ended Transient, Unsent or Throttled. It waits between attempts, with exponential
// backoff and jitter, on top of what the dependency asked for; it does not wait for what the deadline of
// its context would cut off, nor retry when its budget is empty. What an inner breaker or bulkhead rejected
// is not retried, unless RetryRejected is set. The context that the Retry was given ends it, the limit of a
// Timeout inside does not.
//
// When it gives up on what it would have tried again, it returns a *RetryError that says why; a call that
// ran once and was not cut short keeps the function's own error. A failing value with a nil error, a
// response with status 503, comes back as that when nothing is left to try.
//
// A Retry holds no state of a call, and may be shared by any number of goroutines and pipelines.
type Retry struct {
	cfg      RetryConfig
	hooks    *Hooks
	cautious bool // repeats only what cannot have been done
	counts   *retryCounts
}

type retryCounts struct {
	calls, retries, succeeded, exhausted, budgetDenied, deadlineDenied atomic.Uint64
}

// RetryStats is a reading of a Retry: counts since construction.
type RetryStats struct {
	Name                string
	Calls               uint64 // that went through it
	Retries             uint64 // attempts after the first
	SucceededAfterRetry uint64 // calls
	Exhausted           uint64 // calls that ended with ErrRetriesExhausted, or a failing value
	BudgetDenied        uint64 // likewise with ErrRetryBudget
	DeadlineDenied      uint64 // likewise with ErrRetryDeadline
}

// NewRetry returns a Retry, or an error that names every field that is out of range.
func NewRetry(cfg RetryConfig) (*Retry, error) {
	return newRetry(cfg, "RetryConfig")
}

func newRetry(cfg RetryConfig, label string) (*Retry, error) {
	if err := cfg.complete(label); err != nil {
		return nil, err
	}
	return &Retry{cfg: cfg, hooks: hooksOf(cfg.Hooks), counts: new(retryCounts)}, nil
}

func (cfg *RetryConfig) complete(label string) error {
	f := faults{config: label}
	setDefault(&cfg.MaxAttempts, 3)
	f.require(cfg.MaxAttempts >= 1 && cfg.MaxAttempts <= 100, "MaxAttempts", "must be in [1, 100]", cfg.MaxAttempts, "it counts the first call; 0 means 3")
	if cfg.NoDelay {
		f.refuse(cfg.BaseDelay != 0, "BaseDelay is %v with NoDelay set: leave one of them out", cfg.BaseDelay)
		f.refuse(cfg.MaxDelay != 0, "MaxDelay is %v with NoDelay set: leave one of them out", cfg.MaxDelay)
		f.refuse(cfg.ThrottledDelay != 0, "ThrottledDelay is %v with NoDelay set: leave one of them out", cfg.ThrottledDelay)
	} else {
		cfg.completeDelays(&f)
	}
	f.require(cfg.Jitter <= NoJitter, "Jitter", "must be FullJitter, EqualJitter, DecorrelatedJitter or NoJitter", uint8(cfg.Jitter), "leave it out for FullJitter")
	if cfg.NoBudget {
		f.refuse(cfg.Budget != nil, "Budget is set with NoBudget: leave one of them out")
	} else if cfg.Budget == nil {
		cfg.Budget = Must(NewRetryBudget(RetryBudgetConfig{}))
	}
	return f.err()
}

func (cfg *RetryConfig) completeDelays(f *faults) {
	setDefault(&cfg.BaseDelay, 100*time.Millisecond)
	f.require(cfg.BaseDelay > 0, "BaseDelay", "must be positive", cfg.BaseDelay, "0 means 100ms; set NoDelay to retry at once")
	setDefault(&cfg.MaxDelay, 30*time.Second)
	f.require(cfg.MaxDelay >= cfg.BaseDelay, "MaxDelay", fmt.Sprintf("must be at least BaseDelay = %v", cfg.BaseDelay), cfg.MaxDelay, "0 means 30s: raise it, or lower BaseDelay")
	setDefault(&cfg.ThrottledDelay, min(saturated(10*float64(cfg.BaseDelay)), cfg.MaxDelay))
	f.require(cfg.ThrottledDelay >= 0 && cfg.ThrottledDelay <= max(cfg.MaxDelay, 0), "ThrottledDelay",
		fmt.Sprintf("must not be negative or exceed MaxDelay = %v", cfg.MaxDelay), cfg.ThrottledDelay, "0 means 10·BaseDelay, MaxDelay at most")
}

// Name returns the configured name.
func (r *Retry) Name() string { return r.cfg.Name }

// Config returns the effective configuration, defaults filled in. Its Budget is the one in use.
func (r *Retry) Config() RetryConfig { return r.cfg }

// Stats returns a reading.
func (r *Retry) Stats() RetryStats {
	return RetryStats{
		Name:                r.cfg.Name,
		Calls:               r.counts.calls.Load(),
		Retries:             r.counts.retries.Load(),
		SucceededAfterRetry: r.counts.succeeded.Load(),
		Exhausted:           r.counts.exhausted.Load(),
		BudgetDenied:        r.counts.budgetDenied.Load(),
		DeadlineDenied:      r.counts.deadlineDenied.Load(),
	}
}

func (r *Retry) absent() bool { return r == nil }

func (r *Retry) stage(p *plan, next handler) handler {
	s := &retryStage{r: r, time: p.time, budget: r.cfg.Budget, next: next}
	s.deposits = s.budget != nil
	for _, b := range p.budgets {
		if b == s.budget {
			s.deposits = false // the one further in does: a call deposits once
		}
	}
	p.budgets = append(p.budgets, s.budget)
	p.repeats = true
	p.retry = r
	return s
}

// retryStage is a Retry in a pipeline.
type retryStage struct {
	r        *Retry
	time     timekeeper
	budget   *RetryBudget // may be nil
	deposits bool
	next     handler
}

// series is the attempts of one call.
type series struct {
	began    instant
	runs     int           // of the function before the first
	before   int           // of the function before the current one
	n        int           // attempts
	failed   bool          // one of them ran, and failed
	last     error         // what it returned
	previous time.Duration // the last delay
}

func (s *retryStage) handle(ctx context.Context, c *call) error {
	s.r.counts.calls.Add(1)
	a := series{began: c.now(), runs: c.runs, before: c.runs, n: 1}
	err := s.next.handle(ctx, c)
	for {
		c.retries = a.n - 1
		if !s.wants(ctx, c, &a) {
			return s.answer(c, &a, err)
		}
		if c.runs > a.before {
			a.failed, a.last = true, err
		}
		if s.r.cfg.MaxAttempts == 1 {
			return err
		}
		delay, reason := s.plan(ctx, c, &a)
		if reason != nil {
			return s.giveUp(c, &a, reason, err)
		}
		if err := s.pause(ctx, c, &a, delay, err); err != nil {
			c.end(cut)
			return s.gaveUp(c, &a, err)
		}
		a.n++
		s.r.counts.retries.Add(1)
		err = s.again(ctx, c, &a)
	}
}

// wants reports whether the attempt ended in a way that is worth another. The function may have run in it and
// yet not at its end, where there is a Retry or a Middleware inside.
func (s *retryStage) wants(ctx context.Context, c *call, a *series) bool {
	if c.runs > a.before && !s.repeats(c.verdict) {
		return false
	}
	switch c.fate {
	case ran:
		return true
	case rejected:
		return s.r.cfg.RetryRejected
	case cut: // by a Timeout inside, before the function was called, unless our own context has ended
		return ctx.Err() == nil
	default:
		return false
	}
}

// repeats reports whether a run of the function that ended so may be followed by another.
func (s *retryStage) repeats(o Outcome) bool {
	return o == Unsent || o == Throttled || o == Transient && !s.r.cautious
}

// answer is the end of a call that is not worth another attempt.
func (s *retryStage) answer(c *call, a *series, err error) error {
	if c.fate == ran {
		if c.outcome == Success {
			if s.deposits {
				s.budget.deposit()
			}
			if a.n > 1 {
				s.r.counts.succeeded.Add(1)
			}
		}
		return err
	}
	if a.failed && err != nil {
		return s.gaveUp(c, a, err)
	}
	return err
}

// plan decides on another attempt: it returns the delay before it, or the reason against it. The budget has
// been charged when there is none.
func (s *retryStage) plan(ctx context.Context, c *call, a *series) (time.Duration, error) {
	if a.n == s.r.cfg.MaxAttempts {
		s.r.counts.exhausted.Add(1)
		return 0, ErrRetriesExhausted
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	delay := s.delay(c, a)
	if deadline, ok := ctx.Deadline(); ok && delay >= deadline.Sub(s.time.wallNow()) {
		s.r.counts.deadlineDenied.Add(1)
		return 0, ErrRetryDeadline
	}
	if s.budget != nil && !s.budget.withdraw() {
		s.r.counts.budgetDenied.Add(1)
		return 0, ErrRetryBudget
	}
	return delay, nil
}

// delay returns how long to wait: what the dependency asked for, and the backoff on top of it, so that
// callers who were told the same second do not return together.
func (s *retryStage) delay(c *call, a *series) time.Duration {
	var floor time.Duration
	switch c.fate {
	case ran:
		floor = c.owner.retryAfter()
	case rejected:
		floor = c.rejection.RetryAfter()
	}
	cfg := &s.r.cfg
	if cfg.NoDelay {
		return floor
	}
	base := cfg.BaseDelay
	if c.fate == ran && c.outcome == Throttled {
		base = cfg.ThrottledDelay
	}
	a.previous = cfg.Jitter.delay(a.n, base, cfg.MaxDelay, a.previous, s.random())
	return floor + min(a.previous, math.MaxInt64-floor)
}

func (s *retryStage) random() float64 {
	switch {
	case s.r.cfg.Jitter == NoJitter:
		return 0
	case s.r.cfg.Rand != nil:
		return unit(s.r.cfg.Rand())
	default:
		return rand.Float64()
	}
}

// pause waits for the next attempt. When it does not come, its token goes back.
func (s *retryStage) pause(ctx context.Context, c *call, a *series, delay time.Duration, err error) error {
	goes := false
	defer func() {
		if !goes && s.budget != nil {
			s.budget.refund()
		}
	}()
	o := c.outcome
	c.owner.drop()
	if hook := s.r.hooks.OnRetry; hook != nil {
		hook(ctx, RetryDelay{Policy: s.r.cfg.Name, Attempt: a.n, Delay: delay, Outcome: o, Err: err})
	}
	if delay > 0 {
		timer := s.time.timer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil { // also when both came together
		return err
	}
	goes = true
	return nil
}

// again makes another attempt. When it does not reach the function, its token goes back.
func (s *retryStage) again(ctx context.Context, c *call, a *series) error {
	a.before = c.runs
	if s.budget != nil {
		defer func() {
			if c.runs == a.before {
				s.budget.refund()
			}
		}()
	}
	c.begin()
	return s.next.handle(ctx, c)
}

// giveUp ends a call that was worth another attempt, which the reason forbids.
func (s *retryStage) giveUp(c *call, a *series, reason, err error) error {
	switch {
	case err == nil: // a failing value
		c.gaveUp = reason
		return nil
	case c.fate == ran:
	case a.failed: // both this and what the function returned before are to be seen
		reason = fmt.Errorf("%w: %w", reason, err)
	default:
		a.last = err
	}
	return s.gaveUp(c, a, reason)
}

func (s *retryStage) gaveUp(c *call, a *series, reason error) error {
	c.gaveUp = reason
	return &RetryError{
		Policy:   s.r.cfg.Name,
		Attempts: c.runs - a.runs,
		Elapsed:  s.time.now().since(a.began),
		Reason:   reason,
		Last:     a.last,
	}
}

// careful returns a Retry that shares everything with r, but repeats only what the dependency cannot
// have done: Unsent and Throttled.
func (r *Retry) careful() *Retry {
	c := *r
	c.cautious = true
	return &c
}
