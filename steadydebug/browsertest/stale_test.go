package browsertest_test

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady/steadydebug"
)

const stale = `document.querySelector("#link").textContent.startsWith("STALE: ") && document.title.startsWith("STALE")`

const live = `document.querySelector("#link").textContent.startsWith("Live: read at ") && !document.title.startsWith("STALE")`

// line is what the page is connected through. It can be cut, or go silent.
type line struct {
	net.Listener
	mu    sync.Mutex
	cond  *sync.Cond
	mute  bool
	conns map[*conn]bool
}

type conn struct {
	net.Conn
	line *line
}

func serveOverLine(t *testing.T, h http.Handler) (*line, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &line{Listener: listener, conns: make(map[*conn]bool)}
	l.cond = sync.NewCond(&l.mu)
	server := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() {
		_ = server.Serve(l)
		close(served)
	}()
	t.Cleanup(func() {
		l.set(false)
		_ = server.Close()
		<-served
	})
	return l, "http://" + listener.Addr().String() + "/"
}

func (l *line) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own := &conn{c, l}
	l.conns[own] = true
	return own, nil
}

// set makes the line silent, or ends that.
func (l *line) set(mute bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = mute
	l.cond.Broadcast()
}

// cut ends all connections, those that will come for as long as the line is mute too.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close()
	}
}

func (c *conn) Write(p []byte) (int, error) {
	c.line.mu.Lock()
	for c.line.mute {
		c.line.cond.Wait()
	}
	c.line.mu.Unlock()
	return c.Conn.Write(p)
}

func TestAPageWhoseConnectionGoesSilentSaysThatItIsStale(t *testing.T) {
	h := newHandler(t, steadydebug.HandlerConfig{})
	require.NoError(t, h.AddBreaker(newScripted(t, "catalog", h.Hooks()).Breaker))
	l, url := serveOverLine(t, h)
	p := open(t, url, desk)
	untilTile(t, p, "catalog", "CLOSED")
	until(t, p, live)
	l.set(true)
	until(t, p, stale)
	assert.Contains(t, eval[string](t, p, `document.querySelector("#link").textContent`), "this is how it was at ")
	assert.Contains(t, tile(t, p, "catalog"), "CLOSED", "the last reading stays")
	assert.Equal(t, "Stale: no connection.", eval[string](t, p, `document.querySelector("#say").textContent`))
	l.set(false)
	until(t, p, live)
}

func TestAPageWhoseConnectionIsCutSaysThatItIsStaleAndConnectsAgain(t *testing.T) {
	h := newHandler(t, steadydebug.HandlerConfig{})
	catalog := newScripted(t, "catalog", h.Hooks())
	require.NoError(t, h.AddBreaker(catalog.Breaker))
	l, url := serveOverLine(t, h)
	p := open(t, url, desk)
	until(t, p, live)
	l.set(true)
	l.cut()
	until(t, p, stale)
	catalog.ForceOpen("while nobody could see it")
	l.set(false)
	until(t, p, live)
	untilTile(t, p, "catalog", "FORCED OPEN", "while nobody could see it")
}

func TestAPageWhoseProgramIsRestartedFollowsTheNewOne(t *testing.T) {
	var h atomic.Pointer[steadydebug.Handler]
	h.Store(newHandler(t, steadydebug.HandlerConfig{Title: "before"}))
	p := open(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.Load().ServeHTTP(w, r) })), desk)
	until(t, p, live)
	h.Load().Close() // requests are refused, and a browser does not ask again by itself
	until(t, p, stale)
	until(t, p, `source.readyState === EventSource.CLOSED`)
	h.Store(newHandler(t, steadydebug.HandlerConfig{Title: "after"}))
	until(t, p, live)
	until(t, p, `document.querySelector("h1").textContent === "after"`)
}

func TestARestartedProgramThatNumbersItsDependenciesOtherwiseGetsTheRightNames(t *testing.T) {
	var h atomic.Pointer[steadydebug.Handler]
	h.Store(newHandler(t, steadydebug.HandlerConfig{Title: "before"}))
	require.NoError(t, h.Load().AddBreaker(newScripted(t, "catalog", nil).Breaker, newScripted(t, "payments", nil).Breaker))
	p := open(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.Load().ServeHTTP(w, r) })), desk)
	untilTile(t, p, "catalog", "CLOSED")
	after := newHandler(t, steadydebug.HandlerConfig{Title: "after"})
	payments := newScripted(t, "payments", after.Hooks())
	require.NoError(t, after.AddBreaker(payments.Breaker, newScripted(t, "catalog", nil).Breaker))
	payments.ForceOpen("since the restart")
	h.Swap(after).Close()
	until(t, p, `document.querySelector("h1").textContent === "after" && document.querySelector(".tile.forced-open") !== null`)
	assert.Equal(t, "payments", eval[string](t, p, `document.querySelector(".tile.forced-open h3").textContent`))
}
