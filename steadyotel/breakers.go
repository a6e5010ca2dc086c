package steadyotel

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/steady-go/steady"
)

// breakers counts transitions, and keeps them for the span of a call.
type breakers struct {
	transitions metric.Int64Counter
	waiting     atomic.Int64 // those that no call has been seen after
	untold      series[string, *untold]

	mu     sync.Mutex
	served map[string][]string // the breakers of pipelines that have another name, the latest last
}

// untold are the transitions of the breakers of one name that no call has been seen after, the latest ones.
type untold struct {
	mu          sync.Mutex
	transitions []steady.Transition
}

const maxUntold = 8

func newBreakers(in *maker) *breakers {
	b := &breakers{served: make(map[string][]string), transitions: in.counter("steady.breaker.transitions", "{transition}", "Changes of a breaker's state.")}
	b.untold.make = func(string) *untold { return new(untold) }
	return b
}

// begin makes the counts of what a breaker does by itself known before there is anything to count, so that the first
// transition is an increase.
func (b *breakers) begin(name string, slowCalls bool) {
	for _, t := range []steady.Transition{
		{From: steady.StateClosed, To: steady.StateOpen, Reason: steady.ReasonFailureRate},
		{From: steady.StateClosed, To: steady.StateOpen, Reason: steady.ReasonSlowRate},
		{From: steady.StateOpen, To: steady.StateHalfOpen, Reason: steady.ReasonOpenElapsed},
		{From: steady.StateHalfOpen, To: steady.StateClosed, Reason: steady.ReasonProbesSucceeded},
		{From: steady.StateHalfOpen, To: steady.StateOpen, Reason: steady.ReasonProbeFailed},
		{From: steady.StateHalfOpen, To: steady.StateOpen, Reason: steady.ReasonProbeSlow},
		{From: steady.StateHalfOpen, To: steady.StateOpen, Reason: steady.ReasonProbeTimeout},
	} {
		if slowCalls || t.Reason != steady.ReasonSlowRate && t.Reason != steady.ReasonProbeSlow {
			t.Breaker = name
			b.transitions.Add(context.Background(), 0, with(changed(t)...))
		}
	}
}

// changed are the attributes of a transition.
func changed(t steady.Transition) []attribute.KeyValue {
	return []attribute.KeyValue{
		breakerName.String(t.Breaker),
		breakerFrom.String(t.From.String()),
		breakerTo.String(t.To.String()),
		breakerReason.String(t.Reason.String()),
	}
}

func (b *breakers) transition(t steady.Transition) {
	b.transitions.Add(context.Background(), 1, with(changed(t)...))
	u := b.untold.of(t.Breaker)
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.transitions) == maxUntold {
		u.transitions = u.transitions[1:]
		b.waiting.Add(-1)
	}
	u.transitions = append(u.transitions, t)
	b.waiting.Add(1)
}

// serve notes that the calls of a pipeline are those of a breaker, until forget is called.
func (b *breakers) serve(pipeline, breaker string) (forget func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served[pipeline] = append(b.served[pipeline], breaker)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		all := b.served[pipeline]
		if i := slices.Index(all, breaker); len(all) > 1 {
			b.served[pipeline] = slices.Delete(all, i, i+1)
		} else {
			delete(b.served, pipeline)
		}
	}
}

// of returns the name of a pipeline's breaker.
func (b *breakers) of(pipeline string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if all := b.served[pipeline]; len(all) > 0 {
		return all[len(all)-1]
	}
	return pipeline
}

// tell puts the transitions of a breaker since the last call on the span of this one.
func (b *breakers) tell(ctx context.Context, breaker string) {
	if b.waiting.Load() == 0 {
		return
	}
	span := trace.SpanFromContext(ctx)
	for _, t := range b.take(breaker) {
		if !span.IsRecording() {
			continue
		}
		span.AddEvent("steady.breaker.transition", trace.WithTimestamp(t.At), trace.WithAttributes(changed(t)...))
	}
}

func (b *breakers) take(breaker string) []steady.Transition {
	u := b.untold.of(breaker)
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.transitions
	u.transitions = nil
	b.waiting.Add(-int64(len(taken)))
	return taken
}
