package benchmarks

import (
	"io"
	"log/slog"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyotel"
)

// BenchmarkHooks is what watching costs a call through retry, breaker and bulkhead: with no hooks, with LogHooks, with
// package steadyotel and OpenTelemetry's SDK behind it, and with both. A breaker that is open rejects without a
// pipeline's overhead as long as nobody wants to hear of completed calls, which steadyotel does.
func BenchmarkHooks(b *testing.B) {
	observer := steady.Must(steadyotel.New(sdk.NewMeterProvider(sdk.WithReader(sdk.NewManualReader()))))
	defer observer.Close()
	log := steady.LogHooks(slog.New(slog.NewJSONHandler(io.Discard, nil)))
	hooks := []struct {
		name  string
		hooks *steady.Hooks
	}{
		{"none", nil},
		{"log", log},
		{"otel", observer.Hooks()},
		{"both", steady.JoinHooks(log, observer.Hooks())},
	}
	// The histogram of attempts is for pipelines that are known to have a Retry: by the name of this dependency.
	steady.Must(observer.RegisterDependency(hooked(observer.Hooks())))
	for _, end := range []string{"success", "rejected"} {
		b.Run("end="+end, func(b *testing.B) {
			var contenders []contender
			for _, h := range hooks {
				contenders = append(contenders, contender{h.name, func() func() {
					d := hooked(h.hooks)
					if end == "rejected" {
						d.Breaker().ForceOpen("benchmark")
					}
					p := steady.Must(steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[int]{}))
					return func() { _, _ = p.Do(ctx, work) }
				}})
			}
			compare(b, contenders...)
		})
	}
}

func hooked(hooks *steady.Hooks) *steady.Dependency {
	return steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:      "catalog",
		NoTimeout: true,
		Breaker:   steady.BreakerConfig{SlowThreshold: time.Hour},
		Bulkhead:  steady.BulkheadConfig{MaxConcurrent: 1000},
		Hooks:     hooks,
	}))
}
