package steady_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

func newBudget(t testing.TB, ratio float64, burst int) *steady.RetryBudget {
	t.Helper()
	b, err := steady.NewRetryBudget(steady.RetryBudgetConfig{Ratio: ratio, Burst: burst})
	require.NoError(t, err)
	return b
}

// budgeted returns a pipeline that retries twice at once, from the budget.
func budgeted(t testing.TB, b *steady.RetryBudget) *steady.Pipeline[int] {
	t.Helper()
	r := newRetry(t, steady.RetryConfig{NoDelay: true, Budget: b})
	return pipeline(t, r)
}

// spend takes all tokens, and checks that the next retry is refused.
func spend(t testing.TB, b *steady.RetryBudget) {
	t.Helper()
	for b.Stats().Tokens >= 1 {
		_, err := budgeted(t, b).Do(t.Context(), returns(0, errBoom))
		require.Error(t, err)
	}
}

func succeed(t testing.TB, b *steady.RetryBudget, n int) {
	t.Helper()
	for range n {
		_, err := budgeted(t, b).Do(t.Context(), returns(0, nil))
		require.NoError(t, err)
	}
}

func TestBudgetIsFullAtTheStartAndRefusesRetriesWhenEmpty(t *testing.T) { // R5
	budget := newBudget(t, 0.1, 3)
	assert.Equal(t, steady.RetryBudgetStats{Tokens: 3, Burst: 3, Ratio: 0.1}, budget.Stats())
	r := newRetry(t, steady.RetryConfig{Name: "catalog", NoDelay: true, Budget: budget})
	p := pipeline(t, r)

	_, err := p.Do(t.Context(), returns(0, errBoom))
	requireGaveUp(t, err, steady.ErrRetriesExhausted)
	assert.Equal(t, 1.0, budget.Stats().Tokens)

	fn := &script{errs: []error{errBoom}}
	_, err = p.Do(t.Context(), fn.next)
	gaveUp := requireGaveUp(t, err, steady.ErrRetryBudget)
	assert.Equal(t, errBoom, gaveUp.Last)
	assert.Equal(t, 2, gaveUp.Attempts)

	_, err = p.Do(t.Context(), returns(0, errBoom))
	gaveUp = requireGaveUp(t, err, steady.ErrRetryBudget)
	assert.Equal(t, 1, gaveUp.Attempts, "the first attempt is free")
	assert.Equal(t, steady.RetryBudgetStats{Burst: 3, Ratio: 0.1, Denied: 2}, budget.Stats())
	assert.Equal(t, uint64(2), r.Stats().BudgetDenied)
}

func TestBudgetEarnsItsRatioPerSuccessAndNeverHoldsMoreThanBurst(t *testing.T) { // R5
	budget := newBudget(t, 0.1, 2)
	succeed(t, budget, 5)
	assert.Equal(t, 2.0, budget.Stats().Tokens)
	spend(t, budget)
	succeed(t, budget, 9)
	assert.InDelta(t, 0.9, budget.Stats().Tokens, 1e-9)
	_, err := budgeted(t, budget).Do(t.Context(), returns(0, errBoom))
	requireGaveUp(t, err, steady.ErrRetryBudget)
	succeed(t, budget, 1)
	assert.Equal(t, 1.0, budget.Stats().Tokens, "ten tenths are one, to the last bit")
	fn := &script{errs: []error{errBoom, nil}}
	_, err = budgeted(t, budget).Do(t.Context(), fn.next)
	require.NoError(t, err)
	assert.InDelta(t, 0.1, budget.Stats().Tokens, 1e-9, "the success after the retry earns too")

	budget = newBudget(t, 0.3, 2)
	spend(t, budget)
	succeed(t, budget, 7)
	assert.Equal(t, 2.0, budget.Stats().Tokens, "the seventh earns what there is room for")
}

func TestBudgetEarnsNothingFromWhatIsNoSuccess(t *testing.T) { // R5
	budget := newBudget(t, 1, 2)
	spend(t, budget)
	for _, o := range []steady.Outcome{steady.Permanent, steady.Ignored, steady.Transient, steady.Throttled, steady.Unsent} {
		_, err := budgeted(t, budget).Do(t.Context(), returns(0, steady.Mark(errBoom, o)))
		require.Error(t, err)
		assert.Zero(t, budget.Stats().Tokens, o)
	}
	_, err := budgeted(t, budget).Do(t.Context(), returns(0, steady.Mark(errBoom, steady.Success)))
	require.Error(t, err)
	assert.Equal(t, 1.0, budget.Stats().Tokens, "a healthy no is a success")
}

