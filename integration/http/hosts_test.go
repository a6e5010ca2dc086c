package http_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/integration/internal/harness"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOneHundredHostsOneBad calls 100 hosts, of which one swallows what it is sent.
func TestOneHundredHostsOneBad(t *testing.T) {
	w := newWorld(t, http1, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	const hosts, bad, each = 100, 13, 4
	name := func(i int) string { return fmt.Sprintf("host%d.test", i) }
	w.proxy.Add(harness.Toxic{Type: "timeout", Attributes: map[string]any{"timeout": 0}})
	dial := w.base.DialContext
	w.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == name(bad)+":80" {
			return dial(ctx, network, w.proxy.Addr())
		}
		return dial(ctx, network, w.server.Listener.Addr().String())
	}
	tr := w.transport(steadyhttp.Config{
		MaxHosts: hosts,
		PerHost: func(string) steady.DependencyConfig {
			return steady.DependencyConfig{
				Timeout: 1500 * time.Millisecond, NoRetry: true,
				Breaker:  steady.BreakerConfig{SlowThreshold: 1400 * time.Millisecond, OpenDuration: time.Minute, WindowSize: 5},
				Bulkhead: steady.BulkheadConfig{MaxConcurrent: 5},
			}
		},
	})
	var good, others atomic.Int64
	together(hosts+20, func(i int) {
		host := name(i)
		if i >= hosts { // twenty more of the bad one
			host = name(bad)
		}
		for range each {
			_, err := w.call(t.Context(), tr, http.MethodGet, "http://"+host, "")
			switch {
			case host == name(bad):
				assert.Error(t, err)
			case err == nil:
				good.Add(1)
			default:
				others.Add(1)
			}
		}
	})
	assert.EqualValues(t, (hosts-1)*each, good.Load())
	assert.Zero(t, others.Load())
	assert.Equal(t, steady.StateOpen, tr.Dependency(name(bad)).Breaker().State())
	assert.Less(t, w.ledger.Failed.Load(), w.ledger.Rejected.Load(), "few have waited for the bad one; the rest was turned away at once")
	assert.Len(t, tr.Dependencies(), hosts)
	_, err := w.call(t.Context(), tr, http.MethodGet, "http://another.test", "")
	require.NoError(t, err)
	assert.Len(t, tr.Dependencies(), hosts)
	assert.NotNil(t, tr.Dependency(name(bad)), "the host in trouble is not forgotten")
	w.close("100 hosts, one bad", tr, "the 99 others: %d of %d answered", good.Load(), (hosts-1)*each)
}
