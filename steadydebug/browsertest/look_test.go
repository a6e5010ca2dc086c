package browsertest_test

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadydebug"
	"github.com/steady-go/steady/steadydebug/browsertest"
)

//go:embed contrast.js
var contrast string

// everything is a handler with a tile in each state, and every mark that there is.
func everything(t *testing.T) *steadydebug.Handler {
	t.Helper()
	h := newHandler(t, steadydebug.HandlerConfig{Title: "checkout"})
	opened, probing, forced, passing, tight :=
		newScripted(t, "open", h.Hooks()), newScripted(t, "half-open", h.Hooks()), newScripted(t, "forced-open", h.Hooks()),
		newScripted(t, "forced-closed", h.Hooks()), newScripted(t, "tight", h.Hooks())
	require.NoError(t, h.AddBreaker(opened.Breaker, probing.Breaker, forced.Breaker, passing.Breaker, tight.Breaker))
	opened.call(5, 600*time.Millisecond, steady.Success)
	probing.call(5, 0, steady.Transient)
	probing.clock.Add(10 * time.Second)
	forced.ForceOpen("maintenance")
	passing.ForceClosed("we know")
	tight.call(9, 450*time.Millisecond, steady.Success)

	full := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name: "full", Timeout: time.Minute,
		Breaker:  steady.BreakerConfig{SlowThreshold: time.Second, Shadow: true, HalfOpenProbes: 1},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 1},
	}))
	slot := steady.Must(full.Bulkhead().Acquire(t.Context()))
	t.Cleanup(slot.Release)
	bare := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name: "bare", NoBreaker: true, NoBulkhead: true, NoRetry: true, NoTimeout: true,
	}))
	require.NoError(t, h.Add(full, bare))
	return h
}

func TestEveryStateIsSaidInWordsAndTheWorstComeFirst(t *testing.T) {
	p := open(t, serve(t, everything(t)), desk)
	untilTile(t, p, "open", "OPEN", "slow-call rate 1.00")
	untilTile(t, p, "half-open", "HALF-OPEN")
	untilTile(t, p, "forced-open", "FORCED OPEN", "manual: maintenance")
	untilTile(t, p, "forced-closed", "FORCED CLOSED", "manual: we know")
	untilTile(t, p, "tight", "CLOSED", "headroom below 1.5", "1.08×")
	untilTile(t, p, "full", "bulkhead full", "shadow: rejects nothing")
	untilTile(t, p, "bare", "NO BREAKER")
	until(t, p, `document.querySelector("#attention b").textContent === "5"`) // a full bulkhead has to last for that
	assert.Equal(t, []string{"open", "forced-open", "half-open", "forced-closed", "full", "tight", "bare"},
		eval[[]string](t, p, `[...document.querySelectorAll("h3")].map(e => e.textContent)`))
	quiet(t, p)
}

func TestEveryTextHasEnoughContrast(t *testing.T) {
	for _, view := range []browsertest.View{{Width: 1280, Height: 4000}, {Width: 1280, Height: 4000, Dark: true}} {
		t.Run(fmt.Sprintf("dark %v", view.Dark), func(t *testing.T) {
			h := everything(t)
			p := open(t, serve(t, h), view)
			untilTile(t, p, "bare", "NO BREAKER")
			eval[bool](t, p, `document.querySelectorAll("details").forEach(d => d.open = true) === undefined`)
			assert.Empty(t, eval[[]string](t, p, contrast))
			eval[bool](t, p, `document.querySelectorAll("#states button").forEach(b => b.click()) === undefined`)
			assert.Empty(t, eval[[]string](t, p, contrast), "pressed buttons")
			h.Close()
			until(t, p, stale)
			assert.Empty(t, eval[[]string](t, p, contrast), "stale")
		})
	}
}

