package http_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
)

// TestAHerdThatIsToldToComeBack lets 80 callers go at once on a server for 10, which tells the others to come back in a
// second.
func TestAHerdThatIsToldToComeBack(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			limit := steady.Must(steadyhttp.Middleware(
				steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 10})),
				steadyhttp.MiddlewareConfig{RetryAfter: time.Second}))
			var refusals atomic.Int64
			handler := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(20 * time.Millisecond):
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, "ok")
			}))
			w := newWorld(t, p, handler)
			var early, delays atomic.Int64
			tr := w.transport(steadyhttp.Config{Dependency: dependency(func(cfg *steady.DependencyConfig) {
				cfg.Retry.MaxAttempts = 4
				cfg.Retry.BaseDelay, cfg.Retry.MaxDelay = 400*time.Millisecond, 400*time.Millisecond
				cfg.Hooks = &steady.Hooks{OnRetry: func(_ context.Context, d steady.RetryDelay) {
					refusals.Add(1)
					if d.Delay < time.Second {
						early.Add(1)
					}
					delays.Add(int64(d.Delay))
				}}
			})})
			together(80, func(int) { _, _ = w.call(t.Context(), tr, http.MethodGet, w.url, "") })
			assert.Positive(t, refusals.Load())
			assert.Zero(t, early.Load(), "delays below what the server asked for")
			assert.Positive(t, w.ledger.Answered.Load())
			w.close("herd with Retry-After, "+p.name, tr, "%d times told to wait, waits of %v on average, %d connections made",
				refusals.Load(), (time.Duration(delays.Load()) / time.Duration(refusals.Load())).Round(time.Millisecond), w.dialed.Load())
		})
	}
}
