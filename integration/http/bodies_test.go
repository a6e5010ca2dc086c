package http_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steady-go/steady/integration/internal/harness"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const half = 64 << 10

// TestBodiesThatStallOrBreak has callers read bodies of twice 64 KiB: one in three stalls half way, one in three breaks.
func TestBodiesThatStallOrBreak(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			w := newWorld(t, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				part := strings.Repeat("x", half)
				_, _ = io.WriteString(w, part)
				_ = http.NewResponseController(w).Flush()
				switch r.URL.Path {
				case "/stalls":
					<-r.Context().Done()
					panic(http.ErrAbortHandler)
				case "/breaks":
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, part)
			}))
			tr := w.transport(steadyhttp.Config{Dependency: dependency(), Timeouts: steadyhttp.Timeouts{ReadIdle: 2 * time.Second}})
			paths := []string{"/whole", "/stalls", "/breaks"}
			var failed [3]atomic.Int64
			const callers = 60
			together(callers, func(i int) {
				body, err := w.call(t.Context(), tr, http.MethodGet, w.url+paths[i%3], "")
				if err != nil {
					failed[i%3].Add(1)
					return
				}
				assert.Len(t, body, 2*half)
			})
			assert.Zero(t, failed[0].Load(), "of those that were whole")
			assert.EqualValues(t, callers/3, failed[1].Load())
			assert.EqualValues(t, callers/3, failed[2].Load())
			stats := tr.Dependency("").Breaker().Stats()
			assert.Equal(t, callers, stats.Calls, "each is one outcome")
			assert.Equal(t, callers*2/3, stats.Failures, "and each failure is counted once")
			w.close("bodies that stall or break, "+p.name, tr, "%d stalled, %d broke", failed[1].Load(), failed[2].Load())
		})
	}
}

// A slow network is not a stalled one: the body trickles for longer than ReadIdle.
func TestBodiesThatTrickle(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			w := newWorld(t, p, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.Repeat("x", half))
			}))
			w.proxy.Add(harness.Toxic{Type: "bandwidth", Attributes: map[string]any{"rate": 400}})
			w.proxy.Add(harness.Toxic{Type: "slicer", Attributes: map[string]any{"average_size": 1000, "size_variation": 200}})
			tr := w.transport(steadyhttp.Config{Dependency: dependency(), Timeouts: steadyhttp.Timeouts{ReadIdle: 3 * time.Second}})
			start := time.Now()
			together(8, func(int) {
				body, err := w.call(t.Context(), tr, http.MethodGet, w.url, "")
				assert.NoError(t, err)
				assert.Len(t, body, half)
			})
			took := time.Since(start)
			assert.Zero(t, tr.Dependency("").Breaker().Stats().Failures)
			w.close("bodies that trickle, "+p.name, tr, "64 KiB each at 400 KiB/s a connection, %v in all", took.Round(10*time.Millisecond))
		})
	}
}

// The network cuts connections after so many bytes, wherever in the response that is.
func TestConnectionsCutWithinTheResponse(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			w := newWorld(t, p, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.Repeat("x", half))
			}))
			tr := w.transport(steadyhttp.Config{Dependency: dependency()})
			for _, bytes := range []int{1, 100, 5_000, half - 1000, 3 * half} {
				w.proxy.Heal()
				w.proxy.Add(harness.Toxic{Type: "limit_data", Attributes: map[string]any{"bytes": bytes}})
				together(10, func(int) {
					body, err := w.call(t.Context(), tr, http.MethodGet, w.url, "")
					if err == nil {
						assert.Len(t, body, half, "an answer is a whole one")
					}
				})
			}
			require.Positive(t, w.ledger.Failed.Load())
			w.proxy.Heal()
			_, err := w.call(t.Context(), tr, http.MethodGet, w.url, "")
			require.NoError(t, err)
			w.close("cut within the response, "+p.name, tr, "at five places, %d attempts", tr.Dependency("").Breaker().Stats().Calls)
		})
	}
}
