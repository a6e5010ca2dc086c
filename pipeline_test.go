package steady_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

func TestAPipelineWithoutPoliciesJustCalls(t *testing.T) {
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Name: "prices"}))
	v, err := p.Do(t.Context(), returns(42, nil))
	require.NoError(t, err)
	assert.Equal(t, 42, v)
	v, err = p.Do(t.Context(), returns(42, errBoom))
	assert.Equal(t, errBoom, err, "untouched")
	assert.Equal(t, 42, v, "so is a value beside an error")
	assert.Equal(t, errBoom, p.Run(t.Context(), func(context.Context) error { return errBoom }))
	assert.Equal(t, "prices", p.Name())
}

func TestPoliciesNestTheFirstOneOutermost(t *testing.T) {
	var order []string
	say := func(name string) steady.Middleware {
		return func(ctx context.Context, next func(context.Context) error) error {
			order = append(order, name)
			defer func() { order = append(order, "/"+name) }()
			return next(ctx)
		}
	}
	_ = pipeline(t, say("a"), say("b"), say("c")).Run(t.Context(), func(context.Context) error {
		order = append(order, "fn")
		return nil
	})
	assert.Equal(t, []string{"a", "b", "c", "fn", "/c", "/b", "/a"}, order)
}

func TestACallNeedsAContextAndFunctions(t *testing.T) {
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Name: "prices"}))
	fn, fallback := returns(1, nil), func(context.Context, error) (int, error) { return 0, nil }
	var none context.Context
	failed := func(_ int, err error) error { return err }
	held := func(_ int, release func(error), err error) error { release(nil); return err }
	for _, err := range []error{
		failed(p.Do(none, fn)),
		failed(p.Do(t.Context(), nil)),
		failed(p.DoOr(none, fn, fallback)),
		failed(p.DoOr(t.Context(), nil, fallback)),
		failed(p.DoOr(t.Context(), fn, nil)),
		held(p.Hold(none, fn)),
		held(p.Hold(t.Context(), nil)),
		p.Run(none, func(context.Context) error { return nil }),
		p.Run(t.Context(), nil),
	} {
		assert.ErrorContains(t, err, `steady: pipeline "prices": `)
		assert.ErrorContains(t, err, "needs a context and functions that are not nil")
	}
}

func TestNewPipelineRefusesWhatCannotStandTogether(t *testing.T) {
	var (
		timeout  = newTimeout(t, steady.TimeoutConfig{Limit: time.Second})
		abandon  = newTimeout(t, steady.TimeoutConfig{Name: "total", Limit: time.Second, Abandon: true})
		retry    = newRetry(t, steady.RetryConfig{})
		breaker  = steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true}))
		bulkhead = newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	)
	for _, test := range []struct {
		name     string
		policies []steady.Policy
		want     []string
	}{
		{
			"nil",
			[]steady.Policy{nil, (*steady.Timeout)(nil), (*steady.Retry)(nil), (*steady.Breaker)(nil), (*steady.Bulkhead)(nil), steady.Middleware(nil)},
			[]string{
				"Policies[0] is nil (<nil>): leave it out",
				"Policies[1] is nil (*steady.Timeout)", "Policies[2] is nil (*steady.Retry)", "Policies[3] is nil (*steady.Breaker)",
				"Policies[4] is nil (*steady.Bulkhead)", "Policies[5] is nil (steady.Middleware)",
			},
		},
		{
			"the same twice",
			[]steady.Policy{timeout, retry, breaker, bulkhead, timeout, retry, breaker, bulkhead},
			[]string{
				"Policies[4] is the same *steady.Timeout as Policies[0]: make a second one, or leave it out",
				"Policies[5] is the same *steady.Retry as Policies[1]", "Policies[6] is the same *steady.Breaker as Policies[2]",
				"Policies[7] is the same *steady.Bulkhead as Policies[3]",
			},
		},
		{
			"a bulkhead outside an abandoning timeout",
			[]steady.Policy{bulkhead, retry, breaker, abandon},
			[]string{`Policies[0] is a Bulkhead outside Policies[3], the abandoning Timeout "total"`, "put the Bulkhead inside the Timeout"},
		},
		{
			"all at once",
			[]steady.Policy{bulkhead, nil, abandon, retry, retry},
			[]string{"Policies[1] is nil", "Policies[0] is a Bulkhead outside Policies[2]", "Policies[4] is the same"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := steady.NewPipeline(steady.PipelineConfig[int]{Name: "prices", Policies: test.policies})
			assert.Nil(t, p)
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
			for _, line := range strings.Split(err.Error(), "\n") {
				assert.True(t, strings.HasPrefix(line, `steady: pipeline "prices": `), line)
			}
		})
	}
}

