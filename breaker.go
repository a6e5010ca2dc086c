package steady

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// BreakerConfig configures a [Breaker].
type BreakerConfig struct {
	// Name is what errors, hooks and logs call the breaker.
	Name string
	// WindowSize is how many outcomes, the most recent ones, the rates are computed over. In [1, 1<<20];
	// 0 means 20. Each takes 8 bytes.
	WindowSize int
	// WindowAge is how old an outcome may be and still count; with a WindowSize large enough the window is
	// exactly this long. 0 means no limit: sparse outcomes stay until others push them out.
	WindowAge time.Duration
	// MinCalls is how many outcomes must be in the window before the rates can open the breaker. In
	// [1, WindowSize]; 0 means 10, or WindowSize if that is less.
	MinCalls int
	// FailureRate opens the breaker when this share of the outcomes in the window, or more, failed. In
	// (0, 1]; 0 means 0.5.
	FailureRate float64
	// SlowRate opens the breaker when this share of the outcomes in the window, or more, were slow. The two
	// rates are never added: of four calls one slow and one failed is 0.25 and 0.25. In (0, 1]; 0 means 0.5.
	SlowRate float64
	// SlowThreshold is the duration from which on a call is slow. It is measured inside the function alone,
	// and a call counts as soon as it has run so long, not when it returns. Required, unless NoSlowCalls.
	//
	// Calls in flight can outvote a full window of fast ones, while they hang, only if there may be enough of
	// them: keep SlowRate·WindowSize and MinCalls at or below the number of calls that can be in flight
	// together, which is the bulkhead's MaxConcurrent. With fewer it takes a Timeout or more.
	SlowThreshold time.Duration
	// NoSlowCalls makes a breaker that counts failures only.
	NoSlowCalls bool
	// OpenDuration is how long the breaker stays open before it lets probes through. Calls that still hang
	// then hold bulkhead slots that the probes need: not less than the timeout is best. 0 means 10s.
	OpenDuration time.Duration
	// MaxOpenDuration is where the open period, doubled each time a probe opens the breaker again, stops
	// growing; the jitter comes on top. At least OpenDuration; 0 means OpenDuration, which is no growth.
	MaxOpenDuration time.Duration
	// OpenJitter stretches each open period by a random part of it, up to this fraction, lest a fleet
	// probe in step. In [0, 1]; 0 means 0.2.
	OpenJitter float64
	// NoOpenJitter makes open periods exact.
	NoOpenJitter bool
	// HalfOpenProbes is how many calls are let through while half-open, and how many of them must succeed,
	// in less than SlowThreshold, to close the breaker. In [1, 1000]; 0 means 3.
	HalfOpenProbes int
	// ProbeTimeout is how long a probe may be in the function before it counts as failed. A permit that has
	// not reached the function after that time is given to another call. 0 means OpenDuration.
	ProbeTimeout time.Duration
	// Shadow makes a breaker that decides and reports, to its hooks and in its Stats, but rejects nothing
	// (unless forced open): for watching a configuration before trusting it.
	Shadow bool
	// Rand gives the randomness for OpenJitter, in [0, 1); anything else counts as 0. It is called without
	// a lock held, by one goroutine at a time; who uses the breaker meanwhile, Rand itself included, finds it
	// open for a period of math/rand/v2's. nil means math/rand/v2.
	Rand func() float64
	// Hooks are told of transitions and rejections.
	Hooks *Hooks
	// Clock is the breaker's clock. A pipeline with the breaker in it must be on the same one.
	Clock Clock
}

