package steady_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/steady-go/steady"
)

// model is a breaker written from the rules alone, as plainly as can be, for the real one to be compared
// with. It shares no code with it and keeps no totals: the window is a list of outcomes, every number is
// counted when it is asked for, and where the real breaker catches up when it looks, the model has the
// timer that the rules speak of: advance fires, in order, whatever falls due on the way. The time is a
// number.
type model struct {
	cfg  steady.BreakerConfig
	rand func() float64

	now    time.Duration
	state  steady.State
	since  time.Duration
	until  time.Duration // the end of the open period
	period time.Duration // this open period's length, without jitter
	gen    int
	window []*modelOutcome
	calls  []*modelCall // all that were let through
	log    []modelTransition

	rejected int
	starts   int
	started  time.Duration // the last start
}

type modelOutcome struct {
	at           time.Duration
	failed, slow bool
}

// modelCall is what the model remembers of a call that was let through.
type modelCall struct {
	gen       int // 0 when the call counts for nothing
	admitted  time.Duration
	running   bool // in the function
	reached   bool // has been in the function
	started   time.Duration
	order     int  // among the starts
	succeeded bool // as a probe
	outcome   *modelOutcome
	slow      bool           // has been in the function for as long as that
	ended     steady.Outcome // 0 until it has
}

// modelTransition is what is compared of a transition.
type modelTransition struct {
	From, To    steady.State
	Reason      steady.Reason
	Detail      string
	At, OpenFor time.Duration
	Window      modelWindow
	InFlight    int
	TimeOpen    time.Duration
	Shadow      bool
}

type modelWindow struct {
	Calls, Failures, Slow int
	FailureRate, SlowRate float64
	Deciding              bool
}

// modelStats is what is compared of a reading.
type modelStats struct {
	State             steady.State
	Since, OpenUntil  time.Duration // OpenUntil is -1 unless open
	Window            modelWindow
	InFlight, Overdue int
	Rejected          int
	Transitions       int
	TimeOpen          time.Duration
	Totals            steady.BreakerTotals
}

func newModel(cfg steady.BreakerConfig) *model {
	cfg.MaxOpenDuration = cmp.Or(cfg.MaxOpenDuration, cfg.OpenDuration)
	cfg.ProbeTimeout = cmp.Or(cfg.ProbeTimeout, cfg.OpenDuration)
	return &model{cfg: cfg, rand: cfg.Rand, gen: 1}
}

// modelDue is something that becomes true as time passes.
type modelDue struct {
	at     time.Duration
	rank   int // at the same moment: the slow threshold first
	order  int
	happen func()
}

// due lists everything that becomes true if nothing but time passes.
func (m *model) due() []modelDue {
	var all []modelDue
	for _, c := range m.calls {
		c := c
		if c.gen != m.gen {
			continue
		}
		probe := m.state == steady.StateHalfOpen
		if c.running && !m.cfg.NoSlowCalls && c.outcome == nil {
			all = append(all, modelDue{c.started + m.cfg.SlowThreshold, 0, c.order, func() {
				if probe {
					m.open(steady.ReasonProbeSlow)
					return
				}
				c.outcome = &modelOutcome{at: m.now, slow: true}
				m.record(c.outcome)
			}})
		}
		if probe && c.running {
			all = append(all, modelDue{c.started + m.cfg.ProbeTimeout, 1, c.order, func() { m.open(steady.ReasonProbeTimeout) }})
		}
		if probe && !c.reached {
			all = append(all, modelDue{c.admitted + m.cfg.ProbeTimeout, 2, c.order, func() { c.gen = 0 }})
		}
	}
	slices.SortStableFunc(all, func(a, b modelDue) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank), cmp.Compare(a.order, b.order))
	})
	return all
}

func (m *model) advance(d time.Duration) {
	end := m.now + d
	for {
		due := m.due()
		if len(due) == 0 || due[0].at > end {
			break
		}
		m.now = due[0].at
		due[0].happen()
	}
	m.now = end
}

