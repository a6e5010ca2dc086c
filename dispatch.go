package steady

import (
	"context"
	"runtime/debug"
	"time"
)

// dispatch is the innermost handler, and the only place that runs the function.
type dispatch struct{}

func (dispatch) handle(ctx context.Context, c *call) error { return c.owner.dispatch(ctx) }

// record is a call with what depends on the type of its result. Records are pooled.
type record[T any] struct {
	call
	p    *Pipeline[T]
	fn   func(context.Context) (T, error)
	proc func(context.Context) error // in place of fn
	v    T                           // the last result
}

func (p *Pipeline[T]) newRecord() *record[T] {
	r := &record[T]{p: p}
	r.owner = r
	r.plan = &p.plan
	r.tickets = make([]*ticket, len(p.breakers))
	for i, s := range p.breakers {
		r.tickets[i] = newTicket(s.b, s.once)
	}
	return r
}

// through takes the call through the chain.
func (r *record[T]) through() error {
	if r.plan.hooks.OnDone != nil {
		r.began = r.now()
	}
	r.outcome, r.verdict = Ignored, Ignored
	err := r.ctx.Err()
	if err == nil {
		err = r.plan.chain.handle(r.ctx, &r.call)
	}
	if err != nil && r.made {
		r.drop()
	}
	return err
}

// take returns the result for the caller.
func (r *record[T]) take() (v T) {
	if r.fate == ran {
		v = r.v
	}
	var zero T
	r.v, r.made = zero, false
	return v
}

// abort ends a call that a panic or Goexit unwinds.
func (r *record[T]) abort() {
	defer r.drop()
	if !r.ended && r.plan.hooks.OnDone != nil {
		r.done(&PanicError{Stack: debug.Stack()}, false)
	}
}

// done lets the hook know that the call has ended.
func (c *call) done(err error, fallback bool) {
	if hook := c.plan.hooks.OnDone; hook != nil {
		c.ended = true
		hook(c.ctx, Completion{
			Pipeline: c.plan.name,
			Attempts: c.runs,
			Duration: c.plan.time.now().since(c.began),
			Outcome:  c.outcome,
			Err:      err,
			Fallback: fallback,
			Retry:    c.plan.retry,
			Retries:  c.retries,
			GaveUp:   c.gaveUp,
		})
	}
}

// attempt is one run of the function.
type attempt struct {
	ctx          context.Context
	began, ended instant
	phase        phase
	number       int // within the call
	outcome      Outcome
}

// phase is how far an attempt got, for what is left to do when a panic or Goexit unwinds it: the
// function's, or that of any other code of the caller's.
type phase uint8

const (
	starting phase = iota // the function was not called
	inside                // it was, and has not returned
	returned              // it has, and its outcome is not known
	judged                // it is, but not all breakers have heard
	told                  // they have, but not the hook
	reported
)

func (r *record[T]) dispatch(ctx context.Context) error {
	looked := r.fresh // with a fresh reading the breakers have looked when they admitted the call
	now := r.now()
	if err := r.plan.time.errAt(ctx, now); err != nil {
		r.end(cut)
		return err
	}
	if r.forked != nil {
		r.forked.report(&r.call) // of one that a Middleware has recovered
	}
	if !looked {
		r.look(now)
	}
	a := attempt{ctx: ctx, began: r.now()}
	r.fresh = false
	defer func() {
		if a.phase != reported {
			r.unwind(&a)
		}
	}()
	if !r.start(a.began) {
		a.phase = reported
		r.end(cut)
		return context.Canceled
	}
	a.phase = inside
	r.fate = ran
	r.runs++
	a.number = r.runs
	if r.proc != nil {
		r.err = r.proc(ctx)
	} else {
		r.v, r.err = r.fn(ctx)
		r.made = r.err == nil
	}
	a.ended, a.phase = r.plan.time.now(), returned
	if r.p.classifies() {
		r.halt(a.ended) // it is not the function's time
	}
	r.outcome = r.classify()
	a.phase = judged
	r.conclude(&a, r.err)
	return r.err
}

