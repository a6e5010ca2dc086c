package steadyotel_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracing "go.opentelemetry.io/otel/trace"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyotel"
)

// traced is a tracer and the spans that ended.
type traced struct {
	tracing.Tracer
	*tracetest.SpanRecorder
}

func newTraced(sampler trace.Sampler) traced {
	recorder := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(recorder), trace.WithSampler(sampler))
	return traced{provider.Tracer("test"), recorder}
}

// eventsOf returns the events of the span of a call.
func (tr traced) eventsOf(t *testing.T, p *steady.Pipeline[int], name string) []event {
	ctx, span := tr.Start(t.Context(), name)
	_, err := p.Do(ctx, returns(1, nil))
	require.NoError(t, err)
	span.End()
	return eventsOf(tr.Ended()[len(tr.Ended())-1])
}

// event is an event of a span, as maps that can be compared.
type event struct {
	name       string
	attributes map[attribute.Key]any
}

func eventsOf(span trace.ReadOnlySpan) (events []event) {
	for _, e := range span.Events() {
		attributes := make(map[attribute.Key]any)
		for _, kv := range e.Attributes {
			attributes[kv.Key] = kv.Value.AsInterface()
		}
		events = append(events, event{e.Name, attributes})
	}
	return events
}

func TestWhatHappensToACallIsOnItsSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observe(t)
		b := newBreaker(t, o, steady.BreakerConfig{WindowSize: 2, FailureRate: 1, MinCalls: 2})
		p := newPipeline(t, o,
			steady.Must(steady.NewRetry(steady.RetryConfig{Name: "catalog", BaseDelay: time.Second, Jitter: steady.NoJitter, Hooks: o.Hooks()})),
			steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "attempt", Limit: time.Second, Hooks: o.Hooks()})),
			b)
		spans := newTraced(trace.AlwaysSample())

		ctx, span := spans.Start(t.Context(), "checkout")
		begin := time.Now()
		_, err := p.Do(ctx, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		require.ErrorIs(t, err, steady.ErrBreakerOpen)
		span.End()

		require.Len(t, spans.Ended(), 1, "no span of our own")
		ended := spans.Ended()[0]
		retry := func(attempt int64, delay float64) event {
			return event{"steady.retry", map[attribute.Key]any{
				"steady.retry.name": "catalog", "steady.retry.attempt": attempt, "steady.retry.delay": delay,
				"steady.outcome": "transient", "error.type": "timeout",
			}}
		}
		timeout := event{"steady.timeout", map[attribute.Key]any{
			"steady.timeout.name": "attempt", "steady.timeout.limit": 1.0, "steady.timeout.abandoned": false,
		}}
		assert.Equal(t, []event{
			timeout,
			retry(1, 1),
			{"steady.breaker.transition", map[attribute.Key]any{
				"steady.breaker.name": "catalog", "steady.breaker.from": "closed", "steady.breaker.to": "open",
				"steady.breaker.reason": "slow_rate",
			}},
			timeout,
			retry(2, 2),
			{"steady.rejection", map[attribute.Key]any{
				"steady.breaker.name": "catalog", "error.type": "breaker_open", "steady.rejection.shadow": false,
			}},
		}, eventsOf(ended))
		assert.Equal(t, begin.Add(2500*time.Millisecond), ended.Events()[2].Time, "when the second call was slow, not when it ended")
	})
}

func TestABulkheadsRejectionIsOnTheSpan(t *testing.T) {
	o := observe(t)
	b := newBulkhead(t, o, steady.BulkheadConfig{MaxConcurrent: 1})
	spans := newTraced(trace.AlwaysSample())
	ctx, span := spans.Start(t.Context(), "checkout")
	_, err := b.Acquire(ctx)
	require.NoError(t, err)
	_, err = b.Acquire(ctx)
	require.Error(t, err)
	span.End()
	assert.Equal(t, []event{{"steady.rejection", map[attribute.Key]any{
		"steady.bulkhead.name": "catalog", "error.type": "bulkhead_full", "steady.rejection.shadow": false,
	}}}, eventsOf(spans.Ended()[0]))
}

