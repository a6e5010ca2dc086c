package steady_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// namedHooks appends a name and the hook's to heard.
func namedHooks(heard *[]string, name string) *steady.Hooks {
	say := func(hook string) { *heard = append(*heard, name+" "+hook) }
	return &steady.Hooks{
		OnTransition: func(steady.Transition) { say("OnTransition") },
		OnReject:     func(context.Context, steady.Rejection) { say("OnReject") },
		OnRetry:      func(context.Context, steady.RetryDelay) { say("OnRetry") },
		OnTimeout:    func(context.Context, steady.Expiry) { say("OnTimeout") },
		OnWait:       func(context.Context, steady.Wait) { say("OnWait") },
		OnAttempt:    func(context.Context, steady.Attempt) { say("OnAttempt") },
		OnDone:       func(context.Context, steady.Completion) { say("OnDone") },
	}
}

var hookNames = []string{"OnTransition", "OnReject", "OnRetry", "OnTimeout", "OnAttempt", "OnDone", "OnWait"}

// callAll calls every hook once.
func callAll(h *steady.Hooks) []func() {
	ctx := context.Background()
	return []func(){
		func() { h.OnTransition(steady.Transition{}) },
		func() { h.OnReject(ctx, steady.Rejection{}) },
		func() { h.OnRetry(ctx, steady.RetryDelay{}) },
		func() { h.OnTimeout(ctx, steady.Expiry{}) },
		func() { h.OnAttempt(ctx, steady.Attempt{}) },
		func() { h.OnDone(ctx, steady.Completion{}) },
		func() { h.OnWait(ctx, steady.Wait{}) },
	}
}

func TestJoinedHooksAreCalledInOrder(t *testing.T) {
	var heard []string
	joined := steady.JoinHooks(namedHooks(&heard, "a"), nil, namedHooks(&heard, "b"), &steady.Hooks{}, namedHooks(&heard, "c"))
	for i, f := range callAll(joined) {
		heard = nil
		f()
		name := " " + hookNames[i]
		assert.Equal(t, []string{"a" + name, "b" + name, "c" + name}, heard)
	}
}

func TestAJoinedHookThatPanicsDoesNotSilenceTheOthers(t *testing.T) {
	var heard []string
	broken := &steady.Hooks{
		OnTransition: func(steady.Transition) { explodeNow() },
		OnReject:     func(context.Context, steady.Rejection) { explodeNow() },
		OnRetry:      func(context.Context, steady.RetryDelay) { explodeNow() },
		OnTimeout:    func(context.Context, steady.Expiry) { explodeNow() },
		OnWait:       func(context.Context, steady.Wait) { explodeNow() },
		OnAttempt:    func(context.Context, steady.Attempt) { explodeNow() },
		OnDone:       func(context.Context, steady.Completion) { explodeNow() },
	}
	joined := steady.JoinHooks(namedHooks(&heard, "a"), broken, namedHooks(&heard, "b"), namedHooks(&heard, "c"))
	for i, f := range callAll(joined) {
		heard = nil
		unwound(t, "panic", f)
		name := " " + hookNames[i]
		assert.Equal(t, []string{"a" + name, "b" + name, "c" + name}, heard)
	}
}

func TestJoinedHooksAreCopiesAndOfNothingAreEmpty(t *testing.T) {
	assert.Equal(t, &steady.Hooks{}, steady.JoinHooks())
	assert.Equal(t, &steady.Hooks{}, steady.JoinHooks(nil, &steady.Hooks{}))

	var heard []string
	h := namedHooks(&heard, "a")
	joined := steady.JoinHooks(h, nil)
	h.OnDone = nil
	joined.OnDone(t.Context(), steady.Completion{})
	assert.Equal(t, []string{"a OnDone"}, heard)
}

// storyTime is when the breakers of these tests are made.
var storyTime = time.Date(2026, 5, 13, 14, 6, 57, 120e6, time.UTC)

