package steady_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/steady-go/steady"
)

// queryPrice stands for a query to the catalog's database.
func queryPrice(_ context.Context, sku string) (int, error) {
	if sku == "apple" {
		return 120, nil
	}
	return 0, sql.ErrNoRows
}

// One dependency, one pipeline, two calls. The second one gets a healthy "no", which is marked as the
// success it is: it is not retried, and does not count against the database.
func Example() {
	catalog := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:     "catalog",
		Timeout:  2 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20}, // fewer than the connection pool
	}))
	prices := steady.Must(steady.NewPipelineFor(catalog, steady.ReadIdempotent, steady.PipelineConfig[int]{}))

	for _, sku := range []string{"apple", "unicorn"} {
		price, err := prices.Do(context.Background(), func(ctx context.Context) (int, error) {
			price, err := queryPrice(ctx, sku)
			if errors.Is(err, sql.ErrNoRows) {
				err = steady.Mark(err, steady.Success)
			}
			return price, err
		})
		switch {
		case errors.Is(err, sql.ErrNoRows): // the mark is no obstacle
			fmt.Println(sku, "is not sold here")
		case err != nil:
			fmt.Println("unavailable:", err)
		default:
			fmt.Println(sku, "costs", price)
		}
	}

	stats := catalog.Breaker().Stats()
	fmt.Printf("%d calls, %d failed\n", stats.Calls, stats.Failures)
	// Output:
	// apple costs 120
	// unicorn is not sold here
	// 2 calls, 0 failed
}

// Price is what the catalog says a thing costs.
type Price struct{ Cents int }

func fetchPrice(ctx context.Context, sku string) (Price, error) {
	cents, err := queryPrice(ctx, sku)
	return Price{cents}, err
}

// A price from the catalog, or, when the catalog is not to be asked, from a cache.
func Example_fallback() {
	lastKnown := map[string]Price{"apple": {115}}
	cached := func(sku string) (Price, error) {
		price, ok := lastKnown[sku]
		if !ok {
			return Price{}, errors.New("never seen")
		}
		return price, nil
	}
	ctx, sku := context.Background(), "apple"

	catalog := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:     "catalog",
		Timeout:  2 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20}, // fewer than the connection pool
	}))
	prices := steady.Must(steady.NewPipelineFor(catalog, steady.ReadIdempotent, steady.PipelineConfig[Price]{}))
	ask := func() (Price, error) {
		return prices.DoOr(ctx,
			func(ctx context.Context) (Price, error) { return fetchPrice(ctx, sku) },
			func(_ context.Context, err error) (Price, error) {
				if steady.IsRejected(err) {
					return cached(sku) // answer without waiting
				}
				return Price{}, err
			})
	}

	fmt.Println(ask())
	catalog.Breaker().ForceOpen("as if it had become slow")
	fmt.Println(ask())
	// Output:
	// {120} <nil>
	// {115} <nil>
}

func ExampleClassify() {
	refused := steady.Mark(errors.New("connection refused"), steady.Unsent)

	fmt.Println(steady.Classify(nil))
	fmt.Println(steady.Classify(errors.New("connection reset")))
	fmt.Println(steady.Classify(context.DeadlineExceeded))
	fmt.Println(steady.Classify(fmt.Errorf("catalog: %w", refused)))
	// Output:
	// success
	// transient
	// transient
	// unsent
}

// sql.ErrNoRows says that the database works.
func ExampleMark() {
	err := steady.Mark(sql.ErrNoRows, steady.Success)

	fmt.Println(err)
	fmt.Println(errors.Is(err, sql.ErrNoRows))
	fmt.Println(steady.Classify(err))
	// Output:
	// sql: no rows in result set
	// true
	// success
}

// A dependency that says when to come back is not asked before.
func ExampleMarkRetryAfter() {
	retry := steady.Must(steady.NewRetry(steady.RetryConfig{NoDelay: true, Hooks: &steady.Hooks{
		OnRetry: func(_ context.Context, r steady.RetryDelay) {
			fmt.Printf("attempt %d: %v, the next one in %v\n", r.Attempt, r.Err, r.Delay)
		},
	}}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{retry}}))

	attempt := 0
	v, err := pipeline.Do(context.Background(), func(context.Context) (string, error) {
		if attempt++; attempt == 1 {
			return "", steady.MarkRetryAfter(errors.New("too many requests"), steady.Throttled, 5*time.Millisecond)
		}
		return "ok", nil
	})
	fmt.Println(v, err)
	// Output:
	// attempt 1: too many requests, the next one in 5ms
	// ok <nil>
}