func TestANarrowPageNeedsNoSidewaysScrolling(t *testing.T) {
	h := everything(t)
	require.NoError(t, h.AddBreaker(newScripted(t, strings.Repeat("averyveryverylongname", 10), h.Hooks()).Breaker))
	p := open(t, serve(t, h), browsertest.View{Width: 320, Height: 700})
	untilTile(t, p, "open", "OPEN")
	until(t, p, `document.querySelectorAll(".tile").length === 8`)
	eval[bool](t, p, `document.querySelectorAll("details").forEach(d => d.open = true) === undefined`)
	assert.Equal(t, 320, eval[int](t, p, `document.documentElement.scrollWidth`))
	assert.Zero(t, eval[int](t, p, `[...document.querySelectorAll(".tile")].filter(e => e.scrollWidth > e.clientWidth).length`), "nor is anything cut off")
}

func TestThePageDoesNotMoveForThoseWhoPreferThat(t *testing.T) {
	h := everything(t)
	const moves = `[...document.querySelectorAll("*")].filter(e => {
		const s = getComputedStyle(e);
		return parseFloat(s.transitionDuration) > 0 || s.animationName !== "none";
	}).length`
	p := open(t, serve(t, h), browsertest.View{Width: 1280, Height: 900, Still: true})
	untilTile(t, p, "open", "OPEN")
	assert.Zero(t, eval[int](t, p, moves))
	p = open(t, serve(t, h), desk)
	untilTile(t, p, "open", "OPEN")
	assert.Positive(t, eval[int](t, p, moves), "or the test sees nothing")
}

func TestNewNumbersMoveNoTile(t *testing.T) {
	h := newHandler(t, steadydebug.HandlerConfig{})
	var all []scripted
	for i := range 6 {
		s := newScripted(t, fmt.Sprint("dependency ", i), h.Hooks())
		require.NoError(t, h.AddBreaker(s.Breaker))
		all = append(all, s)
	}
	p := open(t, serve(t, h), desk)
	untilTile(t, p, "dependency 5", "CLOSED")
	const places = `[...document.querySelectorAll(".tile, .tile *, h2, header *")].filter(e => e.checkVisibility() && !e.closest("svg, b, small, .age, .axis span, .mark, .unseen")).map(e => {
		const r = e.getBoundingClientRect();
		return e.tagName + " " + r.x + " " + r.y + " " + r.height;
	})`
	before := eval[[]string](t, p, places)
	read := `document.querySelector("#link").textContent`
	for i := range 3 {
		for _, s := range all {
			s.call(11*i+2, time.Duration(i+1)*7*time.Millisecond, steady.Success)
		}
		at := eval[string](t, p, read)
		until(t, p, fmt.Sprintf("%s !== %q", read, at))
		untilTile(t, p, "dependency 5", "of "+fmt.Sprint([]int{2, 10, 10}[i]))
		assert.Equal(t, before, eval[[]string](t, p, places))
	}
	all[0].call(1, 450*time.Millisecond, steady.Success)
	untilTile(t, p, "dependency 0", "headroom below 1.5")
	assert.Equal(t, before, eval[[]string](t, p, places), "there is room for a mark")
}

func TestAHundredDependenciesFitOnOneScreenWithTheTroubledOnTop(t *testing.T) {
	h := newHandler(t, steadydebug.HandlerConfig{})
	for i := range 100 {
		s := newScripted(t, fmt.Sprintf("shard-%02d", i), h.Hooks())
		require.NoError(t, h.AddBreaker(s.Breaker))
		if i == 77 {
			s.call(5, 0, steady.Transient)
		}
	}
	p := open(t, serve(t, h), browsertest.View{Width: 1920, Height: 1080})
	untilTile(t, p, "shard-77", "OPEN", "failure rate 1.00")
	assert.Equal(t, []string{"shard-77", "shard-00", "shard-01"},
		eval[[]string](t, p, `[...document.querySelectorAll("h3")].slice(0, 3).map(e => e.textContent)`))
	assert.Equal(t, "1", eval[string](t, p, `document.querySelector("#attention b").textContent`))
	assert.Equal(t, "99", eval[string](t, p, `document.querySelector("#healthy b").textContent`))
	quiet(t, p)
}