func TestBudgetIsChargedWhenARetryIsDecidedNotAfterItsDelay(t *testing.T) { // R5
	synctest.Test(t, func(t *testing.T) {
		const callers = 50
		budget := newBudget(t, 0.1, 10)
		r := newRetry(t, steady.RetryConfig{BaseDelay: time.Hour, MaxDelay: time.Hour, Jitter: steady.NoJitter, MaxAttempts: 2, Budget: budget})
		p := pipeline(t, r)
		var denied atomic.Int64
		var runs atomic.Int64
		for range callers {
			go func() {
				_, err := p.Do(t.Context(), func(context.Context) (int, error) {
					runs.Add(1)
					return 0, errBoom
				})
				if errors.Is(err, steady.ErrRetryBudget) {
					denied.Add(1)
				}
			}()
		}
		synctest.Wait()
		assert.EqualValues(t, callers-10, denied.Load(), "while ten wait for their delay, there is nothing left")
		assert.Zero(t, budget.Stats().Tokens)
		later(time.Hour)
		assert.EqualValues(t, callers+10, runs.Load())
		assert.Zero(t, budget.Stats().Tokens)
	})
}

func TestBudgetGetsTheTokenBackWhenTheFunctionIsNotRunAfterAll(t *testing.T) { // R5
	opened := func() steady.Policy { return wallBreaker(steady.BreakerConfig{WindowSize: 1}) }
	for _, tc := range []struct {
		name   string
		cfg    steady.RetryConfig
		inside steady.Policy
	}{
		{"cancelled in the delay", steady.RetryConfig{BaseDelay: time.Minute, MaxDelay: time.Minute, Jitter: steady.NoJitter}, nil},
		{"rejected by a breaker", steady.RetryConfig{NoDelay: true}, opened()},
		{"rejected again and again", steady.RetryConfig{NoDelay: true, RetryRejected: true, MaxAttempts: 2}, opened()},
		{"not called by a Middleware", steady.RetryConfig{NoDelay: true}, once()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				budget := newBudget(t, 0.1, 5)
				tc.cfg.Budget = budget
				policies := []steady.Policy{newRetry(t, tc.cfg)}
				if tc.inside != nil {
					policies = append(policies, tc.inside)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer time.AfterFunc(time.Second, cancel).Stop()
				fn := &script{errs: []error{errBoom}}
				_, err := pipeline(t, policies...).Do(ctx, fn.next)
				require.Error(t, err)
				assert.Equal(t, 1, fn.runs)
				assert.Equal(t, 5.0, budget.Stats().Tokens)
				assert.Zero(t, budget.Stats().Denied)
			})
		})
	}
}

// once is a Middleware that calls next the first time only.
func once() steady.Middleware {
	called := false
	return func(ctx context.Context, next func(context.Context) error) error {
		if called {
			return errBoom
		}
		called = true
		return next(ctx)
	}
}

func TestBudgetIsChargedForARetryThatPanics(t *testing.T) { // R5
	for name, end := range map[string]func(){"panic": func() { panic(errBoom) }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			budget := newBudget(t, 0.1, 5)
			p := budgeted(t, budget)
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				runs := 0
				_, _ = p.Do(t.Context(), func(context.Context) (int, error) {
					if runs++; runs == 2 {
						end()
					}
					return 0, errBoom
				})
			})
			wg.Wait()
			assert.Equal(t, 4.0, budget.Stats().Tokens, "the function was run")
		})
	}
}

func TestBudgetGetsTheTokenBackWhenAHookPanicsBeforeTheRetry(t *testing.T) { // R5
	budget := newBudget(t, 0.1, 5)
	r := newRetry(t, steady.RetryConfig{NoDelay: true, Budget: budget, Hooks: &steady.Hooks{
		OnRetry: func(context.Context, steady.RetryDelay) { panic(errBoom) },
	}})
	require.PanicsWithError(t, "boom", func() { _, _ = pipeline(t, r).Do(t.Context(), returns(0, errBoom)) })
	assert.Equal(t, 5.0, budget.Stats().Tokens)
}

