package steadyotel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/steady-go/steady"
)

// scope is the name of the instrumentation.
const scope = "github.com/steady-go/steady/steadyotel"

// Observer makes metrics and span events of what policies do. One serves a whole process: its Hooks go into the
// config of every policy and pipeline, each of which is then registered. It may be used by any number of goroutines.
type Observer struct {
	registry registry
	calls    *calls
	limits   *limits
	breakers *breakers
	callback metric.Registration
}

// New returns an Observer whose instruments belong to the provider, as a rule otel.GetMeterProvider(), or the
// error of an instrument that the provider refused.
func New(provider metric.MeterProvider) (*Observer, error) {
	if provider == nil {
		return nil, errors.New("steadyotel: New: the MeterProvider must not be nil (otel.GetMeterProvider() is the global one)")
	}
	in := maker{meter: provider.Meter(scope)}
	o := &Observer{
		registry: registry{subjects: make(map[id]*subject)},
		calls:    newCalls(&in),
		limits:   newLimits(&in),
		breakers: newBreakers(&in),
	}
	readings := newReadings(&in)
	if err := in.err(); err != nil {
		return nil, err
	}
	var err error
	if o.callback, err = in.meter.RegisterCallback(o.collector(readings), readings.all...); err != nil {
		return nil, err
	}
	return o, nil
}

// Hooks returns the Hooks for every policy, pipeline and Dependency that is to be observed; steady.JoinHooks puts
// them beside others. For a call that succeeds they allocate nothing, nor does OpenTelemetry's SDK behind them.
func (o *Observer) Hooks() *steady.Hooks {
	return &steady.Hooks{
		OnTransition: o.breakers.transition,
		OnReject:     o.reject,
		OnRetry:      retried,
		OnTimeout:    timedOut,
		OnWait:       o.limits.wait,
		OnAttempt:    o.attempt,
		OnDone:       o.done,
	}
}

// Close ends the reading of what is registered. The Hooks go on.
func (o *Observer) Close() error { return o.callback.Unregister() }

// maker makes instruments and keeps the errors.
type maker struct {
	meter metric.Meter
	errs  []error
}

func (m *maker) err() error { return errors.Join(m.errs...) }

// made returns the instrument that was made with an error beside it.
func made[I any](m *maker) func(I, error) I {
	return func(instrument I, err error) I {
		if err != nil {
			m.errs = append(m.errs, err)
		}
		return instrument
	}
}

func (m *maker) seconds(name, description string) metric.Float64Histogram {
	return made[metric.Float64Histogram](m)(m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30)))
}

func (m *maker) counter(name, unit, description string) metric.Int64Counter {
	return made[metric.Int64Counter](m)(m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description)))
}
