package steadyotel

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The attributes, of metrics and events alike.
const (
	pipelineName   = attribute.Key("steady.pipeline.name")
	outcome        = attribute.Key("steady.outcome")
	errorType      = attribute.Key("error.type")
	retryName      = attribute.Key("steady.retry.name")
	retryOutcome   = attribute.Key("steady.retry.outcome")
	breakerName    = attribute.Key("steady.breaker.name")
	breakerState   = attribute.Key("steady.breaker.state")
	breakerFrom    = attribute.Key("steady.breaker.from")
	breakerTo      = attribute.Key("steady.breaker.to")
	breakerReason  = attribute.Key("steady.breaker.reason")
	bulkheadName   = attribute.Key("steady.bulkhead.name")
	bulkheadReason = attribute.Key("steady.bulkhead.reason")
	timeoutName    = attribute.Key("steady.timeout.name")
)

func with(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}
