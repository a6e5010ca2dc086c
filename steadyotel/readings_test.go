package steadyotel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

func done(t testing.TB, b *steady.Breaker, o steady.Outcome) {
	t.Helper()
	permit, err := b.Allow()
	require.NoError(t, err)
	permit.Done(o)
}

func TestTheStateIsOneForThePresentAndZeroForEachOther(t *testing.T) {
	o := observe(t)
	mock := clock.NewMock()
	b := newBreaker(t, o, steady.BreakerConfig{WindowSize: 1, Clock: mock})
	o.register(b)
	states := []string{"closed", "open", "half-open", "forced-open", "forced-closed"}
	is := func(present string) {
		t.Helper()
		m := o.collect()
		require.Len(t, m.points("steady.breaker.state"), len(states))
		for _, s := range states {
			p, ok := m.at("steady.breaker.state", "steady.breaker.name", "catalog", "steady.breaker.state", s)
			require.True(t, ok, s)
			assert.Equal(t, s == present, p.value == 1, s)
			assert.Equal(t, s != present, p.value == 0, s)
		}
	}
	is("closed")
	done(t, b, steady.Transient)
	is("open")
	mock.Add(10 * time.Second)
	is("half-open")
	b.ForceOpen("test")
	is("forced-open")
	b.ForceClosed("test")
	is("forced-closed")
}

func TestCallsAreCountedByOutcomeAndRejectedAndSlowOnesBeside(t *testing.T) {
	o := observe(t)
	mock := clock.NewMock()
	b := newBreaker(t, o, steady.BreakerConfig{WindowSize: 100, MinCalls: 100, Clock: mock})
	o.register(b)
	outcomes := map[string]steady.Outcome{
		"success": steady.Success, "transient": steady.Transient, "unsent": steady.Unsent,
		"permanent": steady.Permanent, "throttled": steady.Throttled, "ignored": steady.Ignored,
	}
	for _, outcome := range outcomes {
		for range outcome {
			done(t, b, outcome)
		}
	}
	slow, err := b.Allow()
	require.NoError(t, err)
	mock.Add(500 * time.Millisecond)
	calls := func(outcome string) float64 {
		t.Helper()
		return o.value("steady.breaker.calls", "steady.breaker.name", "catalog", "steady.outcome", outcome)
	}
	assert.Equal(t, 1.0, calls("slow"), "as soon as it is")
	slow.Done(steady.Success)
	b.ForceOpen("test")
	for range 3 {
		_, err := b.Allow()
		require.Error(t, err)
	}
	for name, outcome := range outcomes {
		want := float64(outcome)
		if outcome == steady.Success {
			want++ // the slow one
		}
		assert.Equal(t, want, calls(name), name)
	}
	assert.Equal(t, 1.0, calls("slow"))
	assert.Equal(t, 3.0, calls("rejected"))
	assert.Len(t, o.collect().points("steady.breaker.calls"), 8)
}

func TestTheRatiosAreLeftOutBelowMinCalls(t *testing.T) {
	o := observe(t)
	mock := clock.NewMock()
	b := newBreaker(t, o, steady.BreakerConfig{MinCalls: 4, FailureRate: 1, SlowRate: 1, Clock: mock})
	o.register(b)
	done(t, b, steady.Transient)
	slow, err := b.Allow()
	require.NoError(t, err)
	mock.Add(time.Second)
	slow.Done(steady.Success)
	done(t, b, steady.Success)
	m := o.collect()
	assert.NotContains(t, m, "steady.breaker.failure_ratio")
	assert.NotContains(t, m, "steady.breaker.slow_ratio")
	assert.Equal(t, 3.0, o.value("steady.breaker.window.calls", "steady.breaker.name", "catalog"))

	done(t, b, steady.Unsent)
	assert.Equal(t, 0.5, o.value("steady.breaker.failure_ratio", "steady.breaker.name", "catalog"))
	assert.Equal(t, 0.25, o.value("steady.breaker.slow_ratio", "steady.breaker.name", "catalog"))
}

func TestTheRatiosOfTheOpeningAreNotThoseOfAHalfOpenBreaker(t *testing.T) {
	o := observe(t)
	mock := clock.NewMock()
	b := newBreaker(t, o, steady.BreakerConfig{WindowSize: 1, Clock: mock})
	o.register(b)
	done(t, b, steady.Transient)
	assert.Equal(t, 1.0, o.value("steady.breaker.failure_ratio", "steady.breaker.name", "catalog"), "they tell why it is open")
	mock.Add(24 * time.Hour) // and nobody has asked
	assert.Equal(t, 1.0, o.value("steady.breaker.state", "steady.breaker.name", "catalog", "steady.breaker.state", "half-open"))
	m := o.collect()
	assert.NotContains(t, m, "steady.breaker.failure_ratio")
	assert.NotContains(t, m, "steady.breaker.slow_ratio")
}

