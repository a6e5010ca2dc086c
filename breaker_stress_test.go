package steady_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// sharedTicks is a clock that is nothing but a number, which any number of goroutines move on.
type sharedTicks struct {
	clock.Clock
	now atomic.Int64
}

func (c *sharedTicks) Now() time.Time { return ticksStart.Add(time.Duration(c.now.Load())) }

func (c *sharedTicks) advance(d time.Duration) { c.now.Add(int64(d)) }

// chain checks each transition of a breaker against the one before it. Its fields need no lock: if two
// transitions were delivered at once, the race detector would tell.
type chain struct {
	t        *testing.T
	busy     bool
	state    steady.State // the last To
	reasons  map[steady.Reason]int
	heard    atomic.Uint64
	rejected atomic.Uint64
}

// hooks returns hooks that check, and then meddle.
func (c *chain) hooks(meddle func()) *steady.Hooks {
	return &steady.Hooks{
		OnTransition: func(tr steady.Transition) {
			c.add(tr)
			defer func() { c.busy = false }()
			meddle()
		},
		OnReject: func(context.Context, steady.Rejection) {
			c.rejected.Add(1)
			meddle()
		},
	}
}

func (c *chain) add(tr steady.Transition) {
	if c.busy {
		c.t.Errorf("%v: delivered within another delivery", tr)
	}
	c.busy = true
	if tr.From != c.state {
		c.t.Errorf("%v: the one before it led to %v", tr, c.state)
	}
	w := tr.Window
	if tr.From == steady.StateClosed && tr.Reason != steady.ReasonManual && !w.Deciding {
		c.t.Errorf("%v: decided on too few calls", tr)
	}
	if tr.Reason == steady.ReasonFailureRate && w.FailureRate < 0.5 || tr.Reason == steady.ReasonSlowRate && w.SlowRate < 0.2 {
		c.t.Errorf("%v: at rates of %v and %v", tr, w.FailureRate, w.SlowRate)
	}
	c.state = tr.To
	if c.reasons == nil {
		c.reasons = make(map[steady.Reason]int)
	}
	c.reasons[tr.Reason]++
	c.heard.Add(1)
}

// assertComplete checks, when all is over, that nothing was lost on the way and nothing is left.
func (c *chain) assertComplete(b *steady.Breaker) {
	c.t.Helper()
	b.Reset("at the end")
	s := b.Stats()
	assert.Equal(c.t, steady.StateClosed, c.state)
	assert.Equal(c.t, s.Transitions, c.heard.Load())
	assert.Equal(c.t, s.Rejected, c.rejected.Load())
	assert.Zero(c.t, s.InFlight)
	assert.Zero(c.t, s.Overdue)
}

// errStress is what functions and hooks of a stress test panic with.
var errStress = errors.New("a panic of the stress test")

// survive runs f on a goroutine of its own, and to its end, which may be such a panic, or a Goexit.
func survive(t *testing.T, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			err, _ := recover().(error)
			if err != nil && !errors.Is(err, errStress) {
				t.Errorf("panic: %v", err)
			}
		}()
		f()
	}()
	<-done
}

// flow counts the calls that come and go, from before and from after, so that bounds for InFlight can be
// told at any moment.
type flow struct{ begun, entered, leaving, ended atomic.Int64 }

// check compares a reading with what went on around it.
func (f *flow) check(t *testing.T, stats func() steady.BreakerStats) {
	ended, entered := f.ended.Load(), f.entered.Load()
	s := stats()
	least, most := entered-f.leaving.Load(), f.begun.Load()-ended
	if n := int64(s.InFlight); n < least || n > most {
		t.Errorf("%d in flight: at least %d and at most %d are", n, least, most)
	}
	if s.Overdue < 0 || s.Overdue > s.InFlight {
		t.Errorf("%d of %d in flight are overdue", s.Overdue, s.InFlight)
	}
	if max(s.Failures, s.Slow) > s.Calls || min(s.Failures, s.Slow) < 0 {
		t.Errorf("a window that cannot be: %+v", s)
	}
	if s.Calls > 0 && s.FailureRate != float64(s.Failures)/float64(s.Calls) {
		t.Errorf("a rate of another window: %+v", s)
	}
	if (s.State == steady.StateOpen) == s.OpenUntil.IsZero() {
		t.Errorf("a state of another moment: %+v", s)
	}
}

// swarm is a breaker that many goroutines use in every way there is.
type swarm struct {
	t       *testing.T
	b       *steady.Breaker
	p       *steady.Pipeline[int]
	clock   sharedTicks
	chain   chain
	flow    flow
	quiet   atomic.Bool        // hooks and Rand behave
	permits chan steady.Permit // handed over to whoever takes one
}

