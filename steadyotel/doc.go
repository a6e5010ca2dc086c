// Package steadyotel tells OpenTelemetry what the policies of package steady do: metrics, and events on the
// caller's span.
//
//	observer := steady.Must(steadyotel.New(otel.GetMeterProvider()))
//	catalog := steady.Must(steady.NewDependency(steady.DependencyConfig{
//		Name:  "catalog",
//		Hooks: steady.JoinHooks(steady.LogHooks(nil), observer.Hooks()),
//		…
//	}))
//	unregister, err := observer.RegisterDependency(catalog)
//
// What happens, the duration of a call say, is told by the Hooks, and what is, the state of a breaker say, is read
// from the Stats of what was registered, each time the metrics are collected. Calls pay for the first kind alone, and
// neither waits for an exporter: the SDK collects and exports on goroutines of its own.
//
// The metrics, with unit and attributes, are listed in docs/observability.md, beside the names that Prometheus
// shows. Nothing is recorded per URL, host or user: names are those of policies and pipelines, so give few.
//
// # Error types
//
// Where an outcome is not success, error.type says what the call ended with: breaker_open, bulkhead_full, timeout
// (a [steady.Timeout]), deadline_exceeded and canceled (the caller's context), panic; what a method
// ErrorType() string of the error says; or the Go type of the error, without what merely wraps it. A failing value
// with a nil error is _OTHER. An attempt that a Timeout ends has what the function made of that, as a rule
// deadline_exceeded: it sees nothing but its context.
//
// # Span events
//
// Where the span of the caller's context records, it gets an event for each retry (steady.retry), rejection
// (steady.rejection) and timeout (steady.timeout) of the call, with the attributes of the metrics. No span is
// started. A breaker's transition (steady.breaker.transition, at the moment at which it happened) belongs to no
// call; it goes to the call that is heard of next: one that the breaker rejects, or whose attempt ends in a pipeline
// that has the breaker's name or was registered with it. With little traffic this is the call that made the transition;
// otherwise another one of the same dependency may be first. When that one's span does not record, no span has the event.
package steadyotel