// admit asks for a call to be let through. It returns nil when it is not.
func (m *model) admit() *modelCall {
	m.elapse()
	c := &modelCall{admitted: m.now}
	switch {
	case m.state == steady.StateClosed, m.state == steady.StateForcedClosed:
		c.gen = m.gen
	case m.state == steady.StateHalfOpen && m.probes(nil) < m.cfg.HalfOpenProbes:
		c.gen = m.gen
	default:
		m.rejected++
		if !m.cfg.Shadow || m.state == steady.StateForcedOpen {
			return nil
		}
	}
	m.calls = append(m.calls, c)
	return c
}

// elapse makes the transition that waits for a caller after the open period.
func (m *model) elapse() {
	if m.state == steady.StateOpen && m.now >= m.until {
		m.change(steady.StateHalfOpen, steady.ReasonOpenElapsed, "", 0)
		m.since = m.until
	}
}

// probes counts the calls of a half-open breaker that were not given back.
func (m *model) probes(which func(*modelCall) bool) (n int) {
	for _, c := range m.calls {
		if c.gen == m.gen && (which == nil || which(c)) {
			n++
		}
	}
	return n
}

// start takes a call into the function, stop out of it. One call may do that several times.
func (m *model) start(c *modelCall) {
	m.starts++
	c.running, c.reached, c.started, c.order = true, true, m.now, m.starts
	m.started = m.now
}

func (m *model) stop(c *modelCall) {
	c.slow = m.slow(c)
	c.running = false
}

// slow reports whether a call has been in the function for SlowThreshold.
func (m *model) slow(c *modelCall) bool {
	return c.slow || c.running && !m.cfg.NoSlowCalls && m.now-c.started >= m.cfg.SlowThreshold
}

func modelFailed(o steady.Outcome) bool {
	return o != steady.Success && o != steady.Throttled && o != steady.Ignored
}

// finish ends a call. It reports whether that was recorded, before which the breaker has to catch up.
func (m *model) finish(c *modelCall, o steady.Outcome) bool {
	m.stop(c)
	c.ended = o
	switch {
	case c.gen != m.gen:
		return false
	case m.state == steady.StateHalfOpen && modelFailed(o):
		m.open(steady.ReasonProbeFailed)
	case m.state == steady.StateHalfOpen && o == steady.Success:
		c.succeeded = true
		if m.probes(func(c *modelCall) bool { return c.succeeded }) == m.cfg.HalfOpenProbes {
			m.change(steady.StateClosed, steady.ReasonProbesSucceeded, "", 0)
		}
	case m.state == steady.StateHalfOpen:
		c.gen = 0
		return false
	case c.outcome != nil:
		if !modelFailed(o) {
			return false
		}
		m.fail(c.outcome)
	case modelFailed(o) || o == steady.Success:
		c.outcome = &modelOutcome{at: m.now, failed: modelFailed(o)}
		m.record(c.outcome)
	default:
		return false
	}
	return true
}

// failLate hears that the result of a call that has ended failed after all.
func (m *model) failLate(c *modelCall) bool {
	switch {
	case c.gen != m.gen:
		return false
	case m.state == steady.StateHalfOpen:
		m.open(steady.ReasonProbeFailed)
	case c.outcome == nil:
		return false
	default:
		m.fail(c.outcome)
	}
	return true
}

// age drops what is too old, while the window is in use.
func (m *model) age() {
	if m.cfg.WindowAge > 0 && m.state != steady.StateOpen {
		m.window = slices.DeleteFunc(m.window, func(o *modelOutcome) bool { return m.now-o.at > m.cfg.WindowAge })
	}
}

func (m *model) record(o *modelOutcome) {
	m.age()
	m.window = append(m.window, o)
	if len(m.window) > m.cfg.WindowSize {
		m.window = m.window[1:]
	}
	m.decide()
}

func (m *model) fail(o *modelOutcome) {
	m.age()
	if slices.Contains(m.window, o) {
		o.failed = true
		m.decide()
	}
}

