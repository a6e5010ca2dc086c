package steady_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// FuzzBreaker runs random programs on a Breaker and on its model. Which calls are let through and which
// transitions there are must be the same all along; readings are compared where the program takes one,
// because a reading makes the breaker catch up, and a breaker that is looked at after every step is never
// behind.
//
// A seed is named after the rule that a breaker breaks which differs on it. To read a program, run it alone:
//
//	go test -run=FuzzBreaker/B7-happens-when-looked -v .
//	go test -run=NONE -fuzz=FuzzBreaker -fuzztime=60s -fuzzminimizetime=200x .
func FuzzBreaker(f *testing.F) {
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 400 {
			t.Skip("long programs find nothing that shorter ones do not")
		}
		x := newDuel(t, program)
		for len(x.program) > 0 {
			x.run()
		}
		x.stats()
	})
}

// duel is a breaker and its model, with the program that both run.
type duel struct {
	t       *testing.T
	program []byte
	depth   int // of calls inside one another
	clock   *ticks
	m       *model
	b       *steady.Breaker

	plain, wrapped *steady.Pipeline[steady.Outcome]
	permits        []*duelPermit
	releases       []*duelRelease

	transitions []modelTransition // of the breaker
	rejections  int
}

type duelPermit struct {
	steady.Permit
	call *modelCall // nil when it was refused, or has ended
}

type duelRelease struct {
	release func(error)
	cancel  func()
	call    *modelCall // nil when there is nothing to release, any more
	gone    bool       // the caller has cancelled
}

// ticks is a clock that is nothing but a number.
type ticks struct {
	clock.Clock
	now time.Duration
}

var ticksStart = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

func (c *ticks) Now() time.Time { return ticksStart.Add(c.now) }

// newDuel takes the configuration from the program, in lengths of which jitter is exact.
func newDuel(t *testing.T, program []byte) *duel {
	x := &duel{t: t, program: program, clock: new(ticks)}
	const unit = 64 * time.Nanosecond
	rates := []float64{0.5, 0.25, 1.0 / 3, 0.6, 2.0 / 3, 0.7, 1, 0.01}
	cfg := steady.BreakerConfig{
		WindowSize:     1 + x.below(8),
		FailureRate:    rates[x.below(len(rates))],
		SlowRate:       rates[x.below(len(rates))],
		WindowAge:      unit / 2 * time.Duration(max(0, x.below(16)-4)),
		OpenDuration:   unit * time.Duration(1+x.below(4)),
		OpenJitter:     []float64{0, 0.25, 0.5, 1}[x.below(4)],
		HalfOpenProbes: 1 + x.below(3),
		ProbeTimeout:   unit * time.Duration(x.below(6)),
		Shadow:         x.below(5) == 4,
	}
	cfg.MinCalls = 1 + x.below(cfg.WindowSize)
	cfg.MaxOpenDuration = cfg.OpenDuration * time.Duration(x.below(6))
	cfg.NoOpenJitter = cfg.OpenJitter == 0
	if slow := x.below(8); slow > 0 {
		cfg.SlowThreshold = unit * time.Duration((slow+1)/2)
	} else {
		cfg.NoSlowCalls = true
	}
	x.say("%+v", cfg)

	first := x.byte()
	random := func() func() float64 {
		n := first
		values := []float64{0, 0.125, 0.5, 0.875, 1, -1, math.NaN(), 0.25}
		return func() float64 { n++; return values[n%len(values)] }
	}
	cfg.Rand = random()
	x.m = newModel(cfg)

	cfg.Rand = random()
	cfg.Clock = x.clock
	cfg.Hooks = &steady.Hooks{OnTransition: x.onTransition, OnReject: x.onReject}
	x.b = steady.Must(steady.NewBreaker(cfg))
	x.plain = duelPipeline(x.b)
	x.wrapped = duelPipeline(x.b, steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		return ctx.Value(duelKey{}).(*duelCall).middleware(ctx, next)
	}))
	return x
}

type duelKey struct{}

