package steadyotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/steady-go/steady"
)

func (o *Observer) attempt(ctx context.Context, a steady.Attempt) {
	o.calls.record(ctx, o.calls.attempt, a.Pipeline, a.Duration, a.Outcome, a.Err)
	o.tell(ctx, a.Pipeline)
}

// done also sees the transitions that were made when the attempts had been reported: by a breaker outside a Retry, or
// when a Timeout abandoned the function.
func (o *Observer) done(ctx context.Context, c steady.Completion) {
	o.calls.done(ctx, c)
	o.tell(ctx, c.Pipeline)
}

func (o *Observer) tell(ctx context.Context, pipeline string) {
	if o.breakers.waiting.Load() > 0 {
		o.breakers.tell(ctx, o.breakers.of(pipeline))
	}
}

func (o *Observer) reject(ctx context.Context, r steady.Rejection) {
	by := breakerName
	if errors.Is(r.Err.Reason, steady.ErrBulkheadFull) {
		by = bulkheadName
		o.limits.reject(ctx, r)
	} else {
		o.breakers.tell(ctx, r.Policy)
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.AddEvent("steady.rejection", trace.WithAttributes(
		by.String(r.Policy),
		errorType.String(rejectedType(r.Err.Reason)),
		attribute.Bool("steady.rejection.shadow", r.Shadow),
	))
}

func retried(ctx context.Context, r steady.RetryDelay) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.AddEvent("steady.retry", trace.WithAttributes(
		retryName.String(r.Policy),
		attribute.Int("steady.retry.attempt", r.Attempt),
		attribute.Float64("steady.retry.delay", r.Delay.Seconds()),
		outcome.String(r.Outcome.String()),
		errorType.String(typeOf(r.Err)),
	))
}

func timedOut(ctx context.Context, e steady.Expiry) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.AddEvent("steady.timeout", trace.WithAttributes(
		timeoutName.String(e.Policy),
		attribute.Float64("steady.timeout.limit", e.Limit.Seconds()),
		attribute.Bool("steady.timeout.abandoned", e.Abandoned),
	))
}
