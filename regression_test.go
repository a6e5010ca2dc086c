package steady_test

// The regression tests show what other libraries got wrong, in public: each names the reports it comes
// from, on the tracker of the library that they are about. "Seen" is what a run of the library's release
// did.

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// openByFailures opens a closed breaker with an empty window.
func openByFailures(t testing.TB, b *steady.Breaker) {
	t.Helper()
	for range b.Config().MinCalls {
		allow(t, b).Done(steady.Transient)
	}
	require.Equal(t, steady.StateOpen, b.State())
}

// halfOpened returns a breaker whose first open period, ten seconds unless configured, has just ended.
func halfOpened(t testing.TB, cfg steady.BreakerConfig) (*steady.Breaker, *clock.Mock) {
	t.Helper()
	b, mock := newBreaker(t, cfg)
	openByFailures(t, b)
	mock.Add(b.Config().OpenDuration)
	require.Equal(t, steady.StateHalfOpen, b.State())
	return b, mock
}

// requireRejected asks for a permit that must not be given.
func requireRejected(t testing.TB, b *steady.Breaker) {
	t.Helper()
	_, err := b.Allow()
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
}

// heard returns the n-th transition that was delivered, counted from 0.
func heard(t testing.TB, seen *transitions, n int) steady.Transition {
	t.Helper()
	all := seen.list()
	require.Greater(t, len(all), n)
	return all[n]
}

// inBackground makes a call in a goroutine of its own, which the test waits for in the end, and returns where
// its error arrives.
func inBackground(
	t testing.TB, ctx context.Context, p *steady.Pipeline[int], fn func(context.Context) (int, error),
) <-chan error {
	answer, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		_, err := p.Do(ctx, fn)
		answer <- err
	}()
	t.Cleanup(func() { <-ended })
	return answer
}

// neverAnswers is a function that never answers, and heeds its context.
func neverAnswers(ctx context.Context) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// after makes a function that takes d of real time, which a synctest bubble fakes, whatever its context
// says.
func after(d time.Duration, v int, err error) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		time.Sleep(d)
		return v, err
	}
}

// coincidence is a clock whose timers have fired, and with which something else has happened, before anybody
// can wait for them: who then waits for either finds both.
type coincidence struct {
	*clock.Mock
	then func()
}

func (c *coincidence) Timer(d time.Duration) *clock.Timer {
	timer := c.Mock.Timer(d)
	c.Add(d)
	c.then()
	return timer
}

// mustNotRun is a function that must not be called.
func mustNotRun(t testing.TB) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		t.Error("the function ran")
		return 0, nil
	}
}

