package http_test

import (
	"context"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/integration/internal/harness"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nobodyAnswers returns an address of loopback where connects get no answer at all: the queue of a listener that accepts
// nothing is full.
func nobodyAnswers(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	bound, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	addr := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: bound.(*syscall.SockaddrInet4).Port}).String()
	for range 16 {
		conn, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	require.FailNow(t, "the queue does not fill")
	return ""
}

// opening is a config whose breaker opens after ten calls of which half failed, and that lets no call try for long.
func opening(outcomes *[7]int, change func(*steady.DependencyConfig)) steady.DependencyConfig {
	mu := make(chan bool, 1)
	return dependency(func(cfg *steady.DependencyConfig) {
		cfg.Timeout = 3 * time.Second
		cfg.Breaker = steady.BreakerConfig{SlowThreshold: 2500 * time.Millisecond, OpenDuration: 200 * time.Millisecond}
		cfg.Bulkhead.MaxConcurrent = 20
		cfg.Hooks = &steady.Hooks{OnAttempt: func(_ context.Context, a steady.Attempt) {
			mu <- true
			outcomes[a.Outcome]++
			<-mu
		}}
		if change != nil {
			change(cfg)
		}
	})
}

// TestAConnectThatNobodyAnswers sends orders to where no connection comes about: they can be repeated, and the breaker
// opens.
func TestAConnectThatNobodyAnswers(t *testing.T) {
	w := newWorld(t, http1, newOrders())
	var outcomes [7]int
	base := w.newBase(steadyhttp.Timeouts{Connect: 50 * time.Millisecond})
	addr := nobodyAnswers(t)
	tr := w.transport(steadyhttp.Config{Base: base, Dependency: opening(&outcomes, nil)})
	together(60, func(int) { _, _ = w.call(t.Context(), tr, http.MethodPost, "http://"+addr, "order") })
	assert.Zero(t, w.ledger.Answered.Load())
	assert.Positive(t, w.ledger.Rejected.Load())
	assert.Positive(t, outcomes[steady.Unsent])
	assert.Zero(t, outcomes[steady.Transient], "nothing was sent, and so nothing is in doubt")
	assert.NotEqual(t, steady.StateClosed, tr.Dependency("").Breaker().State())
	w.close("blackholed connect", tr, "%d attempts, all Unsent", outcomes[steady.Unsent])
}

// TestABlackhole swallows everything that is sent, and everything that is answered, on connections new and old; then it
// is gone.
func TestABlackhole(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			server := newOrders()
			w := newWorld(t, p, server)
			var outcomes [7]int
			w.base.TLSHandshakeTimeout = time.Second
			tr := w.transport(steadyhttp.Config{
				Dependency: opening(&outcomes, func(cfg *steady.DependencyConfig) {
					cfg.Breaker.SlowThreshold = 700 * time.Millisecond
				}),
				Timeouts: steadyhttp.Timeouts{Attempt: 1500 * time.Millisecond},
			})
			breaker := tr.Dependency("").Breaker()
			get := func(int) { _, _ = w.call(t.Context(), tr, http.MethodGet, w.url, "x") }
			for range 5 {
				get(0)
			}
			require.EqualValues(t, 5, w.ledger.Answered.Load())

			// The connection that is idle now is half open: the server, and who answers for it, are gone.
			w.proxy.Add(harness.Toxic{Type: "timeout", Stream: "upstream", Attributes: map[string]any{"timeout": 0}})
			w.proxy.Add(harness.Toxic{Type: "timeout", Stream: "downstream", Attributes: map[string]any{"timeout": 0}})
			together(60, get)
			require.NotEqual(t, steady.StateClosed, breaker.State())
			assert.Positive(t, w.ledger.Rejected.Load())
			assert.EqualValues(t, 5, w.ledger.Answered.Load())
			rejected := w.ledger.Rejected.Load()

			w.proxy.Heal()
			require.Eventually(t, func() bool { get(0); return breaker.State() == steady.StateClosed }, patience, 10*time.Millisecond)
			w.close("half-open connections, "+p.name, tr, "%d rejected while nothing came back; closed again", rejected)
		})
	}
}

// TestATLSHandshakeThatNobodyAnswers: there is a connection, and yet nothing was sent.
func TestATLSHandshakeThatNobodyAnswers(t *testing.T) {
	w := newWorld(t, http2, newOrders())
	w.proxy.Add(harness.Toxic{Type: "timeout", Attributes: map[string]any{"timeout": 0}})
	w.base.TLSHandshakeTimeout = 50 * time.Millisecond
	var outcomes [7]int
	tr := w.transport(steadyhttp.Config{Dependency: opening(&outcomes, nil)})
	together(40, func(int) { _, _ = w.call(t.Context(), tr, http.MethodPost, w.url, "order") })
	assert.Zero(t, w.ledger.Answered.Load())
	assert.Positive(t, outcomes[steady.Unsent])
	assert.Zero(t, outcomes[steady.Transient])
	w.close("blackholed TLS handshake", tr, "%d attempts, all Unsent", outcomes[steady.Unsent])
}
