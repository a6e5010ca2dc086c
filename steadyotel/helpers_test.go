package steadyotel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyotel"
)

var errReset = errors.New("connection reset")

// observed is an Observer and what it measures.
type observed struct {
	*steadyotel.Observer
	t      testing.TB
	reader *sdk.ManualReader
}

func observe(t testing.TB) *observed {
	t.Helper()
	reader := sdk.NewManualReader()
	observer, err := steadyotel.New(sdk.NewMeterProvider(sdk.WithReader(reader)))
	require.NoError(t, err)
	return &observed{Observer: observer, t: t, reader: reader}
}

// register registers a policy for the length of the test.
func (o *observed) register(policies ...steady.Policy) (unregister func()) {
	o.t.Helper()
	unregister, err := o.Register(policies...)
	require.NoError(o.t, err)
	return unregister
}

// collect returns what is measured now, by name.
func (o *observed) collect() metrics {
	o.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(o.t, o.reader.Collect(context.Background(), &all))
	m := make(metrics)
	for _, scope := range all.ScopeMetrics {
		for _, metric := range scope.Metrics {
			m[metric.Name] = metric
		}
	}
	return m
}

type metrics map[string]metricdata.Metrics

// point is the value of one time series: for a histogram, the sum of its values and their number.
type point struct {
	set    attribute.Set
	value  float64
	count  uint64
	bounds []float64
}

// points returns the time series of a metric.
func (m metrics) points(name string) []point {
	switch data := m[name].Data.(type) {
	case metricdata.Sum[int64]:
		return numbers(data.DataPoints)
	case metricdata.Sum[float64]:
		return numbers(data.DataPoints)
	case metricdata.Gauge[int64]:
		return numbers(data.DataPoints)
	case metricdata.Gauge[float64]:
		return numbers(data.DataPoints)
	case metricdata.Histogram[int64]:
		return distributions(data.DataPoints)
	case metricdata.Histogram[float64]:
		return distributions(data.DataPoints)
	default:
		return nil
	}
}

func numbers[N int64 | float64](from []metricdata.DataPoint[N]) (points []point) {
	for _, p := range from {
		points = append(points, point{set: p.Attributes, value: float64(p.Value)})
	}
	return points
}

func distributions[N int64 | float64](from []metricdata.HistogramDataPoint[N]) (points []point) {
	for _, p := range from {
		points = append(points, point{set: p.Attributes, value: float64(p.Sum), count: p.Count, bounds: p.Bounds})
	}
	return points
}

// by returns those with the given value of an attribute.
func (m metrics) by(name string, key attribute.Key, value string) (points []point) {
	for _, p := range m.points(name) {
		if v, _ := p.set.Value(key); v.AsString() == value {
			points = append(points, p)
		}
	}
	return points
}

// at returns the point of a metric with exactly these attributes, given as keys and values in turn.
func (m metrics) at(name string, attributes ...string) (point, bool) {
	kvs := make([]attribute.KeyValue, 0, len(attributes)/2)
	for i := 0; i < len(attributes); i += 2 {
		kvs = append(kvs, attribute.String(attributes[i], attributes[i+1]))
	}
	set := attribute.NewSet(kvs...)
	for _, p := range m.points(name) {
		if p.set.Equals(&set) {
			return p, true
		}
	}
	return point{}, false
}

// value is at for what must be there.
func (o *observed) value(name string, attributes ...string) float64 {
	o.t.Helper()
	p, ok := o.collect().at(name, attributes...)
	require.True(o.t, ok, "%s %v", name, attributes)
	return p.value
}

func newBreaker(t testing.TB, o *observed, cfg steady.BreakerConfig) *steady.Breaker {
	t.Helper()
	if cfg.SlowThreshold == 0 && !cfg.NoSlowCalls {
		cfg.SlowThreshold = 500 * time.Millisecond
	}
	cfg.Name, cfg.Hooks, cfg.NoOpenJitter = "catalog", o.Hooks(), true
	b, err := steady.NewBreaker(cfg)
	require.NoError(t, err)
	return b
}

func newPipeline(t testing.TB, o *observed, policies ...steady.Policy) *steady.Pipeline[int] {
	t.Helper()
	p, err := steady.NewPipeline(steady.PipelineConfig[int]{
		Name:     "prices",
		Policies: policies,
		Classify: func(v int, _ error) steady.Outcome {
			switch v {
			case 503:
				return steady.Transient
			case 429:
				return steady.Throttled
			}
			return 0
		},
		Hooks: o.Hooks(),
	})
	require.NoError(t, err)
	_, err = steadyotel.RegisterPipeline(o.Observer, p)
	require.NoError(t, err)
	return p
}

func returns(v int, err error) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return v, err }
}
