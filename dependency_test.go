package steady_test

import (
	"context"
	"database/sql"
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

// catalogConfig is a configuration without a fault.
func catalogConfig() steady.DependencyConfig {
	return steady.DependencyConfig{
		Name:           "catalog",
		Timeout:        2 * time.Second,
		AttemptTimeout: time.Second,
		Retry:          steady.RetryConfig{NoDelay: true},
		Breaker:        steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
		Bulkhead:       steady.BulkheadConfig{MaxConcurrent: 20},
	}
}

func TestADependencyHasItsPartsInTheStandardOrder(t *testing.T) {
	d := steady.Must(steady.NewDependency(catalogConfig()))
	for _, intent := range []steady.Intent{steady.ReadIdempotent, steady.WriteIdempotent} {
		assert.Equal(t, []steady.Policy{d.Timeout(), d.Retry(), d.AttemptTimeout(), d.Breaker(), d.Bulkhead()}, d.Policies(intent))
	}
	careful := d.Policies(steady.WriteNonIdempotent)
	require.Len(t, careful, 5)
	assert.Equal(t, []steady.Policy{d.Timeout(), d.AttemptTimeout(), d.Breaker(), d.Bulkhead()},
		append(careful[:1:1], careful[2:]...), "shared by all intents")
	assert.NotSame(t, d.Retry(), careful[1])
	assert.Same(t, d.Budget(), careful[1].(*steady.Retry).Config().Budget)
	assert.Same(t, careful[1], d.Policies(steady.WriteNonIdempotent)[1])
}

func TestPartsThatWereLeftOutAreNil(t *testing.T) {
	d := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name: "catalog", NoTimeout: true, NoRetry: true, NoBreaker: true, NoBulkhead: true,
		// Of what is left out, nothing matters:
		Retry:    steady.RetryConfig{MaxAttempts: -1},
		Breaker:  steady.BreakerConfig{SlowThreshold: -1},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: -1},
	}))
	assert.Nil(t, d.Timeout())
	assert.Nil(t, d.AttemptTimeout())
	assert.Nil(t, d.Retry())
	assert.Nil(t, d.Budget())
	assert.Nil(t, d.Breaker())
	assert.Nil(t, d.Bulkhead())
	assert.Empty(t, d.Policies(steady.ReadIdempotent))

	cfg := catalogConfig()
	cfg.Retry.NoBudget = true
	assert.Nil(t, steady.Must(steady.NewDependency(cfg)).Budget())

	cfg = catalogConfig()
	cfg.Timeout, cfg.NoTimeout = 0, true
	d = steady.Must(steady.NewDependency(cfg))
	assert.Nil(t, d.Timeout())
	assert.NotNil(t, d.AttemptTimeout(), "NoTimeout is about the whole operation")
}

func TestWhatAnIntentRepeats(t *testing.T) {
	rejection := errors.New("rejected")
	for _, test := range []struct {
		outcome        steady.Outcome
		reads, careful int // attempts
	}{
		{steady.Success, 1, 1},
		{steady.Transient, 3, 1},
		{steady.Unsent, 3, 3},
		{steady.Permanent, 1, 1},
		{steady.Throttled, 3, 3},
		{steady.Ignored, 1, 1},
	} {
		for intent, want := range map[steady.Intent]int{
			steady.ReadIdempotent: test.reads, steady.WriteIdempotent: test.reads, steady.WriteNonIdempotent: test.careful,
		} {
			d := steady.Must(steady.NewDependency(catalogConfig()))
			attempts := 0
			err := steady.Must(steady.NewPipelineFor(d, intent, steady.PipelineConfig[int]{})).
				Run(t.Context(), func(context.Context) error {
					attempts++
					return steady.Mark(rejection, test.outcome)
				})
			require.ErrorIs(t, err, rejection)
			assert.Equal(t, want, attempts, "%v under %v", test.outcome, intent)
			assert.Equal(t, uint64(want-1), d.Retry().Stats().Retries, "whatever the intent")
		}
	}
}