func duelPipeline(policies ...steady.Policy) *steady.Pipeline[steady.Outcome] {
	return steady.Must(steady.NewPipeline(steady.PipelineConfig[steady.Outcome]{
		Policies: policies,
		Classify: func(v steady.Outcome, err error) steady.Outcome {
			if err != nil {
				return 0
			}
			return v
		},
	}))
}

func (x *duel) onTransition(tr steady.Transition) {
	x.transitions = append(x.transitions, modelTransition{
		tr.From, tr.To, tr.Reason, tr.Detail, tr.At.Sub(ticksStart), tr.OpenFor,
		windowOf(tr.Window), tr.Window.InFlight, tr.Window.TimeOpen, tr.Shadow,
	})
}

func windowOf(s steady.BreakerStats) modelWindow {
	return modelWindow{s.Calls, s.Failures, s.Slow, s.FailureRate, s.SlowRate, s.Deciding}
}

func (x *duel) onReject(_ context.Context, r steady.Rejection) {
	x.rejections++
	assert.Equal(x.t, x.m.cfg.Shadow && x.m.state != steady.StateForcedOpen, r.Shadow)
	assert.Equal(x.t, x.m.retryAfter(), r.Err.RetryAfter())
}

// byte takes the next byte of the program. After its end there are zeros.
func (x *duel) byte() int {
	if len(x.program) == 0 {
		return 0
	}
	b := x.program[0]
	x.program = x.program[1:]
	return int(b)
}

func (x *duel) below(n int) int { return x.byte() % n }

// say tells what happens, to those who read a program.
func (x *duel) say(format string, args ...any) {
	if testing.Verbose() {
		x.t.Logf("%s%5d  %s", strings.Repeat("    ", x.depth), x.clock.now, fmt.Sprintf(format, args...))
	}
}

// compare compares the transitions. Those that the breaker has not noticed yet may be missing, unless it
// had to catch up.
func (x *duel) compare(caughtUp bool) {
	want := x.m.log
	if !caughtUp {
		want = want[:min(len(x.transitions), len(want))]
	}
	if !slices.Equal(want, x.transitions) {
		require.Equal(x.t, want, x.transitions)
	}
	require.Equal(x.t, x.m.rejected, x.rejections)
}

// run runs the program up to its end, or to that of the call it is in.
func (x *duel) run() {
	for len(x.program) > 0 {
		switch x.below(20) {
		case 0, 1, 2:
			x.allow()
		case 3, 4, 5:
			x.done()
		case 6:
			x.advance(time.Duration(x.byte()))
		case 7:
			cfg := x.m.cfg
			lengths := []time.Duration{cfg.SlowThreshold, cfg.WindowAge, cfg.OpenDuration, cfg.ProbeTimeout, x.m.period}
			x.advance(lengths[x.below(len(lengths))] + time.Duration(x.below(3)-1))
		case 8, 9, 10:
			x.advance(x.next() + time.Duration(x.below(3)-1))
		case 11, 12:
			x.call()
		case 13:
			x.release()
		case 14:
			x.manual()
		case 15:
			x.state()
		case 16:
			x.stats()
		default:
			return
		}
	}
}

// next is how long it takes until time alone makes a difference.
func (x *duel) next() time.Duration {
	moments := []time.Duration{x.m.until}
	for _, due := range x.m.due() {
		moments = append(moments, due.at)
	}
	for _, o := range x.m.window {
		moments = append(moments, o.at+x.m.cfg.WindowAge)
	}
	var next time.Duration
	for _, at := range moments {
		if d := at - x.m.now; d > 0 && (next == 0 || d < next) {
			next = d
		}
	}
	return next
}

func (x *duel) advance(d time.Duration) {
	d = max(d, 0)
	x.clock.now += d
	x.m.advance(d)
	x.say("%d later", d)
}

func (x *duel) state() {
	got := x.b.State()
	x.say("State: %v", got)
	require.Equal(x.t, x.m.told(), got)
	x.compare(true)
}