// Breaker is a circuit breaker. Closed, it lets calls through and keeps their outcomes in a sliding
// window; when too many of them failed, or were slow, it opens and rejects every call. After its open
// period it is half-open: it lets a few probes through, closes when all of them succeed, and opens again
// at the first that fails or is slow.
//
// A call in flight counts as slow from the moment it has run for SlowThreshold. No timer or goroutine
// watches for that; the breaker catches up whenever it looks (before it admits a call, before it records
// one, in State and Stats), and what it then finds has happened at the moment it became true.
//
// Most callers put a Breaker into a [Pipeline]; [Breaker.Allow] is for those that cannot. A Breaker may be
// shared by any number of goroutines and pipelines.
type Breaker struct {
	// What every call reads, apart from the one cache line that it writes.
	gen      atomic.Pointer[generation] // written under mu
	nextDue  atomic.Int64               // nothing becomes due before this instant; raised under mu
	entrants entrants
	time     timekeeper
	hooks    *Hooks
	rejected atomic.Uint64
	cfg      BreakerConfig
	newborn  generation // the first

	mu           sync.Mutex // begins a cache line, which holds what is written of the window too
	window       window
	tallies      *tallies // made at the first outcome: a breaker that is never called stays small
	running      dueQueue // the collected calls in the function, any generation, not overdue
	probes       dueQueue // the probes of this generation that can time out
	inFlight     int      // those and the overdue ones
	overdue      int
	probesOut    int // permits of this generation neither given back nor passed
	probesPassed int
	openings     int     // in a row, without a close
	tripped      *change // decided but not committed, while Rand is asked for the period
	transitions  uint64
	timeOpen     time.Duration // in periods that have ended
	changes      []change      // not delivered yet
	asking       bool          // Rand is being asked
	delivering   bool          // of changes, somebody is at it
}

// tallies are what a breaker counts and decides nothing by.
type tallies struct {
	outcomes  [Ignored + 1]uint64
	slow      uint64
	latencies latencies
}

// generation is a stay in one state. A permit remembers the one it was given in, by its address, and
// counts for nothing in any other.
type generation struct {
	state    State
	since    instant
	until    instant        // end of the period, when open
	rejected *RejectedError // the one rejection, unless closed
}

// change is a Transition on its way to the hook.
type change struct {
	From, To State
	Reason   Reason
	Detail   string
	OpenFor  time.Duration
	at       instant
	seen     snapshot
}

// snapshot is what BreakerStats tells, moments as instants.
type snapshot struct {
	stats        BreakerStats
	since, until instant // until counts when open
}

// State is what a breaker does with calls.
type State uint8

// The states of a Breaker.
const (
	StateClosed       State = iota // calls pass, outcomes decide
	StateOpen                      // calls are rejected until the open period ends
	StateHalfOpen                  // probes pass, the rest is rejected
	StateForcedOpen                // ForceOpen: calls are rejected
	StateForcedClosed              // ForceClosed: calls pass, outcomes are recorded and decide nothing
	stateTripped                   // between the decision to open and the open period; never seen outside
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case StateClosed:
		return "closed"
	case StateOpen:
		return "open"
	case StateHalfOpen:
		return "half-open"
	case StateForcedOpen:
		return "forced-open"
	case StateForcedClosed:
		return "forced-closed"
	default:
		return "state " + strconv.Itoa(int(s))
	}
}

// BreakerStats is a reading of a Breaker. State and window are of one moment, the counters are read beside
// them.
type BreakerStats struct {
	Name                   string
	State                  State
	Since                  time.Time     // of the state
	OpenUntil              time.Time     // zero unless open
	Calls, Failures, Slow  int           // in the window; while open, as they were when it opened
	FailureRate, SlowRate  float64       // of Calls; 0 when there are none
	Deciding               bool          // Calls >= MinCalls: the rates can open it
	InFlight, Overdue      int           // in the function now, of any generation; of those, past SlowThreshold
	Rejected, Transitions  uint64        // since construction; Rejected includes what Shadow would have
	Totals                 BreakerTotals // since construction
	TimeOpen               time.Duration // open or forced open, in total, growing meanwhile
	LatencyP50, LatencyP99 time.Duration // of the calls of about the last ten minutes (8 to 12) that did not fail, slow ones included; at most 5 % off from 1 µs to 18 min
	Headroom               float64       // SlowThreshold ÷ LatencyP99; 0 when unknown. Below 1.5 the threshold no longer fits
}

// BreakerTotals are the calls that have been in the function, by the outcome that they ended with, and beside
// that those that have been slow, counted as soon as they are. They count whether or not the breaker, which may
// have changed its state meanwhile, decides by them.
type BreakerTotals struct {
	Success, Transient, Unsent, Permanent, Throttled, Ignored uint64
	Slow                                                      uint64
}

// NewBreaker returns a closed breaker, or an error that names every field that is out of range.
func NewBreaker(cfg BreakerConfig) (*Breaker, error) {
	return newBreaker(cfg, "BreakerConfig")
}