func TestATransitionAnswersThePostMortemInOneLine(t *testing.T) {
	for _, test := range []struct {
		name  string
		cfg   steady.BreakerConfig
		story func(*testing.T, *steady.Breaker, *clock.Mock)
		want  string // the last one
	}{
		{
			"slow rate",
			steady.BreakerConfig{MinCalls: 20, OpenJitter: 0.2, Rand: func() float64 { return 0.4 }},
			func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
				call(t, b, mock, 12, 500*time.Millisecond, steady.Success)
				call(t, b, mock, 8, 0, steady.Success)
			},
			"catalog: closed → open at 14:07:03.120: slow-call rate 0.60 ≥ 0.50 over 20 calls (12 slow, 0 failed), open for 10.8s",
		},
		{
			"failure rate",
			steady.BreakerConfig{WindowSize: 4, FailureRate: 0.75},
			func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
				call(t, b, mock, 1, 0, steady.Success)
				call(t, b, mock, 2, 0, steady.Transient)
				call(t, b, mock, 1, time.Second, steady.Permanent)
			},
			"catalog: closed → open at 14:06:58.120: failure rate 0.75 ≥ 0.75 over 4 calls (1 slow, 3 failed), open for 10s",
		},
		{
			"one call",
			steady.BreakerConfig{WindowSize: 1},
			func(t *testing.T, b *steady.Breaker, mock *clock.Mock) { call(t, b, mock, 1, 0, steady.Transient) },
			"catalog: closed → open at 14:06:57.120: failure rate 1.00 ≥ 0.50 over 1 call (0 slow, 1 failed), open for 10s",
		},
		{
			"in shadow",
			steady.BreakerConfig{WindowSize: 1, Shadow: true},
			func(t *testing.T, b *steady.Breaker, mock *clock.Mock) { call(t, b, mock, 1, 0, steady.Transient) },
			"catalog: closed → open at 14:06:57.120: failure rate 1.00 ≥ 0.50 over 1 call (0 slow, 1 failed), open for 10s (shadow: nothing is rejected)",
		},
		{
			"a shadow that is forced open",
			steady.BreakerConfig{Shadow: true},
			func(_ *testing.T, b *steady.Breaker, _ *clock.Mock) { b.ForceOpen("it is down") },
			"catalog: closed → forced-open at 14:06:57.120: manual: it is down",
		},
		{
			"open elapsed",
			steady.BreakerConfig{WindowSize: 1},
			func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
				call(t, b, mock, 1, 0, steady.Transient)
				mock.Add(11 * time.Second)
				allow(t, b)
			},
			"catalog: open → half-open at 14:07:08.120: open period elapsed",
		},
		{
			"probe failed",
			steady.BreakerConfig{WindowSize: 1, MaxOpenDuration: time.Minute},
			func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
				call(t, b, mock, 1, 0, steady.Transient)
				mock.Add(10 * time.Second)
				call(t, b, mock, 1, 0, steady.Transient)
			},
			"catalog: half-open → open at 14:07:07.120: probe failed, open for 20s",
		},
		{
			"probe slow",
			steady.BreakerConfig{WindowSize: 1},
			func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
				call(t, b, mock, 1, 0, steady.Transient)
				mock.Add(10 * time.Second)
				call(t, b, mock, 1, 3*time.Second, steady.Success)
			},
			"catalog: half-open → open at 14:07:07.620: probe slow, running for 500ms, open for 10s",
		},
		{
			"probe timeout",
			steady.BreakerConfig{WindowSize: 1, NoSlowCalls: true, ProbeTimeout: 2 * time.Second},
			func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
				call(t, b, mock, 1, 0, steady.Transient)
				mock.Add(10 * time.Second)
				allow(t, b)
				mock.Add(time.Minute)
				b.State()
			},
			"catalog: half-open → open at 14:07:09.120: probe timed out, running for 2s, open for 10s",
		},
		{
			"probes succeeded",
			steady.BreakerConfig{WindowSize: 1},
			func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
				call(t, b, mock, 1, 0, steady.Transient)
				mock.Add(10 * time.Second)
				call(t, b, mock, 3, 100*time.Millisecond, steady.Success)
			},
			"catalog: half-open → closed at 14:07:07.420: 3 probes succeeded",
		},
		{
			"one probe succeeded",
			steady.BreakerConfig{WindowSize: 1, HalfOpenProbes: 1},
			func(t *testing.T, b *steady.Breaker, mock *clock.Mock) {
				call(t, b, mock, 1, 0, steady.Transient)
				mock.Add(10 * time.Second)
				call(t, b, mock, 1, 0, steady.Success)
			},
			"catalog: half-open → closed at 14:07:07.120: 1 probe succeeded",
		},
		{
			"forced open",
			steady.BreakerConfig{},
			func(_ *testing.T, b *steady.Breaker, _ *clock.Mock) { b.ForceOpen("maintenance until noon") },
			"catalog: closed → forced-open at 14:06:57.120: manual: maintenance until noon",
		},
		{
			"forced closed",
			steady.BreakerConfig{},
			func(_ *testing.T, b *steady.Breaker, _ *clock.Mock) { b.ForceClosed("") },
			"catalog: closed → forced-closed at 14:06:57.120: manual: ",
		},
		{
			"reset",
			steady.BreakerConfig{},
			func(_ *testing.T, b *steady.Breaker, _ *clock.Mock) { b.ForceOpen("maintenance"); b.Reset("over") },
			"catalog: forced-open → closed at 14:06:57.120: manual: over",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts, mock := new(transitions), clock.NewMock()
			mock.Set(storyTime)
			cfg := test.cfg
			cfg.Name, cfg.Hooks, cfg.Clock = "catalog", ts.hooks(), mock
			cfg.NoOpenJitter = cfg.Rand == nil
			if !cfg.NoSlowCalls {
				cfg.SlowThreshold = 500 * time.Millisecond
			}
			b := steady.Must(steady.NewBreaker(cfg))
			test.story(t, b, mock)
			all := ts.list()
			require.NotEmpty(t, all)
			assert.Equal(t, test.want, all[len(all)-1].String())
		})
	}
}

