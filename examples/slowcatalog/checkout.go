package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/steady-go/steady"
)

const (
	connections   = 50  // of one checkout to its catalogue
	products      = 100 // that the shop sells
	slowThreshold = 500 * time.Millisecond
)

// errorsOnly is a dependency as many services have it: a breaker that counts errors, and a timeout that is
// generous because nobody dared to lower it.
func errorsOnly(openFor time.Duration, hooks *steady.Hooks) (*steady.Dependency, error) {
	return steady.NewDependency(steady.DependencyConfig{
		Name:       "counts errors only",
		Timeout:    10 * time.Second,
		Breaker:    steady.BreakerConfig{NoSlowCalls: true, OpenDuration: openFor},
		NoBulkhead: true,
		Hooks:      hooks,
	})
}

// slowCallsToo is the same dependency as this library would have it.
func slowCallsToo(openFor time.Duration, hooks *steady.Hooks) (*steady.Dependency, error) {
	return steady.NewDependency(steady.DependencyConfig{
		Name:     "steady",
		Timeout:  2 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: slowThreshold, OpenDuration: openFor},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 40}, // rate × duration is 400/s × 80ms = 32; fewer than the connections
		Hooks:    hooks,
	})
}

// checkout is the service that needs prices. Both sides of the comparison are this same code; only the
// dependency that it is given differs.
type checkout struct {
	url    string
	client *http.Client
	prices *steady.Pipeline[quote]

	mu    sync.Mutex
	cache map[int]price // the last price seen of each product
}

// quote is what a customer gets to see.
type quote struct {
	price
	insteadOf error // why this is a price from the cache; nil for a fresh one
}

func newCheckout(url string, catalog *steady.Dependency) (*checkout, error) {
	prices, err := steady.NewPipelineFor(catalog, steady.ReadIdempotent, steady.PipelineConfig[quote]{})
	if err != nil {
		return nil, err
	}
	return &checkout{
		url:    url,
		client: &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}},
		prices: prices,
		cache:  make(map[int]price),
	}, nil
}

// fill asks for every price once, as a shop does before it opens: the cache has an answer for every customer.
func (c *checkout) fill(ctx context.Context) error {
	for product := range products {
		if _, err := c.fetch(ctx, product); err != nil {
			return err
		}
	}
	return nil
}

// price returns the price of a product: a fresh one, or else the last one known.
//
// The fallback is asked for every error but the customer's own cancellation. This shop takes the cached
// price for all of them, a timeout like a rejection, for it would rather sell at the price of a minute ago
// than show an error. Where an old answer is worse than none, look at the error first: steady.IsRejected
// says that no time was lost, errors.Is(err, steady.ErrTimeout) that all of it was.
func (c *checkout) price(ctx context.Context, product int) (quote, error) {
	return c.prices.DoOr(ctx,
		func(ctx context.Context) (quote, error) { return c.fetch(ctx, product) },
		func(_ context.Context, err error) (quote, error) {
			if p, ok := c.cached(product); ok {
				return quote{price: p, insteadOf: err}, nil
			}
			return quote{}, err
		})
}

// fetch asks the catalogue. Waiting for one of the connections is part of it.
func (c *checkout) fetch(ctx context.Context, product int) (quote, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/prices/%d", c.url, product), nil)
	if err != nil {
		return quote{}, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return quote{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body) // to the end, or the connection cannot be used again
	if err != nil {
		return quote{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return quote{}, fmt.Errorf("price of product %d: %s", product, resp.Status)
	}
	var p price
	if err := json.Unmarshal(body, &p); err != nil {
		return quote{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache[product] = p
	return quote{price: p}, nil
}

func (c *checkout) cached(product int) (price, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.cache[product]
	return p, ok
}
