package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/steady-go/steady"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestABreakerThatCountsErrorsNeverOpensAndSteadyDoes(t *testing.T) {
	var out bytes.Buffer
	results, err := run(t.Context(), scenario{
		healthy: time.Second, slow: 2 * time.Second, recovery: 4 * time.Second,
		fastAnswer: 20 * time.Millisecond, slowAnswer: 3 * time.Second,
		rate: 200, openFor: time.Second,
	}, &out)
	t.Log("\n" + out.String())
	require.NoError(t, err)
	require.Len(t, results, 2)

	for _, r := range results {
		assertNobodyIsLost(t, r)
		assert.Equal(t, 7*200, r.arrived, "the load is the same, whoever waits")
		assert.Zero(t, r.failed)
		assert.False(t, r.firstSlow.IsZero())
		assert.Equal(t, steady.StateClosed, r.breaker.State)
		assert.Zero(t, r.breaker.InFlight)
		for _, change := range r.transitions {
			assert.Contains(t, out.String(), change.String())
		}
	}

	errorsOnly := results[0]
	assert.Empty(t, errorsOnly.transitions, "there was no error to open it")
	assert.Zero(t, errorsOnly.breaker.FailureRate)
	assert.Equal(t, errorsOnly.arrived, errorsOnly.fresh)
	assert.Equal(t, connections, errorsOnly.mostInside, "every connection was in use")
	assert.Greater(t, errorsOnly.mostInFlight, 2*connections, "and customers queued for one")
	assert.Contains(t, out.String(), "never opened")

	slowToo := results[1]
	require.NotEmpty(t, slowToo.transitions)
	opening := slowToo.transitions[0]
	assert.Equal(t, steady.StateOpen, opening.To)
	assert.Equal(t, steady.ReasonSlowRate, opening.Reason)
	assert.Zero(t, opening.Window.Failures)
	_, closed := slowToo.closed()
	assert.True(t, closed, "it closed when the catalogue was healthy again")
	assert.Less(t, slowToo.mostInside, connections, "the bulkhead kept connections free")
	assert.Positive(t, slowToo.breakerOpen, "customers got the cached price at once")
	assert.Less(t, slowToo.impatient, errorsOnly.impatient)
}

func TestAnInterruptedRunEndsAndLosesNobody(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &trigger{on: "still with 200", pull: interrupt}
	results, err := run(ctx, scenario{
		healthy: 200 * time.Millisecond, slow: time.Hour, recovery: time.Hour,
		fastAnswer: 20 * time.Millisecond, slowAnswer: time.Hour,
		rate: 200, openFor: time.Second,
	}, out)
	require.NoError(t, err)
	require.Len(t, results, 2)
	for _, r := range results {
		assertNobodyIsLost(t, r)
		assert.True(t, r.healthyAgain.IsZero())
	}
	assert.Contains(t, out.String(), "interrupted")
}

func assertNobodyIsLost(t *testing.T, r result) {
	t.Helper()
	assert.Positive(t, r.arrived)
	assert.Equal(t, r.arrived, r.fresh+r.cached()+r.failed)
	assert.Zero(t, r.inFlight)
}

// trigger is a writer that acts when it sees a text.
type trigger struct {
	bytes.Buffer
	on   string
	pull func()
}

func (w *trigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.on) {
		w.pull()
	}
	return w.Buffer.Write(p)
}

func TestQuantilesAreWaitsThatHappened(t *testing.T) {
	var waits []time.Duration
	assert.Zero(t, quantile(waits, 0.5))
	for i := range 100 {
		waits = append(waits, time.Duration(i+1))
	}
	assert.Equal(t, time.Duration(50), quantile(waits, 0.50))
	assert.Equal(t, time.Duration(99), quantile(waits, 0.99))
	assert.Equal(t, time.Duration(1), quantile(waits[:1], 0.99))
}

func TestEveryFlagOutOfRangeIsNamed(t *testing.T) {
	err := scenario{healthy: -1, slow: -1, recovery: -1}.check()
	for _, flag := range []string{"-healthy", "-slow", "-recover", "-fast-answer", "-slow-answer", "-rate", "-open"} {
		assert.ErrorContains(t, err, flag+" must be")
	}
}