func TestATransitionThatNoBreakerMadeHasATextToo(t *testing.T) {
	assert.NotPanics(t, func() { _ = steady.Transition{}.String() })
	assert.Equal(t, "catalog: open → half-open at 14:06:57.120: open period elapsed", steady.Transition{
		Breaker: "catalog", From: steady.StateOpen, To: steady.StateHalfOpen, Reason: steady.ReasonOpenElapsed, At: storyTime,
	}.String())
}

func TestStatesAndReasonsHaveNames(t *testing.T) {
	var states, reasons []string
	for s := steady.StateClosed; s <= steady.StateForcedClosed; s++ {
		states = append(states, s.String())
	}
	for r := steady.ReasonFailureRate; r <= steady.ReasonManual; r++ {
		reasons = append(reasons, r.String())
	}
	assert.Equal(t, []string{"closed", "open", "half-open", "forced-open", "forced-closed"}, states)
	assert.Equal(t, []string{
		"failure_rate", "slow_rate", "probe_failed", "probe_slow", "probe_timeout", "probes_succeeded", "open_elapsed", "manual",
	}, reasons)
	assert.Equal(t, "state 99", steady.State(99).String())
	assert.Equal(t, "reason 0", steady.Reason(0).String())
}

type contextKey struct{}

// withKey returns a context to be told apart from others.
func withKey(t testing.TB) context.Context {
	return context.WithValue(t.Context(), contextKey{}, t.Name())
}

// same reports whether ctx is one of withKey's, or a child of it.
func same(t testing.TB, ctx context.Context) bool { return ctx.Value(contextKey{}) == t.Name() }

func TestOnRejectTellsWhoRejectedAndWhy(t *testing.T) {
	var heard []steady.Rejection
	hooks := &steady.Hooks{OnReject: func(ctx context.Context, r steady.Rejection) {
		assert.True(t, same(t, ctx))
		heard = append(heard, r)
	}}
	b := steady.Must(steady.NewBreaker(steady.BreakerConfig{Name: "breaker", NoSlowCalls: true, Hooks: hooks}))
	full := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{Name: "bulkhead", MaxConcurrent: 1, Hooks: hooks}))
	steady.Must(full.Acquire(t.Context()))
	p := pipeline(t, b, full)

	_, inBulkhead := p.Do(withKey(t), returns(1, nil))
	b.ForceOpen("maintenance")
	_, inBreaker := p.Do(withKey(t), returns(1, nil))
	require.Len(t, heard, 2)
	assert.Equal(t, []string{"bulkhead", "breaker"}, []string{heard[0].Policy, heard[1].Policy})
	assert.Same(t, inBulkhead, heard[0].Err, "the very error that the caller gets")
	assert.Same(t, inBreaker, heard[1].Err)
	assert.False(t, heard[0].Shadow || heard[1].Shadow)
}

func TestOnRejectOfAllowHasABackgroundContext(t *testing.T) {
	heard := 0
	b, _ := newBreaker(t, steady.BreakerConfig{Hooks: &steady.Hooks{OnReject: func(ctx context.Context, _ steady.Rejection) {
		heard++
		assert.Equal(t, context.Background(), ctx)
	}}})
	b.ForceOpen("maintenance")
	_, err := b.Allow()
	require.Error(t, err)
	assert.Equal(t, 1, heard)
}

