package steady_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// logged is a logger and the lines it wrote.
type logged struct{ buffer bytes.Buffer }

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(&l.buffer, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// lines returns what was written since it was asked last, without the time.
func (l *logged) lines(t testing.TB) (lines []map[string]any) {
	t.Helper()
	for decoder := json.NewDecoder(&l.buffer); decoder.More(); {
		var line map[string]any
		require.NoError(t, decoder.Decode(&line))
		delete(line, "time")
		lines = append(lines, line)
	}
	return lines
}

func TestTransitionsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{
			Name: "catalog", WindowSize: 2, SlowThreshold: 500 * time.Millisecond, NoOpenJitter: true, HalfOpenProbes: 1,
			Hooks: steady.LogHooks(log.logger()),
		}))
		line := func(level, message, from, to, reason, detail string, calls, failed, slow int, rest ...any) map[string]any {
			m := map[string]any{
				"level": level, "msg": message, "steady.breaker.name": "catalog", "steady.breaker.from": from, "steady.breaker.to": to,
				"steady.breaker.reason": reason, "detail": detail, "at": time.Now().Format(time.RFC3339Nano),
				"calls": float64(calls), "failed": float64(failed), "slow": float64(slow), "in_flight": 0.0, "overdue": 0.0,
			}
			for i := 0; i < len(rest); i += 2 {
				m[rest[i].(string)] = rest[i+1]
			}
			return m
		}

		allow(t, b).Done(steady.Success)
		allow(t, b).Done(steady.Transient)
		assert.Equal(t, []map[string]any{line("ERROR", "breaker opened", "closed", "open", "failure_rate",
			"failure rate 0.50 ≥ 0.50 over 2 calls (0 slow, 1 failed)", 2, 1, 0, "open_for", 10e9)}, log.lines(t))

		time.Sleep(10 * time.Second)
		allow(t, b).Done(steady.Success)
		assert.Equal(t, []map[string]any{
			line("WARN", "breaker half-open", "open", "half-open", "open_elapsed", "open period elapsed", 2, 1, 0),
			line("INFO", "breaker closed", "half-open", "closed", "probes_succeeded", "1 probe succeeded", 0, 0, 0),
		}, log.lines(t))

		b.ForceOpen("maintenance")
		b.ForceClosed("urgent")
		assert.Equal(t, []map[string]any{
			line("ERROR", "breaker opened", "closed", "forced-open", "manual", "manual: maintenance", 0, 0, 0),
			line("INFO", "breaker closed", "forced-open", "forced-closed", "manual", "manual: urgent", 0, 0, 0),
		}, log.lines(t))
	})
}

func TestALoggedTransitionTellsOfTheCallsInFlightAndOfTheShadow(t *testing.T) {
	var log logged
	b, mock := newBreaker(t, steady.BreakerConfig{
		WindowSize: 2, MinCalls: 1, SlowRate: 1, Shadow: true, Hooks: steady.LogHooks(log.logger()),
	})
	allow(t, b)
	mock.Add(time.Second)
	b.State()
	lines := log.lines(t)
	require.Len(t, lines, 1)
	assert.Equal(t, "slow_rate", lines[0]["steady.breaker.reason"])
	assert.InDelta(t, 1, lines[0]["in_flight"], 0)
	assert.InDelta(t, 1, lines[0]["overdue"], 0)
	assert.Equal(t, "shadow breaker opened", lines[0]["msg"])
	assert.Equal(t, "WARN", lines[0]["level"], "nobody is to be paged for it")
}

func TestRejectionsAreOneLineASecondForEachPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		hooks := steady.LogHooks(log.logger())
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{
			Name: "catalog", WindowSize: 1, NoSlowCalls: true, NoOpenJitter: true, Hooks: hooks,
		}))
		full := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{Name: "pool", MaxConcurrent: 1, Hooks: hooks}))
		steady.Must(full.Acquire(t.Context()))
		allow(t, b).Done(steady.Transient)
		log.lines(t)
		open := func(suppressed int, left time.Duration) map[string]any {
			return map[string]any{
				"level": "WARN", "msg": "call rejected", "steady.breaker.name": "catalog", "error.type": "breaker_open",
				"suppressed": float64(suppressed), "retry_after": float64(left),
			}
		}
		reject := func(times int) {
			for range times {
				_, err := b.Allow()
				require.Error(t, err)
			}
		}

		reject(5)
		_, err := full.Acquire(t.Context())
		require.Error(t, err)
		time.Sleep(time.Second - 1)
		reject(3)
		assert.Equal(t, []map[string]any{
			open(0, 10*time.Second),
			{"level": "WARN", "msg": "call rejected", "steady.bulkhead.name": "pool", "error.type": "bulkhead_full", "suppressed": 0.0},
		}, log.lines(t))

		time.Sleep(time.Nanosecond)
		reject(2)
		assert.Equal(t, []map[string]any{open(7, 9*time.Second)}, log.lines(t))
		time.Sleep(5 * time.Second)
		reject(1)
		assert.Equal(t, []map[string]any{open(1, 4*time.Second)}, log.lines(t))
	})
}

