package steadyhttp_test

import (
	"context"
	"errors"
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
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errBoom = errors.New("boom")

// dependency returns the config of one that tries three times without delay, and whose breaker opens only when ten
// calls have been made and half of them failed.
func dependency(change ...func(*steady.DependencyConfig)) steady.DependencyConfig {
	cfg := steady.DependencyConfig{
		Name:     "api",
		Timeout:  time.Minute,
		Retry:    steady.RetryConfig{NoDelay: true},
		Breaker:  steady.BreakerConfig{SlowThreshold: 30 * time.Second},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 50},
	}
	for _, c := range change {
		c(&cfg)
	}
	return cfg
}

func newTransport(t testing.TB, cfg steadyhttp.Config) *steadyhttp.Transport {
	t.Helper()
	if cfg.Dependency.Name == "" && cfg.PerHost == nil {
		cfg.Dependency = dependency()
	}
	tr, err := steadyhttp.NewTransport(cfg)
	require.NoError(t, err)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// base is a base transport that is a function.
type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(req *http.Request) (*http.Response, error) { return b(req) }

// consume does with a request's body what a base transport does.
func consume(req *http.Request) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
}

// always answers every request in the same way.
func always(status int, content string) base {
	return func(req *http.Request) (*http.Response, error) {
		consume(req)
		return response(status, content), nil
	}
}

func response(status int, content string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, ContentLength: int64(len(content)), Body: io.NopCloser(strings.NewReader(content)),
	}
}

func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	return req
}

// get makes a GET request to a fake host.
func get(t testing.TB) *http.Request { return request(t, http.MethodGet, "http://api.test/", nil) }

// answer is a response that was read to its end.
type answer struct {
	status          int
	header, trailer http.Header
	content         string
	request         *http.Request
}

// trip is the RoundTrip of a transport, or the Do of a client.
type trip func(*http.Request) (*http.Response, error)

// do makes a request that must be answered.
func do(t testing.TB, trip trip, req *http.Request) answer {
	t.Helper()
	resp, err := trip(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, resp.Header, resp.Trailer, string(b), resp.Request}
}

// fail makes a request that must fail.
func fail(t testing.TB, trip trip, req *http.Request) error {
	t.Helper()
	resp, err := trip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	require.Error(t, err)
	return err
}

// open makes a request, and returns the body of its response for the test to end.
func open(t testing.TB, tr *steadyhttp.Transport, req *http.Request) io.ReadCloser {
	t.Helper()
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	return resp.Body
}

// onlyReader hides everything but Read, so that http.NewRequest finds no GetBody.
type onlyReader struct{ io.Reader }

// sendable is a request's body that knows what was done to it.
type sendable struct {
	io.Reader
	closed         atomic.Int32
	readAfterClose atomic.Bool
}

func (b *sendable) Read(p []byte) (int, error) {
	if b.closed.Load() > 0 {
		b.readAfterClose.Store(true)
	}
	return b.Reader.Read(p)
}

func (b *sendable) Close() error { b.closed.Add(1); return nil }

// receivable is a response's body whose reader is told what to return.
type receivable struct {
	io.Reader
	closed atomic.Int32
}

func (b *receivable) Close() error { b.closed.Add(1); return nil }

// failing is a reader that fails after the first half.
func failing() io.Reader {
	return io.MultiReader(strings.NewReader("half"), readerFunc(func([]byte) (int, error) { return 0, errBoom }))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// blocked is a reader that waits for the context.
func blocked(ctx context.Context) io.Reader {
	return readerFunc(func([]byte) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
}

// protocol is a way to talk to a server.
type protocol struct {
	name  string
	start func(t testing.TB, h http.Handler) (*httptest.Server, *http.Transport)
}

var protocols = []protocol{
	{"HTTP/1.1", func(t testing.TB, h http.Handler) (*httptest.Server, *http.Transport) {
		return serve(t, h, (*httptest.Server).Start)
	}},
	{"HTTP/1.1 with TLS", func(t testing.TB, h http.Handler) (*httptest.Server, *http.Transport) {
		return serve(t, h, (*httptest.Server).StartTLS)
	}},
	{"HTTP/2 with TLS", func(t testing.TB, h http.Handler) (*httptest.Server, *http.Transport) {
		return serve(t, h, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() })
	}},
}

// serve starts a server on loopback, and returns it with a base transport that trusts it.
func serve(t testing.TB, h http.Handler, start func(*httptest.Server)) (*httptest.Server, *http.Transport) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // what clients do to it here is no news
	start(s)
	t.Cleanup(s.Close)
	tr, err := steadyhttp.NewBaseTransport(steadyhttp.Timeouts{})
	require.NoError(t, err)
	tr.Proxy = nil
	if trusting, ok := s.Client().Transport.(*http.Transport); ok && trusting.TLSClientConfig != nil {
		tr.TLSClientConfig = trusting.TLSClientConfig.Clone()
		tr.TLSClientConfig.NextProtos = nil
		tr.ForceAttemptHTTP2 = s.EnableHTTP2
	}
	return s, tr
}

// overEachProtocol runs a test against a real server, each way.
func overEachProtocol(t *testing.T, h http.Handler, test func(t *testing.T, url string, base *http.Transport)) {
	t.Helper()
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			s, tr := p.start(t, h)
			t.Cleanup(tr.CloseIdleConnections)
			test(t, s.URL, tr)
		})
	}
}

// connections counts the connections that a base transport makes.
func connections(tr *http.Transport) *atomic.Int32 {
	var n atomic.Int32
	dial := tr.DialContext
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		n.Add(1)
		return dial(ctx, network, addr)
	}
	return &n
}

// attempts collects what the OnAttempt hook is told.
type attempts struct {
	mu  sync.Mutex
	all []steady.Attempt
}

func (a *attempts) hooks() *steady.Hooks {
	return &steady.Hooks{OnAttempt: func(_ context.Context, attempt steady.Attempt) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all = append(a.all, attempt)
	}}
}

func (a *attempts) outcomes() []steady.Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	var os []steady.Outcome
	for _, attempt := range a.all {
		os = append(os, attempt.Outcome)
	}
	return os
}

// observed is dependency with a collector of attempts.
func observed() (steady.DependencyConfig, *attempts) {
	a := new(attempts)
	return dependency(func(cfg *steady.DependencyConfig) { cfg.Hooks = a.hooks() }), a
}

// assertFree checks that no call holds anything.
func assertFree(t testing.TB, tr *steadyhttp.Transport) {
	t.Helper()
	for _, d := range tr.Dependencies() {
		if d.Bulkhead() != nil {
			assert.Zero(t, d.Bulkhead().Stats().InFlight, "slots that are held")
		}
		if d.Breaker() != nil {
			assert.Zero(t, d.Breaker().Stats().InFlight, "calls in flight")
		}
	}
}

func inUse(tr *steadyhttp.Transport) int { return tr.Dependency("").Bulkhead().Stats().InFlight }

func failures(tr *steadyhttp.Transport) int { return tr.Dependency("").Breaker().Stats().Failures }