func (x *duel) stats() {
	s := x.b.Stats()
	got := modelStats{
		State:       s.State,
		Since:       s.Since.Sub(ticksStart),
		OpenUntil:   -1,
		Window:      windowOf(s),
		InFlight:    s.InFlight,
		Overdue:     s.Overdue,
		Rejected:    int(s.Rejected),
		Transitions: int(s.Transitions),
		TimeOpen:    s.TimeOpen,
		Totals:      s.Totals,
	}
	if !s.OpenUntil.IsZero() {
		got.OpenUntil = s.OpenUntil.Sub(ticksStart)
	}
	x.say("Stats: %+v", got)
	require.Equal(x.t, x.m.stats(), got)
	x.compare(true)
}

func (x *duel) manual() {
	forced := x.m.state == steady.StateForcedOpen || x.m.state == steady.StateForcedClosed
	kind := x.below(16)
	switch {
	case kind == 0:
		x.say("ForceOpen")
		x.m.manual(steady.StateForcedOpen, "maintenance")
		x.b.ForceOpen("maintenance")
	case kind == 1:
		x.say("ForceClosed")
		x.m.manual(steady.StateForcedClosed, "no matter what")
		x.b.ForceClosed("no matter what")
	case kind == 2 || forced:
		x.say("Reset")
		x.m.manual(steady.StateClosed, "all is well")
		x.b.Reset("all is well")
	default:
		return
	}
	x.compare(true)
}

// outcome is one for a call to end with. 0 asks for the default, and 7 is none of the constants.
func (x *duel) outcome() steady.Outcome {
	return steady.Outcome([]int{1, 2, 1, 6, 1, 2, 1, 5, 1, 3, 1, 0, 1, 4, 2, 7}[x.below(16)])
}

// apart sees to it that no two calls enter the function at the same moment, for of those the rules name no first.
func (x *duel) apart() {
	if x.m.starts > 0 && x.m.started == x.m.now {
		x.advance(1)
	}
}

func (x *duel) allow() {
	x.apart()
	call := x.m.admit()
	if call != nil {
		x.m.start(call)
	}
	permit, err := x.b.Allow()
	x.say("Allow: %v", err)
	require.Equal(x.t, call == nil, errors.Is(err, steady.ErrBreakerOpen))
	require.Equal(x.t, call != nil, err == nil)
	x.permits = append(x.permits, &duelPermit{permit, call})
	x.compare(true)
}

// done ends a call of Allow, or does so again, or one that was refused.
func (x *duel) done() {
	if len(x.permits) == 0 {
		return
	}
	p := x.permits[x.below(len(x.permits))]
	o := x.outcome() // 0 means Success
	x.say("Done: %v", o)
	counts := false
	if p.call != nil {
		counts = x.m.finish(p.call, cmp.Or(o, steady.Success))
		p.call = nil
	}
	p.Done(o)
	x.compare(counts)
}

// duelCall is a call through a pipeline. What happens meanwhile is more of the program.
type duelCall struct {
	*duel
	how     int
	ending  int        // callPanics, callExits or neither
	call    *modelCall // nil when it was rejected
	ctx     context.Context
	cancel  func()
	outcome steady.Outcome // of the last attempt
	made    bool           // that run has made a result
	counts  bool           // the breaker has heard of the end, and it had to catch up
}

// What one byte of a program says of a call.
const (
	callHeld             = 1 << iota // it goes through Hold
	callWrapped                      // a Middleware waits, and calls next any number of times
	callCancelledWaiting             // before the Middleware calls next for the last time
	callCancelledInside              // before the function returns
	callSwallowed                    // the Middleware returns nil
	callSays                         // it is an error that says the outcome, not a value
)

// What another says.
const (
	callPanics = 14 + iota // the function panics, or the Middleware when it does not call next
	callExits              // the function ends with runtime.Goexit
)

const duelPanic = "a panic of the program"

func (c *duelCall) is(bit int) bool { return c.how&bit != 0 }