func TestNewPipelineTakesAnyOrderAndAMiddlewareTwice(t *testing.T) {
	pass := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error { return next(ctx) })
	p := pipeline(t, pass,
		steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true})),
		newTimeout(t, steady.TimeoutConfig{Limit: time.Hour, Abandon: true}),
		newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1}), newRetry(t, steady.RetryConfig{}), pass,
		newTimeout(t, steady.TimeoutConfig{Limit: time.Hour}), newRetry(t, steady.RetryConfig{}),
		steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true})))
	v, err := p.Do(t.Context(), returns(42, nil))
	require.NoError(t, err)
	assert.Equal(t, 42, v)
}

// uncomparable is a clock that Go cannot compare.
type uncomparable struct {
	steady.Clock
	_ []int
}

func TestAPipelineIsOnOneClock(t *testing.T) {
	var (
		one, two = clock.NewMock(), clock.NewMock()
		timeout  = func(c steady.Clock) steady.Policy {
			return newTimeout(t, steady.TimeoutConfig{Limit: time.Hour, Clock: c})
		}
		retry   = func(c steady.Clock) steady.Policy { return newRetry(t, steady.RetryConfig{Clock: c}) }
		breaker = func(c steady.Clock) steady.Policy {
			return steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true, Clock: c}))
		}
		bulkhead = func(c steady.Clock) steady.Policy {
			return steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1, Clock: c}))
		}
	)
	for _, test := range []struct {
		name     string
		clock    steady.Clock
		policies []steady.Policy
		faults   []string // none: it is fine
	}{
		{"nobody names one", nil, []steady.Policy{timeout(nil), retry(nil), breaker(nil), bulkhead(nil)}, nil},
		{"the config does", one, []steady.Policy{timeout(nil), retry(nil), bulkhead(nil)}, nil},
		{"the config and all policies do", one, []steady.Policy{timeout(one), retry(one), breaker(one), bulkhead(one)}, nil},
		{"one policy does", nil, []steady.Policy{timeout(nil), retry(nil), breaker(one), bulkhead(nil)}, nil},
		{"clock.New() is the system's", clock.New(), []steady.Policy{timeout(clock.New()), breaker(nil), bulkhead(clock.New())}, nil},
		{"one that cannot be compared", nil, []steady.Policy{timeout(uncomparable{Clock: one}), retry(nil)}, nil},
		{
			"the config against policies", one,
			[]steady.Policy{timeout(two), retry(two), breaker(two), bulkhead(two)},
			[]string{
				"PipelineConfig.Clock and Policies[0] are on different clocks: give both the same",
				"PipelineConfig.Clock and Policies[1] ", "PipelineConfig.Clock and Policies[2] ", "PipelineConfig.Clock and Policies[3] ",
			},
		},
		{"policy against policy", nil, []steady.Policy{retry(nil), timeout(one), bulkhead(two)}, []string{"Policies[1] and Policies[2] "}},
		{"a breaker on the system clock", one, []steady.Policy{breaker(nil)}, []string{"PipelineConfig.Clock and Policies[0] "}},
		{"a breaker on the system clock, and a timeout that is not", nil, []steady.Policy{timeout(one), breaker(nil)}, []string{"Policies[0] and Policies[1] "}},
		{"clock.New() against a mock", clock.New(), []steady.Policy{retry(one)}, []string{"PipelineConfig.Clock and Policies[0] "}},
		{"two that cannot be compared", nil, []steady.Policy{timeout(uncomparable{Clock: one}), retry(uncomparable{Clock: one})}, []string{"Policies[0] and Policies[1] "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := steady.NewPipeline(steady.PipelineConfig[int]{Name: "prices", Clock: test.clock, Policies: test.policies})
			if test.faults == nil {
				require.NoError(t, err)
				require.NoError(t, p.Run(t.Context(), func(context.Context) error { return nil }))
				return
			}
			for _, fault := range test.faults {
				require.ErrorContains(t, err, `steady: pipeline "prices": `+fault)
			}
		})
	}
}

