package steady_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// assertFaults checks everything that a constructor has to say: one line for each fault.
func assertFaults(t *testing.T, err error, want ...string) {
	t.Helper()
	require.Error(t, err)
	assert.Equal(t, want, strings.Split(err.Error(), "\n"))
}

func breakerErr(cfg steady.BreakerConfig) error {
	_, err := steady.NewBreaker(cfg)
	return err
}

func bulkheadErr(cfg steady.BulkheadConfig) error {
	_, err := steady.NewBulkhead(cfg)
	return err
}

func retryErr(cfg steady.RetryConfig) error {
	_, err := steady.NewRetry(cfg)
	return err
}

func budgetErr(cfg steady.RetryBudgetConfig) error {
	_, err := steady.NewRetryBudget(cfg)
	return err
}

func timeoutErr(cfg steady.TimeoutConfig) error {
	_, err := steady.NewTimeout(cfg)
	return err
}

func dependencyErr(cfg steady.DependencyConfig) error {
	_, err := steady.NewDependency(cfg)
	return err
}

func TestConfigDefaultsAreFilledIn(t *testing.T) {
	assert.Equal(t, steady.BreakerConfig{
		WindowSize: 20, MinCalls: 10, FailureRate: 0.5, SlowRate: 0.5, SlowThreshold: time.Second,
		OpenDuration: 10 * time.Second, MaxOpenDuration: 10 * time.Second, OpenJitter: 0.2,
		HalfOpenProbes: 3, ProbeTimeout: 10 * time.Second,
	}, steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: time.Second})).Config())
	assert.Equal(t, steady.BulkheadConfig{MaxConcurrent: 7},
		newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 7}).Config())
	assert.Equal(t, steady.BulkheadConfig{MaxConcurrent: 7, MaxWait: time.Second, MaxQueue: 7},
		newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 7, MaxWait: time.Second}).Config())
	assert.Equal(t, steady.RetryBudgetConfig{Ratio: 0.15, Burst: 10},
		steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{})).Config())

	retry := newRetry(t, steady.RetryConfig{}).Config()
	assert.Equal(t, steady.RetryBudgetConfig{Ratio: 0.15, Burst: 10}, retry.Budget.Config())
	retry.Budget = nil
	assert.Equal(t, steady.RetryConfig{
		MaxAttempts: 3, BaseDelay: 100 * ms, MaxDelay: 30 * time.Second, ThrottledDelay: time.Second, Jitter: steady.FullJitter,
	}, retry)
	assert.Equal(t, steady.RetryConfig{MaxAttempts: 3, NoDelay: true, NoBudget: true},
		newRetry(t, steady.RetryConfig{NoDelay: true, NoBudget: true}).Config())
}

func TestPoliciesHaveTheirNames(t *testing.T) {
	for _, policy := range []interface{ Name() string }{
		steady.Must(steady.NewBreaker(steady.BreakerConfig{Name: "catalog", NoSlowCalls: true})),
		newBulkhead(t, steady.BulkheadConfig{Name: "catalog", MaxConcurrent: 1}),
		newRetry(t, steady.RetryConfig{Name: "catalog"}),
		newTimeout(t, steady.TimeoutConfig{Name: "catalog", Limit: time.Second}),
	} {
		assert.Equal(t, "catalog", policy.Name(), "%T", policy)
	}
}

func TestConfigDefaultsFollowTheFieldsTheyDependOn(t *testing.T) {
	b := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		NoSlowCalls: true, NoOpenJitter: true, WindowSize: 4, OpenDuration: time.Minute,
	})).Config()
	assert.Equal(t, 4, b.MinCalls)
	assert.Zero(t, b.SlowThreshold)
	assert.Zero(t, b.OpenJitter)
	assert.Equal(t, time.Minute, b.MaxOpenDuration)
	assert.Equal(t, time.Minute, b.ProbeTimeout)
	assert.Equal(t, 5*time.Second, newRetry(t, steady.RetryConfig{BaseDelay: time.Second / 2}).Config().ThrottledDelay)
}

