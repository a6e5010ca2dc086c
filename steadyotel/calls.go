package steadyotel

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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

	known atomic.Pointer[map[string]*pipelined] // by the pipeline's name

	mu         sync.Mutex // of those who change known
	registered map[string][]*pipelined
}

// end is how a call or an attempt ended.
type end struct {
	pipeline  string
	outcome   steady.Outcome
	errorType string
}

// pipelined is what is known of a pipeline.
type pipelined struct {
	retry    *steady.Retry // nil where there is none
	breaker  string        // its name, empty where there is none
	outcomes [len(retryOutcomes)][]metric.RecordOption
}

func newCalls(in *maker) *calls {
	c := &calls{
		registered: make(map[string][]*pipelined),

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
	if p := c.of(done.Pipeline); p != nil && p.retry != nil {
		c.attempts.Record(ctx, int64(done.Attempts), p.outcomes[endOfRetrying(done, p.retry)]...)
	}
}

// of returns what is known of the pipelines of a name, nil if nothing is.
func (c *calls) of(name string) *pipelined {
	if known := c.known.Load(); known != nil {
		return (*known)[name]
	}
	return nil
}

// register notes what the pipelines of a name have inside. The returned function takes that back.
func (c *calls) register(name string, retry *steady.Retry, breaker *steady.Breaker) (unregister func()) {
	p := &pipelined{retry: retry}
	if breaker != nil {
		p.breaker = breaker.Name()
	}
	for i, o := range retryOutcomes {
		p.outcomes[i] = []metric.RecordOption{with(pipelineName.String(name), retryOutcome.String(o))}
	}
	c.change(name, func(registered []*pipelined) []*pipelined { return append(registered, p) })
	return func() {
		c.change(name, func(registered []*pipelined) []*pipelined {
			return slices.DeleteFunc(registered, func(other *pipelined) bool { return other == p })
		})
	}
}

func (c *calls) change(name string, change func([]*pipelined) []*pipelined) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := make(map[string]*pipelined)
	if before := c.known.Load(); before != nil {
		maps.Copy(known, *before)
	}
	if registered := change(c.registered[name]); len(registered) > 0 {
		c.registered[name], known[name] = registered, foremost(registered)
	} else {
		delete(c.registered, name)
		delete(known, name)
	}
	c.known.Store(&known)
}

// foremost returns which of the pipelines of one name their calls are taken for: the latest with a Retry, lest one
// without hides the retrying of the others.
func foremost(registered []*pipelined) *pipelined {
	for _, p := range slices.Backward(registered) {
		if p.retry != nil {
			return p
		}
	}
	return registered[len(registered)-1]
}

const (
	firstTry = iota
	succeededAfterRetry
	exhausted
	notRetryable
	budget
	deadline
)

// retryOutcomes are the values of steady.retry.outcome.
var retryOutcomes = [...]string{
	firstTry:            "first_try",
	succeededAfterRetry: "retried",
	exhausted:           "exhausted",
	notRetryable:        "not_retryable",
	budget:              "budget",
	deadline:            "deadline",
}

// endOfRetrying says why a call made the attempts it made, and no more.
func endOfRetrying(done steady.Completion, r *steady.Retry) int {
	switch {
	case done.Outcome == steady.Success && done.Attempts > 1:
		return succeededAfterRetry
	case done.Outcome == steady.Success:
		return firstTry
	case done.Err == nil:
		return endOfFailingValue(done, r)
	default:
		return endOfFailure(done.Err)
	}
}

func endOfFailure(err error) int {
	switch e := err.(type) { //nolint:errorlint // spares what errors.As allocates; wrapped ones follow
	case *steady.RejectedError:
		return notRetryable
	case *steady.RetryError:
		return endOfGivingUp(e)
	}
	var gaveUp *steady.RetryError
	if errors.As(err, &gaveUp) {
		return endOfGivingUp(gaveUp)
	}
	return notRetryable
}

func endOfGivingUp(gaveUp *steady.RetryError) int {
	switch {
	case errors.Is(gaveUp.Reason, steady.ErrRetriesExhausted):
		return exhausted
	case errors.Is(gaveUp.Reason, steady.ErrRetryBudget):
		return budget
	case errors.Is(gaveUp.Reason, steady.ErrRetryDeadline), errors.Is(gaveUp.Reason, context.DeadlineExceeded):
		return deadline
	default: // rejected at a later attempt, or the caller has cancelled
		return notRetryable
	}
}

// endOfFailingValue is for a value that comes back, with a nil error, when nothing is left to try: what there is
// to go by is the number of attempts and the budget.
func endOfFailingValue(done steady.Completion, r *steady.Retry) int {
	cfg := r.Config()
	switch done.Outcome {
	case steady.Transient, steady.Unsent, steady.Throttled:
		switch {
		case cfg.MaxAttempts > 1 && done.Attempts >= cfg.MaxAttempts:
			return exhausted
		case cfg.Budget != nil && cfg.Budget.Stats().Tokens < 1:
			return budget
		}
	}
	return notRetryable
}