// What an outcome does to a breaker and a retry stands with the constants; a Classify function chooses one.
func ExampleOutcome() {
	byStatus := func(status int, err error) steady.Outcome {
		switch {
		case err != nil:
			return 0 // the default classification
		case status == 429:
			return steady.Throttled
		case status >= 500:
			return steady.Transient
		default:
			return steady.Success // a 404 too
		}
	}

	for _, status := range []int{200, 404, 429, 503} {
		fmt.Println(status, byStatus(status, nil))
	}
	// Output:
	// 200 success
	// 404 success
	// 429 throttled
	// 503 transient
}

// For configurations that are constants of the program.
func ExampleMust() {
	timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second}))
	fmt.Println(timeout.Config().Limit)

	defer func() { fmt.Println(recover()) }()
	steady.Must(steady.NewTimeout(steady.TimeoutConfig{}))
	// Output:
	// 1s
	// steady: TimeoutConfig.Limit is required and must be positive, got 0s (for no limit, leave the Timeout out)
}

// Policies in an order of one's own, the outermost first.
func ExampleNewPipeline() {
	pipeline, err := steady.NewPipeline(steady.PipelineConfig[string]{
		Name: "greetings",
		Policies: []steady.Policy{
			steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second})),
			steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 200 * time.Millisecond})),
			steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 10})),
		},
	})
	if err != nil {
		fmt.Println(err) // names everything that is wrong
		return
	}

	fmt.Println(pipeline.Do(context.Background(), func(context.Context) (string, error) { return "hello", nil }))
	// Output: hello <nil>
}

// Every fault is reported at once.
func ExamplePipelineConfig() {
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 10}))

	_, err := steady.NewPipeline(steady.PipelineConfig[string]{
		Name:     "greetings",
		Policies: []steady.Policy{bulkhead, nil, bulkhead},
	})
	fmt.Println(err)
	// Output:
	// steady: pipeline "greetings": Policies[1] is nil (<nil>): leave it out
	// steady: pipeline "greetings": Policies[2] is the same *steady.Bulkhead as Policies[0]: make a second one, or leave it out
}

func ExamplePipeline_Do() {
	retry := steady.Must(steady.NewRetry(steady.RetryConfig{BaseDelay: time.Millisecond}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{retry}}))

	attempt := 0
	greeting, err := pipeline.Do(context.Background(), func(context.Context) (string, error) {
		if attempt++; attempt < 3 {
			return "", errors.New("connection reset")
		}
		return "hello", nil
	})
	fmt.Println(greeting, err, "after", attempt, "attempts")
	// Output: hello <nil> after 3 attempts
}

// While the breaker is open, the price comes from the cache, without waiting. Any other error stays one.
func ExamplePipeline_DoOr() {
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond}))
	prices := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{breaker}}))
	cache := map[string]int{"apple": 115}

	breaker.ForceOpen("the catalog is being moved")
	price, err := prices.DoOr(context.Background(),
		func(ctx context.Context) (int, error) { return queryPrice(ctx, "apple") },
		func(_ context.Context, err error) (int, error) {
			if steady.IsRejected(err) {
				return cache["apple"], nil
			}
			return 0, err
		})
	fmt.Println(price, err)
	// Output: 115 <nil>
}

// A function without a result goes through any pipeline, whatever its type.
func ExamplePipeline_Run() {
	timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{timeout}}))

	err := pipeline.Run(context.Background(), func(ctx context.Context) error {
		_, bounded := ctx.Deadline()
		fmt.Println("deadline:", bounded)
		return nil
	})
	fmt.Println(err)
	// Output:
	// deadline: true
	// <nil>
}

// A reader goes on working after the function has returned. Its slot, and its deadline, stay until the
// release.
func ExamplePipeline_Hold() {
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))
	bodies := steady.Must(steady.NewPipeline(steady.PipelineConfig[*strings.Reader]{Policies: []steady.Policy{bulkhead}}))

	body, release, err := bodies.Hold(context.Background(), func(context.Context) (*strings.Reader, error) {
		return strings.NewReader("a long answer"), nil
	})
	if err != nil {
		return // there is nothing to release
	}
	fmt.Println("while held:", bulkhead.Stats().InFlight)

	_, err = body.ReadByte()
	release(err) // an error here is a failure of the call
	fmt.Println("afterwards:", bulkhead.Stats().InFlight)
	// Output:
	// while held: 1
	// afterwards: 0
}

// A Middleware is a policy of one's own: here, another node for every attempt.
func ExampleMiddleware() {
	type nodeKey struct{}
	nodes := []string{"eu-1", "eu-2", "us-1"}
	next := 0
	anotherNode := steady.Middleware(func(ctx context.Context, call func(context.Context) error) error {
		node := nodes[next%len(nodes)]
		next++
		return call(context.WithValue(ctx, nodeKey{}, node))
	})
	retry := steady.Must(steady.NewRetry(steady.RetryConfig{NoDelay: true}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{
		Policies: []steady.Policy{retry, anotherNode}, // inside the Retry: once per attempt
	}))

	node, err := pipeline.Do(context.Background(), func(ctx context.Context) (string, error) {
		node := ctx.Value(nodeKey{}).(string)
		if strings.HasPrefix(node, "eu-") {
			return "", errors.New("region down")
		}
		return node, nil
	})
	fmt.Println(node, err)
	// Output: us-1 <nil>
}