func TestConfigOfAPolicyMakesAnother(t *testing.T) {
	for _, cfg := range []steady.BreakerConfig{
		{SlowThreshold: time.Second},
		{NoSlowCalls: true, NoOpenJitter: true, WindowSize: 3, Shadow: true, WindowAge: time.Minute},
	} {
		one := steady.Must(steady.NewBreaker(cfg)).Config()
		two, err := steady.NewBreaker(one)
		require.NoError(t, err)
		assert.Equal(t, one, two.Config())
	}
	for _, cfg := range []steady.BulkheadConfig{{MaxConcurrent: 1}, {MaxConcurrent: 9, MaxWait: time.Second}} {
		one := newBulkhead(t, cfg)
		require.NoError(t, one.SetMaxConcurrent(5))
		two, err := steady.NewBulkhead(one.Config())
		require.NoError(t, err)
		assert.Equal(t, one.Config(), two.Config())
	}
	for _, cfg := range []steady.RetryConfig{
		{},
		{NoDelay: true, NoBudget: true, Jitter: steady.NoJitter},
		{MaxAttempts: 1, BaseDelay: 1, MaxDelay: time.Hour, ThrottledDelay: time.Hour, RetryRejected: true},
	} {
		one := newRetry(t, cfg).Config()
		two := newRetry(t, one).Config()
		assert.Equal(t, one, two)
		assert.Same(t, one.Budget, two.Budget)
	}
	budget := newBudget(t, 0.25, 4).Config()
	assert.Equal(t, budget, steady.Must(steady.NewRetryBudget(budget)).Config())
	timeout := newTimeout(t, steady.TimeoutConfig{Name: "limit", Limit: time.Second}).Config()
	assert.Equal(t, timeout, steady.Must(steady.NewTimeout(timeout)).Config())

	for _, cfg := range []steady.DependencyConfig{
		{
			Name: "catalog", Timeout: 2 * time.Second, AttemptTimeout: time.Second, Clock: clock.NewMock(), Hooks: &steady.Hooks{},
			Breaker: steady.BreakerConfig{SlowThreshold: time.Second / 2}, Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
		},
		{Name: "bare", NoTimeout: true, NoRetry: true, NoBreaker: true, NoBulkhead: true},
	} {
		one := steady.Must(steady.NewDependency(cfg)).Config()
		two, err := steady.NewDependency(one)
		require.NoError(t, err)
		assert.Equal(t, one, two.Config())
	}

	p := pipeline(t, newTimeout(t, steady.TimeoutConfig{Name: "limit", Limit: time.Second}), newRetry(t, steady.RetryConfig{}))
	again, err := steady.NewPipeline(p.Config())
	require.NoError(t, err)
	assert.Equal(t, p.Config(), again.Config())
}

func TestConfigAtItsLimitsIsAccepted(t *testing.T) {
	for _, cfg := range []steady.BreakerConfig{
		{WindowSize: 1, MinCalls: 1, FailureRate: math.SmallestNonzeroFloat64, SlowRate: math.SmallestNonzeroFloat64, SlowThreshold: 1, OpenDuration: 1, HalfOpenProbes: 1, ProbeTimeout: 1},
		{WindowSize: 1 << 20, MinCalls: 1 << 20, FailureRate: 1, SlowRate: 1, SlowThreshold: math.MaxInt64, WindowAge: math.MaxInt64, OpenDuration: math.MaxInt64, OpenJitter: 1, HalfOpenProbes: 1000, ProbeTimeout: math.MaxInt64},
	} {
		assert.NoError(t, breakerErr(cfg))
	}
	assert.NoError(t, bulkheadErr(steady.BulkheadConfig{MaxConcurrent: 1 << 30, MaxWait: 1, MaxQueue: math.MaxInt}))
	assert.NoError(t, retryErr(steady.RetryConfig{MaxAttempts: 100, BaseDelay: math.MaxInt64, MaxDelay: math.MaxInt64}))
	assert.NoError(t, budgetErr(steady.RetryBudgetConfig{Ratio: 0.001, Burst: 1}))
	assert.NoError(t, budgetErr(steady.RetryBudgetConfig{Ratio: 1, Burst: 1_000_000}))
	assert.NoError(t, timeoutErr(steady.TimeoutConfig{Limit: 1}))
	assert.NoError(t, timeoutErr(steady.TimeoutConfig{Limit: math.MaxInt64}))
}

