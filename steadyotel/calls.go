package steadyotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/steady-go/steady"
)

// calls records how calls, and their attempts, went.
type calls struct {
	duration metric.Float64Histogram
	attempt  metric.Float64Histogram
	attempts metric.Int64Histogram
	ends     series[end, []metric.RecordOption]
	retrying series[retryEnd, []metric.RecordOption]
}

// end is how a call or an attempt ended.
type end struct {
	pipeline  string
	outcome   steady.Outcome
	errorType string
}

// retryEnd is how the retrying of a call ended.
type retryEnd struct{ pipeline, outcome string }

func newCalls(in *maker) *calls {
	c := &calls{
		duration: in.seconds("steady.pipeline.duration", "Duration of calls through a pipeline, waits and retries included."),
		attempt:  in.seconds("steady.attempt.duration", "Time inside the function, each attempt on its own."),
		attempts: made[metric.Int64Histogram](in)(in.meter.Int64Histogram("steady.retry.attempts", metric.WithUnit("{attempt}"),
			metric.WithDescription("Attempts of each call through a pipeline with a Retry, and how that ended."),
			metric.WithExplicitBucketBoundaries(1, 2, 3, 5, 8))),
	}
	c.ends.make = func(e end) []metric.RecordOption {
		attributes := []attribute.KeyValue{pipelineName.String(e.pipeline), outcome.String(e.outcome.String())}
		if e.errorType != "" {
			attributes = append(attributes, errorType.String(e.errorType))
		}
		return []metric.RecordOption{with(attributes...)}
	}
	c.retrying.make = func(e retryEnd) []metric.RecordOption {
		return []metric.RecordOption{with(pipelineName.String(e.pipeline), retryOutcome.String(e.outcome))}
	}
	return c
}

// record records a duration with the outcome and, unless that is success, the error's type.
func (c *calls) record(ctx context.Context, into metric.Float64Histogram, pipeline string, d time.Duration, o steady.Outcome, err error) {
	e := end{pipeline: pipeline, outcome: o}
	if o != steady.Success {
		e.errorType = typeOf(err)
	}
	into.Record(ctx, d.Seconds(), c.ends.of(e)...)
}

func (c *calls) done(ctx context.Context, done steady.Completion) {
	c.record(ctx, c.duration, done.Pipeline, done.Duration, done.Outcome, done.Err)
	if done.Retry != nil {
		c.attempts.Record(ctx, int64(done.Attempts), c.retrying.of(retryEnd{done.Pipeline, endOfRetrying(done)})...)
	}
}

// endOfRetrying says why a call made the attempts it made, and no more.
func endOfRetrying(done steady.Completion) string {
	switch {
	case done.Outcome == steady.Success && done.Retries > 0:
		return "retried"
	case done.Outcome == steady.Success:
		return "first_try"
	case errors.Is(done.GaveUp, steady.ErrRetriesExhausted):
		return "exhausted"
	case errors.Is(done.GaveUp, steady.ErrRetryBudget):
		return "budget"
	case errors.Is(done.GaveUp, steady.ErrRetryDeadline), errors.Is(done.GaveUp, context.DeadlineExceeded):
		return "deadline"
	case done.Attempts == 0 && errors.Is(done.Err, context.DeadlineExceeded): // on the way to the function
		return "deadline"
	default: // also rejected at a later attempt, or cancelled by the caller
		return "not_retryable"
	}
}
