package browsertest_test

import (
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadydebug"
	"github.com/steady-go/steady/steadydebug/browsertest"
)

var desk = browsertest.View{Width: 1280, Height: 900}

// scripted is a breaker on a clock of the test, so that what the page has to show stays until it has.
type scripted struct {
	*steady.Breaker
	clock *clock.Mock
}

func newScripted(t *testing.T, name string, hooks *steady.Hooks) scripted {
	t.Helper()
	mock := clock.NewMock()
	mock.Set(time.Now())
	b, err := steady.NewBreaker(steady.BreakerConfig{
		Name: name, SlowThreshold: 500 * time.Millisecond, WindowSize: 10, MinCalls: 5, NoOpenJitter: true, Hooks: hooks, Clock: mock,
	})
	require.NoError(t, err)
	return scripted{b, mock}
}

// call makes calls, one after the other, that take so long and end so.
func (s scripted) call(n int, takes time.Duration, end steady.Outcome) {
	for range n {
		permit := steady.Must(s.Allow())
		s.clock.Add(takes)
		permit.Done(end)
	}
}

func newHandler(t *testing.T, cfg steadydebug.HandlerConfig) *steadydebug.Handler {
	t.Helper()
	h, err := steadydebug.NewHandler(cfg)
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return h
}

func TestAnIncidentIsShownAsItHappens(t *testing.T) {
	const name = `<img src=x onerror="window.fooled=true"><b>catalog</b>`
	h := newHandler(t, steadydebug.HandlerConfig{Title: "checkout </title><script>window.fooled=true</script>"})
	catalog := newScripted(t, name, h.Hooks())
	other := newScripted(t, "payments", h.Hooks())
	require.NoError(t, h.AddBreaker(catalog.Breaker, other.Breaker))
	p := open(t, serve(t, h), desk)
	untilTile(t, p, name, "CLOSED", "has never opened")
	untilTile(t, p, "payments", "CLOSED")

	catalog.call(2, 20*time.Millisecond, steady.Success)
	catalog.call(3, 600*time.Millisecond, steady.Success)
	untilTile(t, p, name, "OPEN", "slow-call rate 0.60 ≥ 0.50 over 5 calls (3 slow, 0 failed), open for 10s", "Slow: 3 of 5", "0.60 of 0.5", "probes in 1")
	assert.Equal(t, "1", eval[string](t, p, `document.querySelector("#attention b").textContent`))
	assert.Equal(t, name, eval[string](t, p, `document.querySelector(".tile h3").textContent`), "the worst first")
	assert.Equal(t, "1 open", eval[string](t, p, `document.querySelector("#states .open").textContent`))
	until(t, p, `document.title.startsWith("(1 open) checkout")`)
	until(t, p, `document.querySelector("#say").textContent.endsWith(" is open")`)

	catalog.clock.Add(10 * time.Second)
	untilTile(t, p, name, "HALF-OPEN", "open period elapsed; the next call will be the first probe")
	catalog.call(1, 0, steady.Transient)
	untilTile(t, p, name, "OPEN", "probe failed, open for 10s")
	catalog.clock.Add(10 * time.Second)
	catalog.call(2, 0, steady.Success)
	untilTile(t, p, name, "HALF-OPEN", "open period elapsed")
	catalog.call(1, 0, steady.Success)
	untilTile(t, p, name, "CLOSED", "3 probes succeeded")

	other.ForceOpen("<i>maintenance</i>")
	untilTile(t, p, "payments", "FORCED OPEN", "manual: <i>maintenance</i>")
	assert.Equal(t, []string{
		"payments|closed → forced open|manual: <i>maintenance</i>",
		name + "|half-open → closed|3 probes succeeded",
		name + "|open → half-open|open period elapsed",
		name + "|half-open → open|probe failed, open for 10s",
		name + "|open → half-open|open period elapsed",
		name + "|closed → open|slow-call rate 0.60 ≥ 0.50 over 5 calls (3 slow, 0 failed), open for 10s",
	}, eval[[]string](t, p, `[...document.querySelectorAll("#timeline li")].map(li =>
		[...li.children].slice(1).map(e => e.textContent).join("|"))`), "the timeline, newest first")

	assert.False(t, eval[bool](t, p, `"fooled" in window`))
	assert.Zero(t, eval[int](t, p, `document.querySelectorAll("img, b b, i i, h1 script, h3 *, .what *").length`), "markup stays text")
	quiet(t, p)
}

func TestScriptsThatComeWithDataDoNotRun(t *testing.T) {
	p := open(t, serve(t, newHandler(t, steadydebug.HandlerConfig{})), desk)
	assert.True(t, eval[bool](t, p, `(() => {
		const s = document.createElement("script");
		try { s.textContent = "window.fooled = true"; } catch { return true; }
		document.body.append(s);
		return !("fooled" in window);
	})()`), "a script that is added")
	assert.True(t, eval[bool](t, p, `(() => {
		try { document.body.innerHTML = "<p>"; } catch { return true; }
		return false;
	})()`), "a text that is to become markup")
	assert.False(t, eval[bool](t, p, `"fooled" in window`))
}
