package steadyotel

import (
	"context"
	"sync/atomic"

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

	// lapsed is how many calls have waited for MaxWait and are about to be rejected. A Rejection does not say why;
	// which of two such calls takes which reason makes no difference to the counts.
	lapsed atomic.Int64
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
	of := l.byName.of(w.Policy)
	l.waited.Record(ctx, w.Duration.Seconds(), of.wait...)
	if !w.Admitted && ctx.Err() == nil {
		of.lapsed.Add(1)
	}
}

func (l *limits) reject(ctx context.Context, policy string) {
	of := l.byName.of(policy)
	for {
		lapsed := of.lapsed.Load()
		if lapsed == 0 {
			l.rejected.Add(ctx, 1, of.full...)
			return
		}
		if of.lapsed.CompareAndSwap(lapsed, lapsed-1) {
			l.rejected.Add(ctx, 1, of.maxWait...)
			return
		}
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
