package steadyotel_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyotel"
)

// instrument is what a metric looks like in the SDK.
func (m metrics) instrument(name string) string {
	kind := "gauge"
	switch data := m[name].Data.(type) {
	case metricdata.Sum[int64]:
		kind = sum(data.IsMonotonic)
	case metricdata.Sum[float64]:
		kind = sum(data.IsMonotonic)
	case metricdata.Histogram[int64], metricdata.Histogram[float64]:
		kind = "histogram"
	}
	var keys []string
	var bounds []float64
	for _, p := range m.points(name) {
		bounds = p.bounds
		for _, kv := range p.set.ToSlice() {
			keys = append(keys, string(kv.Key))
		}
	}
	slices.Sort(keys)
	return fmt.Sprintf("%s %s %v%v", kind, m[name].Unit, slices.Compact(keys), bounds)
}

func sum(monotonic bool) string {
	if monotonic {
		return "counter"
	}
	return "up-down counter"
}

func TestEveryMetricHasItsInstrumentUnitAndAttributes(t *testing.T) {
	reader := sdk.NewManualReader()
	o := &observed{t: t, reader: reader}
	got := make(map[string]string)
	synctest.Test(t, func(t *testing.T) {
		runIncident(t, sdk.NewMeterProvider(sdk.WithReader(reader)), func(time.Time) {
			m := o.collect()
			for name := range m {
				assert.NotEmpty(t, m[name].Description, name)
				got[name] = m.instrument(name) // at the end every attribute has been seen
			}
		})
	})
	const (
		seconds  = "[0.005 0.01 0.025 0.05 0.075 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 30]"
		breaker  = "[steady.breaker.name][]"
		bulkhead = "[steady.bulkhead.name][]"
		timeout  = "[steady.timeout.name][]"
	)
	assert.Equal(t, map[string]string{
		"steady.pipeline.duration":        "histogram s [error.type steady.outcome steady.pipeline.name]" + seconds,
		"steady.attempt.duration":         "histogram s [error.type steady.outcome steady.pipeline.name]" + seconds,
		"steady.retry.attempts":           "histogram {attempt} [steady.pipeline.name steady.retry.outcome][1 2 3 5 8]",
		"steady.retry.budget.utilization": "gauge 1 [steady.retry.name][]",
		"steady.breaker.state":            "up-down counter 1 [steady.breaker.name steady.breaker.state][]",
		"steady.breaker.transitions":      "counter {transition} [steady.breaker.from steady.breaker.name steady.breaker.reason steady.breaker.to][]",
		"steady.breaker.calls":            "counter {call} [steady.breaker.name steady.outcome][]",
		"steady.breaker.failure_ratio":    "gauge 1 " + breaker,
		"steady.breaker.slow_ratio":       "gauge 1 " + breaker,
		"steady.breaker.window.calls":     "gauge {call} " + breaker,
		"steady.breaker.in_flight":        "gauge {call} " + breaker,
		"steady.breaker.overdue":          "gauge {call} " + breaker,
		"steady.breaker.open.duration":    "counter s " + breaker,
		"steady.breaker.slow_threshold":   "gauge s " + breaker,
		"steady.breaker.latency.p99":      "gauge s " + breaker,
		"steady.breaker.headroom":         "gauge 1 " + breaker,
		"steady.bulkhead.usage":           "up-down counter {call} " + bulkhead,
		"steady.bulkhead.limit":           "up-down counter {call} " + bulkhead,
		"steady.bulkhead.queue.usage":     "up-down counter {call} " + bulkhead,
		"steady.bulkhead.queue.limit":     "up-down counter {call} " + bulkhead,
		"steady.bulkhead.rejections":      "counter {call} [steady.bulkhead.name steady.bulkhead.reason][]",
		"steady.bulkhead.wait.duration":   "histogram s [steady.bulkhead.name]" + seconds,
		"steady.timeout.expirations":      "counter {timeout} " + timeout,
		"steady.timeout.abandoned":        "counter {timeout} " + timeout,
	}, got)
}

// The script's own numbers: of the 32 calls a second each eighth is an order, and what has ended has been counted.
func TestTheIncidentsNumbersAddUp(t *testing.T) {
	reader := sdk.NewManualReader()
	o := &observed{t: t, reader: reader}
	synctest.Test(t, func(t *testing.T) {
		in := runIncident(t, sdk.NewMeterProvider(sdk.WithReader(reader)), func(time.Time) {})
		m := o.collect()
		for name, want := range map[string]uint64{"prices": 13 * 60 * 28, "orders": 13 * 60 * 4} {
			for _, metric := range []string{"steady.pipeline.duration", "steady.retry.attempts"} {
				calls := uint64(0)
				for _, p := range m.by(metric, "steady.pipeline.name", name) {
					calls += p.count
				}
				assert.Equal(t, want, calls, "%s of %s", metric, name)
			}
		}
		attempts, runs := 0.0, uint64(0)
		for _, p := range m.points("steady.retry.attempts") {
			attempts += p.value
		}
		for _, p := range m.points("steady.attempt.duration") {
			runs += p.count
		}
		assert.Equal(t, float64(runs), attempts, "each attempt is one of a call")
		passed := 0.0
		for _, outcome := range []string{"success", "transient", "unsent", "permanent", "throttled", "ignored"} {
			p, ok := m.at("steady.breaker.calls", "steady.breaker.name", "catalog", "steady.outcome", outcome)
			require.True(t, ok)
			passed += p.value
		}
		assert.Equal(t, float64(runs), passed, "each attempt has passed the breaker")
		assert.Positive(t, in.catalog.Retry().Stats().BudgetDenied)
	})
}

func TestNewRefusesANilProvider(t *testing.T) {
	_, err := steadyotel.New(nil)
	assert.EqualError(t, err, "steadyotel: New: the MeterProvider must not be nil (otel.GetMeterProvider() is the global one)")
}

func TestCloseEndsTheReading(t *testing.T) {
	o := observe(t)
	b := newBreaker(t, o, steady.BreakerConfig{})
	o.register(b)
	require.Contains(t, o.collect(), "steady.breaker.state")
	require.NoError(t, o.Close())
	assert.NotContains(t, o.collect(), "steady.breaker.state")
	b.ForceOpen("test")
	assert.Contains(t, o.collect(), "steady.breaker.transitions", "the hooks go on")
}
