package steady_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/steady-go/steady"
)

// A rejection says how long there is no point in asking again: a Retry-After header for one's own callers.
func ExampleRejectedError() {
	mock := clock.NewMock()
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		Name:          "catalog",
		WindowSize:    1,
		SlowThreshold: 500 * time.Millisecond,
		NoOpenJitter:  true,
		Clock:         mock,
	}))
	permit, _ := breaker.Allow()
	permit.Done(steady.Transient)
	mock.Add(4 * time.Second)

	_, err := breaker.Allow()
	var rejected *steady.RejectedError
	if errors.As(err, &rejected) {
		fmt.Println(rejected.Policy, rejected.RetryAfter())
	}
	fmt.Println(err)
	// Output:
	// catalog 6s
	// steady: breaker open: "catalog", for another 6s
}

// IsRejected tells a call that was not let through from one that failed.
func ExampleIsRejected() {
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{breaker}}))
	call := func(context.Context) error { return errors.New("connection reset") }

	ctx := context.Background()
	fmt.Println(steady.IsRejected(pipeline.Run(ctx, call)))
	breaker.ForceOpen("maintenance")
	fmt.Println(steady.IsRejected(pipeline.Run(ctx, call)))
	// Output:
	// false
	// true
}

// The error of a timeout names the one that fired, and matches what code that knows only the standard
// library looks for.
func ExampleTimeoutError() {
	attempt := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "attempt", Limit: 50 * time.Millisecond}))
	total := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "total", Limit: time.Minute}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{total, attempt}}))

	err := pipeline.Run(context.Background(), func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("reading the answer: %w", ctx.Err())
	})
	var timeout *steady.TimeoutError
	if errors.As(err, &timeout) {
		fmt.Println(timeout.Policy, timeout.Limit, errors.Is(err, context.DeadlineExceeded))
	}
	fmt.Println(err)
	// Output:
	// attempt 50ms true
	// steady: timeout "attempt" of 50ms: reading the answer: context deadline exceeded
}

// No error is lost: what a Retry returns matches why it gave up, and what the function returned last.
func ExampleRetryError() {
	retry := steady.Must(steady.NewRetry(steady.RetryConfig{NoDelay: true}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{retry}}))

	reset := errors.New("connection reset")
	err := pipeline.Run(context.Background(), func(context.Context) error { return reset })

	fmt.Println(errors.Is(err, steady.ErrRetriesExhausted), errors.Is(err, reset))
	var gaveUp *steady.RetryError
	if errors.As(err, &gaveUp) {
		fmt.Println(gaveUp.Attempts, gaveUp.Last)
	}
	// Output:
	// true true
	// 3 connection reset
}

// A panic in the goroutine of an abandoning Timeout is repeated in the caller, with the stack it had.
func ExamplePanicError() {
	timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Minute, Abandon: true}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{timeout}}))

	defer func() {
		if p, ok := recover().(*steady.PanicError); ok {
			fmt.Println(p.Value, len(p.Stack) > 0)
		}
	}()
	_ = pipeline.Run(context.Background(), func(context.Context) error { panic("index out of range") })
	// Output: index out of range true
}

// One Hooks value serves policies and pipelines; each calls what concerns it.
func ExampleHooks() {
	hooks := &steady.Hooks{
		OnReject: func(_ context.Context, r steady.Rejection) { fmt.Println("rejected by", r.Policy) },
		OnDone:   func(_ context.Context, c steady.Completion) { fmt.Println(c.Pipeline, "ended", c.Outcome) },
	}
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{Name: "catalog", NoSlowCalls: true, Hooks: hooks}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Name:     "prices",
		Policies: []steady.Policy{breaker},
		Hooks:    hooks,
	}))

	ctx := context.Background()
	_ = pipeline.Run(ctx, func(context.Context) error { return nil })
	breaker.ForceOpen("maintenance")
	_ = pipeline.Run(ctx, func(context.Context) error { return nil })
	// Output:
	// prices ended success
	// rejected by catalog
	// prices ended ignored
}

// Metrics of one's own beside the log. One that panics does not keep the other from being called.
func ExampleJoinHooks() {
	opened := 0
	count := &steady.Hooks{OnTransition: func(t steady.Transition) {
		if t.To == steady.StateForcedOpen {
			opened++
		}
	}}
	tell := &steady.Hooks{OnTransition: func(t steady.Transition) { fmt.Println(t.From, "→", t.To) }}
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		NoSlowCalls: true,
		Hooks:       steady.JoinHooks(tell, count),
	}))

	breaker.ForceOpen("maintenance")
	fmt.Println(opened)
	// Output:
	// closed → forced-open
	// 1
}

// Messages are constant, what differs is in the attributes.
func ExampleLogHooks() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "at" {
				return slog.Attr{} // for the output below to be the same every time
			}
			return a
		},
	}))
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		Name:        "catalog",
		NoSlowCalls: true,
		Hooks:       steady.LogHooks(logger),
	}))

	breaker.ForceOpen("maintenance")
	for range 3 {
		_, _ = breaker.Allow() // one line a second is enough
	}
	// Output:
	// level=ERROR msg="breaker opened" steady.breaker.name=catalog steady.breaker.from=closed steady.breaker.to=forced-open steady.breaker.reason=manual detail="manual: maintenance" calls=0 failed=0 slow=0 in_flight=0 overdue=0
	// level=WARN msg="call rejected" steady.breaker.name=catalog error.type=breaker_open suppressed=0
}