func TestOnRetryTellsWhatFailedAndHowLongItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []steady.RetryDelay
		var at []time.Duration
		begin := time.Now()
		p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
			Policies: []steady.Policy{newRetry(t, steady.RetryConfig{
				Name: "retry", MaxAttempts: 4, BaseDelay: time.Second, Jitter: steady.NoJitter,
				Hooks: &steady.Hooks{OnRetry: func(ctx context.Context, r steady.RetryDelay) {
					assert.True(t, same(t, ctx))
					heard = append(heard, r)
					at = append(at, time.Since(begin))
				}},
			})},
			Classify: func(v int, _ error) steady.Outcome {
				if v == 503 {
					return steady.Transient
				}
				return 0
			},
		}))
		ends := []error{errBoom, steady.Mark(errBoom, steady.Unsent), nil, nil}
		n := 0
		v, err := p.Do(withKey(t), func(context.Context) (int, error) {
			n++
			return []int{0, 0, 503, 200}[n-1], ends[n-1]
		})
		require.NoError(t, err)
		assert.Equal(t, 200, v)
		assert.Equal(t, []steady.RetryDelay{
			{Policy: "retry", Attempt: 1, Delay: time.Second, Outcome: steady.Transient, Err: errBoom},
			{Policy: "retry", Attempt: 2, Delay: 2 * time.Second, Outcome: steady.Unsent, Err: ends[1]},
			{Policy: "retry", Attempt: 3, Delay: 4 * time.Second, Outcome: steady.Transient},
		}, heard)
		assert.Equal(t, []time.Duration{0, time.Second, 3 * time.Second}, at, "before the wait")
	})
}

// Source: retry-go#103, where the hook fires when no retry follows.
func TestOnRetryIsCalledOnlyBeforeARetry(t *testing.T) {
	heard := 0
	hooks := &steady.Hooks{OnRetry: func(context.Context, steady.RetryDelay) { heard++ }}
	empty := steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Burst: 1}))
	for name, test := range map[string]struct {
		cfg  steady.RetryConfig
		err  error
		want int
	}{
		"attempts":  {steady.RetryConfig{NoDelay: true}, errBoom, 2},
		"one":       {steady.RetryConfig{MaxAttempts: 1}, errBoom, 0},
		"budget":    {steady.RetryConfig{NoDelay: true, Budget: empty}, errBoom, 1},
		"deadline":  {steady.RetryConfig{BaseDelay: time.Hour, MaxDelay: time.Hour, Jitter: steady.NoJitter}, errBoom, 0},
		"permanent": {steady.RetryConfig{NoDelay: true}, steady.Mark(errBoom, steady.Permanent), 0},
	} {
		heard = 0
		test.cfg.Hooks = hooks
		p := pipeline(t, newTimeout(t, steady.TimeoutConfig{Limit: time.Minute}), newRetry(t, test.cfg))
		_, err := p.Do(t.Context(), returns(0, test.err))
		require.ErrorIs(t, err, errBoom)
		assert.Equal(t, test.want, heard, name)
	}
}

func TestOnTimeoutTellsWhichLimitEndedTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []steady.Expiry
		limit := func(name string, d time.Duration, abandon bool) *steady.Timeout {
			return newTimeout(t, steady.TimeoutConfig{Name: name, Limit: d, Abandon: abandon, Hooks: &steady.Hooks{
				OnTimeout: func(ctx context.Context, e steady.Expiry) {
					assert.True(t, same(t, ctx))
					heard = append(heard, e)
				},
			}})
		}
		heeds := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		_ = pipeline(t, limit("total", time.Minute, false), limit("attempt", time.Second, false)).Run(withKey(t), heeds)
		_ = pipeline(t, limit("total", time.Second, false), limit("attempt", time.Minute, false)).Run(withKey(t), heeds)
		_ = pipeline(t, limit("abandons", time.Second, true)).Run(withKey(t), func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		})
		_ = pipeline(t, limit("success", time.Second, false)).Run(withKey(t), func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		})
		assert.Equal(t, []steady.Expiry{
			{Policy: "attempt", Limit: time.Second},
			{Policy: "total", Limit: time.Second},
			{Policy: "abandons", Limit: time.Second, Abandoned: true},
		}, heard)
		time.Sleep(time.Hour) // let the abandoned one return
	})
}