func TestConfigFaultsOfABreakerComeTogether(t *testing.T) {
	assertFaults(t, breakerErr(steady.BreakerConfig{
		WindowSize: 1<<20 + 1, WindowAge: -time.Second, MinCalls: -1, FailureRate: 50, SlowRate: -0.5, SlowThreshold: -time.Second,
		OpenDuration: -time.Second, MaxOpenDuration: -time.Minute, OpenJitter: 100, HalfOpenProbes: 1001, ProbeTimeout: -time.Second,
	}),
		"steady: BreakerConfig.WindowSize must be in [1, 1048576], got 1048577 (0 means 20)",
		"steady: BreakerConfig.WindowAge must not be negative, got -1s (0 means no age limit)",
		"steady: BreakerConfig.MinCalls must be in [1, WindowSize = 1048577], got -1 (a window that never holds MinCalls never decides: lower it or enlarge WindowSize)",
		"steady: BreakerConfig.FailureRate must be in (0, 1], got 50 (a percentage? write 0.5)",
		"steady: BreakerConfig.SlowRate must be in (0, 1], got -0.5 (0 means the default)",
		"steady: BreakerConfig.SlowThreshold is required and must be positive, got -1s (the longest answer you would call healthy, about twice the p99; or set NoSlowCalls)",
		"steady: BreakerConfig.OpenDuration must be positive, got -1s (0 means 10s)",
		"steady: BreakerConfig.MaxOpenDuration must be at least OpenDuration = -1s, got -1m0s (0 means OpenDuration: no growth)",
		"steady: BreakerConfig.OpenJitter must be in [0, 1], got 100 (a percentage? write 1)",
		"steady: BreakerConfig.HalfOpenProbes must be in [1, 1000], got 1001 (0 means 3)",
		"steady: BreakerConfig.ProbeTimeout must not be negative, got -1s (0 means OpenDuration)",
	)
}

func TestConfigOfABreakerRefusesContradictions(t *testing.T) {
	assertFaults(t, breakerErr(steady.BreakerConfig{}),
		"steady: BreakerConfig.SlowThreshold is required and must be positive, got 0s (the longest answer you would call healthy, about twice the p99; or set NoSlowCalls)")
	assertFaults(t, breakerErr(steady.BreakerConfig{SlowThreshold: 1, WindowSize: 5, MinCalls: 6}),
		"steady: BreakerConfig.MinCalls must be in [1, WindowSize = 5], got 6 (a window that never holds MinCalls never decides: lower it or enlarge WindowSize)")
	assertFaults(t, breakerErr(steady.BreakerConfig{SlowThreshold: time.Second, NoSlowCalls: true, OpenJitter: 0.1, NoOpenJitter: true}),
		"steady: BreakerConfig.SlowThreshold is 1s with NoSlowCalls set: leave one of them out",
		"steady: BreakerConfig.OpenJitter is 0.1 with NoOpenJitter set: leave one of them out")
}

func TestConfigFaultsOfABulkheadComeTogether(t *testing.T) {
	assertFaults(t, bulkheadErr(steady.BulkheadConfig{MaxConcurrent: -1, MaxWait: -time.Second, MaxQueue: -1}),
		"steady: BulkheadConfig.MaxConcurrent is required and must be in [1, 1<<30], got -1 (rate × duration of the calls, and fewer than the connection pool)",
		"steady: BulkheadConfig.MaxWait must not be negative, got -1s (0 rejects at once)",
		"steady: BulkheadConfig.MaxQueue must not be negative, got -1 (0 means MaxConcurrent)")
	assertFaults(t, bulkheadErr(steady.BulkheadConfig{MaxQueue: 3}),
		"steady: BulkheadConfig.MaxConcurrent is required and must be in [1, 1<<30], got 0 (rate × duration of the calls, and fewer than the connection pool)",
		"steady: BulkheadConfig.MaxQueue is 3 without MaxWait: nobody waits; set MaxWait or leave it out")
	assert.Error(t, bulkheadErr(steady.BulkheadConfig{MaxConcurrent: 1<<30 + 1}))
}