func newBreaker(cfg BreakerConfig, label string) (*Breaker, error) {
	if err := cfg.complete(label); err != nil {
		return nil, err
	}
	b := &Breaker{cfg: cfg, hooks: hooksOf(cfg.Hooks), time: newTimekeeper(cfg.Clock)}
	now := b.time.now()
	b.window = newWindow(cfg.WindowSize, cfg.WindowAge, now)
	b.nextDue.Store(int64(never))
	b.newborn = generation{state: StateClosed, since: now}
	b.gen.Store(&b.newborn)
	return b, nil
}

// complete fills in the defaults and returns everything that is wrong.
func (cfg *BreakerConfig) complete(label string) error {
	f := faults{config: label}
	setDefault(&cfg.WindowSize, 20)
	f.require(cfg.WindowSize >= 1 && cfg.WindowSize <= 1<<20, "WindowSize", "must be in [1, 1048576]", cfg.WindowSize, "0 means 20")
	f.duration("WindowAge", cfg.WindowAge, "0 means no age limit")
	if cfg.MinCalls == 0 {
		cfg.MinCalls = min(10, cfg.WindowSize)
	} else {
		f.require(cfg.MinCalls >= 1 && cfg.MinCalls <= cfg.WindowSize, "MinCalls",
			fmt.Sprintf("must be in [1, WindowSize = %d]", cfg.WindowSize), cfg.MinCalls, "a window that never holds MinCalls never decides: lower it or enlarge WindowSize")
	}
	setDefault(&cfg.FailureRate, 0.5)
	f.rate("FailureRate", cfg.FailureRate)
	setDefault(&cfg.SlowRate, 0.5)
	f.rate("SlowRate", cfg.SlowRate)
	if cfg.NoSlowCalls {
		f.refuse(cfg.SlowThreshold != 0, "SlowThreshold is %v with NoSlowCalls set: leave one of them out", cfg.SlowThreshold)
	} else {
		f.require(cfg.SlowThreshold > 0, "SlowThreshold", "is required and must be positive", cfg.SlowThreshold,
			"the longest answer you would call healthy, about twice the p99; or set NoSlowCalls")
	}
	setDefault(&cfg.OpenDuration, 10*time.Second)
	f.require(cfg.OpenDuration > 0, "OpenDuration", "must be positive", cfg.OpenDuration, "0 means 10s")
	setDefault(&cfg.MaxOpenDuration, cfg.OpenDuration)
	f.require(cfg.MaxOpenDuration >= cfg.OpenDuration, "MaxOpenDuration",
		fmt.Sprintf("must be at least OpenDuration = %v", cfg.OpenDuration), cfg.MaxOpenDuration, "0 means OpenDuration: no growth")
	if cfg.NoOpenJitter {
		f.refuse(cfg.OpenJitter != 0, "OpenJitter is %v with NoOpenJitter set: leave one of them out", cfg.OpenJitter)
	} else {
		setDefault(&cfg.OpenJitter, 0.2)
		f.require(cfg.OpenJitter >= 0 && cfg.OpenJitter <= 1, "OpenJitter", "must be in [0, 1]", cfg.OpenJitter, percentHint(cfg.OpenJitter))
	}
	setDefault(&cfg.HalfOpenProbes, 3)
	f.require(cfg.HalfOpenProbes >= 1 && cfg.HalfOpenProbes <= 1000, "HalfOpenProbes", "must be in [1, 1000]", cfg.HalfOpenProbes, "0 means 3")
	f.duration("ProbeTimeout", cfg.ProbeTimeout, "0 means OpenDuration")
	setDefault(&cfg.ProbeTimeout, cfg.OpenDuration)
	return f.err()
}

// Name returns the configured name.
func (b *Breaker) Name() string { return b.cfg.Name }

// Config returns the effective configuration, defaults filled in.
func (b *Breaker) Config() BreakerConfig { return b.cfg }

// State returns what the breaker does with calls now, or in Shadow would do. After the open period it is StateHalfOpen, though
// the transition waits for a caller.
func (b *Breaker) State() State {
	now := b.time.now()
	b.mu.Lock()
	b.catchUp(now)
	b.commit()
	state, _ := b.gen.Load().at(now)
	b.unlock()
	return state
}

// Stats returns a reading.
func (b *Breaker) Stats() BreakerStats {
	now := b.time.now()
	b.mu.Lock()
	b.catchUp(now)
	b.commit()
	seen := b.snapshot(now)
	seen.stats.State, seen.since = b.gen.Load().at(now)
	b.unlock()
	return seen.public(b.time.wall())
}

