package steadydebug_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadydebug"
)

func TestAnIncidentIsToldWithItsReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{Title: "checkout"})
		d := newDependency(t, "catalog", h.Hooks())
		require.NoError(t, h.Add(d))
		nextReading()
		b := read(t, h).Dependencies[0].Breaker
		assert.Equal(t, "closed", b.State)
		assert.Empty(t, b.Why)
		assert.True(t, b.HooksJoined, "there is nothing to hear")

		calls := pipeline(t, d)
		call(calls, 5, 600*time.Millisecond, nil)
		nextReading()
		b = read(t, h).Dependencies[0].Breaker
		assert.Equal(t, "open", b.State)
		assert.Equal(t, "slow-call rate 1.00 ≥ 0.50 over 5 calls (5 slow, 0 failed), open for 10s", b.Why)
		require.NotNil(t, b.OpenUntil)
		assert.Equal(t, 10*time.Second, b.OpenUntil.Sub(*b.Since))
		assert.Equal(t, 5, b.Slow)

		time.Sleep(10 * time.Second)
		synctest.Wait()
		b = read(t, h).Dependencies[0].Breaker
		assert.Equal(t, "half-open", b.State, "by the clock, without a caller")
		assert.Equal(t, "open period elapsed; the next call will be the first probe", b.Why)
		assert.Nil(t, b.OpenUntil)

		call(calls, 1, 0, errFailed)
		nextReading()
		b = read(t, h).Dependencies[0].Breaker
		assert.Equal(t, "open", b.State)
		assert.Equal(t, "probe failed, open for 10s", b.Why)

		time.Sleep(10 * time.Second)
		call(calls, 3, 0, nil)
		nextReading()
		s := read(t, h)
		assert.Equal(t, "closed", s.Dependencies[0].Breaker.State)
		assert.Equal(t, "3 probes succeeded", s.Dependencies[0].Breaker.Why)

		d.Breaker().ForceOpen("the supplier's <b>maintenance</b> until 4:00:00")
		nextReading()
		s = read(t, h)
		assert.Equal(t, "forced-open", s.Dependencies[0].Breaker.State)
		var told []string
		for i := len(s.Transitions) - 1; i >= 0; i-- {
			x := s.Transitions[i]
			assert.Equal(t, uint64(len(told)+1), x.Sequence)
			told = append(told, fmt.Sprintf("%s: %s → %s, %s: %s", x.Breaker, x.From, x.To, x.Reason, x.Why))
		}
		assert.Equal(t, []string{
			"catalog: closed → open, slow_rate: slow-call rate 1.00 ≥ 0.50 over 5 calls (5 slow, 0 failed), open for 10s",
			"catalog: open → half-open, open_elapsed: open period elapsed",
			"catalog: half-open → open, probe_failed: probe failed, open for 10s",
			"catalog: open → half-open, open_elapsed: open period elapsed",
			"catalog: half-open → closed, probes_succeeded: 3 probes succeeded",
			"catalog: closed → forced-open, manual: manual: the supplier's <b>maintenance</b> until 4:00:00",
		}, told)
	})
}

func TestTheHandlerMayBeTheFirstToSeeThatCallsAreOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{})
		b := newBreaker(t, "hanging", h.Hooks())
		require.NoError(t, h.AddBreaker(b))
		for range 10 {
			steady.Must(b.Allow())
		}
		nextReading() // makes the transition, and hears of it through its own hook
		nextReading()
		s := read(t, h)
		assert.Equal(t, "open", s.Dependencies[0].Breaker.State)
		assert.Equal(t, 10, s.Dependencies[0].Breaker.Overdue)
		require.Len(t, s.Transitions, 1)
		assert.Equal(t, "slow_rate", s.Transitions[0].Reason)
	})
}

func TestAReasonThatWasNotHeardIsNotMadeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, "deaf", nil)
		h := newHandler(t, steadydebug.HandlerConfig{Breakers: []*steady.Breaker{b}})
		b.ForceOpen("nobody hears this")
		nextReading()
		got := read(t, h).Dependencies[0].Breaker
		assert.Equal(t, "forced-open", got.State)
		assert.Empty(t, got.Why)
		assert.False(t, got.HooksJoined)
	})
}

func TestATransitionBeforeItsBreakerWasAddedIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{})
		b := newBreaker(t, "early", h.Hooks())
		b.ForceOpen("at the start")
		nextReading()
		require.NoError(t, h.AddBreaker(b))
		nextReading()
		assert.Equal(t, "manual: at the start", read(t, h).Dependencies[0].Breaker.Why)
	})
}

func TestOnlyTheLastTransitionsAreKeptAndEachBreakersLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{})
		quiet, busy := newBreaker(t, "quiet", h.Hooks()), newBreaker(t, "busy", h.Hooks())
		require.NoError(t, h.AddBreaker(quiet, busy))
		nextReading()
		quiet.ForceOpen("long ago")
		for i := range 300 {
			busy.ForceOpen(fmt.Sprint(i))
		}
		nextReading()
		s := read(t, h)
		require.Len(t, s.Transitions, 256)
		for i, x := range s.Transitions {
			assert.Equal(t, uint64(301-i), x.Sequence)
			assert.Equal(t, fmt.Sprintf("manual: %d", 299-i), x.Why)
		}
		assert.Equal(t, "manual: long ago", s.Dependencies[0].Breaker.Why)
	})
}
