package steadyotel_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyotel"
)

// show prints the time series of one counter.
func show(reader sdk.Reader, name string) {
	var all metricdata.ResourceMetrics
	_ = reader.Collect(context.Background(), &all)
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == name {
			for _, p := range sum.DataPoints {
				if p.Value != 0 {
					fmt.Println(p.Attributes.Encoded(attribute.DefaultEncoder()), p.Value)
				}
			}
		}
	}
}

// The Observer's Hooks go into the dependency's config, beside others, and then the dependency is registered.
func Example() {
	reader := sdk.NewManualReader() // a periodic reader with an exporter, or Prometheus' exporter, in a program
	observer := steady.Must(steadyotel.New(sdk.NewMeterProvider(sdk.WithReader(reader))))

	catalog := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:     "catalog",
		Timeout:  2 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
		Hooks:    observer.Hooks(), // steady.JoinHooks(steady.LogHooks(nil), observer.Hooks()) for both
	}))
	steady.Must(observer.RegisterDependency(catalog))

	prices := steady.Must(steady.NewPipelineFor(catalog, steady.ReadIdempotent, steady.PipelineConfig[int]{}))
	_, _ = prices.Do(context.Background(), func(context.Context) (int, error) { return 120, nil })
	catalog.Breaker().ForceOpen("maintenance")

	show(reader, "steady.breaker.state")
	show(reader, "steady.breaker.calls")
	show(reader, "steady.breaker.transitions")
	// Output:
	// steady.breaker.name=catalog,steady.breaker.state=forced-open 1
	// steady.breaker.name=catalog,steady.outcome=success 1
	// steady.breaker.from=closed,steady.breaker.name=catalog,steady.breaker.reason=manual,steady.breaker.to=forced-open 1
}

// A policy that is not part of a dependency is registered by itself, and what is registered may be taken back.
func ExampleObserver_Register() {
	reader := sdk.NewManualReader()
	observer := steady.Must(steadyotel.New(sdk.NewMeterProvider(sdk.WithReader(reader))))
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		Name:        "catalog",
		WindowSize:  1,
		NoSlowCalls: true,
		Hooks:       observer.Hooks(),
	}))
	unregister, err := observer.Register(breaker)
	if err != nil {
		fmt.Println(err)
	}
	defer unregister()

	permit, _ := breaker.Allow()
	permit.Done(steady.Transient)
	_, err = breaker.Allow()
	fmt.Println(errors.Is(err, steady.ErrBreakerOpen))
	show(reader, "steady.breaker.transitions")
	// Output:
	// true
	// steady.breaker.from=closed,steady.breaker.name=catalog,steady.breaker.reason=failure_rate,steady.breaker.to=open 1
}

// A pipeline with a name of its own, or policies of its own, is registered with them.
func ExampleRegisterPipeline() {
	reader := sdk.NewManualReader()
	observer := steady.Must(steadyotel.New(sdk.NewMeterProvider(sdk.WithReader(reader))))
	hooks := observer.Hooks()
	prices := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Name: "prices",
		Policies: []steady.Policy{
			steady.Must(steady.NewRetry(steady.RetryConfig{Name: "catalog", NoDelay: true, Hooks: hooks})),
			steady.Must(steady.NewBulkhead(steady.BulkheadConfig{Name: "catalog", MaxConcurrent: 20, Hooks: hooks})),
		},
		Hooks: hooks,
	}))
	steady.Must(steadyotel.RegisterPipeline(observer, prices))

	_, err := prices.Do(context.Background(), func(context.Context) (int, error) { return 0, errors.New("connection reset") })
	fmt.Println(errors.Is(err, steady.ErrRetriesExhausted))
	show(reader, "steady.bulkhead.limit")
	// Output:
	// true
	// steady.bulkhead.name=catalog 20
}

// Dependencies that come and go, one for each host say, are asked for at each collection: those of a
// steadyhttp.Transport with its method Dependencies.
func ExampleObserver_RegisterSource() {
	reader := sdk.NewManualReader()
	observer := steady.Must(steadyotel.New(sdk.NewMeterProvider(sdk.WithReader(reader))))
	hosts := map[string]*steady.Dependency{}
	steady.Must(observer.RegisterSource(func() (all []*steady.Dependency) {
		for _, d := range hosts {
			all = append(all, d)
		}
		return all
	}))

	hosts["a.example"] = steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:     "a.example",
		Timeout:  2 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
		Hooks:    observer.Hooks(),
	}))
	show(reader, "steady.bulkhead.limit")
	// Output: steady.bulkhead.name=a.example 20
}