// A rejected call cannot have done anything.
func TestARejectedWriteIsRepeatedWhenRetryRejectedIsSet(t *testing.T) {
	for _, set := range []bool{false, true} {
		cfg := catalogConfig()
		cfg.Retry.RetryRejected = set
		d := steady.Must(steady.NewDependency(cfg))
		d.Breaker().ForceOpen("maintenance")
		orders := steady.Must(steady.NewPipelineFor(d, steady.WriteNonIdempotent, steady.PipelineConfig[int]{}))
		_, err := orders.Do(t.Context(), returns(1, nil))
		assert.True(t, steady.IsRejected(err))
		assert.Equal(t, set, d.Retry().Stats().Retries == 2)
	}
}

// Nor can one whose attempt ended in the bulkhead's queue.
func TestAWriteThatTimedOutBeforeItWasSentIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := catalogConfig()
		cfg.Timeout = time.Minute
		cfg.Bulkhead = steady.BulkheadConfig{MaxConcurrent: 3, MaxWait: 30 * time.Second}
		d := steady.Must(steady.NewDependency(cfg))
		for range 3 {
			slot := steady.Must(d.Bulkhead().Acquire(t.Context()))
			time.AfterFunc(1500*time.Millisecond, slot.Release)
		}
		orders := steady.Must(steady.NewPipelineFor(d, steady.WriteNonIdempotent, steady.PipelineConfig[int]{}))
		v, err := orders.Do(t.Context(), returns(42, nil))
		require.NoError(t, err)
		assert.Equal(t, 42, v)
		assert.Equal(t, uint64(1), d.Retry().Stats().Retries)
	})
}

func TestAllPipelinesOfADependencyShareItsParts(t *testing.T) {
	cfg := catalogConfig()
	cfg.Bulkhead.MaxConcurrent = 3
	d := steady.Must(steady.NewDependency(cfg))
	reads := steady.Must(steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[string]{}))
	writes := steady.Must(steady.NewPipelineFor(d, steady.WriteNonIdempotent, steady.PipelineConfig[int]{}))

	_ = reads.Run(t.Context(), func(context.Context) error { return errBoom })
	_ = writes.Run(t.Context(), func(context.Context) error { return steady.Mark(errBoom, steady.Unsent) })
	assert.Equal(t, 6, d.Breaker().Stats().Failures)
	assert.InDelta(t, 10-4, d.Budget().Stats().Tokens, 0)
	assert.Equal(t, uint64(2), d.Retry().Stats().Calls)

	_ = reads.Run(t.Context(), func(ctx context.Context) error {
		return writes.Run(ctx, func(context.Context) error {
			assert.Equal(t, 2, d.Bulkhead().Stats().InFlight)
			return nil
		})
	})
}