// A policy that names no clock is on the one that another policy of the pipeline names.
func TestTheClockOfOnePolicyIsThatOfAll(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	var took time.Duration
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{newTimeout(t, steady.TimeoutConfig{Limit: time.Second}), b},
		Hooks:    &steady.Hooks{OnAttempt: func(_ context.Context, a steady.Attempt) { took = a.Duration }},
	}))
	_, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
		deadline, _ := ctx.Deadline()
		assert.Equal(t, mock.Now().Add(time.Second), deadline)
		mock.Add(2 * time.Second)
		return 0, ctx.Err()
	})
	require.ErrorIs(t, err, steady.ErrTimeout)
	assert.Equal(t, 2*time.Second, took)
}

func TestAConfigIsCopied(t *testing.T) {
	hooks := &steady.Hooks{}
	policies := []steady.Policy{newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})}
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: policies, Hooks: hooks}))

	policies[0] = nil
	hooks.OnDone = func(context.Context, steady.Completion) { t.Error("set too late") }
	cfg := p.Config()
	assert.NotNil(t, cfg.Policies[0])
	cfg.Policies[0] = nil
	assert.NotNil(t, p.Config().Policies[0])
	require.NoError(t, p.Run(t.Context(), func(context.Context) error { return nil }))
}

func TestPipelinesOfManyTypesShareOneSetOfPolicies(t *testing.T) {
	b, mock := newBreaker(t, steady.BreakerConfig{})
	policies := []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2}), b, newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})}
	share(t, mock, policies, 7)
	share(t, mock, policies, "seven")
	share(t, mock, policies, []byte("seven"))
	share(t, mock, policies, struct{}{})
	assert.Equal(t, 4*3, b.Stats().Calls)
	assert.Equal(t, 4, b.Stats().Failures)
}

func share[T any](t *testing.T, mock *clock.Mock, policies []steady.Policy, want T) {
	t.Helper()
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[T]{Policies: policies, Clock: mock}))
	attempt := 0
	for range 2 {
		v, err := p.Do(t.Context(), func(context.Context) (v T, err error) {
			if attempt++; attempt == 1 {
				return v, errBoom
			}
			return want, nil
		})
		require.NoError(t, err)
		assert.Equal(t, want, v)
	}
}

func TestValuesAreNotMixedUpBetweenConcurrentCalls(t *testing.T) {
	p := pipeline(t,
		newTimeout(t, steady.TimeoutConfig{Limit: time.Hour}),
		newRetry(t, steady.RetryConfig{NoDelay: true, NoBudget: true}),
		steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true, WindowSize: 1 << 14, MinCalls: 1 << 14})),
		newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 64}))
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 200 {
				want, attempt := g*1000+i, 0
				v, err := p.Do(t.Context(), func(context.Context) (int, error) {
					runtime.Gosched()
					if attempt++; attempt == 1 && i%3 == 0 {
						return -want, errBoom
					}
					return want, nil
				})
				assert.NoError(t, err)
				assert.Equal(t, want, v)
			}
		})
	}
	wg.Wait()
}

// A call may make another one through the same pipeline.
func TestCallsNest(t *testing.T) {
	p := pipeline(t, newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 2}))
	v, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
		inner, err := p.Do(ctx, returns(1, nil))
		return inner + 1, err
	})
	require.NoError(t, err)
	assert.Equal(t, 2, v)
}

