package steady_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/steady-go/steady"
)

// A breaker that opens when half of the last 20 calls failed, or took 500 ms or longer.
func ExampleNewBreaker() {
	breaker, err := steady.NewBreaker(steady.BreakerConfig{
		Name:          "catalog",
		SlowThreshold: 500 * time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	cfg := breaker.Config() // the defaults filled in
	fmt.Println(breaker.State(), cfg.WindowSize, cfg.MinCalls, cfg.FailureRate, cfg.SlowRate, cfg.OpenDuration)
	// Output: closed 20 10 0.5 0.5 10s
}

// Values out of range are errors, never bent into range, and all are named at once.
func ExampleBreakerConfig() {
	_, err := steady.NewBreaker(steady.BreakerConfig{
		WindowSize:    10,
		MinCalls:      20,
		FailureRate:   50,
		SlowThreshold: time.Second,
	})
	fmt.Println(err)
	// Output:
	// steady: BreakerConfig.MinCalls must be in [1, WindowSize = 10], got 20 (a window that never holds MinCalls never decides: lower it or enlarge WindowSize)
	// steady: BreakerConfig.FailureRate must be in (0, 1], got 50 (a percentage? write 0.5)
}

// Ten answers that are all right and all too slow open the breaker: at the moment when the tenth has taken
// 500 ms, which is 300 ms before it is there.
func ExampleBreaker() {
	mock := clock.NewMock()
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		Name:          "catalog",
		SlowThreshold: 500 * time.Millisecond,
		NoOpenJitter:  true,
		Clock:         mock,
	}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{breaker}}))

	slow := func(context.Context) (int, error) {
		mock.Add(800 * time.Millisecond)
		return 200, nil
	}
	for range 10 {
		_, _ = pipeline.Do(context.Background(), slow)
	}
	_, err := pipeline.Do(context.Background(), slow)
	fmt.Println(err)
	// Output: steady: breaker open: "catalog", for another 9.7s
}

// The two-step form is for callers that cannot use a Pipeline: an interceptor with two callbacks, say.
func ExampleBreaker_Allow() {
	ctx := context.Background()
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond}))

	permit, err := breaker.Allow()
	if err != nil {
		return // rejected: do without
	}
	err = errors.New("connection reset") // of the call
	if ctx.Err() == context.Canceled {
		permit.Done(steady.Ignored) // our own caller gave up
	} else {
		permit.Done(steady.Classify(err))
	}

	fmt.Println(breaker.Stats().Failures)
	// Output: 1
}

// Only the first Done counts, so that it may be deferred as a safety net.
func ExamplePermit() {
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond}))

	func() {
		permit, err := breaker.Allow()
		if err != nil {
			return
		}
		defer permit.Done(steady.Transient) // if this panics
		permit.Done(steady.Success)
	}()

	stats := breaker.Stats()
	fmt.Println(stats.Calls, stats.Failures)
	// Output: 1 0
}

func ExampleBreaker_ForceOpen() {
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{Name: "catalog", SlowThreshold: 500 * time.Millisecond}))

	breaker.ForceOpen("maintenance until noon")
	_, err := breaker.Allow()
	fmt.Println(err)

	breaker.Reset("maintenance is over")
	fmt.Println(breaker.State())
	// Output:
	// steady: breaker open: "catalog"
	// closed
}

func ExampleState() {
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond}))

	fmt.Println(breaker.State() == steady.StateClosed)
	breaker.ForceClosed("better slow than not at all")
	fmt.Println(breaker.State())
	// Output:
	// true
	// forced-closed
}

// The numbers tell, too, whether the threshold still fits: below a Headroom of 1.5 it no longer does.
func ExampleBreakerStats() {
	mock := clock.NewMock()
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond, Clock: mock}))

	for range 20 {
		permit, _ := breaker.Allow()
		mock.Add(100 * time.Millisecond)
		permit.Done(steady.Success)
	}
	_, _ = breaker.Allow() // and one that hangs
	mock.Add(time.Second)

	stats := breaker.Stats()
	fmt.Printf("%d calls, %d slow; %d in flight, %d overdue\n", stats.Calls, stats.Slow, stats.InFlight, stats.Overdue)
	fmt.Printf("headroom %.0f\n", stats.Headroom)
	// Output:
	// 20 calls, 1 slow; 1 in flight, 1 overdue
	// headroom 5
}

