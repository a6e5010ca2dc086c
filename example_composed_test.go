package steady_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/steady-go/steady"
)

// Catalog is a client of the price catalogue, as a checkout has one. Its callers know nothing of breakers
// and retries: they get a price, which may be a stale one, or an error of this package's own.
type Catalog struct {
	server  *catalogServer
	prices  *steady.Pipeline[reply]
	updates *steady.Pipeline[reply]
	cache   map[string]int
}

var (
	ErrUnknown     = errors.New("no such product")
	ErrUnavailable = errors.New("the catalogue is unavailable")
)

// reply stands for an *http.Response.
type reply struct {
	status     int
	price      int
	retryAfter time.Duration
}

// NewCatalog returns a client of the server. Everything that protects it is decided here.
func NewCatalog(server *catalogServer, clk steady.Clock, hooks *steady.Hooks) (*Catalog, error) {
	dependency, err := steady.NewDependency(steady.DependencyConfig{
		Name:           "catalog",
		Timeout:        5 * time.Second, // the whole operation
		AttemptTimeout: 2 * time.Second,
		Retry:          steady.RetryConfig{NoDelay: true}, // the example's only: leave it out, for a backoff
		Breaker:        steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond, NoOpenJitter: true},
		Bulkhead:       steady.BulkheadConfig{MaxConcurrent: 40}, // fewer than the server's connections
		Hooks:          hooks,
		Clock:          clk,
	})
	if err != nil {
		return nil, err
	}
	cfg := steady.PipelineConfig[reply]{
		Classify: func(r reply, err error) steady.Outcome {
			switch {
			case err != nil:
				return 0 // the default: a failure, to be tried again
			case r.status == 429:
				return steady.Throttled
			case r.status >= 500:
				return steady.Transient
			default:
				return steady.Success // the catalogue works, also when it says 404
			}
		},
		RetryAfter: func(r reply, _ error) time.Duration { return r.retryAfter },
	}
	c := &Catalog{server: server, cache: make(map[string]int)}
	if c.prices, err = steady.NewPipelineFor(dependency, steady.ReadIdempotent, cfg); err != nil {
		return nil, err
	}
	c.updates, err = steady.NewPipelineFor(dependency, steady.WriteNonIdempotent, cfg)
	return c, err
}

// Price returns a product's price, from the cache when the catalogue is not to be asked.
func (c *Catalog) Price(ctx context.Context, sku string) (price int, err error) {
	r, err := c.prices.DoOr(ctx,
		func(ctx context.Context) (reply, error) { return c.server.get(ctx, sku) },
		func(_ context.Context, err error) (reply, error) {
			if price, ok := c.cache[sku]; ok && steady.IsRejected(err) {
				return reply{status: 200, price: price}, nil
			}
			return reply{}, err
		})
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case r.status == 404:
		return 0, ErrUnknown
	case r.status != 200:
		return 0, fmt.Errorf("%w: status %d", ErrUnavailable, r.status)
	}
	c.cache[sku] = r.price
	return r.price, nil
}

// Raise raises a product's price by one: not to be done twice.
func (c *Catalog) Raise(ctx context.Context, sku string) error {
	r, err := c.updates.Do(ctx, func(ctx context.Context) (reply, error) { return c.server.raise(ctx, sku) })
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case r.status != 200:
		return fmt.Errorf("%w: status %d", ErrUnavailable, r.status)
	}
	return nil
}

// catalogServer is the catalogue: how long its answers take, and what it answers next in place of a price.
type catalogServer struct {
	mock   *clock.Mock
	takes  time.Duration
	prices map[string]int
	next   []reply
	asked  int
}

func (s *catalogServer) get(_ context.Context, sku string) (reply, error) {
	s.asked++
	s.mock.Add(s.takes)
	if len(s.next) > 0 {
		r := s.next[0]
		s.next = s.next[1:]
		return r, nil
	}
	price, ok := s.prices[sku]
	if !ok {
		return reply{status: 404}, nil
	}
	return reply{status: 200, price: price}, nil
}

func (s *catalogServer) raise(ctx context.Context, sku string) (reply, error) {
	r, err := s.get(ctx, sku)
	if r.status == 200 {
		s.prices[sku]++
	}
	return r, err
}

// A client of a price catalogue: timeouts, retries, a breaker and a bulkhead by the intent of the call, a
// cache to fall back to, statuses instead of errors, and a catalogue that becomes slow without ever failing.
func Example_composed() {
	mock := clock.NewMock()
	server := &catalogServer{mock: mock, takes: 80 * time.Millisecond, prices: map[string]int{"apple": 120}}
	catalog, err := NewCatalog(server, mock, &steady.Hooks{
		OnTransition: func(t steady.Transition) { fmt.Printf("  %s is %v: %v\n", t.Breaker, t.To, t.Reason) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()

	fmt.Println("healthy:")
	fmt.Println(catalog.Price(ctx, "apple"))
	fmt.Println(catalog.Price(ctx, "unicorn"))

	fmt.Println("one 503: a read is tried again, a raise is not")
	server.next = []reply{{status: 503}}
	fmt.Println(catalog.Price(ctx, "apple"))
	server.next = []reply{{status: 503}}
	fmt.Println(catalog.Raise(ctx, "apple"))

	fmt.Println("every answer is right, and takes 800 ms:")
	server.takes = 800 * time.Millisecond
	for range 20 {
		_, _ = catalog.Price(ctx, "apple")
	}
	server.prices["apple"] = 130
	asked := server.asked
	fmt.Println(catalog.Price(ctx, "apple"))
	fmt.Println("asked again:", server.asked > asked)
	_, err = catalog.Price(ctx, "pear") // which is not in the cache
	fmt.Println(errors.Is(err, ErrUnavailable), steady.IsRejected(err))

	fmt.Println("healthy again, after the open period:")
	server.takes = 80 * time.Millisecond
	mock.Add(10 * time.Second)
	for range 3 {
		_, _ = catalog.Price(ctx, "apple")
	}
	fmt.Println(catalog.Price(ctx, "apple"))
	// Output:
	// healthy:
	// 120 <nil>
	// 0 no such product
	// one 503: a read is tried again, a raise is not
	// 120 <nil>
	// the catalogue is unavailable: status 503
	// every answer is right, and takes 800 ms:
	//   catalog is open: slow_rate
	// 120 <nil>
	// asked again: false
	// true true
	// healthy again, after the open period:
	//   catalog is half-open: open_elapsed
	//   catalog is closed: probes_succeeded
	// 130 <nil>
}