func (m *model) decide() {
	w := m.counts()
	switch {
	case m.state != steady.StateClosed || !w.Deciding:
	case w.FailureRate >= m.cfg.FailureRate:
		m.open(steady.ReasonFailureRate)
	case w.SlowRate >= m.cfg.SlowRate:
		m.open(steady.ReasonSlowRate)
	}
}

func (m *model) counts() (w modelWindow) {
	m.age()
	for _, o := range m.window {
		w.Calls++
		if o.failed {
			w.Failures++
		}
		if o.slow {
			w.Slow++
		}
	}
	if w.Calls > 0 {
		w.FailureRate = float64(w.Failures) / float64(w.Calls)
		w.SlowRate = float64(w.Slow) / float64(w.Calls)
	}
	w.Deciding = w.Calls >= m.cfg.MinCalls
	return w
}

// open opens the breaker for a period of its own.
func (m *model) open(why steady.Reason) {
	if m.state == steady.StateHalfOpen {
		m.period = min(2*m.period, m.cfg.MaxOpenDuration)
	} else {
		m.period = m.cfg.OpenDuration
	}
	length := m.period
	if !m.cfg.NoOpenJitter {
		if r := m.rand(); r >= 0 && r < 1 {
			length += time.Duration(math.Round(r * m.cfg.OpenJitter * float64(m.period)))
		}
	}
	m.change(steady.StateOpen, why, "", length)
	m.until = m.now + length
}

// manual is ForceOpen, ForceClosed and Reset.
func (m *model) manual(to steady.State, why string) {
	m.elapse()
	m.change(to, steady.ReasonManual, why, 0)
}

// change is the one place where the state changes.
func (m *model) change(to steady.State, why steady.Reason, detail string, openFor time.Duration) {
	s := m.stats()
	m.log = append(m.log, modelTransition{
		m.state, to, why, detail, m.now, openFor, s.Window, s.InFlight, s.TimeOpen, m.cfg.Shadow,
	})
	m.state, m.since = to, m.now
	m.gen++
	if to != steady.StateOpen {
		m.window = nil
	}
}

// told is the state as one who looks is told.
func (m *model) told() steady.State {
	if m.state == steady.StateOpen && m.now >= m.until {
		return steady.StateHalfOpen
	}
	return m.state
}

// retryAfter is what is left of the open period.
func (m *model) retryAfter() time.Duration {
	if m.told() == steady.StateOpen {
		return m.until - m.now
	}
	return 0
}

func (m *model) stats() modelStats {
	s := modelStats{
		State:       m.told(),
		Since:       m.since,
		OpenUntil:   -1,
		Window:      m.counts(),
		Rejected:    m.rejected,
		Transitions: len(m.log),
	}
	switch {
	case s.State == steady.StateOpen:
		s.OpenUntil = m.until
	case m.state == steady.StateOpen:
		s.Since = m.until
	}
	for _, c := range m.calls {
		if c.running {
			s.InFlight++
			if !m.cfg.NoSlowCalls && m.now-c.started >= m.cfg.SlowThreshold {
				s.Overdue++
			}
		}
	}
	for _, c := range m.calls {
		if m.slow(c) {
			s.Totals.Slow++
		}
		if !c.reached {
			continue
		}
		switch c.ended {
		case 0: // it has not
		case steady.Success:
			s.Totals.Success++
		case steady.Unsent:
			s.Totals.Unsent++
		case steady.Permanent:
			s.Totals.Permanent++
		case steady.Throttled:
			s.Totals.Throttled++
		case steady.Ignored:
			s.Totals.Ignored++
		default:
			s.Totals.Transient++
		}
	}
	for i, t := range m.log {
		end := m.now
		if i+1 < len(m.log) {
			end = m.log[i+1].At
		}
		switch t.To {
		case steady.StateOpen:
			s.TimeOpen += min(end-t.At, t.OpenFor)
		case steady.StateForcedOpen:
			s.TimeOpen += end - t.At
		}
	}
	return s
}
