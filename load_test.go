package steady_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/steady-go/steady"
)

var failureRates = []float64{0.2, 0.5, 0.8}

// With n retries, attempts that fail with probability p make 1+p+…+pⁿ = (1−pⁿ⁺¹)/(1−p) of a call, of which
// pⁿ⁺¹ fail for good.
func TestRetriesMultiplyTheLoadAsTheirClosedFormSays(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	for _, retries := range []int{1, 3, 9} {
		for _, p := range failureRates {
			load, success := underFailures(t, p, steady.RetryConfig{MaxAttempts: retries + 1, NoDelay: true, NoBudget: true})
			lost := math.Pow(p, float64(retries+1))
			assert.InEpsilon(t, (1-lost)/(1-p), load, 0.01, "load with %d retries, failure rate %v", retries, p)
			assert.InEpsilon(t, 1-lost, success, 0.01, "success with %d retries, failure rate %v", retries, p)
		}
	}
}

// A budget that is used up turns every success into r retries. With L attempts a call, L·(1−p) of which
// succeed, L = 1 + r·L·(1−p), and so L = 1/(1−r·(1−p)): less than 1/(1−r), however many attempts a call may
// make and whatever the failure rate.
func TestABudgetBoundsTheLoadAsItsClosedFormSays(t *testing.T) { // R5
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	for _, ratio := range []float64{0.02, 0.15, 0.3} {
		for _, p := range append(failureRates, 1) {
			if load := 1 / (1 - ratio*(1-p)); load > 0.9/(1-p) {
				continue // retrying until it works takes about as much, or less: the budget is not used up
			}
			budget := steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Ratio: ratio}))
			load, success := underFailures(t, p, steady.RetryConfig{MaxAttempts: 100, NoDelay: true, Budget: budget})
			want := 1 / (1 - ratio*(1-p))
			assert.InEpsilon(t, want, load, 0.01, "load with %v tokens a success, failure rate %v", ratio, p)
			assert.InDelta(t, want*(1-p), success, 0.01*(1-p), "success with %v tokens a success, failure rate %v", ratio, p)
		}
	}
}

// underFailures makes many calls to a function that fails at the given rate, and returns how many attempts
// there were, and how many successes, per call.
func underFailures(t *testing.T, rate float64, cfg steady.RetryConfig) (load, success float64) {
	t.Helper()
	const calls = 100_000
	p := pipeline(t, newRetry(t, cfg))
	random := rand.New(rand.NewPCG(1, 2))
	attempts, successes := 0, 0
	for range calls {
		_, err := p.Do(t.Context(), func(context.Context) (int, error) {
			attempts++
			if random.Float64() < rate {
				return 0, errBoom
			}
			return 1, nil
		})
		if err == nil {
			successes++
		}
	}
	return float64(attempts) / calls, float64(successes) / calls
}
