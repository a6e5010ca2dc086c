package steady_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/steady-go/steady"
)

// ledger follows every result that a function makes: it reaches its caller, or Discard, and only one of
// them, once.
type ledger struct {
	made, ended atomic.Int64
}

// voucher is a result that knows whether it has reached its end.
type voucher struct{ ended atomic.Bool }

func (l *ledger) issue() *voucher {
	l.made.Add(1)
	return new(voucher)
}

func (l *ledger) end(t *testing.T, v *voucher) {
	if v.ended.Swap(true) {
		t.Error("a result has reached its end twice")
	}
	l.ended.Add(1)
}

// story is what the hooks tell of one call, in order. Without an abandoning Timeout all of it is told by
// the call's goroutine, so it needs no lock.
type story struct {
	runs     int // of the function
	attempts int // told by OnAttempt
	retries  int
	over     bool
}

type storyKey struct{}

// fleet is a pipeline of everything, with a breaker around the retries and one inside.
type fleet struct {
	t            *testing.T
	p            *steady.Pipeline[*voucher]
	outer, inner *steady.Breaker
	chains       [2]chain
	bulkhead     *steady.Bulkhead
	budget       *steady.RetryBudget
	limit        *steady.Timeout // of an attempt
	abandons     bool
	ledger       ledger
	inside       crowd
	quiet        atomic.Bool
	calls, done  atomic.Int64
}

func newFleet(t *testing.T, abandons bool) *fleet {
	f := &fleet{t: t, abandons: abandons, inside: crowd{t: t}}
	f.inside.ceiling.Store(6)
	breaker := func(i int, slow time.Duration) *steady.Breaker {
		f.chains[i].t = t
		return steady.Must(steady.NewBreaker(steady.BreakerConfig{
			SlowThreshold: slow, OpenDuration: 10 * time.Millisecond, ProbeTimeout: 15 * time.Millisecond, HalfOpenProbes: 2,
			Hooks: f.chains[i].hooks(f.meddle),
		}))
	}
	f.outer, f.inner = breaker(0, 30*time.Millisecond), breaker(1, 8*time.Millisecond)
	f.bulkhead = newBulkhead(t, steady.BulkheadConfig{
		MaxConcurrent: 6, MaxWait: 5 * time.Millisecond, Hooks: &steady.Hooks{OnReject: func(context.Context, steady.Rejection) { f.meddle() }},
	})
	f.budget = newBudget(t, 0.5, 50)
	hooks := f.hooks()
	f.limit = newTimeout(t, steady.TimeoutConfig{Limit: 10 * time.Millisecond, Abandon: abandons, Hooks: hooks})
	f.p = steady.Must(steady.NewPipeline(steady.PipelineConfig[*voucher]{
		Policies: []steady.Policy{
			newTimeout(t, steady.TimeoutConfig{Limit: 60 * time.Millisecond, Hooks: hooks}),
			f.outer,
			newRetry(t, steady.RetryConfig{BaseDelay: 2 * time.Millisecond, Budget: f.budget, RetryRejected: true, Hooks: hooks}),
			f.limit,
			f.inner,
			f.bulkhead,
			steady.Middleware(f.middleware),
		},
		Classify: func(*voucher, error) steady.Outcome {
			f.meddle()
			return steady.Outcome([]int{0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 5}[rand.IntN(12)])
		},
		Discard: func(v *voucher) {
			f.ledger.end(t, v)
			f.meddle()
		},
		Hooks: hooks,
	}))
	return f
}

// meddle is what the caller's code does on the way: mostly nothing; it looks, panics, or ends the
// goroutine.
func (f *fleet) meddle() {
	if f.quiet.Load() {
		return
	}
	switch rand.IntN(120) {
	case 0:
		f.inner.Stats()
		f.outer.State()
	case 1, 2:
		panic(errStress)
	case 3:
		runtime.Goexit()
	}
}

func (f *fleet) hooks() *steady.Hooks {
	return &steady.Hooks{
		OnRetry: func(ctx context.Context, r steady.RetryDelay) {
			if s := f.story(ctx); s != nil {
				s.retries++
				if r.Attempt != s.retries || s.over {
					f.t.Errorf("retry %d after attempt %d: %+v", s.retries, r.Attempt, *s)
				}
			}
			f.meddle()
		},
		OnTimeout: func(context.Context, steady.Expiry) { f.meddle() },
		OnAttempt: func(ctx context.Context, a steady.Attempt) {
			if s := f.story(ctx); s != nil {
				s.attempts++
				if a.Attempt != s.attempts || s.attempts != s.runs || s.over {
					f.t.Errorf("attempt %d: %+v", a.Attempt, *s)
				}
			}
			f.meddle()
		},
		OnDone: func(ctx context.Context, c steady.Completion) {
			f.done.Add(1)
			if s := f.story(ctx); s != nil {
				if c.Attempts != s.runs || s.attempts != s.runs || s.over {
					f.t.Errorf("done after %d attempts: %+v", c.Attempts, *s)
				}
				s.over = true
			}
			f.meddle()
		},
	}
}