// result is a value that holds something open.
type result struct {
	failing   bool
	discarded int
}

// failing classifies a result.
func failing(r *result, err error) steady.Outcome {
	if err == nil && r != nil && r.failing {
		return steady.Transient
	}
	return 0
}

// discard closes a result.
func discard(r *result) { r.discarded++ }

// O5
func TestAFailingValueComesBackWhenNothingIsLeftToTry(t *testing.T) {
	noBudget := func() *steady.RetryBudget {
		budget := steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Burst: 1}))
		empty := pipeline(t, newRetry(t, steady.RetryConfig{NoDelay: true, Budget: budget, MaxAttempts: 2}))
		_, _ = empty.Do(t.Context(), returns(0, errBoom))
		return budget
	}()
	for name, test := range map[string]struct {
		policies []steady.Policy
		attempts int
	}{
		"no retry":    {nil, 1},
		"one attempt": {[]steady.Policy{newRetry(t, steady.RetryConfig{MaxAttempts: 1})}, 1},
		"attempts":    {[]steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true})}, 3},
		"budget":      {[]steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true, Budget: noBudget})}, 1},
		"deadline": {[]steady.Policy{
			newTimeout(t, steady.TimeoutConfig{Limit: time.Minute}),
			newRetry(t, steady.RetryConfig{BaseDelay: time.Hour, MaxDelay: time.Hour, Jitter: steady.NoJitter}),
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := steady.Must(steady.NewPipeline(steady.PipelineConfig[*result]{
				Policies: test.policies, Classify: failing, Discard: discard,
			}))
			var made []*result
			v, err := p.DoOr(t.Context(),
				func(context.Context) (*result, error) {
					made = append(made, &result{failing: true})
					return made[len(made)-1], nil
				},
				func(context.Context, error) (*result, error) { t.Error("there was no error"); return nil, nil })
			require.NoError(t, err)
			require.Len(t, made, test.attempts)
			for i, r := range made {
				last := i == len(made)-1
				assert.Equal(t, last, r == v)
				assert.Equal(t, !last, r.discarded == 1)
			}
		})
	}
}

// O5
func TestARetriedResultIsDiscardedBeforeTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &result{failing: true}
		var discarded time.Time
		p := steady.Must(steady.NewPipeline(steady.PipelineConfig[*result]{
			Policies: []steady.Policy{newRetry(t, steady.RetryConfig{BaseDelay: time.Second, Jitter: steady.NoJitter})},
			Classify: failing,
			Discard:  func(r *result) { discard(r); discarded = time.Now() },
		}))
		begin := time.Now()
		good, bads := &result{}, []*result{bad}
		v, err := p.Do(t.Context(), func(context.Context) (*result, error) {
			if len(bads) > 0 {
				bads = nil
				return bad, nil
			}
			return good, nil
		})
		require.NoError(t, err)
		assert.Same(t, good, v)
		assert.Equal(t, 1, bad.discarded)
		assert.Zero(t, good.discarded)
		assert.Equal(t, begin, discarded)
	})
}

// O5
func TestADelayThatEndsWithoutAnotherAttemptSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		p := steady.Must(steady.NewPipeline(steady.PipelineConfig[*result]{
			Policies: []steady.Policy{newRetry(t, steady.RetryConfig{BaseDelay: time.Minute, MaxDelay: time.Minute, Jitter: steady.NoJitter})},
			Classify: failing, Discard: discard,
		}))
		bad := &result{failing: true}
		v, err := p.Do(ctx, func(context.Context) (*result, error) { return bad, nil })
		assert.Nil(t, v)
		assert.Equal(t, 1, bad.discarded)
		var gaveUp *steady.RetryError
		require.ErrorAs(t, err, &gaveUp)
		assert.Equal(t, context.Canceled, gaveUp.Reason)
		assert.NoError(t, gaveUp.Last)
		assert.Equal(t, 1, gaveUp.Attempts)
		assert.Equal(t, time.Second, gaveUp.Elapsed)
	})
}

