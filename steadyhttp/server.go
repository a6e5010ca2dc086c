package steadyhttp

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/steady-go/steady"
)

// MiddlewareConfig configures [Middleware].
type MiddlewareConfig struct {
	// RetryAfter is what a rejected client is told to wait, in whole seconds, rounded up. 0 means 1s; negative is an
	// error.
	RetryAfter time.Duration
}

// Middleware returns a middleware that lets no more requests into a handler than the bulkhead holds. It answers the
// others with status 503 and a Retry-After. A request waits, where the bulkhead has a MaxWait, on its own context: a
// client that goes away leaves the queue. The slot is held until the handler has returned, also by a panic. Several
// handlers may share a bulkhead, and then its limit. Without a bulkhead, or with a negative RetryAfter, it returns an
// error.
func Middleware(bulkhead *steady.Bulkhead, cfg MiddlewareConfig) (func(http.Handler) http.Handler, error) {
	var f faults
	f.refuse(bulkhead == nil, "Middleware needs a Bulkhead: make one with steady.NewBulkhead")
	f.refuse(cfg.RetryAfter < 0, "MiddlewareConfig.RetryAfter must not be negative, got %v (0 means 1s)", cfg.RetryAfter)
	if err := f.err(); err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			slot, err := bulkhead.Acquire(r.Context())
			if err != nil { // full, or the client has gone and will not see it
				unavailable(w, cfg.RetryAfter)
				return
			}
			defer slot.Release()
			next.ServeHTTP(w, r)
		})
	}, nil
}

// Unavailable answers a request with status 503 if err is, or wraps, a rejection by a breaker or bulkhead: a handler that
// could not do its work because of a dependency passes that on. Retry-After is what is left of the breaker's open
// period, in whole seconds, rounded up, and 1 where nobody can know. For any other error it does nothing. It reports
// whether it answered. Headers set before, a cookie say, are kept.
func Unavailable(w http.ResponseWriter, err error) bool {
	var rejected *steady.RejectedError
	if !errors.As(err, &rejected) {
		return false
	}
	unavailable(w, rejected.RetryAfter())
	return true
}

func unavailable(w http.ResponseWriter, retryAfter time.Duration) {
	seconds := max(1, int64(math.Ceil(retryAfter.Seconds())))
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
}