func TestBudgetIsNotChargedForWhatIsNotRetriedAnyway(t *testing.T) {
	budget := newBudget(t, 0.1, 5)
	p := pipeline(t, newRetry(t, steady.RetryConfig{MaxAttempts: 1, Budget: budget}))
	_, _ = p.Do(t.Context(), returns(0, errBoom))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	p = pipeline(t, newRetry(t, steady.RetryConfig{BaseDelay: time.Minute, MaxDelay: time.Minute, Jitter: steady.NoJitter, Budget: budget}))
	_, _ = p.Do(ctx, returns(0, errBoom))
	assert.Equal(t, steady.RetryBudgetStats{Tokens: 5, Burst: 5, Ratio: 0.1}, budget.Stats())
}

func TestBudgetOfItsOwnIsWhatARetryHasByDefault(t *testing.T) {
	one, two := newRetry(t, steady.RetryConfig{NoDelay: true}), newRetry(t, steady.RetryConfig{})
	require.NotNil(t, one.Config().Budget)
	assert.NotSame(t, one.Config().Budget, two.Config().Budget)
	_, _ = pipeline(t, one).Do(t.Context(), returns(0, errBoom))
	assert.Equal(t, one.Config().Budget.Config().Burst-2, int(one.Config().Budget.Stats().Tokens))

	none := newRetry(t, steady.RetryConfig{NoDelay: true, NoBudget: true, MaxAttempts: 100})
	assert.Nil(t, none.Config().Budget)
	_, err := pipeline(t, none).Do(t.Context(), returns(0, errBoom))
	assert.Equal(t, 100, requireGaveUp(t, err, steady.ErrRetriesExhausted).Attempts)
}

func TestBudgetSharedBoundsTheRetriesOfSeveralPipelines(t *testing.T) { // R5
	budget := newBudget(t, 0.5, 2)
	reads, writes := budgeted(t, budget), budgeted(t, budget)
	_, err := reads.Do(t.Context(), returns(0, errBoom))
	requireGaveUp(t, err, steady.ErrRetriesExhausted)
	_, err = writes.Do(t.Context(), returns(0, errBoom))
	requireGaveUp(t, err, steady.ErrRetryBudget)
	for range 2 {
		_, err = writes.Do(t.Context(), returns(0, nil))
		require.NoError(t, err)
	}
	assert.Equal(t, 1.0, budget.Stats().Tokens)
	fn := &script{errs: []error{errBoom, nil}}
	_, err = reads.Do(t.Context(), fn.next)
	assert.NoError(t, err)
}

func TestBudgetSharedByNestedRetriesEarnsOncePerCall(t *testing.T) { // R5
	budget := newBudget(t, 0.25, 4)
	outer := newRetry(t, steady.RetryConfig{NoDelay: true, Budget: budget})
	middle := newRetry(t, steady.RetryConfig{NoDelay: true, Budget: newBudget(t, 0.25, 4)})
	inner := newRetry(t, steady.RetryConfig{NoDelay: true, Budget: budget})
	spend(t, budget)
	spend(t, middle.Config().Budget)
	_, err := pipeline(t, outer, middle, inner).Do(t.Context(), returns(0, nil))
	require.NoError(t, err)
	assert.Equal(t, 0.25, budget.Stats().Tokens)
	assert.Equal(t, 0.25, middle.Config().Budget.Stats().Tokens, "another budget earns its own")
}

func TestBudgetStressNoTokenIsLostOrDoubled(t *testing.T) {
	const callers, calls = 8, 1000
	budget := newBudget(t, 0.5, 100_000)
	p := pipeline(t, newRetry(t, steady.RetryConfig{NoDelay: true, Budget: budget, MaxAttempts: 2}))
	var retried, succeeded atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := range calls {
				fn := &script{errs: []error{errBoom, nil}}
				if (n+i)%3 == 0 {
					fn.errs[1] = errBoom
				}
				if _, err := p.Do(t.Context(), fn.next); err == nil {
					succeeded.Add(1)
				}
				retried.Add(int64(fn.runs - 1))
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, callers*calls, retried.Load())
	assert.Equal(t, 100_000-float64(retried.Load())+0.5*float64(succeeded.Load()), budget.Stats().Tokens)
}

func TestBudgetStressNeverGivesMoreThanThereIs(t *testing.T) {
	const callers, calls, burst = 8, 2000, 1000
	budget := newBudget(t, 0.1, burst)
	p := budgeted(t, budget)
	var runs atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				_, _ = p.Do(t.Context(), func(context.Context) (int, error) {
					runs.Add(1)
					return 0, errBoom
				})
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, callers*calls+burst, runs.Load())
	assert.Zero(t, budget.Stats().Tokens)
}
