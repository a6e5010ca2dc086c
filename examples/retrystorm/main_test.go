package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// short is a storm in a teacup: 12 s of the model, 1.2 s in real time.
var short = &scenario{
	speed: 10, seed: 1,
	clients: 40, instances: 2, think: time.Second, timeout: time.Second, attempts: 3,
	workers: 4, service: 100 * time.Millisecond, queue: 60, faults: 0.03, slowdown: 20,
	calm: 3 * time.Second, failing: 4 * time.Second, after: 5 * time.Second,
}

func TestEveryStrategyRunsThroughCalmFailureAndRecovery(t *testing.T) {
	require.NoError(t, short.check())
	var out strings.Builder
	r := report{sc: short, w: &out}
	r.title()
	var results []result
	perCall := make(map[string]float64)
	for _, st := range strategies {
		r.begin(st)
		res, err := run(short, st, r.second)
		require.NoError(t, err)
		r.end(res)
		results = append(results, res)
		require.Len(t, res.seconds, 12, "every second is measured: %s", st.name)

		m := res.measure(short)
		perCall[st.name] = m.perCall
		assert.Positive(t, m.answered, "calls are answered while the server is well: %s", st.name)
		assert.Positive(t, m.overloaded, "a server at a twentieth of its speed falls behind: %s", st.name)
		assert.LessOrEqual(t, res.wasted, res.served)
	}
	r.table(results)
	t.Log("\n" + out.String())

	assert.InDelta(t, 1, perCall["no retry"], 0.5, "one request for a call, but for those in flight at the end")
	assert.Greater(t, perCall["immediate retries"], perCall["no retry"], "retries are more work")
	assert.Less(t, perCall["jitter, budget, breaker"], perCall["immediate retries"], "a budget bounds it")
	for _, st := range strategies {
		assert.Contains(t, out.String(), st.name)
	}
}

func TestASecondIsOverloadedAboveCapacityOrWithAQueueThatNeverEmpties(t *testing.T) {
	assert.False(t, second{arrivals: 40}.overloaded(short), "as much as the server can do")
	assert.True(t, second{arrivals: 41}.overloaded(short))
	assert.True(t, second{backlog: 1}.overloaded(short))
}

func TestRecoveryIsTheBeginningOfTheFirstSteadySeconds(t *testing.T) {
	usual := second{arrivals: 20, answered: 20}
	poor := second{arrivals: 20, answered: 17, failed: 3} // a failure of 15 %, where 10 % are allowed
	behind := second{arrivals: 20, answered: 20, backlog: 9}
	seconds := func(groups ...[]second) (all []second) {
		for _, g := range groups {
			all = append(all, g...)
		}
		return all
	}
	times := func(n int, s second) (all []second) {
		for range n {
			all = append(all, s)
		}
		return all
	}
	sc := *short
	sc.after = 20 * time.Second
	measure := func(after ...[]second) measures {
		all := seconds(times(3, usual), times(4, second{arrivals: 60, failed: 20, backlog: 60}), seconds(after...))
		return result{seconds: all, served: 200, wasted: 50}.measure(&sc)
	}

	m := measure(times(2, behind), times(1, usual), times(1, behind), times(6, usual))
	assert.Equal(t, 4, m.recovery, "a single good second is no recovery")
	assert.Equal(t, 7, m.overloaded)
	assert.Equal(t, 0.25, m.wasted)
	assert.Equal(t, 260, m.answered)

	assert.Equal(t, -1, measure(times(9, poor)).recovery, "not without the usual answers")
	assert.Equal(t, -1, measure(times(4, usual)).recovery, "not if the run ends before it is sure")
	assert.InDelta(t, float64(3*20+4*60+9*20)/float64(3*20+4*20+9*20), measure(times(9, poor)).perCall, 1e-9)
}

func TestABlockIsAQuarterOfTheCapacity(t *testing.T) {
	r := report{sc: short, w: io.Discard}
	for n, want := range map[int]string{0: "·", 1: "▁", 10: "▁", 11: "▂", 40: "▄", 41: "▅", 80: "█", 400: "█"} {
		assert.Equal(t, want, r.block(n), "%d arrivals", n)
	}
}