func ExampleNewBulkhead() {
	bulkhead, err := steady.NewBulkhead(steady.BulkheadConfig{
		Name:          "catalog",
		MaxConcurrent: 20,                     // calls/s × seconds a call, and fewer than the connection pool
		MaxWait:       100 * time.Millisecond, // a burst may wait this long
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	fmt.Println(bulkhead.Config().MaxQueue, "may wait")
	// Output: 20 may wait
}

func ExampleBulkheadConfig() {
	_, err := steady.NewBulkhead(steady.BulkheadConfig{MaxQueue: 10})
	fmt.Println(err)
	// Output:
	// steady: BulkheadConfig.MaxConcurrent is required and must be in [1, 1<<30], got 0 (rate × duration of the calls, and fewer than the connection pool)
	// steady: BulkheadConfig.MaxQueue is 10 without MaxWait: nobody waits; set MaxWait or leave it out
}

// A call that finds no slot is rejected, and nobody but it.
func ExampleBulkhead() {
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{Name: "catalog", MaxConcurrent: 1}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{bulkhead}}))

	ctx := context.Background()
	v, err := pipeline.Do(ctx, func(ctx context.Context) (string, error) {
		_, err := pipeline.Do(ctx, func(context.Context) (string, error) { return "", nil })
		fmt.Println("meanwhile:", err)
		return "done", nil
	})
	fmt.Println(v, err)
	// Output:
	// meanwhile: steady: bulkhead full: "catalog"
	// done <nil>
}

func ExampleBulkhead_Acquire() {
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{Name: "catalog", MaxConcurrent: 1}))

	slot, err := bulkhead.Acquire(context.Background())
	if err != nil {
		return // full, or the context is done
	}
	defer slot.Release()

	_, err = bulkhead.Acquire(context.Background())
	fmt.Println(errors.Is(err, steady.ErrBulkheadFull))
	// Output: true
}

// Only the first Release counts, so that it may be deferred as a safety net.
func ExampleSlot() {
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))

	slot, _ := bulkhead.Acquire(context.Background())
	slot.Release()
	slot.Release()
	fmt.Println(bulkhead.Stats().InFlight)
	// Output: 0
}

// The limit can follow what the dependency can take.
func ExampleBulkhead_SetMaxConcurrent() {
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 20}))

	fmt.Println(bulkhead.SetMaxConcurrent(50), bulkhead.Stats().MaxConcurrent)
	// Output: <nil> 50
}

func ExampleBulkheadStats() {
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))

	slot, _ := bulkhead.Acquire(context.Background())
	defer slot.Release()
	_, _ = bulkhead.Acquire(context.Background())

	stats := bulkhead.Stats()
	fmt.Printf("%d of %d in flight, %d rejected\n", stats.InFlight, stats.MaxConcurrent, stats.Rejected)
	// Output: 1 of 1 in flight, 1 rejected
}

func ExampleNewRetry() {
	retry, err := steady.NewRetry(steady.RetryConfig{Name: "catalog", MaxAttempts: 4})
	if err != nil {
		fmt.Println(err)
		return
	}

	cfg := retry.Config() // the defaults filled in
	fmt.Println(cfg.MaxAttempts, cfg.BaseDelay, cfg.MaxDelay, cfg.ThrottledDelay, cfg.Jitter)
	// Output: 4 100ms 30s 1s full
}

func ExampleRetryConfig() {
	_, err := steady.NewRetry(steady.RetryConfig{MaxAttempts: 500, NoDelay: true, BaseDelay: time.Second})
	fmt.Println(err)
	// Output:
	// steady: RetryConfig.MaxAttempts must be in [1, 100], got 500 (it counts the first call; 0 means 3)
	// steady: RetryConfig.BaseDelay is 1s with NoDelay set: leave one of them out
}

// What cannot be mended by repeating is not repeated.
func ExampleRetry() {
	retry := steady.Must(steady.NewRetry(steady.RetryConfig{BaseDelay: time.Millisecond}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{retry}}))

	for _, failure := range []error{
		errors.New("connection reset"),
		steady.Mark(errors.New("certificate expired"), steady.Permanent),
	} {
		attempts := 0
		err := pipeline.Run(context.Background(), func(context.Context) error {
			attempts++
			return failure
		})
		fmt.Println(attempts, errors.Is(err, failure))
	}
	// Output:
	// 3 true
	// 1 true
}

func ExampleRetryStats() {
	retry := steady.Must(steady.NewRetry(steady.RetryConfig{NoDelay: true}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{retry}}))

	_ = pipeline.Run(context.Background(), func(context.Context) error { return errors.New("connection reset") })

	stats := retry.Stats()
	fmt.Printf("%d call, %d retries, %d exhausted\n", stats.Calls, stats.Retries, stats.Exhausted)
	// Output: 1 call, 2 retries, 1 exhausted
}