// story returns that of the call, or nil when an abandoned goroutine may be telling of it still.
func (f *fleet) story(ctx context.Context) *story {
	if f.abandons {
		return nil
	}
	return ctx.Value(storyKey{}).(*story)
}

func (f *fleet) middleware(ctx context.Context, next func(context.Context) error) error {
	f.meddle()
	switch rand.IntN(30) {
	case 0:
		return errBoom // without a call of next
	case 1:
		_ = next(ctx)
	}
	return next(ctx)
}

// function takes 0 to 4 ms, or longer than an attempt may, and ends in any way.
func (f *fleet) function(ctx context.Context) (*voucher, error) {
	if s := f.story(ctx); s != nil {
		s.runs++
	}
	f.inside.enter()
	defer f.inside.leave()
	d := time.Duration(rand.IntN(5)) * time.Millisecond
	if rand.IntN(12) == 0 {
		d = 12 * time.Millisecond
	}
	if rand.IntN(2) == 0 {
		time.Sleep(d) // heedless of its context
	} else {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch rand.IntN(24) {
	case 0:
		panic(errStress)
	case 1:
		runtime.Goexit()
	case 2, 3, 4, 5:
		return nil, errBoom
	case 6:
		return nil, steady.Mark(errBoom, steady.Throttled)
	}
	return f.ledger.issue(), nil
}

// call makes one call, by any method, of a caller that may cancel.
func (f *fleet) call() {
	ctx, cancel := context.WithCancel(context.WithValue(f.t.Context(), storyKey{}, new(story)))
	defer cancel()
	if rand.IntN(6) == 0 {
		defer time.AfterFunc(time.Duration(rand.IntN(12))*time.Millisecond, cancel).Stop()
	}
	f.calls.Add(1)
	take := func(v *voucher) {
		if v != nil {
			f.ledger.end(f.t, v)
		}
	}
	switch how := rand.IntN(4); {
	case how == 0 && !f.abandons:
		v, release, _ := f.p.Hold(ctx, f.function)
		take(v)
		time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
		release([]error{nil, errBoom}[rand.IntN(2)])
		release(errBoom) // once more, for nothing
	case how == 1:
		v, _ := f.p.DoOr(ctx, f.function, func(context.Context, error) (*voucher, error) { return nil, nil })
		take(v)
	default:
		v, _ := f.p.Do(ctx, f.function)
		take(v)
	}
}

// disturb forces states now and then, and undoes it.
func (f *fleet) disturb() {
	for _, b := range []*steady.Breaker{f.inner, f.outer} {
		switch rand.IntN(12) {
		case 0:
			b.ForceOpen("maintenance")
			time.Sleep(time.Millisecond)
			b.Reset("over")
		case 1:
			b.ForceClosed("no matter what")
			time.Sleep(5 * time.Millisecond)
			b.Reset("over")
		case 2:
			b.Reset("anew")
		}
		s := b.Stats()
		if s.Overdue < 0 || s.Overdue > s.InFlight || s.Calls > 20 || max(s.Failures, s.Slow) > s.Calls {
			f.t.Errorf("a reading that cannot be: %+v", s)
		}
	}
}

func TestPipelineStressEverythingIsGivenBackAndToldInOrder(t *testing.T) { // O4
	for name, abandons := range map[string]bool{"waiting for the function": false, "abandoning it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, abandons)
				var wg sync.WaitGroup
				for range 12 {
					wg.Go(func() {
						for range 250 {
							survive(t, f.call)
							time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
						}
					})
				}
				wg.Go(func() {
					for range 30 {
						survive(t, f.disturb)
						time.Sleep(20 * time.Millisecond)
					}
				})
				wg.Wait()
				time.Sleep(time.Second) // what was abandoned returns
				synctest.Wait()
				f.quiet.Store(true)
				f.assertIdle()
			})
		})
	}
}

// assertIdle checks that nothing is left of any call, and nothing was lost.
func (f *fleet) assertIdle() {
	t := f.t
	f.chains[0].assertComplete(f.outer)
	f.chains[1].assertComplete(f.inner)
	for _, r := range []steady.Reason{steady.ReasonFailureRate, steady.ReasonOpenElapsed, steady.ReasonProbesSucceeded, steady.ReasonManual} {
		assert.Positive(t, f.chains[1].reasons[r], "the mix has to have some of %v", r)
	}
	assert.Zero(t, f.bulkhead.Stats().Waiting)
	assertIdle(t, f.bulkhead)
	assert.Zero(t, f.inside.inside.Load())
	assert.Zero(t, f.limit.Stats().AbandonedNow)
	assert.Equal(t, f.abandons, f.limit.Stats().Abandoned > 0)
	assert.Equal(t, f.calls.Load(), f.done.Load(), "OnDone is called once a call")
	assert.Equal(t, f.ledger.made.Load(), f.ledger.ended.Load(), "every result reaches its caller, or Discard")
	assert.Positive(t, f.ledger.made.Load())
	assert.LessOrEqual(t, f.budget.Stats().Tokens, 50.0)
}