func newSwarm(t *testing.T, cfg steady.BreakerConfig) *swarm {
	s := &swarm{t: t, chain: chain{t: t}, permits: make(chan steady.Permit, 64)}
	cfg.WindowSize, cfg.MinCalls, cfg.SlowRate, cfg.HalfOpenProbes = 8, 4, 0.2, 2
	cfg.OpenDuration, cfg.OpenJitter, cfg.SlowThreshold = 20, 0.5, 150
	if cfg.ProbeTimeout == 0 {
		cfg.ProbeTimeout = 500
	}
	cfg.Clock, cfg.Hooks = &s.clock, s.chain.hooks(s.meddle)
	cfg.Rand = func() float64 { s.meddle(); return rand.Float64() }
	s.b = steady.Must(steady.NewBreaker(cfg))
	s.p = pipeline(t, s.b)
	return s
}

// meddle is what hooks and Rand do: mostly nothing; they use the breaker, panic, or end the goroutine.
func (s *swarm) meddle() {
	if s.quiet.Load() {
		return
	}
	switch rand.IntN(40) {
	case 0, 1, 2, 3:
		s.b.State()
	case 4, 5, 6, 7:
		s.done(s.allow())
	case 8:
		if rand.IntN(8) == 0 {
			s.b.Reset("by a hook")
		}
	case 9, 10, 11, 12:
		panic(errStress)
	case 13, 14:
		runtime.Goexit()
	}
}

// allow takes a permit, or one that is none.
func (s *swarm) allow() (p steady.Permit) {
	s.flow.begun.Add(1)
	returned := false
	defer func() {
		if !returned { // a hook panicked, and the permit went back
			s.flow.ended.Add(1)
		}
	}()
	p, _ = s.b.Allow()
	returned = true
	return p
}

func (s *swarm) done(p steady.Permit) {
	defer s.flow.ended.Add(1)
	p.Done([]steady.Outcome{0, steady.Success, steady.Success, steady.Success, steady.Ignored, steady.Throttled, steady.Permanent, 9}[rand.IntN(8)])
}

// do calls a function that ends in any way.
func (s *swarm) do(do func(context.Context, func(context.Context) (int, error)) (int, error)) {
	s.flow.begun.Add(1)
	defer s.flow.ended.Add(1)
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	_, _ = do(ctx, func(context.Context) (int, error) {
		s.flow.entered.Add(1)
		defer s.flow.leaving.Add(1)
		s.clock.advance(time.Duration(rand.IntN(4)))
		runtime.Gosched()
		switch rand.IntN(16) {
		case 0:
			panic(errStress)
		case 1:
			runtime.Goexit()
		case 2:
			cancel()
			return 0, ctx.Err()
		case 3, 4, 5:
			return 0, errBoom
		}
		return 0, nil
	})
}

func (s *swarm) hold(ctx context.Context, fn func(context.Context) (int, error)) (int, error) {
	v, release, err := s.p.Hold(ctx, fn)
	s.clock.advance(1)
	release([]error{nil, nil, nil, errBoom}[rand.IntN(4)])
	return v, err
}

func (s *swarm) step() {
	switch rand.IntN(16) {
	case 0, 1, 2:
		p := s.allow()
		select {
		case s.permits <- p:
		default:
			s.done(p)
		}
	case 3, 4, 5:
		select {
		case p := <-s.permits:
			s.done(p)
			p.Done(steady.Transient) // once more, for nothing
		default:
		}
	case 6, 7, 8:
		s.do(s.p.Do)
	case 9, 10:
		s.do(s.hold)
	case 11:
		s.clock.advance(time.Duration(rand.IntN(50)))
	case 12:
		switch rand.IntN(60) {
		case 0:
			s.b.ForceOpen("by a caller")
		case 1:
			s.b.ForceClosed("by a caller")
		case 2, 3, 4:
			s.b.Reset("by a caller")
		}
	default:
		s.flow.check(s.t, s.b.Stats)
	}
}

