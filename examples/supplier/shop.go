package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Supplier is all that the shop needs.
type Supplier interface {
	Stock(ctx context.Context, sku string) (int, error)
	Reserve(ctx context.Context, basket, sku string, quantity int) (Reservation, error)
	Order(ctx context.Context, reference string, r Reservation) (Confirmation, error)
}

// Reservation is some of an article, set aside for a basket.
type Reservation struct{ ID string }

// Confirmation is the supplier's word that it will deliver.
type Confirmation struct{ Number int }

// shop is where the shoppers are, and what becomes of what they try.
type shop struct {
	supplier Supplier

	mu       sync.Mutex
	results  map[result]int // in all
	reported map[result]int // of those, already in the news
	examples map[result]error
	inDoubt  []string // references of orders to be asked about by telephone
	strange  []error  // errors that a shop should not see
}

// result is how one of the supplier's services ended.
type result struct {
	call string // stock, reserve or order
	end  string // ok, or one of ends
}

var (
	calls = []string{"stock", "reserve", "order"}
	ends  = []string{"ok", "not found", "sold out", "unavailable", "timed out"}
)

func newShop(s Supplier) *shop {
	return &shop{supplier: s, results: make(map[result]int), reported: make(map[result]int), examples: make(map[result]error)}
}

// open lets shoppers in until ctx is done, and returns what waits for the last to leave.
func (s *shop) open(ctx context.Context, shoppers int, seed uint64) (wait func()) {
	var inside sync.WaitGroup
	for id := range shoppers {
		inside.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(id)))
			for n := 1; browse(ctx, rng); n++ {
				// Whoever is at the till when the shop closes may still pay.
				s.visit(context.WithoutCancel(ctx), fmt.Sprintf("%d-%d", id, n), article(rng))
			}
		})
	}
	return inside.Wait
}

// browse takes a while, and reports false when the shop closes meanwhile.
func browse(ctx context.Context, rng *rand.Rand) bool {
	select {
	case <-time.After(time.Duration(rng.Int64N(int64(2 * time.Second)))):
		return true
	case <-ctx.Done():
		return false
	}
}

// article returns what a shopper fancies. The supplier does not have all of it.
func article(rng *rand.Rand) string {
	articles := []string{"bolt", "nut", "screw", "washer", "unobtainium"}
	return articles[rng.IntN(len(articles))]
}

// visit is one shopper's business: is it there, set it aside, buy it.
func (s *shop) visit(ctx context.Context, basket, sku string) {
	_, err := s.supplier.Stock(ctx, sku)
	s.note("stock", err)
	if errors.Is(err, ErrNotFound) {
		return
	}
	// The stock is for the shop window. When it is not to be had, reserving shows what is there.
	r, err := s.supplier.Reserve(ctx, basket, sku, 1)
	s.note("reserve", err)
	if err != nil {
		return
	}
	_, err = s.supplier.Order(ctx, basket, r)
	s.note("order", err)
	if errors.Is(err, ErrInDoubt) {
		s.mu.Lock()
		s.inDoubt = append(s.inDoubt, basket)
		s.mu.Unlock()
	}
}

// note remembers how a call ended.
func (s *shop) note(call string, err error) {
	end := "ok"
	switch {
	case err == nil:
	case errors.Is(err, ErrNotFound):
		end = "not found"
	case errors.Is(err, ErrSoldOut):
		end = "sold out"
	case errors.Is(err, ErrUnavailable):
		end = "unavailable"
	case errors.Is(err, ErrTimedOut):
		end = "timed out"
	default:
		end = "?"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if end == "?" {
		s.strange = append(s.strange, err)
		return
	}
	r := result{call, end}
	s.results[r]++
	s.examples[r] = err
}

// news returns what has happened since the last news.
func (s *shop) news() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, call := range calls {
		var parts []string
		for _, end := range ends {
			r := result{call, end}
			if n := s.results[r] - s.reported[r]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, end))
			}
			s.reported[r] = s.results[r]
		}
		if len(parts) > 0 {
			lines = append(lines, call+" "+strings.Join(parts, ", "))
		}
	}
	if len(lines) == 0 {
		return "waiting"
	}
	return strings.Join(lines, "; ")
}