// Without jitter, callers that failed together come back together.
func ExampleJitter() {
	retry := steady.Must(steady.NewRetry(steady.RetryConfig{
		BaseDelay: time.Millisecond,
		Jitter:    steady.NoJitter,
		Hooks: &steady.Hooks{OnRetry: func(_ context.Context, r steady.RetryDelay) {
			fmt.Println("after attempt", r.Attempt, "wait", r.Delay)
		}},
	}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{retry}}))

	_ = pipeline.Run(context.Background(), func(context.Context) error { return errors.New("connection reset") })
	// Output:
	// after attempt 1 wait 1ms
	// after attempt 2 wait 2ms
}

// One budget bounds the retries of several pipelines together. When nothing succeeds, it is soon empty.
func ExampleNewRetryBudget() {
	budget, err := steady.NewRetryBudget(steady.RetryBudgetConfig{Ratio: 0.1, Burst: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	retry := steady.Must(steady.NewRetry(steady.RetryConfig{NoDelay: true, Budget: budget}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{retry}}))

	for range 3 {
		attempts := 0
		_ = pipeline.Run(context.Background(), func(context.Context) error {
			attempts++
			return errors.New("connection reset")
		})
		fmt.Println(attempts)
	}
	// Output:
	// 3
	// 1
	// 1
}

func ExampleRetryBudget() {
	budget := steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Ratio: 0.1, Burst: 5}))
	retry := steady.Must(steady.NewRetry(steady.RetryConfig{NoDelay: true, Budget: budget}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{retry}}))

	ctx := context.Background()
	_ = pipeline.Run(ctx, func(context.Context) error { return errors.New("connection reset") })
	fmt.Println(budget.Stats().Tokens) // two retries took one each
	_ = pipeline.Run(ctx, func(context.Context) error { return nil })
	fmt.Println(budget.Stats().Tokens) // a success adds Ratio
	// Output:
	// 3
	// 3.1
}

func ExampleRetryBudgetConfig() {
	_, err := steady.NewRetryBudget(steady.RetryBudgetConfig{Ratio: 20})
	fmt.Println(err)
	// Output: steady: RetryBudgetConfig.Ratio must be in [0.001, 1], got 20 (a percentage? write 0.2)
}

func ExampleRetryBudgetStats() {
	budget := steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Ratio: 0.1, Burst: 5}))

	stats := budget.Stats()
	fmt.Println(stats.Tokens, "of", stats.Burst)
	// Output: 5 of 5
}

// The function sees the limit as its context's deadline.
func ExampleNewTimeout() {
	timeout, err := steady.NewTimeout(steady.TimeoutConfig{Name: "catalog", Limit: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{timeout}}))

	_, err = pipeline.Do(context.Background(), func(ctx context.Context) (string, error) {
		<-ctx.Done() // what a driver does that waits for an answer
		return "", ctx.Err()
	})
	fmt.Println(err)
	// Output: steady: timeout "catalog" of 1ms: context deadline exceeded
}

func ExampleTimeoutConfig() {
	_, err := steady.NewTimeout(steady.TimeoutConfig{Limit: -time.Second})
	fmt.Println(err)
	// Output: steady: TimeoutConfig.Limit is required and must be positive, got -1s (for no limit, leave the Timeout out)
}

// With Abandon the call ends at the limit, though the function does not heed its context. It goes on, and
// keeps its slot; its late result goes to Discard.
func ExampleTimeout() {
	mock := clock.NewMock()
	timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second, Abandon: true, Clock: mock}))
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))
	discarded := make(chan string)
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{
		Policies: []steady.Policy{timeout, bulkhead},
		Discard:  func(v string) { discarded <- v },
	}))

	block := make(chan struct{})
	_, err := pipeline.Do(context.Background(), func(context.Context) (string, error) {
		mock.Add(time.Second) // the limit is reached
		<-block
		return "too late", nil
	})
	fmt.Println(errors.Is(err, steady.ErrTimeout), "in flight:", bulkhead.Stats().InFlight)

	close(block)
	fmt.Println("discarded:", <-discarded)
	// Output:
	// true in flight: 1
	// discarded: too late
}

func ExampleTimeoutStats() {
	timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Millisecond}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{timeout}}))

	_ = pipeline.Run(context.Background(), func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	fmt.Println(timeout.Stats().Expired)
	// Output: 1
}