func TestOnAttemptAndOnDoneTellOfEveryRunAndEveryCall(t *testing.T) {
	mock := clock.NewMock()
	var attempts []steady.Attempt
	var done []steady.Completion
	retry := newRetry(t, steady.RetryConfig{NoDelay: true})
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Name:     "prices",
		Policies: []steady.Policy{retry, newTimeout(t, steady.TimeoutConfig{Limit: time.Hour})},
		Clock:    mock,
		Hooks: &steady.Hooks{
			OnAttempt: func(ctx context.Context, a steady.Attempt) {
				assert.True(t, same(t, ctx))
				_, bounded := ctx.Deadline()
				assert.True(t, bounded, "the attempt's own context")
				attempts = append(attempts, a)
			},
			OnDone: func(ctx context.Context, c steady.Completion) {
				assert.Equal(t, withKey(t).Value(contextKey{}), ctx.Value(contextKey{}))
				_, bounded := ctx.Deadline()
				assert.False(t, bounded, "the caller's context")
				done = append(done, c)
			},
		},
	}))
	n := 0
	_, err := p.Do(withKey(t), func(context.Context) (int, error) {
		n++
		mock.Add(time.Duration(n) * time.Second)
		if n == 1 {
			return 0, errBoom
		}
		return 42, nil
	})
	require.NoError(t, err)
	permanent := steady.Mark(errBoom, steady.Permanent)
	_, err = p.Do(withKey(t), returns(0, permanent))
	require.ErrorIs(t, err, errBoom)
	cancelled, cancel := context.WithCancel(withKey(t))
	cancel()
	_, err = p.Do(cancelled, returns(0, nil))
	require.ErrorIs(t, err, context.Canceled)

	assert.Equal(t, []steady.Attempt{
		{Pipeline: "prices", Attempt: 1, Duration: time.Second, Outcome: steady.Transient, Err: errBoom},
		{Pipeline: "prices", Attempt: 2, Duration: 2 * time.Second, Outcome: steady.Success},
		{Pipeline: "prices", Attempt: 1, Outcome: steady.Permanent, Err: permanent},
	}, attempts)
	assert.Equal(t, []steady.Completion{
		{Pipeline: "prices", Attempts: 2, Duration: 3 * time.Second, Outcome: steady.Success, Retry: retry, Retries: 1},
		{Pipeline: "prices", Attempts: 1, Outcome: steady.Permanent, Err: permanent, Retry: retry},
		{Pipeline: "prices", Attempts: 0, Outcome: steady.Ignored, Err: context.Canceled, Retry: retry},
	}, done)
}