func TestNewDependencyReportsEveryContradiction(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*steady.DependencyConfig)
		want string // without the label
	}{
		{"no name", func(c *steady.DependencyConfig) { c.Name = "" }, `Name is required, got "" (errors, logs and metrics tell dependencies apart by it)`},
		{"no timeout", func(c *steady.DependencyConfig) { c.Timeout = 0 }, "Timeout is required and must be positive, got 0s (the longest a caller should wait; or set NoTimeout)"},
		{"a timeout and none", func(c *steady.DependencyConfig) { c.NoTimeout = true }, "Timeout is 2s with NoTimeout set: leave one of them out"},
		{"a negative attempt timeout", func(c *steady.DependencyConfig) { c.AttemptTimeout = -1 }, "AttemptTimeout must not be negative, got -1ns (0 means that an attempt has no limit of its own)"},
		{
			"an attempt longer than the whole", func(c *steady.DependencyConfig) { c.AttemptTimeout = 3 * time.Second },
			"AttemptTimeout (3s) exceeds Timeout (2s): lower it, or leave it out",
		},
		{
			"a threshold that no answer reaches in an attempt", func(c *steady.DependencyConfig) { c.Breaker.SlowThreshold = time.Second },
			"Breaker.SlowThreshold (1s) must be less than AttemptTimeout (1s): an answer that slow could never arrive; raise the timeout or lower SlowThreshold",
		},
		{
			"a threshold that no answer reaches at all", func(c *steady.DependencyConfig) { c.AttemptTimeout, c.Breaker.SlowThreshold = 0, 2*time.Second },
			"Breaker.SlowThreshold (2s) must be less than Timeout (2s): an answer that slow could never arrive; raise the timeout or lower SlowThreshold",
		},
		{
			"a window that never decides", func(c *steady.DependencyConfig) { c.Breaker.MinCalls = 30 },
			"Breaker.MinCalls must be in [1, WindowSize = 20], got 30 (a window that never holds MinCalls never decides: lower it or enlarge WindowSize)",
		},
		{
			"more probes than slots", func(c *steady.DependencyConfig) { c.Bulkhead.MaxConcurrent = 2 },
			"Breaker.HalfOpenProbes (3) exceeds Bulkhead.MaxConcurrent (2): the probes could not run together; lower HalfOpenProbes",
		},
		{
			"a window that forgets too soon", func(c *steady.DependencyConfig) { c.Breaker.WindowAge = 2*time.Second - 1 },
			"Breaker.WindowAge (1.999999999s) must be at least 2·AttemptTimeout (2s): outcomes would age out before they decide; raise WindowAge",
		},
		{
			"a queue longer than the patience", func(c *steady.DependencyConfig) { c.Bulkhead.MaxWait = 2 * time.Second },
			"Bulkhead.MaxWait (2s) must be less than Timeout (2s): a call that waits so long has no time left; lower MaxWait",
		},
		{
			"a delay longer than the patience", func(c *steady.DependencyConfig) { c.Retry = steady.RetryConfig{BaseDelay: 2 * time.Second} },
			"Retry.BaseDelay (2s) must be less than Timeout (2s): no retry would ever have time; lower it, or set NoRetry",
		},
		{
			"the default delay, too", func(c *steady.DependencyConfig) {
				c.Timeout, c.AttemptTimeout, c.Breaker.SlowThreshold, c.Retry = 100*time.Millisecond, 0, time.Millisecond, steady.RetryConfig{}
			},
			"Retry.BaseDelay (100ms) must be less than Timeout (100ms): no retry would ever have time; lower it, or set NoRetry",
		},
		{"another clock in the retry", func(c *steady.DependencyConfig) { c.Retry.Clock = clock.NewMock() }, "Retry.Clock is not the Dependency's Clock: leave it out"},
		{"another clock in the breaker", func(c *steady.DependencyConfig) { c.Breaker.Clock = clock.NewMock() }, "Breaker.Clock is not the Dependency's Clock: leave it out"},
		{
			"another clock in the bulkhead", func(c *steady.DependencyConfig) { c.Clock, c.Bulkhead.Clock = clock.NewMock(), clock.New() },
			"Bulkhead.Clock is not the Dependency's Clock: leave it out",
		},
		{"a part's own fault", func(c *steady.DependencyConfig) { c.Retry.MaxAttempts = 500 }, "Retry.MaxAttempts must be in [1, 100], got 500 (it counts the first call; 0 means 3)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := catalogConfig()
			test.set(&cfg)
			d, err := steady.NewDependency(cfg)
			assert.Nil(t, d)
			assert.EqualError(t, err, fmt.Sprintf("steady: dependency %q: DependencyConfig.%s", cfg.Name, test.want))
		})
	}

	t.Run("all at once", func(t *testing.T) {
		_, err := steady.NewDependency(steady.DependencyConfig{
			AttemptTimeout: -1,
			Retry:          steady.RetryConfig{MaxAttempts: 500},
			Breaker:        steady.BreakerConfig{FailureRate: 50, Clock: clock.NewMock()},
			Bulkhead:       steady.BulkheadConfig{MaxQueue: 1},
		})
		for _, want := range []string{
			".Name is required", ".Timeout is required", ".AttemptTimeout must not be negative", ".Retry.MaxAttempts must be in",
			".Breaker.FailureRate must be in", ".Breaker.SlowThreshold is required", ".Breaker.Clock is not",
			".Bulkhead.MaxConcurrent is required", ".Bulkhead.MaxQueue is 1 without MaxWait",
		} {
			assert.ErrorContains(t, err, want)
		}
	})
}

