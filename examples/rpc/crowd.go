package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	"github.com/steady-go/steady"
)

// crowd is the callers of a client, and what they met with.
type crowd struct {
	client  *Client
	callers sync.WaitGroup

	mu        sync.Mutex
	met       map[string]int // how often, in all
	news      map[string]int // and since the last report
	orders    int
	confirmed []string // orders
}

func newCrowd(client *Client) *crowd {
	return &crowd{client: client, met: make(map[string]int), news: make(map[string]int)}
}

// come lets callers come at a rate, whether or not those before them have been served, and watchers follow a price,
// until ctx ends. Every fifth caller orders, the others ask for a price.
func (c *crowd) come(ctx context.Context, rate, watchers int) {
	c.callers.Go(func() {
		arrivals := time.NewTicker(time.Second / time.Duration(rate))
		defer arrivals.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			if n%5 == 4 {
				c.callers.Go(func() { c.order(ctx) })
			} else {
				c.callers.Go(func() {
					_, err := c.client.Price(ctx, "bolt")
					c.note(ctx, "price", err)
				})
			}
			select {
			case <-arrivals.C:
			case <-ctx.Done():
			}
		}
	})
	for range watchers {
		c.callers.Go(func() {
			for ctx.Err() == nil {
				err := c.client.Watch(ctx, "bolt", func(float64) { c.note(ctx, "message", nil) })
				c.note(ctx, "stream", err)
				select {
				case <-time.After(100 * time.Millisecond): // before it tries again
				case <-ctx.Done():
				}
			}
		})
	}
}

func (c *crowd) order(ctx context.Context) {
	c.mu.Lock()
	c.orders++
	reference := fmt.Sprint("order ", c.orders)
	c.mu.Unlock()
	err := c.client.Order(ctx, reference)
	c.note(ctx, "order", err)
	if err == nil {
		c.mu.Lock()
		c.confirmed = append(c.confirmed, reference)
		c.mu.Unlock()
	}
}

// note counts what a call ended with. Errors are told apart by who ended the call: steady without asking the
// server, or a status.
func (c *crowd) note(ctx context.Context, call string, err error) {
	if ctx.Err() != nil {
		return // the show is over
	}
	what := "ok"
	switch {
	case steady.IsRejected(err):
		what = "rejected"
	case err != nil:
		what = status.Code(err).String()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.met[call+" "+what]++
	c.news[call+" "+what]++
}

// report returns what was met with since the last report.
func (c *crowd) report() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer clear(c.news)
	return counts(c.news, ", ")
}

// counts lists counts in the order of their names.
func counts(m map[string]int, separator string) string {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		items = append(items, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(items, separator)
}