func TestOnDoneTellsWhyARetryGaveUpAlsoOfAFailingValue(t *testing.T) { // O5
	empty := func() *steady.RetryBudget {
		b := steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Burst: 1, Ratio: 0.001}))
		_, _ = pipeline(t, newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2, Budget: b})).Do(t.Context(), returns(0, errBoom))
		return b
	}
	for _, test := range []struct {
		name     string
		policies func(t *testing.T) []steady.Policy
		ctx      time.Duration // until its deadline, if any
		answers  []bool        // false fails
		want     error
	}{
		{
			"exhausted", func(t *testing.T) []steady.Policy {
				return []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true})}
			},
			0,
			[]bool{false},
			steady.ErrRetriesExhausted,
		},
		{"an empty budget", func(t *testing.T) []steady.Policy {
			return []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true, Budget: empty()})}
		}, 0, []bool{false}, steady.ErrRetryBudget},
		{"no time left", func(t *testing.T) []steady.Policy {
			return []steady.Policy{newRetry(t, steady.RetryConfig{BaseDelay: time.Minute, MaxDelay: time.Minute, Jitter: steady.NoJitter})}
		}, time.Second, []bool{false}, steady.ErrRetryDeadline},
		{
			"it did not", func(t *testing.T) []steady.Policy {
				return []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true})}
			},
			0,
			[]bool{false, true},
			nil,
		},
		{
			"one attempt is all", func(t *testing.T) []steady.Policy {
				return []steady.Policy{newRetry(t, steady.RetryConfig{MaxAttempts: 1})}
			},
			0,
			[]bool{false},
			nil,
		},
		{"without one", func(*testing.T) []steady.Policy { return nil }, 0, []bool{false}, nil},
		{"the inner one did, the outer one went on", func(t *testing.T) []steady.Policy {
			return []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true}), newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2})}
		}, 0, []bool{false, false, true}, nil},
		{"inside an abandoning Timeout", func(t *testing.T) []steady.Policy {
			return []steady.Policy{newTimeout(t, steady.TimeoutConfig{Limit: time.Hour, Abandon: true}), newRetry(t, steady.RetryConfig{NoDelay: true})}
		}, 0, []bool{false}, steady.ErrRetriesExhausted},
	} {
		for _, value := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, value %t", test.name, value), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := t.Context()
					if test.ctx > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, test.ctx)
						defer cancel()
					}
					var done steady.Completion
					policies := test.policies(t)
					p := steady.Must(steady.NewPipeline(steady.PipelineConfig[bool]{
						Policies: policies,
						Classify: func(ok bool, _ error) steady.Outcome {
							if !ok {
								return steady.Transient
							}
							return 0
						},
						Hooks: &steady.Hooks{OnDone: func(_ context.Context, c steady.Completion) { done = c }},
					}))
					n := 0
					_, _ = p.Do(ctx, func(context.Context) (bool, error) {
						ok := test.answers[min(n, len(test.answers)-1)]
						n++
						if !ok && !value {
							return false, errBoom
						}
						return ok, nil
					})
					if test.want == nil {
						assert.NoError(t, done.GaveUp)
					} else {
						assert.ErrorIs(t, done.GaveUp, test.want)
					}
					var outermost *steady.Retry
					for _, policy := range policies {
						if r, ok := policy.(*steady.Retry); ok {
							outermost = r
							break
						}
					}
					assert.Same(t, outermost, done.Retry)
				})
			})
		}
	}
}

func TestOnDoneTellsTheRetriesOfTheOutermostRetry(t *testing.T) { // O5
	busy := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	noBudget := func(cfg steady.RetryConfig) *steady.Retry {
		cfg.NoDelay, cfg.NoBudget = true, true
		return newRetry(t, cfg)
	}
	held := acquire(t, busy)
	for _, test := range []struct {
		name     string
		policies []steady.Policy
		errs     []error
		attempts int
		retries  int
	}{
		{"none", []steady.Policy{noBudget(steady.RetryConfig{})}, []error{nil}, 1, 0},
		{"one", []steady.Policy{noBudget(steady.RetryConfig{})}, []error{errBoom, nil}, 2, 1},
		{"all", []steady.Policy{noBudget(steady.RetryConfig{})}, []error{errBoom, errBoom, errBoom}, 3, 2},
		{"of the inner one only", []steady.Policy{noBudget(steady.RetryConfig{}), noBudget(steady.RetryConfig{})}, []error{errBoom, nil}, 2, 0},
		{"inside an abandoning Timeout", []steady.Policy{
			newTimeout(t, steady.TimeoutConfig{Limit: time.Hour, Abandon: true}), noBudget(steady.RetryConfig{}),
		}, []error{errBoom, nil}, 2, 1},
		{"of an attempt that was rejected", []steady.Policy{
			noBudget(steady.RetryConfig{RetryRejected: true, Hooks: &steady.Hooks{OnRetry: func(context.Context, steady.RetryDelay) { held.Release() }}}), busy,
		}, []error{nil}, 1, 1},
		{"a Middleware is none", []steady.Policy{
			noBudget(steady.RetryConfig{MaxAttempts: 1}),
			steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
				return errors.Join(next(ctx), next(ctx))
			}),
		}, []error{nil}, 2, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var done steady.Completion
			p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
				Policies: test.policies,
				Hooks:    &steady.Hooks{OnDone: func(_ context.Context, c steady.Completion) { done = c }},
			}))
			_, _ = p.Do(t.Context(), (&script{errs: test.errs}).next)
			assert.Equal(t, []int{test.attempts, test.retries}, []int{done.Attempts, done.Retries})
		})
	}
}