func TestBreakerStressTransitionsAreOneChain(t *testing.T) { // B10
	reasons := make(map[steady.Reason]int)
	for name, cfg := range map[string]steady.BreakerConfig{
		"slow probes":               {},
		"probes that time out":      {ProbeTimeout: 100},
		"shadow":                    {Shadow: true},
		"a window that forgets":     {WindowAge: 500},
		"an open period that grows": {MaxOpenDuration: 60},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSwarm(t, cfg)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 1500 {
						survive(t, s.step)
					}
				})
			}
			wg.Wait()

			s.quiet.Store(true)
			close(s.permits)
			for p := range s.permits {
				s.done(p)
			}
			s.chain.assertComplete(s.b)
			s.assertAsNew()
			for r, n := range s.chain.reasons {
				reasons[r] += n
			}
		})
	}
	for r := steady.ReasonFailureRate; r <= steady.ReasonManual; r++ {
		assert.Positive(t, reasons[r], "the mix has to have some of %v", r)
	}
}

// assertAsNew checks that after the Reset nothing is kept of what was.
func (s *swarm) assertAsNew() {
	assert.Zero(s.t, s.b.Stats().Calls)
	if s.b.Config().Shadow {
		return
	}
	for range 4 {
		allow(s.t, s.b).Done(steady.Transient)
	}
	_, err := s.b.Allow()
	require.ErrorIs(s.t, err, steady.ErrBreakerOpen)
	s.clock.advance(time.Hour)
	probes := []steady.Permit{allow(s.t, s.b), allow(s.t, s.b)}
	_, err = s.b.Allow()
	require.ErrorIs(s.t, err, steady.ErrBreakerOpen, "there are two probes")
	for _, p := range probes {
		p.Done(steady.Success)
	}
	assert.Equal(s.t, steady.StateClosed, s.b.State())
}

// While no probe succeeds, the breaker never closes, and whoever is inside is a probe. The clock moves only
// when nobody is inside, so that none is of an earlier half-open state.
func TestBreakerStressNeverMoreProbesInsideThanConfigured(t *testing.T) { // B5
	const probes = 3
	var mock sharedTicks
	var quiet atomic.Bool
	c := chain{t: t}
	b := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		SlowThreshold: time.Hour, OpenDuration: time.Minute, NoOpenJitter: true, HalfOpenProbes: probes, Clock: &mock,
		Hooks: c.hooks(func() {
			if rand.IntN(10) == 0 && !quiet.Load() {
				panic(errStress)
			}
		}),
	}))
	for range 10 {
		survive(t, func() { allow(t, b).Done(steady.Transient) })
	}
	inside := crowd{t: t}
	inside.ceiling.Store(probes)
	blocked := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		if rand.IntN(4) == 0 {
			return errBoom // the probe does not reach the function
		}
		return next(ctx)
	})
	p := pipeline(t, b, blocked)
	var admitted, rejected atomic.Int64
	visit := func() { // on the way in
		admitted.Add(1)
		inside.enter()
		runtime.Gosched()
	}
	attempt := func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		switch how := rand.IntN(8); how {
		case 0, 1, 2:
			permit, err := b.Allow()
			if err != nil {
				rejected.Add(1)
				return
			}
			visit()
			inside.leave()
			permit.Done([]steady.Outcome{steady.Ignored, steady.Throttled, steady.Transient}[how])
		default:
			_, _ = p.Do(ctx, func(context.Context) (int, error) {
				visit()
				defer inside.leave()
				switch how {
				case 3:
					panic(errStress)
				case 4:
					runtime.Goexit()
				case 5:
					return 0, errBoom
				}
				cancel()
				return 0, ctx.Err()
			})
		}
	}
	var tide sync.RWMutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 3000 {
				open := false
				tide.RLock()
				survive(t, attempt)
				survive(t, func() { open = b.State() == steady.StateOpen })
				tide.RUnlock()
				if open {
					tide.Lock()
					mock.advance(time.Minute)
					tide.Unlock()
				}
			}
		})
	}
	wg.Wait()
	quiet.Store(true)
	c.assertComplete(b)
	assert.Positive(t, rejected.Load())
	assert.Greater(t, c.reasons[steady.ReasonProbeFailed], 100)
	assert.Zero(t, c.reasons[steady.ReasonProbesSucceeded])
}

// overtaken is a clock whose reading is overtaken by something else before it is used.
type overtaken struct {
	clock.Clock
	now       time.Time
	meanwhile func()
}

func (c *overtaken) Now() time.Time {
	now := c.now
	if f := c.meanwhile; f != nil {
		c.meanwhile = nil
		f()
	}
	return now
}

func TestTimeOpenIsNeverNegative(t *testing.T) { // B14
	c := &overtaken{now: time.Unix(1000, 0)}
	b := steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true, Clock: c}))
	c.meanwhile = func() { c.now = c.now.Add(time.Second); b.ForceOpen("by another goroutine") }
	assert.GreaterOrEqual(t, b.Stats().TimeOpen, time.Duration(0))
}
