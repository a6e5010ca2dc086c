package http_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
)

// TestCallersThatCancelByTheHundred has callers lose their patience at any moment: before the request, while it is
// answered, while the body is read. One in four is patient.
func TestCallersThatCancelByTheHundred(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			w := newWorld(t, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for range 10 {
					select {
					case <-time.After(2 * time.Millisecond):
					case <-r.Context().Done():
						panic(http.ErrAbortHandler)
					}
					_, _ = io.WriteString(w, strings.Repeat("x", 1000))
					_ = http.NewResponseController(w).Flush()
				}
			}))
			tr := w.transport(steadyhttp.Config{
				Timeouts: steadyhttp.Timeouts{ReadIdle: 10 * time.Second},
				Dependency: dependency(func(cfg *steady.DependencyConfig) { // one failure would do
					cfg.Breaker.WindowSize, cfg.Breaker.MinCalls, cfg.Breaker.FailureRate = 1, 1, 1
				}),
			})
			together(40, func(i int) {
				for range 6 {
					ctx, cancel := context.WithCancel(t.Context())
					impatient := time.AfterFunc(rand.N(100*time.Millisecond), cancel)
					patient := i%4 == 0 && impatient.Stop()
					body, err := w.call(ctx, tr, http.MethodGet, w.url, "")
					if err == nil {
						assert.Len(t, body, 10_000)
					} else if assert.ErrorIs(t, err, context.Canceled) {
						assert.False(t, patient)
					}
					impatient.Stop()
					cancel()
				}
			})
			stats := tr.Dependency("").Breaker().Stats()
			assert.Zero(t, stats.Transitions, "a caller's impatience is not the server's failure")
			assert.Zero(t, w.ledger.Rejected.Load())
			w.close("callers that cancel, "+p.name, tr, "breaker %v throughout", steady.StateClosed)
		})
	}
}