func TestWhatABreakerSeesIsReadAtEachCollection(t *testing.T) {
	o := observe(t)
	mock := clock.NewMock()
	b := newBreaker(t, o, steady.BreakerConfig{Clock: mock})
	o.register(b)
	value := func(name string) float64 {
		t.Helper()
		return o.value("steady.breaker."+name, "steady.breaker.name", "catalog")
	}
	m := o.collect()
	assert.NotContains(t, m, "steady.breaker.latency.p99", "not known")
	assert.NotContains(t, m, "steady.breaker.headroom", "not known")
	assert.Equal(t, 0.5, value("slow_threshold"))

	for range 2 {
		_, err := b.Allow()
		require.NoError(t, err)
		mock.Add(400 * time.Millisecond)
	}
	assert.Equal(t, 2.0, value("in_flight"))
	assert.Equal(t, 1.0, value("overdue"))
	permit, err := b.Allow()
	require.NoError(t, err)
	mock.Add(100 * time.Millisecond)
	permit.Done(steady.Success)
	assert.InEpsilon(t, 0.1, value("latency.p99"), 0.05)
	assert.InEpsilon(t, 5, value("headroom"), 0.05)

	b.ForceOpen("test")
	mock.Add(1500 * time.Millisecond)
	assert.Equal(t, 1.5, value("open.duration"))
	mock.Add(time.Second)
	assert.Equal(t, 2.5, value("open.duration"), "it grows meanwhile")
}

func TestABreakerThatCountsNoSlowCallsTellsNothingOfThem(t *testing.T) {
	o := observe(t)
	b := newBreaker(t, o, steady.BreakerConfig{NoSlowCalls: true, WindowSize: 1})
	o.register(b)
	done(t, b, steady.Success)
	m := o.collect()
	assert.Contains(t, m, "steady.breaker.failure_ratio")
	assert.NotContains(t, m, "steady.breaker.slow_ratio")
	assert.NotContains(t, m, "steady.breaker.slow_threshold")
}

func TestTransitionsAreCountedWithTheirReason(t *testing.T) {
	o := observe(t)
	mock := clock.NewMock()
	b := newBreaker(t, o, steady.BreakerConfig{WindowSize: 1, HalfOpenProbes: 1, Clock: mock})
	for range 2 {
		done(t, b, steady.Transient)
		mock.Add(10 * time.Second)
		done(t, b, steady.Success)
	}
	for _, transition := range [][3]string{
		{"closed", "open", "failure_rate"}, {"open", "half-open", "open_elapsed"}, {"half-open", "closed", "probes_succeeded"},
	} {
		assert.Equal(t, 2.0, o.value("steady.breaker.transitions", "steady.breaker.name", "catalog",
			"steady.breaker.from", transition[0], "steady.breaker.to", transition[1], "steady.breaker.reason", transition[2]))
	}
	assert.Len(t, o.collect().points("steady.breaker.transitions"), 3)
}

func TestTransitionsAreKnownBeforeTheFirst(t *testing.T) {
	for _, noSlowCalls := range []bool{false, true} {
		o := observe(t)
		b := newBreaker(t, o, steady.BreakerConfig{NoSlowCalls: noSlowCalls})
		o.register(b)
		want := 7
		if noSlowCalls {
			want = 5
		}
		points := o.collect().points("steady.breaker.transitions")
		assert.Len(t, points, want)
		for _, p := range points {
			assert.Zero(t, p.value)
		}
		for range 10 {
			done(t, b, steady.Transient)
		}
		assert.Len(t, o.collect().points("steady.breaker.transitions"), want, "it is one of them that counts")
	}
}

func newBulkhead(t testing.TB, o *observed, cfg steady.BulkheadConfig) *steady.Bulkhead {
	t.Helper()
	cfg.Name, cfg.Hooks = "catalog", o.Hooks()
	b, err := steady.NewBulkhead(cfg)
	require.NoError(t, err)
	return b
}