func TestWhatIsAtTheLimitIsNoContradiction(t *testing.T) {
	cfg := catalogConfig()
	cfg.AttemptTimeout = cfg.Timeout
	cfg.Breaker.SlowThreshold = cfg.Timeout - 1
	cfg.Breaker.WindowAge = 2 * cfg.AttemptTimeout
	cfg.Breaker.MinCalls = 20
	cfg.Bulkhead.MaxConcurrent = 3
	cfg.Bulkhead.MaxWait = cfg.Timeout - 1
	cfg.Retry = steady.RetryConfig{BaseDelay: cfg.Timeout - 1}
	cfg.Breaker.Clock = clock.New() // the system's, as is the dependency's
	_, err := steady.NewDependency(cfg)
	require.NoError(t, err)

	cfg.AttemptTimeout = 3 * cfg.Timeout
	cfg.Timeout, cfg.NoTimeout = 0, true
	cfg.Breaker.WindowAge = 0
	cfg.Bulkhead.MaxWait = time.Hour
	cfg.Retry.BaseDelay, cfg.Retry.MaxDelay = time.Hour, time.Hour
	_, err = steady.NewDependency(cfg)
	require.NoError(t, err, "without a Timeout there is nothing to contradict")
}

func TestADependencyHandsItsNameItsHooksAndItsClockDown(t *testing.T) {
	var heard []string
	cfg := catalogConfig()
	cfg.Clock = clock.NewMock()
	cfg.Retry.MaxAttempts = 2
	cfg.Hooks = &steady.Hooks{
		OnTransition: func(e steady.Transition) { heard = append(heard, "transition "+e.Breaker) },
		OnReject:     func(_ context.Context, e steady.Rejection) { heard = append(heard, "reject "+e.Policy) },
		OnRetry:      func(_ context.Context, e steady.RetryDelay) { heard = append(heard, "retry "+e.Policy) },
		OnTimeout:    func(_ context.Context, e steady.Expiry) { heard = append(heard, "timeout "+e.Policy) },
		OnAttempt:    func(_ context.Context, e steady.Attempt) { heard = append(heard, "attempt "+e.Pipeline) },
		OnDone:       func(_ context.Context, e steady.Completion) { heard = append(heard, "done "+e.Pipeline) },
	}
	d := steady.Must(steady.NewDependency(cfg))
	p := steady.Must(steady.NewPipelineFor(d, steady.WriteNonIdempotent, steady.PipelineConfig[int]{}))
	mock := cfg.Clock.(*clock.Mock)

	_ = p.Run(t.Context(), func(context.Context) error { return steady.Mark(errBoom, steady.Unsent) })
	_ = p.Run(t.Context(), func(ctx context.Context) error { mock.Add(time.Second); return ctx.Err() })
	_ = p.Run(t.Context(), func(ctx context.Context) error { mock.Add(2 * time.Second); return ctx.Err() })
	d.Breaker().ForceOpen("maintenance")
	_ = p.Run(t.Context(), func(context.Context) error { return nil })
	assert.Equal(t, []string{
		"attempt catalog", "retry catalog", "attempt catalog", "done catalog",
		"attempt catalog", "timeout catalog.attempt", "done catalog",
		"attempt catalog", "timeout catalog", "done catalog",
		"transition catalog", "reject catalog", "done catalog",
	}, heard)

	effective := d.Config()
	assert.Equal(t, []string{"catalog", "catalog", "catalog"}, []string{effective.Retry.Name, effective.Breaker.Name, effective.Bulkhead.Name})
	for _, c := range []steady.Clock{effective.Retry.Clock, effective.Breaker.Clock, effective.Bulkhead.Clock, d.Timeout().Config().Clock, p.Config().Clock} {
		assert.Same(t, mock, c)
	}
	assert.Equal(t, 10, effective.Breaker.MinCalls, "the defaults are filled in")
	assert.Equal(t, "catalog", d.Name())
}

func TestWhatAPartOrPipelineHasOfItsOwnStays(t *testing.T) {
	var heard []string
	say := func(who string) *steady.Hooks {
		return &steady.Hooks{
			OnTransition: func(steady.Transition) { heard = append(heard, who) },
			OnReject:     func(context.Context, steady.Rejection) { heard = append(heard, who) },
			OnDone:       func(context.Context, steady.Completion) { heard = append(heard, who) },
		}
	}
	mock := clock.NewMock()
	cfg := catalogConfig()
	cfg.Hooks, cfg.Clock = say("dependency"), mock
	cfg.Breaker.Name, cfg.Breaker.Hooks, cfg.Breaker.Clock = "catalog.reads", say("breaker"), mock
	d := steady.Must(steady.NewDependency(cfg))
	p := steady.Must(steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[int]{Name: "prices", Hooks: say("pipeline")}))
	d.Breaker().ForceOpen("maintenance")
	_, err := p.Do(t.Context(), returns(1, nil))
	require.ErrorContains(t, err, `"catalog.reads"`)
	assert.Equal(t, []string{"breaker", "breaker", "pipeline"}, heard)
	assert.Equal(t, "prices", p.Name())
}

