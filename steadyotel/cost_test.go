package steadyotel_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyotel"
)

// stuck is an exporter that does not return before it is let go.
type stuck struct {
	entered chan struct{}
	release chan struct{}
	exports atomic.Int64
}

func (*stuck) Temporality(k sdk.InstrumentKind) metricdata.Temporality {
	return sdk.DefaultTemporalitySelector(k)
}

func (*stuck) Aggregation(k sdk.InstrumentKind) sdk.Aggregation {
	return sdk.DefaultAggregationSelector(k)
}

func (s *stuck) Export(context.Context, *metricdata.ResourceMetrics) error {
	if s.exports.Add(1) == 1 {
		close(s.entered)
	}
	<-s.release
	return nil
}
func (*stuck) ForceFlush(context.Context) error { return nil }
func (*stuck) Shutdown(context.Context) error   { return nil }

func TestABlockedExporterBlocksNoCall(t *testing.T) {
	exporter := &stuck{entered: make(chan struct{}), release: make(chan struct{})}
	provider := sdk.NewMeterProvider(sdk.WithReader(sdk.NewPeriodicReader(exporter, sdk.WithInterval(time.Millisecond))))
	observer, err := steadyotel.New(provider)
	require.NoError(t, err)
	o := &observed{Observer: observer, t: t}
	d := newDependency(t, o, "catalog")
	_, err = observer.RegisterDependency(d)
	require.NoError(t, err)
	p, err := steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[int]{})
	require.NoError(t, err)
	<-exporter.entered

	// All that the Observer hears of, and all it can be asked for, while the exporter hangs. If any of it waited for
	// the exporter, the test would hang.
	for range 1000 {
		_, err := p.Do(t.Context(), returns(1, nil))
		require.NoError(t, err)
	}
	_, err = p.Do(t.Context(), returns(0, errReset))
	require.ErrorIs(t, err, steady.ErrRetriesExhausted)
	d.Breaker().ForceOpen("test")
	_, err = p.Do(t.Context(), returns(1, nil))
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	unregister, err := observer.Register(steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "more", Limit: time.Second})))
	require.NoError(t, err)
	unregister()

	assert.Equal(t, int64(1), exporter.exports.Load(), "it hung all the time")
	close(exporter.release)
	require.NoError(t, provider.Shutdown(t.Context()))
}

func TestAnObservedCallAllocatesTwiceAtMostMoreThanOneThatIsNot(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	o := observe(t)
	measure := func(hooks *steady.Hooks, fn func(context.Context) (int, error)) float64 {
		d := steady.Must(steady.NewDependency(steady.DependencyConfig{
			Name:      "catalog",
			NoTimeout: true,
			Breaker:   steady.BreakerConfig{SlowThreshold: time.Minute, WindowSize: 1 << 20, MinCalls: 1 << 20},
			Retry:     steady.RetryConfig{NoDelay: true},
			Bulkhead:  steady.BulkheadConfig{MaxConcurrent: 20},
			Hooks:     hooks,
		}))
		if hooks != nil {
			unregister, err := o.RegisterDependency(d)
			require.NoError(t, err)
			defer unregister()
		}
		p := steady.Must(steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[int]{}))
		return testing.AllocsPerRun(1000, func() { _, _ = p.Do(context.Background(), fn) })
	}
	for name, fn := range map[string]func(context.Context) (int, error){
		"success":   returns(1, nil),
		"permanent": returns(0, steady.Mark(errReset, steady.Permanent)),
		"gave up":   returns(0, errReset),
	} {
		none, observed := measure(nil, fn), measure(o.Hooks(), fn)
		t.Logf("%s: %v allocations without hooks, %v observed", name, none, observed)
		assert.LessOrEqual(t, observed-none, 2.0, name)
	}
}