// ForceOpen rejects every call until Reset or ForceClosed.
func (b *Breaker) ForceOpen(why string) { b.force(StateForcedOpen, why) }

// ForceClosed lets every call through until Reset or ForceOpen. Outcomes are still recorded.
func (b *Breaker) ForceClosed(why string) { b.force(StateForcedClosed, why) }

// Reset makes the breaker automatic again: closed, with an empty window.
func (b *Breaker) Reset(why string) { b.force(StateClosed, why) }

func (b *Breaker) force(to State, why string) {
	now := b.time.now()
	b.mu.Lock()
	b.catchUp(now)
	b.commit()
	b.halfOpen(now)
	b.enter(to, now, b.change(now, ReasonManual, why))
	b.unlock()
}

// halfOpen makes the transition that is due when an open period has ended. b.mu must be held.
func (b *Breaker) halfOpen(now instant) {
	if g := b.gen.Load(); g.state == StateOpen && now >= g.until {
		b.enter(StateHalfOpen, g.until, b.change(now, ReasonOpenElapsed, ""))
	}
}

// decide opens the breaker if the window says so. b.mu must be held.
func (b *Breaker) decide(at instant) {
	calls := b.window.len()
	if calls < b.cfg.MinCalls || b.gen.Load().state != StateClosed {
		return
	}
	if b.window.failures > 0 && float64(b.window.failures)/float64(calls) >= b.cfg.FailureRate {
		b.trip(at, ReasonFailureRate)
	} else if b.window.slow > 0 && float64(b.window.slow)/float64(calls) >= b.cfg.SlowRate {
		b.trip(at, ReasonSlowRate)
	}
}

// trip decides to open. The generation ends at once; the new one begins when its period is known, which a
// Rand of the caller's has a say in. b.mu must be held.
func (b *Breaker) trip(at instant, why Reason) {
	c := b.change(at, why, "")
	switch {
	case b.cfg.NoOpenJitter:
		b.open(c, 0)
	case b.cfg.Rand == nil:
		b.open(c, rand.Float64())
	default:
		b.endProbes()
		b.tripped = &c
		b.gen.Store(&generation{state: stateTripped, since: b.gen.Load().since})
	}
}

// commit completes a decision to open. It may release b.mu, which must be held, and take it again. Whoever
// needs the period while Rand is being asked, which may be Rand itself, does not wait for the answer.
func (b *Breaker) commit() {
	if b.tripped == nil {
		return
	}
	if b.asking {
		b.openTripped(rand.Float64())
		return
	}
	r, answered := 0.0, false
	b.asking = true
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.asking = false
		b.openTripped(r)
		if !answered { // Rand panicked, and the panic goes on
			b.unlock()
		}
	}()
	r = unit(b.cfg.Rand())
	answered = true
}

// openTripped begins the period that was decided on, if nobody else has.
func (b *Breaker) openTripped(r float64) {
	if c := b.tripped; c != nil {
		b.tripped = nil
		b.open(*c, r)
	}
}

// open begins an open period, longer each time the breaker re-opens without having closed.
func (b *Breaker) open(c change, r float64) {
	b.openings++
	period := ceiling(b.openings, b.cfg.OpenDuration, b.cfg.MaxOpenDuration)
	jitter := saturated(float64(period) * b.cfg.OpenJitter * r)
	c.OpenFor = period + min(jitter, math.MaxInt64-period)
	b.enter(StateOpen, c.at, c)
}

// enter begins a generation. b.mu must be held.
func (b *Breaker) enter(to State, since instant, c change) {
	b.timeOpen += b.gen.Load().openTime(since)
	g := &generation{state: to, since: since}
	switch to {
	case StateClosed, StateForcedClosed:
		b.openings = 0
	case StateOpen:
		g.until = since.add(c.OpenFor)
		fallthrough
	default:
		g.rejected = &RejectedError{Policy: b.cfg.Name, Reason: ErrBreakerOpen, until: g.until, timed: to == StateOpen, time: b.time}
	}
	if to != StateOpen {
		b.window.clear()
	}
	b.endProbes()
	b.gen.Store(g)
	b.transitions++
	if b.hooks.OnTransition != nil {
		c.To = to
		b.changes = append(b.changes, c)
	}
}

// at returns the state by the clock, and since when: an open period that has ended is half-open, though no
// caller has made the transition.
func (g *generation) at(now instant) (State, instant) {
	if g.state == StateOpen && now >= g.until {
		return StateHalfOpen, g.until
	}
	return g.state, g.since
}