func TestATransitionGoesToTheNextCallOfItsBreakerAlone(t *testing.T) {
	o := observe(t)
	b := newBreaker(t, o, steady.BreakerConfig{})
	p := newPipeline(t, o, b)
	other, err := steady.NewPipeline(steady.PipelineConfig[int]{Name: "other", Hooks: o.Hooks()})
	require.NoError(t, err)
	spans := newTraced(trace.AlwaysSample())
	call := func(p *steady.Pipeline[int], name string) []event { return spans.eventsOf(t, p, name) }
	for range 20 {
		b.ForceClosed("test")
	}
	assert.Empty(t, call(other, "another dependency's"))
	assert.Len(t, call(p, "the first"), 8, "the latest of them")
	assert.Empty(t, call(p, "the second"))
}

func TestATransitionIsOnTheSpanOfTheCallThatMadeIt(t *testing.T) {
	passesOn := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error { return next(ctx) })
	for name, policies := range map[string]func(b *steady.Breaker) []steady.Policy{
		"a breaker inside a Retry": func(b *steady.Breaker) []steady.Policy {
			return []steady.Policy{steady.Must(steady.NewRetry(steady.RetryConfig{Name: "catalog"})), b}
		},
		"a breaker outside a Retry": func(b *steady.Breaker) []steady.Policy {
			return []steady.Policy{b, steady.Must(steady.NewRetry(steady.RetryConfig{Name: "catalog"}))}
		},
		"a breaker outside a Middleware": func(b *steady.Breaker) []steady.Policy {
			return []steady.Policy{b, passesOn}
		},
		"a breaker in a Timeout that abandons": func(b *steady.Breaker) []steady.Policy {
			return []steady.Policy{steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "catalog", Limit: time.Second, Abandon: true})), b}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := observe(t)
				b := newBreaker(t, o, steady.BreakerConfig{WindowSize: 1, OpenDuration: time.Hour, SlowThreshold: time.Hour})
				p := newPipeline(t, o, policies(b)...)
				spans := newTraced(trace.AlwaysSample())
				for range 2 {
					ctx, span := spans.Start(t.Context(), "checkout")
					_, err := p.Do(ctx, func(context.Context) (int, error) {
						time.Sleep(3 * time.Second)
						return 0, steady.Mark(errReset, steady.Permanent)
					})
					require.Error(t, err)
					span.End()
					time.Sleep(time.Minute) // also until the function that was abandoned has returned
				}
				has := func(i int) bool {
					return slices.ContainsFunc(eventsOf(spans.Ended()[i]), func(e event) bool { return e.name == "steady.breaker.transition" })
				}
				assert.Equal(t, []bool{true, false}, []bool{has(0), has(1)})
			})
		})
	}
}

func TestAPipelinesCallsAreItsBreakersUntilTheLastRegistrationIsTakenBack(t *testing.T) {
	o := observe(t)
	b := newBreaker(t, o, steady.BreakerConfig{})
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Name: "prices", Policies: []steady.Policy{b}, Hooks: o.Hooks()}))
	spans := newTraced(trace.AlwaysSample())
	told := func() int {
		b.ForceClosed("test")
		return len(spans.eventsOf(t, p, "checkout"))
	}
	first := steady.Must(steadyotel.RegisterPipeline(o.Observer, p))
	second := steady.Must(steadyotel.RegisterPipeline(o.Observer, p))
	assert.Equal(t, 1, told())
	second()
	assert.Equal(t, 1, told())
	first()
	assert.Zero(t, told())
}

func TestASpanThatDoesNotRecordGetsNoEvents(t *testing.T) {
	o := observe(t)
	b := newBreaker(t, o, steady.BreakerConfig{})
	b.ForceOpen("test")
	p := newPipeline(t, o, b)
	spans := newTraced(trace.NeverSample())
	ctx, span := spans.Start(t.Context(), "checkout")
	_, err := p.Do(ctx, returns(1, nil))
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	span.End()
	assert.Empty(t, spans.Ended())

	recording := newTraced(trace.AlwaysSample())
	ctx, span = recording.Start(t.Context(), "checkout")
	_, err = p.Do(ctx, returns(1, nil))
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	span.End()
	assert.Len(t, recording.Ended()[0].Events(), 1, "the rejection; the transition was the other call's")
}
