package steadyhttp_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server that is too busy answers before it has read: the rest of the body is still on its way when the next attempt
// begins.
func TestALargeUploadThatIsRefusedHalfWayIsSentWholeAgain(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	var asked atomic.Int32
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		got, err := io.ReadAll(r.Body)
		fmt.Fprint(w, bytes.Equal(content, got), err)
	})
	overEachProtocol(t, h, func(t *testing.T, url string, b *http.Transport) {
		tr := newTransport(t, steadyhttp.Config{Base: b, Dependency: dependency(func(cfg *steady.DependencyConfig) {
			cfg.Breaker.WindowSize, cfg.Breaker.MinCalls = 1000, 1000
			cfg.Retry.MaxAttempts, cfg.Retry.NoBudget = 20, true // a connection may be gone before its answer is read
		})})
		for range 3 {
			got := do(t, tr.RoundTrip, request(t, http.MethodPut, url, bytes.NewReader(content)))
			assert.Equal(t, "true <nil>", got.content)
		}
		assertFree(t, tr)
	})
}

// A mistake in one caller's code must not open everybody's breaker.
func TestABodyOfAnotherLengthThanAnnouncedIsTheCallersMistake(t *testing.T) {
	s, b := protocols[0].start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	strict := base(func(req *http.Request) (*http.Response, error) { // as net/http, where a server does not answer before
		defer func() { _ = req.Body.Close() }()
		content, _ := io.ReadAll(req.Body)
		if int64(len(content)) != req.ContentLength {
			return nil, fmt.Errorf("ContentLength=%d with Body length %d", req.ContentLength, len(content))
		}
		return response(200, ""), nil
	})
	for name, c := range map[string]struct {
		base   http.RoundTripper
		length int64
		want   steady.Outcome
	}{
		"less":              {b, 10, steady.Ignored},
		"more":              {strict, 3, steady.Ignored},
		"as much":           {b, 5, steady.Success},
		"as much, strictly": {strict, 5, steady.Success},
	} {
		for kind, body := range map[string]io.Reader{"in memory": strings.NewReader("hello"), "from elsewhere": onlyReader{strings.NewReader("hello")}} {
			t.Run(name+", "+kind, func(t *testing.T) {
				cfg, seen := observed()
				tr := newTransport(t, steadyhttp.Config{Base: c.base, Dependency: cfg})
				req := request(t, http.MethodPut, s.URL, body)
				req.ContentLength = c.length
				if c.want == steady.Success {
					do(t, tr.RoundTrip, req)
				} else {
					require.ErrorContains(t, fail(t, tr.RoundTrip, req), fmt.Sprintf("ContentLength=%d", c.length))
				}
				assert.Equal(t, []steady.Outcome{c.want}, seen.outcomes())
				assertFree(t, tr)
			})
		}
	}
}

func TestAGetBodyThatReturnsNoneIsAnError(t *testing.T) {
	var sent []string
	tr := newTransport(t, steadyhttp.Config{Base: base(func(req *http.Request) (*http.Response, error) {
		content, _ := io.ReadAll(req.Body)
		_ = req.Body.Close()
		sent = append(sent, string(content))
		return nil, errBoom
	})})
	req := request(t, http.MethodPut, "http://api.test/", strings.NewReader("all"))
	req.GetBody = func() (io.ReadCloser, error) { return nil, nil }
	err := fail(t, tr.RoundTrip, req)
	require.ErrorContains(t, err, "GetBody, for attempt 2: it returned no body")
	assert.Equal(t, []string{"all"}, sent, "an empty body was not sent in place of it")
	assertFree(t, tr)
}

// What net/http knows to be in memory it writes in one piece with the header: a write, and a packet, less.
func TestASmallBodyIsWrittenAsIfTheTransportWereNotThere(t *testing.T) {
	s, b := protocols[0].start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	var writes atomic.Int32
	dial := b.DialContext
	b.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &writeCounter{conn, &writes}, err
	}
	tr := newTransport(t, steadyhttp.Config{Base: b})
	for name, body := range map[string]io.Reader{
		"a string": strings.NewReader("hello"), "bytes": bytes.NewReader([]byte("hello")), "a buffer": bytes.NewBufferString("hello"),
	} {
		writes.Store(0)
		do(t, tr.RoundTrip, request(t, http.MethodPost, s.URL, body))
		assert.EqualValues(t, 1, writes.Load(), name)
	}
}

type writeCounter struct {
	net.Conn
	n *atomic.Int32
}

func (c *writeCounter) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}
