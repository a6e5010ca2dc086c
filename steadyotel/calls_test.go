package steadyotel_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

func TestDurationsAreInSecondsAndEachAttemptIsMeasuredOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observe(t)
		p := newPipeline(t, o, steady.Must(steady.NewRetry(steady.RetryConfig{
			Name: "catalog", BaseDelay: 250 * time.Millisecond, Jitter: steady.NoJitter,
		})))
		failures := 1
		_, err := p.Do(t.Context(), func(context.Context) (int, error) {
			time.Sleep(500 * time.Millisecond)
			if failures--; failures >= 0 {
				return 0, errReset
			}
			return 1, nil
		})
		require.NoError(t, err)

		m := o.collect()
		whole, _ := m.at("steady.pipeline.duration", "steady.pipeline.name", "prices", "steady.outcome", "success")
		assert.Equal(t, 1.25, whole.value)
		assert.Equal(t, uint64(1), whole.count)
		for _, end := range [][]string{{"success"}, {"transient", "error.type", "*errors.errorString"}} {
			attempt, ok := m.at("steady.attempt.duration", append([]string{"steady.pipeline.name", "prices", "steady.outcome"}, end...)...)
			require.True(t, ok, end)
			assert.Equal(t, 0.5, attempt.value)
			assert.Equal(t, uint64(1), attempt.count)
		}
	})
}

func TestHowRetryingEnds(t *testing.T) {
	failing := returns(0, errReset)
	type script struct {
		outcome  string
		attempts float64
		retry    steady.RetryConfig
		inside   func(o *observed) []steady.Policy
		within   time.Duration // of the caller's context
		fn       func(context.Context) (int, error)
	}
	for name, s := range map[string]script{
		"it succeeds at once":          {outcome: "first_try", attempts: 1, fn: returns(1, nil)},
		"a healthy no is a success":    {outcome: "first_try", attempts: 1, fn: returns(0, steady.Mark(errReset, steady.Success))},
		"it succeeds at last":          {outcome: "retried", attempts: 2, fn: failsOnce()},
		"all attempts fail":            {outcome: "exhausted", attempts: 3, fn: failing},
		"all attempts give bad values": {outcome: "exhausted", attempts: 3, fn: returns(503, nil)},
		"what failed cannot be mended": {outcome: "not_retryable", attempts: 1, fn: returns(0, steady.Mark(errReset, steady.Permanent))},
		"one attempt is all there is":  {outcome: "not_retryable", attempts: 1, retry: steady.RetryConfig{MaxAttempts: 1}, fn: failing},
		"the budget is empty":          {outcome: "budget", attempts: 2, retry: steady.RetryConfig{Budget: budgetOf(t, 1)}, fn: failing},
		"the budget is empty and the value bad": {
			outcome: "budget", attempts: 2, retry: steady.RetryConfig{Budget: budgetOf(t, 1)}, fn: returns(503, nil),
		},
		"the delay would be too long and the value bad": {
			outcome: "deadline", attempts: 1, within: time.Second, retry: steady.RetryConfig{BaseDelay: time.Minute, MaxDelay: time.Minute}, fn: returns(503, nil),
		},
		"a bad value, with a budget that another call has emptied, is not tried again anyway": {
			outcome: "not_retryable", attempts: 1, retry: steady.RetryConfig{MaxAttempts: 1, Budget: emptied(t)}, fn: returns(503, nil),
		},
		"the delay would be too long":       {outcome: "deadline", attempts: 1, within: time.Second, retry: steady.RetryConfig{BaseDelay: time.Minute, MaxDelay: time.Minute}, fn: failing},
		"the time ends in the last attempt": {outcome: "deadline", attempts: 1, within: time.Second, fn: func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }},
		"a breaker rejects it": {outcome: "not_retryable", attempts: 0, fn: failing, inside: func(o *observed) []steady.Policy {
			b := newBreaker(t, o, steady.BreakerConfig{})
			b.ForceOpen("test")
			return []steady.Policy{b}
		}},
		"a breaker rejects the second attempt": {outcome: "not_retryable", attempts: 1, fn: failing, inside: func(o *observed) []steady.Policy {
			return []steady.Policy{newBreaker(t, o, steady.BreakerConfig{WindowSize: 1})}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := observe(t)
				s.retry.Name, s.retry.Jitter = "catalog", steady.NoJitter
				policies := []steady.Policy{steady.Must(steady.NewRetry(s.retry))}
				if s.inside != nil {
					policies = append(policies, s.inside(o)...)
				}
				p := newPipeline(t, o, policies...)
				ctx := t.Context()
				if s.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, s.within)
					defer cancel()
				}
				_, _ = p.Do(ctx, s.fn)

				points := o.collect().points("steady.retry.attempts")
				require.Len(t, points, 1)
				outcome, _ := points[0].set.Value("steady.retry.outcome")
				assert.Equal(t, s.outcome, outcome.AsString())
				assert.Equal(t, s.attempts, points[0].value)
				assert.Equal(t, uint64(1), points[0].count)
			})
		})
	}
}

