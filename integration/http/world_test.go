package http_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/integration/internal/harness"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// patience is for what has to happen some time, on a machine that is slow and busy.
const patience = 30 * time.Second

// protocol is how client and server talk.
type protocol struct {
	name string
	tls  bool
}

var (
	http1     = protocol{"HTTP/1.1", false}
	http2     = protocol{"HTTP/2", true}
	protocols = []protocol{http1, http2}
)

// world is a server, a proxy before it, and a base transport that goes through that.
type world struct {
	t      testing.TB
	ledger harness.Ledger
	url    string // through the proxy
	proxy  *harness.Proxy
	base   *http.Transport
	server *httptest.Server

	serving, accepted atomic.Int64 // requests in a handler; connections that the server has
	dialed, held      atomic.Int64 // connections that the client has made; that it has
	before            goleak.Option
}

// newWorld starts a world. Its end is checked by close.
func newWorld(t testing.TB, p protocol, h http.Handler) *world {
	t.Helper()
	w := &world{t: t, before: goleak.IgnoreCurrent()}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.serving.Add(1)
		defer w.serving.Add(-1)
		h.ServeHTTP(rw, r)
	}))
	w.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			w.accepted.Add(1)
		case http.StateClosed, http.StateHijacked:
			w.accepted.Add(-1)
		}
	}
	scheme := "http://"
	if p.tls {
		scheme = "https://"
		w.server.EnableHTTP2 = true
		w.server.StartTLS()
	} else {
		w.server.Start()
	}
	w.proxy = harness.NewProxy(t, w.server.Listener.Addr().String())
	w.url = scheme + w.proxy.Addr()
	w.base = w.newBase(steadyhttp.Timeouts{})
	if p.tls {
		w.base.TLSClientConfig = w.server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		w.base.TLSClientConfig.NextProtos = nil
	}
	return w
}

// newBase returns a base transport whose connections are counted.
func (w *world) newBase(limits steadyhttp.Timeouts) *http.Transport {
	base := steady.Must(steadyhttp.NewBaseTransport(limits))
	base.Proxy = nil
	dial := base.DialContext
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		w.dialed.Add(1)
		w.held.Add(1)
		return &countedConn{Conn: conn, closed: sync.OnceFunc(func() { w.held.Add(-1) })}, nil
	}
	return base
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// dependency returns a config whose breaker only watches, for scenarios that are about something else.
func dependency(change ...func(*steady.DependencyConfig)) steady.DependencyConfig {
	cfg := steady.DependencyConfig{
		Name:     "server",
		Timeout:  patience,
		Retry:    steady.RetryConfig{BaseDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond, Budget: steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Burst: 10_000}))},
		Breaker:  steady.BreakerConfig{SlowThreshold: patience - 1, WindowSize: 10_000, MinCalls: 10_000},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 1000},
	}
	for _, c := range change {
		c(&cfg)
	}
	return cfg
}

func (w *world) transport(cfg steadyhttp.Config) *steadyhttp.Transport {
	w.t.Helper()
	if cfg.Base == nil {
		cfg.Base = w.base
	}
	tr, err := steadyhttp.NewTransport(cfg)
	require.NoError(w.t, err)
	return tr
}

// call makes a call and reads its answer. It is what every scenario counts.
func (w *world) call(ctx context.Context, rt http.RoundTripper, method, url, body string) (string, error) {
	w.ledger.Start()
	answer, err := exchange(ctx, rt, method, url, body)
	w.ledger.End(err)
	return answer, err
}

var errStatus = errors.New("unexpected status")

func exchange(ctx context.Context, rt http.RoundTripper, method, url, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: rt}).Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%w %d", errStatus, resp.StatusCode)
	}
	return string(answer), err
}

// close ends the world, checks that nothing is left of its calls, and puts it on the table.
func (w *world) close(scenario string, tr *steadyhttp.Transport, note string, args ...any) {
	w.t.Helper()
	for _, d := range tr.Dependencies() {
		if b := d.Bulkhead(); b != nil {
			assert.Zero(w.t, b.Stats().InFlight, "slots of %s", d.Name())
			assert.Zero(w.t, b.Stats().Waiting, "waiters of %s", d.Name())
		}
		if b := d.Breaker(); b != nil {
			assert.Zero(w.t, b.Stats().InFlight, "calls of %s in flight", d.Name())
			assert.Zero(w.t, b.Stats().Overdue, "overdue calls of %s", d.Name())
		}
	}
	table.Close(w.t, scenario, &w.ledger, note, args...)
	w.gone("connections of the client", func() int64 {
		w.base.CloseIdleConnections() // one that was dialed in vain may come late
		return w.held.Load()
	})
	w.proxy.Heal()
	w.proxy.Stop()
	w.gone("requests in the server", w.serving.Load)
	w.gone("connections of the server", w.accepted.Load)
	w.server.Close()
	goleak.VerifyNone(w.t, append(proxysOwn, w.before)...)
}

// proxysOwn are goroutines that toxiproxy leaves behind when faults come and go on connections that end.
var proxysOwn = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).write"),
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
}

func (w *world) gone(what string, n func() int64) {
	w.t.Helper()
	assert.Eventually(w.t, func() bool { return n() == 0 }, patience, 5*time.Millisecond, "%s are left", what)
}

// together runs n callers at once, and waits for them.
func together(n int, caller func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { caller(i) })
	}
	wg.Wait()
}
