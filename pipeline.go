package steady

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// PipelineConfig configures a [Pipeline].
type PipelineConfig[T any] struct {
	// Name is what hooks and logs call the pipeline.
	Name string
	// Policies are what every call goes through, the outermost first. No instance may be there twice, but
	// for a Middleware. Without any, the pipeline just classifies and reports.
	Policies []Policy
	// Classify says what a result means. nil, or a result of 0, leaves it to the Classify of the Dependency,
	// if the pipeline is one's, and then to the function [Classify]. It is called once per attempt, after the
	// function returned, and for the error that a release after Hold is given.
	Classify func(v T, err error) Outcome
	// RetryAfter says how long the dependency wants to be left alone after a result that is to be retried;
	// 0 or less is no wish. nil means what [MarkRetryAfter] said of the error, if anything.
	RetryAfter func(v T, err error) time.Duration
	// Discard is called with every result, returned with a nil error, that does not reach the caller: one
	// that is retried, or comes too late. It is for closing what the result holds open.
	Discard func(v T)
	// Hooks are told of attempts and calls.
	Hooks *Hooks
	// Clock is the clock of the pipeline and of every Timeout, Retry and Bulkhead in it that names none.
	// Two different clocks in one pipeline are an error. nil means the one that a policy names, else the
	// system clock.
	Clock Clock
}

// Pipeline runs functions that return a T through its policies. Most callers want [Pipeline.Do]. It may be
// used by any number of goroutines, and its policies may be shared with pipelines of other types.
type Pipeline[T any] struct {
	plan        // what does not depend on T
	cfg         PipelineConfig[T]
	classifyErr func(err error) Outcome // a Dependency's, when cfg.Classify does not say; may be nil
	records     sync.Pool               // of *record[T]
}

// Policy is one of *Timeout, *Retry, *Breaker, *Bulkhead and Middleware.
type Policy interface {
	// absent reports whether the policy is nil.
	absent() bool
	// stage puts the policy around next.
	stage(p *plan, next handler) handler
}

// handler is a part of a pipeline: a policy and everything inside it.
type handler interface {
	handle(ctx context.Context, c *call) error
}

// plan is what a pipeline's handlers have in common, laid out once, from the innermost to the outermost.
type plan struct {
	name     string
	hooks    *Hooks
	time     timekeeper
	chain    handler
	breakers []*breakerStage
	gate     gate
	retry    *Retry   // the outermost, nil if there is none
	abandons *Timeout // the outermost that abandons, nil if none does

	// Only while it is laid out:
	repeats bool // a policy further in may run the function more than once, or leave before it returns
	budgets []*RetryBudget
}

// NewPipeline returns a pipeline, or an error that names everything that is wrong with it.
func NewPipeline[T any](cfg PipelineConfig[T]) (*Pipeline[T], error) {
	p := &Pipeline[T]{cfg: cfg}
	p.cfg.Policies = append([]Policy(nil), cfg.Policies...)
	p.name, p.hooks = cfg.Name, hooksOf(cfg.Hooks)
	if err := p.lay(p.cfg.Policies, cfg.Clock); err != nil {
		return nil, err
	}
	p.records.New = func() any { return p.newRecord() }
	return p, nil
}

// lay builds the chain of handlers.
func (p *plan) lay(policies []Policy, c Clock) error {
	c, clocks := oneClock(p.name, policies, c)
	if err := errors.Join(checkPolicies(p.name, policies), clocks); err != nil {
		return err
	}
	p.time = newTimekeeper(c)
	p.chain = dispatch{}
	for i := len(policies) - 1; i >= 0; i-- {
		p.chain = policies[i].stage(p, p.chain)
	}
	p.budgets = nil
	p.gate = newGate(policies, p.hooks)
	return nil
}

// checkPolicies refuses what cannot stand in one pipeline, all of it at once.
func checkPolicies(name string, policies []Policy) error {
	var errs []error
	refuse := func(i int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("steady: pipeline %q: Policies[%d] %s", name, i, fmt.Sprintf(format, args...)))
	}
	seen := make(map[Policy]int)
	bulkhead := -1
	for i, policy := range policies {
		if policy == nil || policy.absent() {
			refuse(i, "is nil (%T): leave it out", policy)
			continue
		}
		switch policy := policy.(type) {
		case Middleware:
			continue // functions cannot be compared, and may be there twice
		case *Bulkhead:
			bulkhead = i
		case *Timeout:
			if policy.cfg.Abandon && bulkhead >= 0 {
				refuse(bulkhead, "is a Bulkhead outside Policies[%d], the abandoning Timeout %q: its slot would be "+
					"given away while the function still runs; put the Bulkhead inside the Timeout", i, policy.cfg.Name)
			}
		}
		if first, twice := seen[policy]; twice {
			refuse(i, "is the same %T as Policies[%d]: make a second one, or leave it out", policy, first)
			continue
		}
		seen[policy] = i
	}
	return errors.Join(errs...)
}