func TestConfigFaultsOfARetryComeTogether(t *testing.T) {
	assertFaults(t, retryErr(steady.RetryConfig{
		MaxAttempts: 101, BaseDelay: -2, MaxDelay: -3, ThrottledDelay: -1, Jitter: steady.NoJitter + 1,
		Budget: newBudget(t, 0.1, 1), NoBudget: true,
	}),
		"steady: RetryConfig.MaxAttempts must be in [1, 100], got 101 (it counts the first call; 0 means 3)",
		"steady: RetryConfig.BaseDelay must be positive, got -2ns (0 means 100ms; set NoDelay to retry at once)",
		"steady: RetryConfig.MaxDelay must be at least BaseDelay = -2ns, got -3ns (0 means 30s: raise it, or lower BaseDelay)",
		"steady: RetryConfig.ThrottledDelay must not be negative or exceed MaxDelay = -3ns, got -1ns (0 means 10·BaseDelay, MaxDelay at most)",
		"steady: RetryConfig.Jitter must be FullJitter, EqualJitter, DecorrelatedJitter or NoJitter, got 4 (leave it out for FullJitter)",
		"steady: RetryConfig.Budget is set with NoBudget: leave one of them out")
	assertFaults(t, retryErr(steady.RetryConfig{MaxAttempts: -1, NoDelay: true, BaseDelay: 1, MaxDelay: 2, ThrottledDelay: 3}),
		"steady: RetryConfig.MaxAttempts must be in [1, 100], got -1 (it counts the first call; 0 means 3)",
		"steady: RetryConfig.BaseDelay is 1ns with NoDelay set: leave one of them out",
		"steady: RetryConfig.MaxDelay is 2ns with NoDelay set: leave one of them out",
		"steady: RetryConfig.ThrottledDelay is 3ns with NoDelay set: leave one of them out")
	assertFaults(t, retryErr(steady.RetryConfig{BaseDelay: time.Second, MaxDelay: time.Second / 2}),
		"steady: RetryConfig.MaxDelay must be at least BaseDelay = 1s, got 500ms (0 means 30s: raise it, or lower BaseDelay)")
}

func TestConfigFaultsOfARetryBudgetComeTogether(t *testing.T) {
	assertFaults(t, budgetErr(steady.RetryBudgetConfig{Ratio: 10, Burst: -1}),
		"steady: RetryBudgetConfig.Ratio must be in [0.001, 1], got 10 (a percentage? write 0.1)",
		"steady: RetryBudgetConfig.Burst must be in [1, 1000000], got -1 (0 means the default)")
	assert.Error(t, budgetErr(steady.RetryBudgetConfig{Ratio: 0.0001}))
	assert.Error(t, budgetErr(steady.RetryBudgetConfig{Burst: 1_000_001}))
}

func TestConfigOfATimeoutNeedsALimit(t *testing.T) {
	for _, limit := range []time.Duration{0, -time.Second} {
		assertFaults(t, timeoutErr(steady.TimeoutConfig{Limit: limit}), fmt.Sprintf(
			"steady: TimeoutConfig.Limit is required and must be positive, got %v (for no limit, leave the Timeout out)", limit))
	}
}

func TestConfigFaultsOfADependencyComeTogetherWithThoseOfItsParts(t *testing.T) {
	const label = `steady: dependency "": DependencyConfig.`
	assertFaults(t, dependencyErr(steady.DependencyConfig{
		AttemptTimeout: -time.Second,
		Retry:          steady.RetryConfig{MaxAttempts: 101},
		Breaker:        steady.BreakerConfig{SlowThreshold: time.Second, FailureRate: 50},
	}),
		label+`Name is required, got "" (errors, logs and metrics tell dependencies apart by it)`,
		label+"Timeout is required and must be positive, got 0s (the longest a caller should wait; or set NoTimeout)",
		label+"AttemptTimeout must not be negative, got -1s (0 means that an attempt has no limit of its own)",
		label+"Retry.MaxAttempts must be in [1, 100], got 101 (it counts the first call; 0 means 3)",
		label+"Breaker.FailureRate must be in (0, 1], got 50 (a percentage? write 0.5)",
		label+"Bulkhead.MaxConcurrent is required and must be in [1, 1<<30], got 0 (rate × duration of the calls, and fewer than the connection pool)",
	)
}