func TestHowRetryingEndsOutOfTheOrdinary(t *testing.T) {
	limit := func(abandon bool) steady.Policy {
		return steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "catalog", Limit: time.Second, Abandon: abandon}))
	}
	retry := func(cfg steady.RetryConfig) steady.Policy {
		cfg.Name = "catalog"
		return steady.Must(steady.NewRetry(cfg))
	}
	hangs := func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
	twice := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
		return errors.Join(next(ctx), next(ctx))
	})
	for name, s := range map[string]struct {
		outcome  string
		attempts float64
		policies func(queue *steady.Bulkhead) []steady.Policy
		fn       func(context.Context) (int, error)
	}{
		"the limit around it ends it": {"deadline", 1, func(*steady.Bulkhead) []steady.Policy {
			return []steady.Policy{limit(false), retry(steady.RetryConfig{})}
		}, hangs},
		"the limit around it abandons it": {"deadline", 1, func(*steady.Bulkhead) []steady.Policy {
			return []steady.Policy{limit(true), retry(steady.RetryConfig{})}
		}, hangs},
		"the limit comes in the queue of the first attempt": {"deadline", 0, func(queue *steady.Bulkhead) []steady.Policy {
			return []steady.Policy{limit(false), retry(steady.RetryConfig{}), queue}
		}, returns(1, nil)},
		"the first attempt is rejected": {"retried", 1, func(queue *steady.Bulkhead) []steady.Policy {
			return []steady.Policy{retry(steady.RetryConfig{RetryRejected: true, BaseDelay: time.Minute, MaxDelay: time.Minute, Jitter: steady.NoJitter}), queue}
		}, returns(1, nil)},
		"a Middleware repeats": {"first_try", 2, func(*steady.Bulkhead) []steady.Policy {
			return []steady.Policy{retry(steady.RetryConfig{MaxAttempts: 1}), twice}
		}, returns(1, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := observe(t)
				queue := newBulkhead(t, o, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: 5 * time.Second})
				slot, err := queue.Acquire(t.Context())
				require.NoError(t, err)
				time.AfterFunc(30*time.Second, slot.Release)
				_, _ = newPipeline(t, o, s.policies(queue)...).Do(t.Context(), s.fn)
				synctest.Wait()

				points := o.collect().points("steady.retry.attempts")
				require.Len(t, points, 1)
				outcome, _ := points[0].set.Value("steady.retry.outcome")
				assert.Equal(t, s.outcome, outcome.AsString())
				assert.Equal(t, s.attempts, points[0].value)
				time.Sleep(time.Minute)
			})
		})
	}
}

func failsOnce() func(context.Context) (int, error) {
	failed := false
	return func(context.Context) (int, error) {
		if !failed {
			failed = true
			return 0, errReset
		}
		return 1, nil
	}
}

func budgetOf(t *testing.T, tokens int) *steady.RetryBudget {
	b, err := steady.NewRetryBudget(steady.RetryBudgetConfig{Burst: tokens})
	require.NoError(t, err)
	return b
}

func emptied(t *testing.T) *steady.RetryBudget {
	b := budgetOf(t, 1)
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{
		steady.Must(steady.NewRetry(steady.RetryConfig{NoDelay: true, Budget: b})),
	}}))
	_, _ = p.Do(t.Context(), returns(0, errReset))
	require.Less(t, b.Stats().Tokens, 1.0)
	return b
}

func TestOnlyAPipelineWithARetryCountsItsAttempts(t *testing.T) {
	o := observe(t)
	_, err := newPipeline(t, o).Do(t.Context(), returns(1, nil))
	require.NoError(t, err)
	assert.NotContains(t, o.collect(), "steady.retry.attempts")
}