// newchat#188, ai-gateway#438, sentinel and failsafe-go (seen): 0, negatives, NaN, and 50 for a half were
// accepted, and the breaker opened at once or never.
//
// resilience4j#1349, #747: a minimum above the window was clamped to it in silence.
//
// cep21/circuit#114: a limit of zero meant 10, and nobody could tell.
//
// Square's incident of 2017: a client retried 500 times without backoff.
func TestANumberThatMakesNoSenseIsAnErrorThatNamesIt(t *testing.T) {
	breaker := func(change func(*steady.BreakerConfig)) error {
		cfg := steady.BreakerConfig{SlowThreshold: time.Second}
		change(&cfg)
		_, err := steady.NewBreaker(cfg)
		return err
	}
	second := func(_ any, err error) error { return err }
	for says, err := range map[string]error{
		"SlowThreshold is required and must be positive, got 0s": breaker(func(c *steady.BreakerConfig) { c.SlowThreshold = 0 }),
		"SlowThreshold is required and must be positive, got -1": breaker(func(c *steady.BreakerConfig) { c.SlowThreshold = -1 }),
		"FailureRate must be in (0, 1], got 50":                  breaker(func(c *steady.BreakerConfig) { c.FailureRate = 50 }),
		"FailureRate must be in (0, 1], got -0.5":                breaker(func(c *steady.BreakerConfig) { c.FailureRate = -0.5 }),
		"FailureRate must be in (0, 1], got NaN":                 breaker(func(c *steady.BreakerConfig) { c.FailureRate = math.NaN() }),
		"SlowRate must be in (0, 1], got NaN":                    breaker(func(c *steady.BreakerConfig) { c.SlowRate = math.NaN() }),
		"SlowRate must be in (0, 1], got +Inf":                   breaker(func(c *steady.BreakerConfig) { c.SlowRate = math.Inf(1) }),
		"WindowSize must be in [1, 1048576], got -1":             breaker(func(c *steady.BreakerConfig) { c.WindowSize = -1 }),
		"WindowAge must not be negative, got -1":                 breaker(func(c *steady.BreakerConfig) { c.WindowAge = -1 }),
		"MinCalls must be in [1, WindowSize = 20], got 21":       breaker(func(c *steady.BreakerConfig) { c.MinCalls = 21 }),
		"MinCalls must be in [1, WindowSize = 5], got 6":         breaker(func(c *steady.BreakerConfig) { c.WindowSize, c.MinCalls = 5, 6 }),
		"OpenDuration must be positive, got -1":                  breaker(func(c *steady.BreakerConfig) { c.OpenDuration = -1 }),
		"MaxOpenDuration must be at least OpenDuration = 10s":    breaker(func(c *steady.BreakerConfig) { c.MaxOpenDuration = time.Second }),
		"OpenJitter must be in [0, 1], got NaN":                  breaker(func(c *steady.BreakerConfig) { c.OpenJitter = math.NaN() }),
		"HalfOpenProbes must be in [1, 1000], got -3":            breaker(func(c *steady.BreakerConfig) { c.HalfOpenProbes = -3 }),
		"ProbeTimeout must not be negative, got -1":              breaker(func(c *steady.BreakerConfig) { c.ProbeTimeout = -1 }),
		"MaxConcurrent is required":                              second(steady.NewBulkhead(steady.BulkheadConfig{})),
		"MaxQueue must not be negative, got -1":                  second(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1, MaxQueue: -1})),
		"MaxAttempts must be in [1, 100], got 500":               second(steady.NewRetry(steady.RetryConfig{MaxAttempts: 500})),
		"MaxAttempts must be in [1, 100], got -1":                second(steady.NewRetry(steady.RetryConfig{MaxAttempts: -1})),
		"BaseDelay must be positive, got -1":                     second(steady.NewRetry(steady.RetryConfig{BaseDelay: -1})),
		"Ratio must be in [0.001, 1], got 20":                    second(steady.NewRetryBudget(steady.RetryBudgetConfig{Ratio: 20})),
		"Ratio must be in [0.001, 1], got NaN":                   second(steady.NewRetryBudget(steady.RetryBudgetConfig{Ratio: math.NaN()})),
		"Limit is required and must be positive, got 0":          second(steady.NewTimeout(steady.TimeoutConfig{})),
	} {
		assert.ErrorContains(t, err, says)
	}

	both := breaker(func(c *steady.BreakerConfig) { c.FailureRate, c.MinCalls = 50, 21 })
	assert.ErrorContains(t, both, "FailureRate", "all of it is said at once")
	assert.ErrorContains(t, both, "MinCalls")
	assert.ErrorContains(t, both, "write 0.5", "with the way out")
}

// otter, failsafe-go (seen): what was changed in a config after construction changed the policy.
func TestChangingAConfigLaterChangesNothing(t *testing.T) {
	var told []string
	hear := func(who string) func(steady.Transition) {
		return func(steady.Transition) { told = append(told, who) }
	}
	hooks := &steady.Hooks{OnTransition: hear("first")}
	b, _ := newBreaker(t, steady.BreakerConfig{MinCalls: 1, Hooks: hooks})
	policies := []steady.Policy{b}
	p := pipeline(t, policies...)

	hooks.OnTransition = hear("second")
	policies[0] = steady.Middleware(func(context.Context, func(context.Context) error) error { return errors.New("not asked for") })
	cfg := b.Config()
	cfg.MinCalls = 20
	p.Config().Policies[0] = policies[0]

	_, err := p.Do(t.Context(), returns(0, errBoom))
	assert.Equal(t, errBoom, err)
	assert.Equal(t, steady.StateOpen, b.State())
	assert.Equal(t, "first", strings.Join(told, ", "))
}