// O5
func TestAnAttemptRejectedAfterAFailingValueSaysWhy(t *testing.T) {
	b, _ := newBreaker(t, steady.BreakerConfig{WindowSize: 1})
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[*result]{
		Policies: []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true}), b}, Classify: failing, Discard: discard,
	}))
	bad := &result{failing: true}
	v, err := p.Do(t.Context(), func(context.Context) (*result, error) { return bad, nil })
	assert.Nil(t, v)
	assert.Equal(t, 1, bad.discarded)
	var gaveUp *steady.RetryError
	require.ErrorAs(t, err, &gaveUp)
	assert.NoError(t, gaveUp.Last)
	assert.True(t, steady.IsRejected(gaveUp.Reason))
}

// O7
func TestWhatIsNotWorthARetryComesBackUntouchedAtAnyAttempt(t *testing.T) {
	for _, o := range []steady.Outcome{steady.Success, steady.Permanent, steady.Ignored} {
		for at := 1; at <= 3; at++ {
			final := steady.Mark(errors.New("final"), o)
			attempt := 0
			_, err := pipeline(t, newRetry(t, steady.RetryConfig{NoDelay: true})).Do(t.Context(),
				func(context.Context) (int, error) {
					if attempt++; attempt < at {
						return 0, errBoom
					}
					return 0, final
				})
			assert.Same(t, final, err, "%v at attempt %d", o, at)
			assert.Equal(t, at, attempt)
		}
	}
}

// O7
func TestOneAttemptThatWasNotCutShortKeepsItsError(t *testing.T) {
	_, err := pipeline(t,
		newTimeout(t, steady.TimeoutConfig{Limit: time.Hour}),
		newRetry(t, steady.RetryConfig{MaxAttempts: 1}),
		steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true})),
		newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})).Do(t.Context(), returns(0, errBoom))
	assert.Equal(t, errBoom, err)
}

// O7
func TestAnErrorMatchesWhyTheCallStoppedAndWhatTheFunctionReturned(t *testing.T) {
	minute := func() *steady.Retry {
		return newRetry(t, steady.RetryConfig{
			BaseDelay: time.Minute, MaxDelay: time.Minute, Jitter: steady.NoJitter,
			Budget: steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Burst: 1})),
		})
	}
	atOnce := steady.RetryConfig{NoDelay: true}
	queue := func() steady.Policy { // in which the second attempt waits
		bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Hour}))
		return steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
			if _, err := bulkhead.Acquire(ctx); err != nil {
				return err
			}
			return next(ctx)
		})
	}
	for _, test := range []struct {
		name     string
		cancel   bool // after a second
		policies func() []steady.Policy
		reason   error
		attempts int
	}{
		{"attempts", false, func() []steady.Policy { return []steady.Policy{newRetry(t, steady.RetryConfig{})} }, steady.ErrRetriesExhausted, 3},
		{"cancelled in the delay", true, func() []steady.Policy { return []steady.Policy{minute()} }, context.Canceled, 1},
		{"budget", false, func() []steady.Policy { return []steady.Policy{minute()} }, steady.ErrRetryBudget, 2},
		{"deadline", false, func() []steady.Policy {
			return []steady.Policy{newTimeout(t, steady.TimeoutConfig{Limit: time.Second}), minute()}
		}, steady.ErrRetryDeadline, 1},
		{"cancelled in a queue", true, func() []steady.Policy {
			return []steady.Policy{newRetry(t, atOnce), queue()}
		}, context.Canceled, 1},
		{"timed out in a queue", false, func() []steady.Policy {
			return []steady.Policy{newTimeout(t, steady.TimeoutConfig{Limit: time.Second}), newRetry(t, atOnce), queue()}
		}, steady.ErrTimeout, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.cancel {
					time.AfterFunc(time.Second, cancel)
				}
				var done steady.Completion
				p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
					Policies: test.policies(),
					Hooks:    &steady.Hooks{OnDone: func(_ context.Context, c steady.Completion) { done = c }},
				}))
				_, err := p.Do(ctx, returns(0, &typedError{code: 7}))

				require.ErrorIs(t, err, test.reason)
				var typed *typedError
				require.ErrorAs(t, err, &typed)
				assert.Equal(t, 7, typed.code)
				var gaveUp *steady.RetryError
				require.ErrorAs(t, err, &gaveUp)
				assert.Equal(t, test.attempts, gaveUp.Attempts, "the runs of the function")
				assert.Equal(t, test.attempts, done.Attempts)
				assert.Equal(t, err, done.Err)
			})
		})
	}
}