// Policies know no result type: one breaker serves pipelines of any.
func ExamplePolicy() {
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond}))
	shared := []steady.Policy{breaker}
	names := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: shared}))
	counts := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: shared}))

	ctx := context.Background()
	_, _ = names.Do(ctx, func(context.Context) (string, error) { return "steady", nil })
	_, _ = counts.Do(ctx, func(context.Context) (int, error) { return 0, errors.New("connection reset") })
	stats := breaker.Stats()
	fmt.Println(stats.Calls, "calls,", stats.Failures, "failed")
	// Output: 2 calls, 1 failed
}

// A dependency has everything that its calls need, with defaults for what is left out.
func ExampleNewDependency() {
	catalog, err := steady.NewDependency(steady.DependencyConfig{
		Name:           "catalog",
		Timeout:        2 * time.Second,
		AttemptTimeout: time.Second,
		Breaker:        steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
		Bulkhead:       steady.BulkheadConfig{MaxConcurrent: 20},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, policy := range catalog.Policies(steady.ReadIdempotent) {
		fmt.Printf("%T\n", policy)
	}
	fmt.Println(catalog.Retry().Config().MaxAttempts, "attempts")
	// Output:
	// *steady.Timeout
	// *steady.Retry
	// *steady.Timeout
	// *steady.Breaker
	// *steady.Bulkhead
	// 3 attempts
}

// The parts are checked against each other, too.
func ExampleDependencyConfig() {
	_, err := steady.NewDependency(steady.DependencyConfig{
		Name:     "catalog",
		Timeout:  time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: 2 * time.Second},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 2},
	})
	for _, fault := range strings.Split(err.Error(), "\n") {
		_, fault, _ = strings.Cut(fault, "DependencyConfig.")
		fmt.Println(fault)
	}
	// Output:
	// Breaker.SlowThreshold (2s) must be less than Timeout (1s): an answer that slow could never arrive; raise the timeout or lower SlowThreshold
	// Breaker.HalfOpenProbes (3) exceeds Bulkhead.MaxConcurrent (2): the probes could not run together; lower HalfOpenProbes
}

// All pipelines of a dependency share its breaker, bulkhead and retry budget: what one of them finds out
// protects the others.
func ExampleDependency() {
	catalog := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:     "catalog",
		Timeout:  2 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond, WindowSize: 3, FailureRate: 1},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
		NoRetry:  true,
	}))
	prices := steady.Must(steady.NewPipelineFor(catalog, steady.ReadIdempotent, steady.PipelineConfig[int]{}))
	orders := steady.Must(steady.NewPipelineFor(catalog, steady.WriteNonIdempotent, steady.PipelineConfig[string]{}))

	ctx := context.Background()
	for range 3 {
		_, _ = prices.Do(ctx, func(context.Context) (int, error) { return 0, errors.New("connection reset") })
	}
	_, err := orders.Do(ctx, func(context.Context) (string, error) { return "ordered", nil })
	fmt.Println("rejected:", steady.IsRejected(err))
	// Output: rejected: true
}

// An order must not be placed twice. After a lost connection nobody knows whether it was, and it is not
// repeated; after a refused one it cannot have been, and it is.
func ExampleNewPipelineFor() {
	shop := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:     "shop",
		Timeout:  2 * time.Second,
		Retry:    steady.RetryConfig{BaseDelay: time.Millisecond},
		Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
	}))
	orders := steady.Must(steady.NewPipelineFor(shop, steady.WriteNonIdempotent, steady.PipelineConfig[string]{}))

	for _, failure := range []error{
		errors.New("connection lost"),
		steady.Mark(errors.New("connection refused"), steady.Unsent),
	} {
		attempts := 0
		_, err := orders.Do(context.Background(), func(context.Context) (string, error) {
			if attempts++; attempts == 1 {
				return "", failure
			}
			return "order-17", nil
		})
		fmt.Printf("%v: %d attempts, %v\n", failure, attempts, err)
	}
	// Output:
	// connection lost: 1 attempts, connection lost
	// connection refused: 2 attempts, <nil>
}

func ExampleIntent() {
	for _, intent := range []steady.Intent{steady.ReadIdempotent, steady.WriteIdempotent, steady.WriteNonIdempotent} {
		fmt.Println(intent)
	}
	// Output:
	// read_idempotent
	// write_idempotent
	// write_non_idempotent
}

// A test moves the time of a policy by hand.
func ExampleClock() {
	var mock steady.Clock = clock.NewMock()
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{NoSlowCalls: true, Clock: mock}))

	fmt.Println(breaker.Config().Clock == mock)
	// Output: true
}