func TestAShadowsRejectionsAreLoggedAsSuch(t *testing.T) {
	var log logged
	b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 1, Shadow: true, Hooks: steady.LogHooks(log.logger())})
	call(t, b, mock, 1, 0, steady.Transient)
	log.lines(t)
	allow(t, b)
	lines := log.lines(t)
	require.Len(t, lines, 1)
	assert.Equal(t, "shadow call rejected", lines[0]["msg"])
}

func TestAShadowThatIsForcedOpenIsLoggedAsWhatItIs(t *testing.T) { // B11
	var log logged
	b, mock := newBreaker(t, steady.BreakerConfig{WindowSize: 1, Shadow: true, Hooks: steady.LogHooks(log.logger())})
	call(t, b, mock, 1, 0, steady.Transient)
	allow(t, b)
	log.lines(t)

	b.ForceOpen("it is down")
	_, err := b.Allow()
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	b.Reset("it is up")
	var told []any
	for _, line := range log.lines(t) {
		told = append(told, line["level"], line["msg"])
	}
	assert.Equal(t, []any{"ERROR", "breaker opened", "WARN", "call rejected", "INFO", "breaker closed"}, told)
}

func TestRetriesAndTimeoutsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		hooks := steady.LogHooks(log.logger())
		p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
			Policies: []steady.Policy{
				newRetry(t, steady.RetryConfig{Name: "catalog", MaxAttempts: 2, BaseDelay: time.Second, Jitter: steady.NoJitter, Hooks: hooks}),
				newTimeout(t, steady.TimeoutConfig{Name: "attempt", Limit: time.Minute, Hooks: hooks}),
			},
			Classify: func(v int, _ error) steady.Outcome {
				if v == 429 {
					return steady.Throttled
				}
				return 0
			},
			Hooks: hooks,
		}))
		_, err := p.Do(t.Context(), func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		require.ErrorIs(t, err, steady.ErrTimeout)
		expired := map[string]any{"level": "WARN", "msg": "call timed out", "steady.timeout.name": "attempt", "limit": 60e9, "abandoned": false}
		retried := map[string]any{
			"level": "WARN", "msg": "call is retried", "steady.retry.name": "catalog", "attempt": 1.0, "delay": 1e9,
			"steady.outcome": "transient", "error": `steady: timeout "attempt" of 1m0s: context deadline exceeded`,
		}
		assert.Equal(t, []map[string]any{expired, retried, expired}, log.lines(t))

		v, err := p.Do(t.Context(), returns(429, nil))
		require.NoError(t, err)
		assert.Equal(t, 429, v)
		delete(retried, "error")
		retried["steady.outcome"], retried["delay"] = "throttled", 10e9
		assert.Equal(t, []map[string]any{retried}, log.lines(t), "a failing value has no error")
	})
}

func TestAttemptsAndCompletedCallsAreNotLogged(t *testing.T) {
	hooks := steady.LogHooks(nil)
	assert.Nil(t, hooks.OnAttempt)
	assert.Nil(t, hooks.OnDone)
}

func TestWithoutALoggerTheDefaultOneIsUsed(t *testing.T) {
	var log logged
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(log.logger())
	b, _ := newBreaker(t, steady.BreakerConfig{Hooks: steady.LogHooks(nil)})
	b.ForceOpen("maintenance")
	assert.Len(t, log.lines(t), 1)
}

// Messages are constant, so that they can be searched for and counted.
func TestMessagesAreConstant(t *testing.T) {
	messages := make(map[any]int)
	for i := range 10 {
		var log logged
		b, mock := openedBreaker(t, steady.BreakerConfig{Name: fmt.Sprint("breaker ", i), Hooks: steady.LogHooks(log.logger())})
		_, _ = b.Allow()
		mock.Add(time.Duration(10+i) * time.Second)
		call(t, b, mock, 3, 0, steady.Success)
		for _, line := range log.lines(t) {
			messages[line["msg"]]++
		}
	}
	assert.Equal(t, map[any]int{"breaker opened": 10, "call rejected": 10, "breaker half-open": 10, "breaker closed": 10}, messages)
}

func TestLogHooksTellABreakerFromABulkheadOfTheSameName(t *testing.T) {
	var log logged
	cfg := catalogConfig()
	cfg.Hooks = steady.LogHooks(log.logger())
	d := steady.Must(steady.NewDependency(cfg))
	d.Breaker().ForceOpen("test")
	log.lines(t)

	_, err := d.Breaker().Allow()
	require.Error(t, err)
	for range d.Bulkhead().Config().MaxConcurrent + 1 {
		_, err = d.Bulkhead().Acquire(t.Context())
	}
	require.Error(t, err)

	assert.Len(t, log.lines(t), 2, "neither hides the other")
}