func TestADependencyThatDoesNotWaitBetweenAttemptsMayHaveAShortTimeout(t *testing.T) { // D3
	const short = 50 * time.Millisecond // less than the BaseDelay that a Retry has by default
	for name, change := range map[string]func(*steady.DependencyConfig){
		"no retry": func(cfg *steady.DependencyConfig) { cfg.NoRetry, cfg.Retry = true, steady.RetryConfig{} },
		"no delay": func(cfg *steady.DependencyConfig) { cfg.Retry = steady.RetryConfig{NoDelay: true} },
	} {
		cfg := catalogConfig()
		cfg.Timeout, cfg.AttemptTimeout, cfg.Breaker.SlowThreshold = short, 0, short/2
		change(&cfg)
		assert.NoError(t, dependencyErr(cfg), name)
	}
}

func TestADependencysClassifyIsForPipelinesWithoutOne(t *testing.T) {
	cfg := catalogConfig()
	cfg.Classify = func(err error) steady.Outcome {
		if errors.Is(err, sql.ErrNoRows) {
			return steady.Success
		}
		return 0 // the default
	}
	d := steady.Must(steady.NewDependency(cfg))
	var got []steady.Outcome
	hooks := &steady.Hooks{OnAttempt: func(_ context.Context, a steady.Attempt) { got = append(got, a.Outcome) }}
	plain := steady.Must(steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[int]{Hooks: hooks}))
	own := steady.Must(steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[int]{
		Hooks:    hooks,
		Classify: func(int, error) steady.Outcome { return steady.Permanent },
	}))
	_, _ = plain.Do(t.Context(), returns(0, sql.ErrNoRows))
	_, _ = plain.Do(t.Context(), returns(0, steady.Mark(errBoom, steady.Permanent)))
	_, _ = own.Do(t.Context(), returns(0, sql.ErrNoRows))
	assert.Equal(t, []steady.Outcome{steady.Success, steady.Permanent, steady.Permanent}, got)
}

func TestADependencysClassifyIsNotTheFunctionsTime(t *testing.T) { // B7
	mock := clock.NewMock()
	cfg := catalogConfig()
	cfg.Clock = mock
	var d *steady.Dependency
	cfg.Classify = func(error) steady.Outcome {
		mock.Add(time.Minute)
		assert.Zero(t, d.Breaker().Stats().InFlight)
		return steady.Success
	}
	d = steady.Must(steady.NewDependency(cfg))
	p := steady.Must(steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[int]{}))
	_, err := p.Do(t.Context(), returns(0, errBoom))
	require.Equal(t, errBoom, err)
	assert.Equal(t, steady.BreakerTotals{Success: 1}, d.Breaker().Stats().Totals)
	assert.Less(t, d.Breaker().Stats().LatencyP99, time.Minute)
}

func TestNewPipelineForRefusesWhatItCannotUse(t *testing.T) {
	d := steady.Must(steady.NewDependency(catalogConfig()))
	_, err := steady.NewPipelineFor(nil, 9, steady.PipelineConfig[int]{Policies: []steady.Policy{newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})}})
	for _, want := range []string{
		"steady: NewPipelineFor.Dependency is required", "steady: NewPipelineFor.Intent must be ReadIdempotent, WriteIdempotent or WriteNonIdempotent, got 9",
		"steady: NewPipelineFor.PipelineConfig.Policies must be empty, got 1 of them",
	} {
		assert.ErrorContains(t, err, want)
	}
	_, err = steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[int]{Clock: clock.NewMock()})
	assert.ErrorContains(t, err, "are on different clocks")
}

func TestAnUnknownIntentIsTheCarefulOne(t *testing.T) {
	d := steady.Must(steady.NewDependency(catalogConfig()))
	assert.Equal(t, d.Policies(steady.WriteNonIdempotent), d.Policies(99))
	assert.Equal(t, "intent 99", steady.Intent(99).String())
}
