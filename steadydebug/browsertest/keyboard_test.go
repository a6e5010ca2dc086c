package browsertest_test

import (
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady/steadydebug"
)

const (
	names   = `[...document.querySelectorAll(".tile")].filter(e => e.checkVisibility()).map(e => e.querySelector("h3").textContent)`
	told    = `[...document.querySelectorAll("#timeline li .who")].map(e => e.textContent)`
	focused = `(document.activeElement.id || document.activeElement.textContent)`
	ring    = `(s => s.outlineStyle + " " + s.outlineWidth)(getComputedStyle(document.activeElement))`
)

// slash presses the key as a keyboard does, which types a character only if nothing has taken the key for
// itself. KeyEvent types it in any case.
func slash(t *testing.T, p *page) {
	t.Helper()
	for _, event := range []input.DispatchKeyEventParams{
		{Type: input.DispatchKeyEventTypeKeyDown, Key: "/", Code: "Slash", Text: "/"},
		{Type: input.DispatchKeyEventTypeKeyUp, Key: "/", Code: "Slash"},
	} {
		_, err := chromedp.Call(p, input.DispatchKeyEvent, event)
		require.NoError(t, err)
	}
}

func TestThePageIsFilteredWithTheKeyboard(t *testing.T) {
	p := open(t, serve(t, everything(t)), desk)
	untilTile(t, p, "open", "OPEN")
	until(t, p, told+`.length === 4`)

	slash(t, p)
	assert.Equal(t, "name", eval[string](t, p, focused))
	assert.Equal(t, "solid 3px", eval[string](t, p, ring), "one sees where one is")
	press(t, p, "FORCED/")
	assert.Equal(t, "FORCED/", eval[string](t, p, `document.getElementById("name").value`), "a slash is a slash there")
	assert.Empty(t, eval[[]string](t, p, names))
	press(t, p, kb.Backspace)
	assert.Equal(t, []string{"forced-open", "forced-closed"}, eval[[]string](t, p, names))
	assert.ElementsMatch(t, []string{"forced-open", "forced-closed"}, eval[[]string](t, p, told), "the timeline too")
	assert.Regexp(t, `^2 of \d$`, eval[string](t, p, `document.querySelector("#attention b").textContent`))
	press(t, p, kb.Escape)
	assert.Len(t, eval[[]string](t, p, names), 7)

	eval[bool](t, p, `document.activeElement.blur() === undefined && scrollTo(0, 0) === undefined && document.querySelector("#states button").focus() === undefined`)
	press(t, p, kb.Tab)
	assert.Equal(t, "1 forced open", eval[string](t, p, focused))
	assert.Equal(t, "solid 3px", eval[string](t, p, ring))
	press(t, p, " ")
	assert.Equal(t, []string{"forced-open"}, eval[[]string](t, p, names))
	assert.Equal(t, []string{"forced-open"}, eval[[]string](t, p, told))
	assert.Equal(t, "true", eval[string](t, p, `document.activeElement.getAttribute("aria-pressed")`))
	press(t, p, kb.Tab+kb.Enter)
	assert.Equal(t, []string{"forced-open", "half-open"}, eval[[]string](t, p, names), "one or the other")
	press(t, p, kb.Enter)
	assert.Equal(t, []string{"forced-open"}, eval[[]string](t, p, names))
	quiet(t, p)
}

func TestTheConfigurationIsOpenedWithTheKeyboardAndStaysOpen(t *testing.T) {
	p := open(t, serve(t, everything(t)), desk)
	untilTile(t, p, "open", "OPEN")
	slash(t, p)
	press(t, p, kb.Tab)
	assert.Equal(t, "Configuration", eval[string](t, p, focused))
	assert.Equal(t, "solid 3px", eval[string](t, p, ring))
	press(t, p, kb.Enter)
	untilTile(t, p, "open", "Breaker.SlowThreshold\n500ms", "Breaker.OpenDuration\n10s")
	at := eval[string](t, p, `document.querySelector("#link").textContent`)
	until(t, p, `document.querySelector("#link").textContent !== "`+at+`"`)
	assert.Contains(t, tile(t, p, "open"), "Breaker.OpenDuration")
	assert.Equal(t, "Configuration", eval[string](t, p, focused), "new numbers take the focus from nobody")
}

func TestWhoIsInATileSeesTheWorstComeFirstAllTheSame(t *testing.T) {
	h := newHandler(t, steadydebug.HandlerConfig{})
	first, second := newScripted(t, "a", h.Hooks()), newScripted(t, "b", h.Hooks())
	require.NoError(t, h.AddBreaker(first.Breaker, second.Breaker))
	p := open(t, serve(t, h), desk)
	untilTile(t, p, "b", "CLOSED")
	const focusedTile = `(document.activeElement.closest(".tile")?.tile.name ?? "none")`
	eval[bool](t, p, `document.querySelector(".tile summary").focus() === undefined`)
	second.ForceOpen("somebody else's trouble")
	untilTile(t, p, "b", "FORCED OPEN")
	assert.Equal(t, []string{"b", "a"}, eval[[]string](t, p, names))
	assert.Equal(t, "a", eval[string](t, p, focusedTile))
	second.Reset("over")
	first.ForceOpen("its own trouble")
	untilTile(t, p, "a", "FORCED OPEN")
	assert.Equal(t, []string{"a", "b"}, eval[[]string](t, p, names))
	assert.Equal(t, "a", eval[string](t, p, focusedTile), "a tile that moves keeps the focus")
	quiet(t, p)
}

func TestTilesAndTheirDetailsAreToldApartByTheirAccessibleNames(t *testing.T) {
	p := open(t, serve(t, everything(t)), desk)
	untilTile(t, p, "open", "OPEN")
	assert.Equal(t, "open|Configuration of open", eval[string](t, p,
		`[document.querySelector(".tile"), document.querySelector(".tile summary")].map(e => e.getAttribute("aria-label")).join("|")`))
}
