package steadyotel

import (
	"go.opentelemetry.io/otel/metric"

	"github.com/steady-go/steady"
)

// readings are the instruments whose values are the Stats of policies.
type readings struct {
	state                          metric.Int64Observable
	calls                          metric.Int64Observable
	failureRatio, slowRatio        metric.Float64Observable
	windowCalls, inFlight, overdue metric.Int64Observable
	openDuration                   metric.Float64Observable
	slowThreshold, p99, headroom   metric.Float64Observable
	usage, limit                   metric.Int64Observable
	queueUsage, queueLimit         metric.Int64Observable
	expirations, abandoned         metric.Int64Observable
	budgetUtilization              metric.Float64Observable

	all []metric.Observable
}

func newReadings(in *maker) *readings {
	r := new(readings)
	gauge := func(name, unit, description string) metric.Float64Observable {
		g := made[metric.Float64ObservableGauge](in)(in.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description)))
		r.all = append(r.all, g)
		return g
	}
	count := func(name, description string) metric.Int64Observable {
		g := made[metric.Int64ObservableGauge](in)(in.meter.Int64ObservableGauge(name, metric.WithUnit("{call}"), metric.WithDescription(description)))
		r.all = append(r.all, g)
		return g
	}
	upDown := func(name, unit, description string) metric.Int64Observable {
		c := made[metric.Int64ObservableUpDownCounter](in)(in.meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description)))
		r.all = append(r.all, c)
		return c
	}
	counter := func(name, unit, description string) metric.Int64Observable {
		c := made[metric.Int64ObservableCounter](in)(in.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description)))
		r.all = append(r.all, c)
		return c
	}

	r.budgetUtilization = gauge("steady.retry.budget.utilization", "1", "Share of the retry budget that is spent: at 1 nothing is retried.")
	r.state = upDown("steady.breaker.state", "1", "1 for the state that the breaker is in, 0 for each other one.")
	r.calls = counter("steady.breaker.calls", "{call}",
		"Calls by outcome, and rejected ones. Those that were slow are counted as slow beside their outcome, as soon as they are.")
	r.failureRatio = gauge("steady.breaker.failure_ratio", "1", "Share of the calls in the window that failed, when there are enough of them to decide by.")
	r.slowRatio = gauge("steady.breaker.slow_ratio", "1", "Share of the calls in the window that were slow, when there are enough of them to decide by.")
	r.windowCalls = count("steady.breaker.window.calls", "Calls in the window.")
	r.inFlight = count("steady.breaker.in_flight", "Calls inside the function.")
	r.overdue = count("steady.breaker.overdue", "Calls inside the function for longer than the slow threshold.")
	r.openDuration = made[metric.Float64ObservableCounter](in)(in.meter.Float64ObservableCounter("steady.breaker.open.duration",
		metric.WithUnit("s"), metric.WithDescription("Time that the breaker has been open in all; it grows while that lasts.")))
	r.all = append(r.all, r.openDuration)
	r.slowThreshold = gauge("steady.breaker.slow_threshold", "s", "Duration from which on a call is slow.")
	r.p99 = gauge("steady.breaker.latency.p99", "s", "99th percentile of the calls of about the last ten minutes that did not fail.")
	r.headroom = gauge("steady.breaker.headroom", "1", "Slow threshold over 99th percentile: below 1.5 the threshold no longer fits.")
	r.usage = upDown("steady.bulkhead.usage", "{call}", "Calls inside the bulkhead.")
	r.limit = upDown("steady.bulkhead.limit", "{call}", "Calls that may be inside the bulkhead.")
	r.queueUsage = upDown("steady.bulkhead.queue.usage", "{call}", "Calls in the queue of the bulkhead.")
	r.queueLimit = upDown("steady.bulkhead.queue.limit", "{call}", "Calls that may be in the queue of the bulkhead.")
	r.expirations = counter("steady.timeout.expirations", "{timeout}", "Calls that the limit has ended.")
	r.abandoned = counter("steady.timeout.abandoned", "{timeout}", "Functions that were left running at the limit.")
	return r
}

// breakerReader reads a breaker.
type breakerReader struct {
	b         *steady.Breaker
	threshold float64 // in seconds, 0 when slow calls are not counted
	name      metric.MeasurementOption
	states    [len(states)]metric.MeasurementOption
	outcomes  [len(breakerOutcomes)]metric.MeasurementOption
}

var states = [...]steady.State{
	steady.StateClosed, steady.StateOpen, steady.StateHalfOpen, steady.StateForcedOpen, steady.StateForcedClosed,
}

var breakerOutcomes = [...]string{"success", "transient", "unsent", "permanent", "throttled", "ignored", "rejected", "slow"}

func newBreakerReader(b *steady.Breaker) *breakerReader {
	name := breakerName.String(b.Name())
	r := &breakerReader{b: b, threshold: b.Config().SlowThreshold.Seconds(), name: with(name)}
	for i, s := range states {
		r.states[i] = with(name, breakerState.String(s.String()))
	}
	for i, o := range breakerOutcomes {
		r.outcomes[i] = with(name, outcome.String(o))
	}
	return r
}

func (r *breakerReader) read(to metric.Observer, in *readings) {
	s := r.b.Stats()
	for i, state := range states {
		present := int64(0)
		if state == s.State {
			present = 1
		}
		to.ObserveInt64(in.state, present, r.states[i])
	}
	t := s.Totals
	for i, n := range [len(breakerOutcomes)]uint64{
		t.Success, t.Transient, t.Unsent, t.Permanent, t.Throttled, t.Ignored, s.Rejected, t.Slow,
	} {
		to.ObserveInt64(in.calls, int64(n), r.outcomes[i])
	}
	to.ObserveInt64(in.windowCalls, int64(s.Calls), r.name)
	to.ObserveInt64(in.inFlight, int64(s.InFlight), r.name)
	to.ObserveInt64(in.overdue, int64(s.Overdue), r.name)
	to.ObserveFloat64(in.openDuration, s.TimeOpen.Seconds(), r.name)
	deciding := s.Deciding && s.State != steady.StateHalfOpen // the window is still that of the opening if nobody has come since
	if deciding {
		to.ObserveFloat64(in.failureRatio, s.FailureRate, r.name)
	}
	if s.LatencyP99 > 0 {
		to.ObserveFloat64(in.p99, s.LatencyP99.Seconds(), r.name)
	}
	if r.threshold == 0 {
		return
	}
	to.ObserveFloat64(in.slowThreshold, r.threshold, r.name)
	if deciding {
		to.ObserveFloat64(in.slowRatio, s.SlowRate, r.name)
	}
	if s.Headroom > 0 {
		to.ObserveFloat64(in.headroom, s.Headroom, r.name)
	}
}
