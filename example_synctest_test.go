package steady_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steady-go/steady"
)

// testPatience would be TestPatience in your own package. In the bubble of synctest.Test time stands still
// until every goroutine waits, and then jumps: the test takes no time, and durations are exact.
func testPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		catalog := steady.Must(steady.NewDependency(steady.DependencyConfig{
			Name:           "catalog",
			Timeout:        10 * time.Second,
			AttemptTimeout: 2 * time.Second,
			Retry:          steady.RetryConfig{Jitter: steady.NoJitter, BaseDelay: time.Second},
			Breaker:        steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
			Bulkhead:       steady.BulkheadConfig{MaxConcurrent: 20},
		}))
		prices := steady.Must(steady.NewPipelineFor(catalog, steady.ReadIdempotent, steady.PipelineConfig[int]{}))

		begin := time.Now()
		_, err := prices.Do(t.Context(), func(ctx context.Context) (int, error) {
			select {
			case <-time.After(time.Hour): // the catalogue hangs
				return 120, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})

		if !errors.Is(err, steady.ErrRetriesExhausted) || !errors.Is(err, steady.ErrTimeout) {
			t.Error("got", err)
		}
		// Three attempts of 2 s, and the delays of 1 s and 2 s between them.
		if took := time.Since(begin); took != 9*time.Second {
			t.Error("took", took)
		}
		if stats := catalog.Breaker().Stats(); stats.Failures != 3 || stats.Slow != 3 {
			t.Error("the breaker counted", stats.Failures, "failed and", stats.Slow, "slow")
		}
	})
}

// A test of a whole pipeline, with its real waits, in a testing/synctest bubble.
func ExamplePipeline_synctest() {
	runTest(testPatience)
	// Output: PASS
}