func TestTheRetryingOfAPipelineIsKnownWithoutARegistration(t *testing.T) {
	o := observe(t)
	p, err := steady.NewPipelineFor(newDependency(t, o, "catalog"), steady.ReadIdempotent, steady.PipelineConfig[int]{})
	require.NoError(t, err)
	_, err = p.Do(t.Context(), returns(1, nil))
	require.NoError(t, err)
	assert.Equal(t, 1.0, o.value("steady.retry.attempts", "steady.pipeline.name", "catalog", "steady.retry.outcome", "first_try"))
}

func TestTheErrorTypeIsOneOfFewWords(t *testing.T) {
	o := observe(t)
	timeoutError := &steady.TimeoutError{Policy: "attempt", Err: context.DeadlineExceeded}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&steady.RejectedError{Policy: "catalog", Reason: steady.ErrBreakerOpen}, "breaker_open"},
		{fmt.Errorf("reading: %w", &steady.RejectedError{Reason: steady.ErrBulkheadFull}), "bulkhead_full"},
		{&steady.PanicError{Value: context.DeadlineExceeded}, "panic"},
		{timeoutError, "timeout"},
		{&steady.RetryError{Reason: steady.ErrRetriesExhausted, Last: timeoutError}, "timeout"},
		{&steady.RetryError{Reason: &steady.RejectedError{Reason: steady.ErrBreakerOpen}, Last: timeoutError}, "breaker_open"},
		{context.DeadlineExceeded, "deadline_exceeded"},
		{fmt.Errorf("reading: %w", context.Canceled), "canceled"},
		{&steady.PanicError{Value: "index out of range"}, "panic"},
		{fmt.Errorf("reading: %w", typedError{}), "throttling"},
		{fmt.Errorf("reading: %w", &net.OpError{Op: "read", Err: errReset}), "*net.OpError"},
		{steady.MarkRetryAfter(&net.DNSError{}, steady.Unsent, time.Second), "*net.DNSError"},
		{&steady.RetryError{Reason: steady.ErrRetryBudget, Last: &net.DNSError{}}, "*net.DNSError"},
		{errors.Join(&net.DNSError{}, errReset), "*net.DNSError"},
		{&steady.RetryError{}, "_OTHER"},
		{&steady.RetryError{Reason: context.Canceled, Last: errReset}, "canceled"},
		{errReset, "*errors.errorString"},
		{nil, "_OTHER"},
	} {
		o.Hooks().OnDone(t.Context(), steady.Completion{Pipeline: c.want, Outcome: steady.Transient, Err: c.err})
		points := o.collect().by("steady.pipeline.duration", "steady.pipeline.name", c.want)
		require.Len(t, points, 1, "%s, %v", c.want, c.err)
		got, _ := points[0].set.Value("error.type")
		assert.Equal(t, c.want, got.AsString())
	}
}

type typedError struct{}

func (typedError) Error() string     { return "too many requests" }
func (typedError) ErrorType() string { return "throttling" }

func TestASuccessHasNoErrorType(t *testing.T) {
	o := observe(t)
	_, err := newPipeline(t, o).Do(t.Context(), returns(0, steady.Mark(errReset, steady.Success)))
	require.Error(t, err)
	for _, metric := range []string{"steady.pipeline.duration", "steady.attempt.duration"} {
		_, ok := o.collect().at(metric, "steady.pipeline.name", "prices", "steady.outcome", "success")
		assert.True(t, ok, metric)
	}
}

func TestMoreErrorTypesThanAreKeptAreStillMeasured(t *testing.T) {
	o := observe(t)
	hooks := o.Hooks()
	for i := range 20_000 {
		hooks.OnDone(t.Context(), steady.Completion{Pipeline: fmt.Sprint("pipeline ", i), Outcome: steady.Success})
	}
	calls := uint64(0)
	for _, p := range o.collect().points("steady.pipeline.duration") {
		calls += p.count
	}
	assert.Equal(t, uint64(20_000), calls)
}

func newDependency(t testing.TB, o *observed, name string) *steady.Dependency {
	t.Helper()
	d, err := steady.NewDependency(steady.DependencyConfig{
		Name:           name,
		Timeout:        2 * time.Second,
		AttemptTimeout: time.Second,
		Breaker:        steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
		Bulkhead:       steady.BulkheadConfig{MaxConcurrent: 20},
		Hooks:          o.Hooks(),
	})
	require.NoError(t, err)
	return d
}