// unwind does what is left to do for an attempt that does not return. An attempt whose outcome is not known
// is Transient; one that never began is left to the policies around.
func (r *record[T]) unwind(a *attempt) {
	err := r.err
	switch a.phase {
	case starting: // a hook panicked
		r.outcome = Ignored
		r.back()
		r.stop(a.began)
		return
	case inside:
		a.ended = r.plan.time.now()
		fallthrough
	case returned:
		r.outcome = Transient
		a.phase = judged
		if r.forked != nil { // which can tell the panic's value
			unreported := *a
			unreported.outcome = Transient
			r.forked.unreported = &unreported
			r.tell(a)
			return
		}
		if r.plan.hooks.OnAttempt != nil {
			err = &PanicError{Stack: debug.Stack()}
		}
	}
	r.conclude(a, err)
}

// conclude lets everybody know the outcome.
func (r *record[T]) conclude(a *attempt, err error) {
	r.tell(a)
	a.phase = reported
	if r.plan.hooks.OnAttempt != nil {
		a.outcome = r.outcome
		r.report(a, err)
	}
}

// tell lets the breakers know.
func (r *record[T]) tell(a *attempt) {
	r.verdict = r.outcome
	if a.phase == judged {
		r.stop(a.ended)
		a.phase = told
	}
}

// report lets the hook, if there is one, know.
func (c *call) report(a *attempt, err error) {
	if hook := c.plan.hooks.OnAttempt; hook != nil {
		hook(a.ctx, Attempt{
			Pipeline: c.plan.name,
			Attempt:  a.number,
			Duration: a.ended.since(a.began),
			Outcome:  a.outcome,
			Err:      err,
		})
	}
}

// classifies reports whether the caller's code says what results mean.
func (p *Pipeline[T]) classifies() bool { return p.cfg.Classify != nil || p.classifyErr != nil }

// classify says what the function's result means.
func (r *record[T]) classify() Outcome {
	if r.forked != nil {
		if o, gone := r.forked.left(); gone {
			return o // has been told already
		}
	}
	if r.err == nil && r.p.cfg.Classify == nil {
		return Success
	}
	if r.err != nil && r.gone() {
		return Ignored
	}
	o := outcomeDefault
	if r.p.cfg.Classify != nil {
		o = r.p.cfg.Classify(r.v, r.err)
	}
	if o == outcomeDefault && r.p.classifyErr != nil {
		o = r.p.classifyErr(r.err)
	}
	if o == outcomeDefault {
		o = Classify(r.err)
	}
	if o != Success && r.gone() {
		return Ignored
	}
	return o.known()
}

func (r *record[T]) retryAfter() time.Duration {
	if r.p.cfg.RetryAfter != nil {
		return max(r.p.cfg.RetryAfter(r.v, r.err), 0)
	}
	return markedRetryAfter(r.err)
}

func (r *record[T]) drop() {
	defer r.release()
	var zero T
	v, made := r.v, r.made
	r.v, r.made = zero, false
	if made && r.p.cfg.Discard != nil {
		r.p.cfg.Discard(v)
	}
}

func (r *record[T]) fork(f *fork) *call {
	child := r.p.newRecord()
	child.fn, child.proc = r.fn, r.proc
	child.progress = r.progress
	child.forked = f
	child.begin()
	return &child.call
}

func (r *record[T]) adopt(c *call) {
	child := c.owner.(*record[T])
	r.runs, r.fate, r.outcome, r.verdict, r.rejection = child.runs, child.fate, child.outcome, child.verdict, child.rejection
	r.gaveUp, r.retries = child.gaveUp, child.retries
	r.v, r.err, r.made = child.v, child.err, child.made
	r.fresh = false
}