// oneClock returns the clock that the pipeline and its policies agree on.
func oneClock(name string, policies []Policy, c Clock) (Clock, error) {
	var errs []error
	where := "PipelineConfig.Clock"
	named := func(policy string, other Clock) {
		switch {
		case c == nil:
			c, where = other, policy
		case !sameClock(c, other):
			errs = append(errs, fmt.Errorf("steady: pipeline %q: %s and %s are on different clocks: give both the same", name, where, policy))
		}
	}
	for i, policy := range policies {
		if policy == nil || policy.absent() {
			continue
		}
		at := fmt.Sprintf("Policies[%d]", i)
		switch policy := policy.(type) {
		case *Timeout:
			if policy.cfg.Clock != nil {
				named(at, policy.cfg.Clock)
			}
		case *Retry:
			if policy.cfg.Clock != nil {
				named(at, policy.cfg.Clock)
			}
		case *Bulkhead:
			if policy.cfg.Clock != nil {
				named(at, policy.cfg.Clock)
			}
		case *Breaker: // has its own, the system's if it names none
			if policy.cfg.Clock != nil {
				named(at, policy.cfg.Clock)
			} else {
				named(at, systemClock)
			}
		}
	}
	return c, errors.Join(errs...)
}

// Name returns the configured name.
func (p *Pipeline[T]) Name() string { return p.name }

// Config returns the effective configuration.
func (p *Pipeline[T]) Config() PipelineConfig[T] {
	cfg := p.cfg
	cfg.Policies = append([]Policy(nil), cfg.Policies...)
	return cfg
}

// Do calls fn through the policies and returns its result. When ctx is done already, fn is not called and
// the context's error comes back. The context that fn gets ends when Do returns: for a result that needs it
// longer, a response body say, use Hold.
func (p *Pipeline[T]) Do(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if ctx == nil || fn == nil {
		var zero T
		return zero, p.misused("Do")
	}
	if e := p.gate.reject(ctx); e != nil {
		var zero T
		return zero, e
	}
	r := p.record(ctx)
	r.fn = fn
	v, err, _ := p.run(r, false)
	return v, err
}

// DoOr is Do with a fallback, which is asked for the answer when Do has ended with any error but the
// caller's own cancellation. It gets the caller's ctx, which may be past its deadline, and that error; what
// it returns is the answer. It runs outside every policy and holds no slot.
func (p *Pipeline[T]) DoOr(
	ctx context.Context,
	fn func(context.Context) (T, error),
	fallback func(ctx context.Context, err error) (T, error),
) (T, error) {
	if ctx == nil || fn == nil || fallback == nil {
		var zero T
		return zero, p.misused("DoOr")
	}
	if e := p.gate.reject(ctx); e != nil {
		return fallback(ctx, e)
	}
	r := p.record(ctx)
	r.fn = fn
	v, err, ask := p.run(r, true)
	if ask {
		return fallback(ctx, err)
	}
	return v, err
}

// Run is Do for a function without a result.
func (p *Pipeline[T]) Run(ctx context.Context, fn func(context.Context) error) error {
	if ctx == nil || fn == nil {
		return p.misused("Run")
	}
	if e := p.gate.reject(ctx); e != nil {
		return e
	}
	r := p.record(ctx)
	r.proc = fn
	_, err, _ := p.run(r, false)
	return err
}

func (p *Pipeline[T]) misused(method string) error {
	return fmt.Errorf("steady: pipeline %q: %s needs a context and functions that are not nil", p.name, method)
}

// record returns a record for a new call.
func (p *Pipeline[T]) record(ctx context.Context) *record[T] {
	r := p.records.Get().(*record[T])
	r.ctx = ctx
	return r
}

// run takes a call through the chain and hands out its result. Where there is a fallback, it says whether
// that is to be asked.
func (p *Pipeline[T]) run(r *record[T], fallback bool) (v T, err error, ask bool) {
	ended := false
	defer func() {
		if !ended {
			r.abort()
		}
	}()
	err = r.through()
	ask = fallback && err != nil && !r.gone()
	r.done(err, ask)
	v = r.take()
	ended = true
	p.recycle(r)
	return v, err, ask
}

// recycle makes a record that nobody refers to any more fit for another call.
func (p *Pipeline[T]) recycle(r *record[T]) {
	r.fn, r.proc = nil, nil
	r.progress = progress{}
	p.records.Put(r)
}