// O8
func TestTheFallbackIsAskedForEveryErrorButTheCallersCancellation(t *testing.T) {
	forced := steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true}))
	forced.ForceOpen("maintenance")
	full := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	steady.Must(full.Acquire(t.Context()))
	cancelled, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, test := range []struct {
		name   string
		ctx    context.Context
		policy []steady.Policy
		fn     func(context.Context) (int, error)
		asked  bool
	}{
		{"a failure", t.Context(), nil, returns(0, errBoom), true},
		{"a permanent one", t.Context(), nil, returns(0, steady.Mark(errBoom, steady.Permanent)), true},
		{"a healthy no", t.Context(), nil, returns(0, steady.Mark(errBoom, steady.Success)), true},
		{"an ignored error", t.Context(), nil, returns(0, steady.Mark(errBoom, steady.Ignored)), true},
		{"somebody else's cancellation", t.Context(), nil, returns(0, context.Canceled), true},
		{"an open breaker", t.Context(), []steady.Policy{forced}, returns(1, nil), true},
		{"a full bulkhead", t.Context(), []steady.Policy{full}, returns(1, nil), true},
		{"retries", t.Context(), []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true})}, returns(0, errBoom), true},
		{"a success", t.Context(), nil, returns(1, nil), false},
		{"the caller's cancellation", cancelled, nil, func(context.Context) (int, error) { cancel(); return 0, errBoom }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var done steady.Completion
			p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
				Policies: test.policy,
				Hooks:    &steady.Hooks{OnDone: func(_ context.Context, c steady.Completion) { done = c }},
			}))
			asked := false
			v, err := p.DoOr(test.ctx, test.fn, func(ctx context.Context, err error) (int, error) {
				asked = true
				assert.Equal(t, test.ctx, ctx)
				assert.Equal(t, done.Err, err)
				return 2, err
			})
			assert.Equal(t, test.asked, asked)
			assert.Equal(t, test.asked, done.Fallback)
			assert.Equal(t, asked, v == 2, "its answer is the answer")
			assert.Equal(t, done.Err, err)
		})
	}
}

// O8
func TestTheFallbackHoldsNothingAndRunsAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 2 * time.Second}))
		bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := pipeline(t, newTimeout(t, steady.TimeoutConfig{Limit: time.Minute}), b, bulkhead)
		v, err := p.DoOr(ctx,
			func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
			func(ctx context.Context, err error) (int, error) {
				require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Zero(t, bulkhead.Stats().InFlight)
				assert.Zero(t, b.Stats().InFlight)
				time.Sleep(time.Hour)
				return 2, nil
			})
		require.NoError(t, err)
		assert.Equal(t, 2, v)
		assert.Zero(t, b.Stats().Slow, "nobody's stopwatch ran")
	})
}

