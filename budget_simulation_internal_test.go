package steady

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The simulation that RetryBudget's defaults were chosen by. One server takes calls first come, first
// served, at 100/s with exponential service times; from 60 s to 70 s it manages 5/s. Clients give up on an
// attempt after 1 s, but what they gave up on is still processed, and try again up to three times with the
// delays of FullJitter. It is discrete-event and seeded: the same numbers on every run.

var simOffered = []float64{50, 70, 80, 90} // calls a second

const (
	simCapacity = 100.0 // attempts a second
	simSlow     = 5.0   // likewise, from simSlowFrom to simSlowTo
	simSlowFrom = 60 * time.Second
	simSlowTo   = 70 * time.Second
	simPatience = time.Second // of a client, for one attempt
	simAttempts = 4
	simBase     = 100 * time.Millisecond
	simMaxDelay = 10 * time.Second
	simEnd      = 300 * time.Second
)

func defaultBudget() *RetryBudget { return Must(NewRetryBudget(RetryBudgetConfig{})) }

func TestSimulationWithoutABudgetTheServerNeverRecovers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	for _, offered := range simOffered {
		s := &simulation{offered: offered, trouble: true, end: simEnd}
		s.run(1)
		assert.Greater(t, s.goodput(0, simSlowFrom), 0.99, "%v/s: before the trouble", offered)
		assert.Less(t, s.goodput(240*time.Second, simEnd), 0.01, "%v/s: long after it", offered)
	}
}

func TestSimulationWithTheDefaultBudgetTheServerRecovers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	for _, offered := range simOffered {
		for seed := range uint64(10) {
			s := &simulation{offered: offered, trouble: true, end: simEnd, budget: defaultBudget()}
			s.run(seed)
			assert.Less(t, s.goodput(simSlowFrom, simSlowTo), 0.5, "%v/s, seed %d: the trouble", offered, seed)
			assert.GreaterOrEqual(t, s.worstSecond(240*time.Second), 0.95, "%v/s, seed %d: from 240 s on", offered, seed)
		}
	}
}

// At 90/s the retries that mend a tenth of failures would be more than the server can take.
func TestSimulationWithTheDefaultBudgetATenthOfFailuresIsMended(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	for _, offered := range []float64{50, 70, 80} {
		for seed := range uint64(10) {
			s := &simulation{offered: offered, failures: 0.1, end: simEnd, budget: defaultBudget()}
			s.run(seed)
			assert.GreaterOrEqual(t, s.goodput(0, simEnd), 0.99, "%v/s, seed %d", offered, seed)
		}
	}
}

func TestSimulationWithTheDefaultBudgetRetriesAddAtMostAFifthAtAnyFailureRate(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	for percent := 0; percent <= 100; percent += 2 {
		s := &simulation{offered: 80, failures: float64(percent) / 100, end: 100 * time.Second, budget: defaultBudget()}
		s.run(1)
		assert.LessOrEqual(t, s.extraLoad(), 0.2, "%d %% of the attempts fail", percent)
	}
	s := &simulation{offered: 20, failures: 1, end: 100 * time.Second}
	s.run(1)
	assert.Equal(t, 3.0, s.extraLoad(), "without a budget, when all of them fail")
}

// simulation is one run.
type simulation struct {
	offered  float64       // calls a second
	failures float64       // the share of attempts that fail, whatever the load
	trouble  bool          // the server has its slow ten seconds
	budget   *RetryBudget  // nil retries without one
	end      time.Duration // when the last call arrives

	rand   *rand.Rand
	events simEvents
	idle   time.Duration // when the server will have done all that is queued

	attempts int
	calls    []*simCall
}

// simCall is a call, and the next thing that happens to it.
type simCall struct {
	arrived  time.Duration
	at       time.Duration // the next event
	attempt  int
	waiting  bool // for an answer: the event is the end of the attempt, else its beginning
	answered bool // that end is a success
}

// run takes the simulation from the first arrival to the end of the last call.
func (s *simulation) run(seed uint64) {
	s.rand = rand.New(rand.NewPCG(seed, 0))
	for s.arrive(0); len(s.events) > 0; {
		s.step()
	}
}

// arrive has the next call come some time after the one before.
func (s *simulation) arrive(before time.Duration) {
	at := before + time.Duration(s.rand.ExpFloat64()/s.offered*float64(time.Second))
	if at < s.end {
		c := &simCall{arrived: at, at: at}
		s.calls = append(s.calls, c)
		heap.Push(&s.events, c)
	}
}

// step lets the next event happen.
func (s *simulation) step() {
	c := s.events[0]
	switch {
	case !c.waiting:
		s.send(c)
		if c.attempt == 1 {
			defer s.arrive(c.arrived)
		}
	case c.answered:
		if s.budget != nil {
			s.budget.deposit()
		}
		heap.Pop(&s.events)
		return
	case c.attempt == simAttempts || s.budget != nil && !s.budget.withdraw():
		heap.Pop(&s.events)
		return
	default:
		c.waiting = false
		c.at += FullJitter.delay(c.attempt, simBase, simMaxDelay, 0, s.rand.Float64())
	}
	heap.Fix(&s.events, 0)
}

// send begins an attempt. The server works in order, so its end is known at once.
func (s *simulation) send(c *simCall) {
	s.attempts++
	c.attempt++
	c.waiting = true
	s.idle = s.served(max(s.idle, c.at), s.rand.ExpFloat64())
	c.answered = s.idle <= c.at+simPatience && s.rand.Float64() >= s.failures
	c.at = min(s.idle, c.at+simPatience)
}

// served returns when the server has done so much work, 1 being an average attempt, if it begins at t.
func (s *simulation) served(t time.Duration, work float64) time.Duration {
	for {
		rate, until := simCapacity, time.Duration(1<<62)
		switch {
		case !s.trouble || t >= simSlowTo:
		case t >= simSlowFrom:
			rate, until = simSlow, simSlowTo
		default:
			until = simSlowFrom
		}
		takes := time.Duration(work / rate * float64(time.Second))
		if t+takes <= until {
			return t + takes
		}
		work -= rate * (until - t).Seconds()
		t = until
	}
}

// goodput returns the share of the calls that arrived in a period and got an answer.
func (s *simulation) goodput(from, to time.Duration) float64 {
	calls, answered := 0, 0
	for _, c := range s.calls {
		if c.arrived >= from && c.arrived < to {
			calls++
			if c.answered {
				answered++
			}
		}
	}
	return float64(answered) / float64(calls)
}

// worstSecond returns the lowest goodput of all the seconds from then on.
func (s *simulation) worstSecond(from time.Duration) float64 {
	calls, answered := map[time.Duration]float64{}, map[time.Duration]float64{}
	for _, c := range s.calls {
		second := c.arrived.Truncate(time.Second)
		if second < from {
			continue
		}
		calls[second]++
		if c.answered {
			answered[second]++
		}
	}
	worst := 1.0
	for second, n := range calls {
		worst = min(worst, answered[second]/n)
	}
	return worst
}

// extraLoad returns the attempts after the first, per call.
func (s *simulation) extraLoad() float64 {
	return float64(s.attempts-len(s.calls)) / float64(len(s.calls))
}

// simEvents is a heap of calls, the one with the next event first.
type simEvents []*simCall

func (e simEvents) Len() int           { return len(e) }
func (e simEvents) Less(i, j int) bool { return e[i].at < e[j].at }
func (e simEvents) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *simEvents) Push(c any)        { *e = append(*e, c.(*simCall)) }

func (e *simEvents) Pop() any {
	old := *e
	c := old[len(old)-1]
	*e = old[:len(old)-1]
	return c
}