func (x *duel) call() {
	if x.depth == 4 {
		return
	}
	c := &duelCall{duel: x, how: x.byte(), ending: x.below(16), outcome: steady.Ignored}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	x.apart()
	c.call = x.m.admit()
	x.say("a call: %06b, %d", c.how&63, c.ending)
	p := x.plain
	if c.is(callWrapped) {
		p = x.wrapped
	}
	var err error
	release, returned := func(error) {}, false
	x.depth++
	x.aside(c.ending == callExits, func() {
		ctx := context.WithValue(c.ctx, duelKey{}, c)
		if c.is(callHeld) {
			_, release, err = p.Hold(ctx, c.function)
		} else {
			_, err = p.Do(ctx, c.function)
		}
		returned = true
	})
	x.depth--
	x.say("the call is over: %v", err)
	if c.call == nil {
		require.True(x.t, returned)
		require.ErrorIs(x.t, err, steady.ErrBreakerOpen)
		c.counts = true
	}
	x.compare(c.counts)
	if returned && c.is(callHeld) {
		r := &duelRelease{release: release, cancel: c.cancel}
		if err == nil && c.made {
			r.call, r.gone = c.call, c.ctx.Err() != nil
		}
		x.releases = append(x.releases, r)
	}
}

// aside runs f to its end, which may be a panic or, on a goroutine of its own, a Goexit.
func (x *duel) aside(exits bool, f func()) {
	guarded := func() {
		defer func() {
			if p := recover(); p != nil && p != duelPanic {
				panic(p)
			}
		}()
		f()
	}
	if !exits {
		guarded()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		guarded()
	}()
	<-done
	if x.t.Failed() {
		x.t.FailNow()
	}
}

func (c *duelCall) finish() { c.counts = c.m.finish(c.call, c.outcome) }

func (c *duelCall) middleware(ctx context.Context, next func(context.Context) error) (err error) {
	defer c.finish()
	for n := c.below(3); n > 0; n-- {
		c.run()
		if c.is(callCancelledWaiting) && n == 1 {
			c.cancel()
		}
		c.outcome, c.made = steady.Ignored, false // unless the function runs
		c.apart()
		err = next(ctx)
	}
	c.run()
	if c.ending == callPanics {
		panic(duelPanic)
	}
	if c.is(callSwallowed) {
		return nil
	}
	return err
}

func (c *duelCall) function(context.Context) (v steady.Outcome, err error) {
	require.NotNil(c.t, c.call)
	c.m.start(c.call)
	c.say("the function begins")
	c.compare(false)
	c.run()
	if c.is(callCancelledInside) {
		c.cancel()
	}
	defer func() {
		c.say("the function ends: %v, %v", c.outcome, err)
		c.m.stop(c.call)
		if !c.is(callWrapped) {
			c.finish()
		}
	}()
	c.outcome = steady.Transient
	switch c.ending {
	case callPanics:
		panic(duelPanic)
	case callExits:
		runtime.Goexit()
	}
	if o := c.duel.outcome(); c.is(callSays) {
		err = steady.Mark(errBoom, o) // 0 leaves it unmarked
		c.outcome = cmp.Or(o, steady.Transient)
	} else {
		v, c.made = o, true
		c.outcome = cmp.Or(o, steady.Success)
	}
	if c.ctx.Err() != nil && (err != nil || c.outcome != steady.Success) {
		c.outcome = steady.Ignored
	}
	return v, err
}

// release releases a held result, maybe again, or what was none.
func (x *duel) release() {
	if len(x.releases) == 0 {
		return
	}
	r := x.releases[x.below(len(x.releases))]
	if x.below(8) == 0 {
		x.say("the caller of a held result cancels")
		r.cancel()
		r.gone = true
		return
	}
	var err error
	o := x.outcome()
	if o != steady.Success {
		err = steady.Mark(errBoom, o) // 0 leaves it unmarked
	}
	x.say("release: %v, %v", o, err)
	counts := false
	if r.call != nil && err != nil && !r.gone && modelFailed(o) {
		counts = x.m.failLate(r.call)
	}
	r.call = nil
	r.release(err)
	x.compare(counts)
}
