package browsertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/steady-go/steady/steadydebug/browsertest"
)

// browser is the one that all tests open their pages in.
var browser context.Context

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, stop, err := browsertest.Start(context.Background())
	switch {
	case errors.Is(err, browsertest.ErrNoBrowser) && os.Getenv("CI") != "true":
		fmt.Println("skipped:", err)
		return 0
	case err != nil:
		fmt.Println("FAIL:", err)
		return 1
	}
	browser = ctx
	code := m.Run()
	stop()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Println("FAIL:", err)
			return 1
		}
	}
	return code
}

// page is a tab of the browser.
type page struct {
	context.Context
	console func() []string // what was written there, warnings and errors
}

// open shows what the handler serves.
func open(t *testing.T, url string, view browsertest.View) *page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	require.NoError(t, view.Set(ctx))
	p := &page{Context: ctx}
	var mu sync.Mutex
	var lines []string
	messages := chromedp.Console(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			mu.Lock()
			lines = append(lines, fmt.Sprintf("%v: %v", m.Type, m.Text))
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		listening.Wait()
	})
	p.console = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), lines...)
	}
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(url)))
	return p
}

// serve serves a handler at the path where the pages are.
func serve(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/debug/steady", h)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/debug/steady"
}

// eval returns what an expression is in the page.
func eval[T any](t *testing.T, p *page, expression string) T {
	t.Helper()
	v, err := chromedp.Run(p, chromedp.Evaluate[T](expression))
	require.NoError(t, err, expression)
	return v
}

// patience is how long a page may take to show something. It is a second old at most, on a quick machine.
const patience = time.Minute

// until waits for an expression to be true.
func until(t *testing.T, p *page, expression string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if eval[bool](t, p, expression) {
			return
		}
	}
	require.Fail(t, "never true: "+expression, "the page:\n%s", eval[string](t, p, "document.body.innerText"))
}

// untilTile waits for a tile to have all these words.
func untilTile(t *testing.T, p *page, name string, words ...string) {
	t.Helper()
	var got string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		got = tile(t, p, name)
		if containsAll(got, words) {
			return
		}
	}
	require.Fail(t, fmt.Sprintf("%s never has %q", name, words), "the tile:\n%s", got)
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// tile returns what can be read on a tile, "" when it is not there.
func tile(t *testing.T, p *page, name string) string {
	t.Helper()
	return eval[string](t, p, fmt.Sprintf(`
		[...document.querySelectorAll(".tile")].filter(e => e.querySelector("h3").textContent === %q).map(e => e.innerText).join()`, name))
}

// press presses keys, one after the other.
func press(t *testing.T, p *page, keys string) {
	t.Helper()
	require.NoError(t, chromedp.Do(p, chromedp.KeyEvent(keys)))
}

// quiet fails the test if the page complained of anything, a violation of its own policy among others.
func quiet(t *testing.T, p *page) {
	t.Helper()
	assert.Empty(t, p.console())
}