// Whatever keeps a result from its caller, it goes to Discard, once, and every permit and slot goes back.
func TestEveryResultThatDoesNotReachTheCallerIsDiscarded(t *testing.T) {
	explodes := func(name string, hooks *steady.Hooks) {
		switch name {
		case "OnTransition":
			hooks.OnTransition = func(steady.Transition) { explodeNow() }
		case "OnRetry":
			hooks.OnRetry = func(context.Context, steady.RetryDelay) { explodeNow() }
		case "OnReject":
			hooks.OnReject = func(context.Context, steady.Rejection) { explodeNow() }
		case "OnTimeout":
			hooks.OnTimeout = func(context.Context, steady.Expiry) { explodeNow() }
		case "OnAttempt":
			hooks.OnAttempt = func(context.Context, steady.Attempt) { explodeNow() }
		case "OnDone":
			hooks.OnDone = func(context.Context, steady.Completion) { explodeNow() }
		}
	}
	late := errors.Join(errBoom, context.DeadlineExceeded)
	for _, test := range []struct {
		name   string
		panics bool
		after  error // what a Middleware makes of the result
	}{
		{name: "an error of a Middleware", after: errBoom},
		{name: "an error of a Middleware, and Discard", after: errBoom, panics: true},
		{name: "Classify", panics: true},
		{name: "RetryAfter", panics: true},
		{name: "Discard", panics: true},
		{name: "fallback", panics: true, after: errBoom},
		{name: "OnTransition", panics: true},
		{name: "OnRetry", panics: true},
		{name: "OnReject", panics: true},
		{name: "OnTimeout", panics: true, after: late},
		{name: "OnAttempt", panics: true},
		{name: "OnDone", panics: true},
	} {
		for _, method := range []string{"DoOr", "Hold"} {
			if method == "Hold" && (test.name == "fallback" || test.name == "OnDone") {
				continue // OnDone is called at the release then
			}
			t.Run(test.name+" in "+method, func(t *testing.T) {
				var hooks steady.Hooks
				explodes(test.name, &hooks)
				b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 1, Hooks: &hooks})
				bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
				var made []*result
				p := steady.Must(steady.NewPipeline(steady.PipelineConfig[*result]{
					Policies: []steady.Policy{
						newTimeout(t, steady.TimeoutConfig{Limit: time.Second, Hooks: &hooks}),
						steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
							err := next(ctx)
							if test.after != nil {
								mock.Add(time.Second)
								return test.after
							}
							return err
						}),
						newRetry(t, steady.RetryConfig{NoDelay: true, Hooks: &hooks}), b, bulkhead,
					},
					Classify: func(r *result, err error) steady.Outcome {
						if test.name == "Classify" {
							explodeNow()
						}
						return failing(r, err)
					},
					RetryAfter: func(*result, error) time.Duration {
						if test.name == "RetryAfter" {
							explodeNow()
						}
						return 0
					},
					Discard: func(r *result) {
						discard(r)
						if strings.HasSuffix(test.name, "Discard") {
							explodeNow()
						}
					},
					Hooks: &hooks,
				}))
				fn := func(context.Context) (*result, error) { //nolint:unparam // it is what Do takes
					made = append(made, &result{failing: test.after == nil && test.name != "OnDone" && test.name != "OnAttempt"})
					return made[len(made)-1], nil
				}
				do := func() {
					if method == "Hold" {
						_, release, err := p.Hold(t.Context(), fn)
						assert.Error(t, err)
						release(nil)
						return
					}
					_, _ = p.DoOr(t.Context(), fn, func(context.Context, error) (*result, error) {
						if test.name == "fallback" {
							explodeNow()
						}
						return nil, nil
					})
				}
				if test.panics {
					unwound(t, "panic", do)
				} else {
					do()
				}
				require.Len(t, made, 1)
				assert.Equal(t, 1, made[0].discarded)
				assert.Zero(t, bulkhead.Stats().InFlight)
				assert.Zero(t, b.Stats().InFlight)
			})
		}
	}
}

func TestAnErrorIsNeverDiscarded(t *testing.T) {
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true})},
		Discard:  func(int) { t.Error("a value beside an error is the function's own matter") },
	}))
	_, err := p.Do(t.Context(), returns(7, errBoom))
	require.ErrorIs(t, err, errBoom)
	_ = p.Run(t.Context(), func(context.Context) error { return errBoom })
	require.NoError(t, p.Run(t.Context(), func(context.Context) error { return nil }))
}