func TestConfigFaultsOfAPipelineComeTogether(t *testing.T) {
	r := newRetry(t, steady.RetryConfig{})
	_, err := steady.NewPipeline(steady.PipelineConfig[int]{Name: "prices", Policies: []steady.Policy{
		nil, (*steady.Breaker)(nil), steady.Middleware(nil), r, r,
	}})
	assertFaults(t, err,
		`steady: pipeline "prices": Policies[0] is nil (<nil>): leave it out`,
		`steady: pipeline "prices": Policies[1] is nil (*steady.Breaker): leave it out`,
		`steady: pipeline "prices": Policies[2] is nil (steady.Middleware): leave it out`,
		`steady: pipeline "prices": Policies[4] is the same *steady.Retry as Policies[3]: make a second one, or leave it out`)
}

func TestConfigRefusesNumbersThatAreNone(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for field, err := range map[string]error{
			"BreakerConfig.FailureRate": breakerErr(steady.BreakerConfig{SlowThreshold: 1, FailureRate: x}),
			"BreakerConfig.SlowRate":    breakerErr(steady.BreakerConfig{SlowThreshold: 1, SlowRate: x}),
			"BreakerConfig.OpenJitter":  breakerErr(steady.BreakerConfig{SlowThreshold: 1, OpenJitter: x}),
			"RetryBudgetConfig.Ratio":   budgetErr(steady.RetryBudgetConfig{Ratio: x}),
		} {
			require.Error(t, err, "%s = %v", field, x)
			assert.Contains(t, err.Error(), field+" must be in ")
			assert.Contains(t, err.Error(), fmt.Sprintf("got %v (", x))
			assert.NotContains(t, err.Error(), "\n")
		}
	}
}

func TestConfigChangedAfterwardsChangesNothing(t *testing.T) {
	told := 0
	hooks := &steady.Hooks{
		OnTransition: func(steady.Transition) { told++ },
		OnReject:     func(context.Context, steady.Rejection) { told++ },
		OnRetry:      func(context.Context, steady.RetryDelay) { told++ },
		OnTimeout:    func(context.Context, steady.Expiry) { told++ },
		OnAttempt:    func(context.Context, steady.Attempt) { told++ },
		OnDone:       func(context.Context, steady.Completion) { told++ },
	}
	mock := clock.NewMock()
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true, Hooks: hooks, Clock: mock}))
	bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, Hooks: hooks})
	retry := newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2, Hooks: hooks})
	timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second, Hooks: hooks}))
	cfg := steady.PipelineConfig[int]{Policies: []steady.Policy{timeout, retry, breaker, bulkhead}, Hooks: hooks}
	p := steady.Must(steady.NewPipeline(cfg))

	*hooks = steady.Hooks{}
	cfg.Policies[0], cfg.Policies[1] = nil, nil
	p.Config().Policies[2] = nil
	for i, policy := range []steady.Policy{timeout, retry, breaker, bulkhead} {
		assert.Same(t, policy, p.Config().Policies[i])
	}

	fn := &script{errs: []error{errBoom}}
	_, err := p.Do(t.Context(), fn.next)
	requireGaveUp(t, err, steady.ErrRetriesExhausted)
	assert.Equal(t, 4, told, "two attempts, a retry between them, and the end")

	_, err = p.Do(t.Context(), func(context.Context) (int, error) {
		mock.Add(time.Second)
		return 0, context.DeadlineExceeded
	})
	require.ErrorIs(t, err, steady.ErrTimeout)
	assert.Equal(t, 7, told, "an attempt, the limit, and the end")

	breaker.ForceOpen("test")
	assert.Equal(t, 8, told)
	_, err = p.Do(t.Context(), fn.next)
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	assert.Equal(t, 10, told, "the rejection, and the end")
	breaker.Reset("test")
	acquire(t, bulkhead)
	_, err = p.Do(t.Context(), fn.next)
	require.ErrorIs(t, err, steady.ErrBulkheadFull)
	assert.Equal(t, 13, told, "the reset, the rejection, and the end")
}

func TestConfigFaultsOfAPipelineComeTogetherWithItsClocks(t *testing.T) { // C1
	retry := newRetry(t, steady.RetryConfig{Clock: clock.NewMock()})
	_, err := steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{retry, retry, nil},
		Clock:    clock.NewMock(),
	})
	assert.ErrorContains(t, err, "same *steady.Retry")
	assert.ErrorContains(t, err, "is nil")
	assert.ErrorContains(t, err, "different clocks")
}
