package steadyotel

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/steady-go/steady"
)

// limits records how bulkheads make calls wait, and turn them away.
type limits struct {
	waited   metric.Float64Histogram
	rejected metric.Int64Counter
	byName   series[string, *limit]
}

// limit is what is needed of the bulkheads of one name.
type limit struct {
	wait          []metric.RecordOption
	full, maxWait []metric.AddOption
}

func newLimits(in *maker) *limits {
	l := &limits{
		waited: in.seconds("steady.bulkhead.wait.duration", "Time that calls spent in the queue of a bulkhead, with or without success."),
		rejected: in.counter("steady.bulkhead.rejections", "{call}",
			"Calls that a bulkhead rejected: full, with no place in the queue, or after max_wait in it."),
	}
	l.byName.make = func(name string) *limit {
		reason := func(reason string) []metric.AddOption {
			return []metric.AddOption{with(bulkheadName.String(name), bulkheadReason.String(reason))}
		}
		return &limit{
			wait:    []metric.RecordOption{with(bulkheadName.String(name))},
			full:    reason("full"),
			maxWait: reason("max_wait"),
		}
	}
	return l
}

func (l *limits) wait(ctx context.Context, w steady.Wait) {
	l.waited.Record(ctx, w.Duration.Seconds(), l.byName.of(w.Policy).wait...)
}

func (l *limits) reject(ctx context.Context, r steady.Rejection) {
	of := l.byName.of(r.Policy)
	if r.Waited {
		l.rejected.Add(ctx, 1, of.maxWait...)
	} else {
		l.rejected.Add(ctx, 1, of.full...)
	}
}

// begin makes the counts known before there is anything to count, so that the first rejection is an increase.
func (l *limits) begin(name string, waits bool) {
	of := l.byName.of(name)
	l.rejected.Add(context.Background(), 0, of.full...)
	if waits {
		l.rejected.Add(context.Background(), 0, of.maxWait...)
	}
}