func TestABulkheadsUseAndItsRejectionsByReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observe(t)
		b := newBulkhead(t, o, steady.BulkheadConfig{MaxConcurrent: 2, MaxWait: time.Second, MaxQueue: 3})
		o.register(b)
		value := func(name string) float64 { return o.value("steady.bulkhead."+name, "steady.bulkhead.name", "catalog") }
		rejections := func(reason string) float64 {
			return o.value("steady.bulkhead.rejections", "steady.bulkhead.name", "catalog", "steady.bulkhead.reason", reason)
		}
		assert.Zero(t, rejections("full"), "known before the first")
		assert.Zero(t, rejections("max_wait"))

		slot, err := b.Acquire(t.Context())
		require.NoError(t, err)
		_, err = b.Acquire(t.Context())
		require.NoError(t, err)
		cancelled, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		for _, ctx := range []context.Context{t.Context(), t.Context(), cancelled} { // gets the slot, waits for MaxWait, gives up
			go b.Acquire(ctx)
			synctest.Wait()
		}
		assert.Equal(t, []float64{2, 2, 3, 3}, []float64{value("usage"), value("limit"), value("queue.usage"), value("queue.limit")})
		for range 2 {
			_, err = b.Acquire(t.Context())
			require.ErrorIs(t, err, steady.ErrBulkheadFull)
		}
		time.Sleep(250 * time.Millisecond)
		slot.Release()
		time.Sleep(time.Second)

		assert.Equal(t, 2.0, rejections("full"), "no place in the queue")
		assert.Equal(t, 1.0, rejections("max_wait"))
		waits, ok := o.collect().at("steady.bulkhead.wait.duration", "steady.bulkhead.name", "catalog")
		require.True(t, ok)
		assert.Equal(t, uint64(3), waits.count, "with or without success")
		assert.Equal(t, 0.25+0.5+1, waits.value)
		require.NoError(t, b.SetMaxConcurrent(5))
		assert.Equal(t, 5.0, value("limit"))
		assert.Zero(t, value("queue.usage"))
	})
}

func TestAWaiterThatGivesUpIsNoRejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observe(t)
		b := newBulkhead(t, o, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Minute, MaxQueue: 1})
		_, err := b.Acquire(t.Context())
		require.NoError(t, err)
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = b.Acquire(impatient)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		patient, cancel := context.WithCancel(t.Context())
		go b.Acquire(patient)
		synctest.Wait()
		_, err = b.Acquire(t.Context())
		require.ErrorIs(t, err, steady.ErrBulkheadFull)
		cancel()
		rejections := o.collect().points("steady.bulkhead.rejections")
		require.Len(t, rejections, 1, "of one reason")
		reason, _ := rejections[0].set.Value("steady.bulkhead.reason")
		assert.Equal(t, "full", reason.AsString())
	})
}

func TestABulkheadWithoutAQueueHasOneReason(t *testing.T) {
	o := observe(t)
	o.register(newBulkhead(t, o, steady.BulkheadConfig{MaxConcurrent: 2}))
	assert.Len(t, o.collect().points("steady.bulkhead.rejections"), 1)
}

func TestTimeoutsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observe(t)
		p := newPipeline(t, o,
			steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "total", Limit: time.Minute})),
			steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "attempt", Limit: time.Second, Abandon: true, Hooks: o.Hooks()})))
		for range 2 {
			_, err := p.Do(t.Context(), func(context.Context) (int, error) { time.Sleep(2 * time.Second); return 1, nil })
			require.ErrorIs(t, err, steady.ErrTimeout)
		}
		for name, want := range map[string]float64{"total": 0, "attempt": 2} {
			assert.Equal(t, want, o.value("steady.timeout.expirations", "steady.timeout.name", name))
			assert.Equal(t, want, o.value("steady.timeout.abandoned", "steady.timeout.name", name))
		}
		time.Sleep(2 * time.Second)
	})
}

func TestTheUtilizationOfABudgetIsTheShareThatIsSpent(t *testing.T) {
	o := observe(t)
	retry := steady.Must(steady.NewRetry(steady.RetryConfig{Name: "catalog", NoDelay: true, Budget: budgetOf(t, 4)}))
	p := newPipeline(t, o, retry)
	utilization := func() float64 { return o.value("steady.retry.budget.utilization", "steady.retry.name", "catalog") }
	assert.Zero(t, utilization())
	_, err := p.Do(t.Context(), returns(0, errReset))
	require.Error(t, err)
	assert.Equal(t, 0.5, utilization())
	_, err = p.Do(t.Context(), returns(0, errReset))
	require.Error(t, err)
	assert.Equal(t, 1.0, utilization())
}

func TestARetryWithoutABudgetHasNoUtilization(t *testing.T) {
	o := observe(t)
	o.register(steady.Must(steady.NewRetry(steady.RetryConfig{Name: "catalog", NoBudget: true})))
	assert.NotContains(t, o.collect(), "steady.retry.budget.utilization")
}