// One line for the post-mortem.
func ExampleTransition() {
	mock := clock.NewMock()
	mock.Set(time.Date(2026, 5, 13, 14, 7, 0, 0, time.UTC))
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		Name:          "catalog",
		SlowThreshold: 500 * time.Millisecond,
		NoOpenJitter:  true,
		Clock:         mock,
		Hooks:         &steady.Hooks{OnTransition: func(t steady.Transition) { fmt.Println(t) }},
	}))

	for range 10 {
		permit, _ := breaker.Allow()
		mock.Add(800 * time.Millisecond)
		permit.Done(steady.Success)
	}
	mock.Add(10 * time.Second)
	for range 3 {
		permit, _ := breaker.Allow()
		permit.Done(steady.Success)
	}
	// Output:
	// catalog: closed → open at 14:07:07.700: slow-call rate 1.00 ≥ 0.50 over 10 calls (10 slow, 0 failed), open for 10s
	// catalog: open → half-open at 14:07:18.000: open period elapsed
	// catalog: half-open → closed at 14:07:18.000: 3 probes succeeded
}

func ExampleReason() {
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		WindowSize:  3,
		FailureRate: 1, // three failures in a row
		NoSlowCalls: true,
		Hooks:       &steady.Hooks{OnTransition: func(t steady.Transition) { fmt.Println(t.Reason) }},
	}))

	for range 3 {
		permit, _ := breaker.Allow()
		permit.Done(steady.Transient)
	}
	// Output: failure_rate
}

// A breaker in shadow mode tells what it would have rejected.
func ExampleRejection() {
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		Name:        "catalog",
		WindowSize:  1,
		NoSlowCalls: true,
		Shadow:      true,
		Hooks: &steady.Hooks{OnReject: func(_ context.Context, r steady.Rejection) {
			fmt.Println(r.Policy, "shadow:", r.Shadow)
		}},
	}))

	permit, _ := breaker.Allow()
	permit.Done(steady.Transient)
	_, err := breaker.Allow()
	fmt.Println(err)
	// Output:
	// catalog shadow: true
	// <nil>
}

func ExampleRetryDelay() {
	retry := steady.Must(steady.NewRetry(steady.RetryConfig{
		Name:      "catalog",
		BaseDelay: 10 * time.Millisecond,
		Rand:      func() float64 { return 0.1 },
		Hooks: &steady.Hooks{OnRetry: func(_ context.Context, r steady.RetryDelay) {
			fmt.Printf("%s: attempt %d ended %v (%v), the next one in %v\n", r.Policy, r.Attempt, r.Outcome, r.Err, r.Delay)
		}},
	}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{retry}}))

	_ = pipeline.Run(context.Background(), func(context.Context) error { return errors.New("connection reset") })
	// Output:
	// catalog: attempt 1 ended transient (connection reset), the next one in 1ms
	// catalog: attempt 2 ended transient (connection reset), the next one in 2ms
}

func ExampleExpiry() {
	timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{
		Name:  "catalog",
		Limit: time.Millisecond,
		Hooks: &steady.Hooks{OnTimeout: func(_ context.Context, e steady.Expiry) {
			fmt.Println(e.Policy, e.Limit, "abandoned:", e.Abandoned)
		}},
	}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{timeout}}))

	_ = pipeline.Run(context.Background(), func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	// Output: catalog 1ms abandoned: false
}

func ExampleAttempt() {
	retry := steady.Must(steady.NewRetry(steady.RetryConfig{NoDelay: true}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Name:     "prices",
		Policies: []steady.Policy{retry},
		Hooks: &steady.Hooks{OnAttempt: func(_ context.Context, a steady.Attempt) {
			fmt.Println(a.Pipeline, a.Attempt, a.Outcome, a.Err)
		}},
	}))

	failures := 2
	_ = pipeline.Run(context.Background(), func(context.Context) error {
		if failures--; failures >= 0 {
			return errors.New("connection reset")
		}
		return nil
	})
	// Output:
	// prices 1 transient connection reset
	// prices 2 transient connection reset
	// prices 3 success <nil>
}

func ExampleCompletion() {
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{Name: "catalog", NoSlowCalls: true}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Name:     "prices",
		Policies: []steady.Policy{breaker},
		Hooks: &steady.Hooks{OnDone: func(_ context.Context, c steady.Completion) {
			fmt.Println(c.Pipeline, c.Attempts, c.Outcome, c.Err, "fallback:", c.Fallback)
		}},
	}))

	breaker.ForceOpen("maintenance")
	_, _ = pipeline.DoOr(context.Background(),
		func(context.Context) (int, error) { return 120, nil },
		func(context.Context, error) (int, error) { return 115, nil })
	// Output: prices 0 ignored steady: breaker open: "catalog" fallback: true
}