// noAllocations fails the test if f allocates: on average, and, more strictly, at all in 10 000 calls. The
// runtime itself allocates now and then, so that the best of a few rounds counts.
func noAllocations(t *testing.T, f func()) {
	t.Helper()
	if raceEnabled {
		t.Skip("with -race sync.Pool drops what it is given, at random")
	}
	assert.Zero(t, testing.AllocsPerRun(1000, f))

	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC() // the next one would empty the pools
	f()
	fewest := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 10_000 {
			f()
		}
		runtime.ReadMemStats(&after)
		fewest = min(fewest, after.Mallocs-before.Mallocs)
	}
	assert.Zero(t, fewest)
}

func TestASuccessAllocatesNothing(t *testing.T) {
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: time.Hour}))
	aged := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: time.Hour, WindowAge: time.Minute}))
	retry, bulkhead := newRetry(t, steady.RetryConfig{}), newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	queue := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Second}))
	for name, policies := range map[string][]steady.Policy{
		"none":             nil,
		"breaker":          {breaker},
		"breaker with age": {aged},
		"bulkhead":         {bulkhead},
		"queue":            {queue},
		"retry":            {retry},
		"all three":        {retry, breaker, bulkhead},
		"breaker outside":  {breaker, retry, bulkhead},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			do := pipeline(t, policies...)
			fn, proc := returns(42, nil), func(context.Context) error { return nil }
			noAllocations(t, func() { _, _ = do.Do(ctx, fn) })
			noAllocations(t, func() { _ = do.Run(ctx, proc) })
			fallback := func(context.Context, error) (int, error) { return 0, nil }
			noAllocations(t, func() { _, _ = do.DoOr(ctx, fn, fallback) })
		})
	}
}

func TestAnOpenRejectionAllocatesNothing(t *testing.T) {
	open := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: time.Hour, WindowSize: 1, OpenDuration: time.Hour}))
	call := allow(t, open)
	call.Done(steady.Transient)
	forced := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: time.Hour}))
	forced.ForceOpen("maintenance")
	full := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	steady.Must(full.Acquire(t.Context()))
	for name, policies := range map[string][]steady.Policy{
		"open":               {open},
		"open under retry":   {newRetry(t, steady.RetryConfig{}), open},
		"forced open":        {forced},
		"full bulkhead":      {full},
		"the standard chain": {newRetry(t, steady.RetryConfig{}), open, newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			p := pipeline(t, policies...)
			fn := returns(42, nil)
			require.True(t, steady.IsRejected(p.Run(ctx, func(context.Context) error { return nil })))
			noAllocations(t, func() { _, _ = p.Do(ctx, fn) })
		})
	}
}

func TestATimeoutAllocatesOneMoreThanItsContextAtMost(t *testing.T) {
	if raceEnabled {
		t.Skip("with -race sync.Pool drops what it is given, at random")
	}
	ctx := context.Background()
	p := pipeline(t, newTimeout(t, steady.TimeoutConfig{Limit: time.Hour}), newRetry(t, steady.RetryConfig{}),
		steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: time.Minute})), newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1}))
	itself := testing.AllocsPerRun(1000, func() {
		inner, cancel := context.WithTimeout(ctx, time.Hour)
		inner.Done()
		cancel()
	})
	asks := func(ctx context.Context) (int, error) { ctx.Done(); return 42, nil }
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() { _, _ = p.Do(ctx, asks) }), itself+1)
	asksNothing := returns(42, nil)
	assert.InDelta(t, 1, testing.AllocsPerRun(1000, func() { _, _ = p.Do(ctx, asksNothing) }), 0)
}

// runTest runs a test from within an Example, and prints how it ended.
func runTest(test func(*testing.T)) {
	verbose := flag.Lookup("test.v").Value
	defer func(was string) { _ = verbose.Set(was) }(verbose.String())
	_ = verbose.Set("false") // or it would tell of the test in the Example's output

	everything := func(_, _ string) (bool, error) { return true, nil }
	if testing.RunTests(everything, []testing.InternalTest{{Name: "Example", F: test}}) {
		fmt.Println("PASS")
	}
}