func TestOnAttemptAndOnDoneHearOfAPanic(t *testing.T) {
	var attempts []steady.Attempt
	var done []steady.Completion
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Hooks: &steady.Hooks{
		OnAttempt: func(_ context.Context, a steady.Attempt) { attempts = append(attempts, a) },
		OnDone:    func(_ context.Context, c steady.Completion) { done = append(done, c) },
	}}))
	for end, blow := range map[string]func(){"panic": explodeNow, "goexit": leaveNow} {
		attempts, done = nil, nil
		unwound(t, end, func() { _ = p.Run(t.Context(), func(context.Context) error { blow(); return nil }) })
		require.Len(t, attempts, 1)
		require.Len(t, done, 1)
		assert.Equal(t, steady.Transient, attempts[0].Outcome)
		assert.Equal(t, steady.Transient, done[0].Outcome)
		assert.Equal(t, 1, done[0].Attempts)
		for _, err := range []error{attempts[0].Err, done[0].Err} {
			var panicked *steady.PanicError
			require.ErrorAs(t, err, &panicked)
			assert.Nil(t, panicked.Value, "which nobody knows while it unwinds")
			assert.Contains(t, string(panicked.Stack), "steady_test.")
		}
	}
}

// A hook that panics unwinds the call, after every permit, slot and token went back.
func TestAHookThatPanicsGivesBackWhatTheCallHeld(t *testing.T) {
	for _, hook := range hookNames {
		if hook == "OnWait" {
			continue // nothing waits here; see TestAnOnWaitThatPanicsGivesTheSlotBack
		}
		t.Run(hook, func(t *testing.T) {
			armed := true
			at := func(name string) {
				if armed && name == hook {
					explodeNow()
				}
			}
			hooks := &steady.Hooks{
				OnTransition: func(steady.Transition) { at("OnTransition") },
				OnReject:     func(context.Context, steady.Rejection) { at("OnReject") },
				OnRetry:      func(context.Context, steady.RetryDelay) { at("OnRetry") },
				OnTimeout:    func(context.Context, steady.Expiry) { at("OnTimeout") },
				OnAttempt:    func(context.Context, steady.Attempt) { at("OnAttempt") },
				OnDone:       func(context.Context, steady.Completion) { at("OnDone") },
			}
			b, mock := probingBreaker(t, steady.BreakerConfig{HalfOpenProbes: 1, NoSlowCalls: true})
			hooked := steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true, WindowSize: 1, NoOpenJitter: true, Clock: mock, Hooks: hooks}))
			bulkhead := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
			retry := newRetry(t, steady.RetryConfig{NoDelay: true, Hooks: hooks})
			p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
				// The first attempt fails and opens the inner breaker, which rejects the second.
				Policies: []steady.Policy{
					newTimeout(t, steady.TimeoutConfig{Limit: time.Second, Hooks: hooks}), bulkhead, b, retry, hooked,
				},
				Hooks: hooks,
				Clock: mock,
			}))
			takes, failure := time.Duration(0), errBoom
			if hook == "OnTimeout" {
				takes, failure = time.Second, steady.Mark(context.DeadlineExceeded, steady.Permanent)
			}
			unwound(t, "panic", func() {
				_, _ = p.Do(t.Context(), func(context.Context) (int, error) {
					mock.Add(takes)
					return 0, failure
				})
			})

			armed = false
			assert.Zero(t, bulkhead.Stats().InFlight)
			assert.Zero(t, b.Stats().InFlight)
			assert.Zero(t, hooked.Stats().InFlight)
			assert.InDelta(t, 10, retry.Config().Budget.Stats().Tokens, 0, "no retry ran")
			mock.Add(10 * time.Second)
			v, err := p.Do(t.Context(), returns(42, nil))
			require.NoError(t, err, "the probes went back")
			assert.Equal(t, 42, v)
			assert.Equal(t, steady.StateClosed, b.State())
		})
	}
}

// A hook may call any method of the policy that called it, and make calls.
func TestAHookMayCallAnything(t *testing.T) {
	var p *steady.Pipeline[int]
	var b *steady.Breaker
	seen := 0
	b, _ = newBreaker(t, steady.BreakerConfig{WindowSize: 1, Hooks: &steady.Hooks{
		OnTransition: func(tr steady.Transition) {
			seen++
			assert.Equal(t, tr.To, b.State())
			if tr.To == steady.StateOpen {
				assert.True(t, steady.IsRejected(p.Run(t.Context(), func(context.Context) error { return nil })))
			}
		},
		OnReject: func(context.Context, steady.Rejection) { seen++; b.Stats() },
	}})
	p = pipeline(t, b)
	_, _ = p.Do(t.Context(), returns(0, errBoom))
	b.Reset("test")
	assert.Equal(t, 3, seen)
}