// openTime returns how much of the generation was open by the given moment.
func (g *generation) openTime(now instant) time.Duration {
	switch g.state {
	case StateOpen:
		return max(min(now, g.until).since(g.since), 0) // now may have been read before the breaker opened
	case StateForcedOpen:
		return max(now.since(g.since), 0)
	default:
		return 0
	}
}

// endProbes forgets the probes of the generation that ends.
func (b *Breaker) endProbes() {
	for b.probes.first != nil {
		b.probes.remove(b.probes.first)
	}
	b.probesOut, b.probesPassed = 0, 0
}

// change describes the transition that the breaker is about to make. b.mu must be held.
func (b *Breaker) change(at instant, why Reason, detail string) change {
	return change{From: b.gen.Load().state, Reason: why, Detail: detail, at: at, seen: b.snapshot(at)}
}

// snapshot reads what the breaker sees. b.mu must be held.
func (b *Breaker) snapshot(now instant) snapshot {
	b.collect()
	g := b.gen.Load()
	if g.rejected == nil { // calls pass; an open breaker keeps the numbers that opened it
		b.window.expire(now)
	}
	s := BreakerStats{
		Name:        b.cfg.Name,
		State:       g.state,
		Calls:       b.window.len(),
		Failures:    b.window.failures,
		Slow:        b.window.slow,
		Deciding:    b.window.len() >= b.cfg.MinCalls,
		InFlight:    b.inFlight,
		Overdue:     b.overdue,
		Rejected:    b.rejected.Load(),
		Transitions: b.transitions,
		TimeOpen:    b.timeOpen + g.openTime(now),
	}
	if s.Calls > 0 {
		s.FailureRate = float64(s.Failures) / float64(s.Calls)
		s.SlowRate = float64(s.Slow) / float64(s.Calls)
	}
	if b.tallies != nil {
		s.Totals = b.tallies.public()
		s.LatencyP50, s.LatencyP99 = b.tallies.latencies.quantiles(now)
	}
	if s.LatencyP99 > 0 {
		s.Headroom = float64(b.cfg.SlowThreshold) / float64(s.LatencyP99)
	}
	return snapshot{stats: s, since: g.since, until: g.until}
}

func (t *tallies) public() BreakerTotals {
	return BreakerTotals{
		Success:   t.outcomes[Success],
		Transient: t.outcomes[Transient],
		Unsent:    t.outcomes[Unsent],
		Permanent: t.outcomes[Permanent],
		Throttled: t.outcomes[Throttled],
		Ignored:   t.outcomes[Ignored],
		Slow:      t.slow,
	}
}

// public returns the snapshot with its moments as times of day.
func (s snapshot) public(wall wall) BreakerStats {
	s.stats.Since = wall.of(s.since)
	if s.stats.State == StateOpen {
		s.stats.OpenUntil = wall.of(s.until)
	}
	return s.stats
}

// unlock ends every operation that may have made a transition: it completes a decision to open, releases
// b.mu, and delivers what the hook has not heard, unless another goroutine is at it.
func (b *Breaker) unlock() {
	b.commit()
	if len(b.changes) == 0 || b.delivering {
		b.mu.Unlock()
		return
	}
	b.delivering = true
	b.mu.Unlock()
	b.deliver()
}

// deliver tells the hook of every transition, in order, including those that are made meanwhile.
func (b *Breaker) deliver() {
	for {
		b.mu.Lock()
		if len(b.changes) == 0 {
			b.changes = nil
			b.delivering = false
			b.mu.Unlock()
			return
		}
		c := b.changes[0]
		b.changes = b.changes[1:]
		b.mu.Unlock()
		b.tell(c)
	}
}

func (b *Breaker) tell(c change) {
	told := false
	defer func() {
		if !told { // the hook panicked, and the panic goes on once the others have been told
			b.deliver()
		}
	}()
	wall := b.time.wall()
	b.hooks.OnTransition(Transition{
		Breaker: b.cfg.Name,
		From:    c.From,
		To:      c.To,
		Reason:  c.Reason,
		Detail:  c.Detail,
		At:      wall.of(c.at),
		OpenFor: c.OpenFor,
		Window:  c.seen.public(wall),
		Shadow:  b.cfg.Shadow,
		cfg:     &b.cfg,
	})
	told = true
}
