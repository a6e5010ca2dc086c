package main

import (
	"errors"
	"fmt"
)

// books is what the supplier's books say of its clients in the end.
type books struct {
	baskets     int // for which reservations were received
	keys        int // that these came with
	received    int // requests to reserve, repetitions included
	applied     int // reservations
	mostApplied int // of one key
	moved       int // articles taken out of the stock
	reserved    int // articles by the keys that were applied

	orders       int // references for which orders were received
	mostReceived int // of one reference
	delivered    int // orders, each time counted
	doubtful     int // deliveries of orders that the client is in doubt of
}

// audit reads the books, when the last client has gone.
func (s *supplier) audit(inDoubt []string) books {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b books
	baskets := make(map[string]bool)
	for _, booking := range s.reservations {
		baskets[booking.request.Basket] = true
		b.received += booking.received
		b.applied += booking.applied
		b.mostApplied = max(b.mostApplied, booking.applied)
		if booking.applied > 0 {
			b.reserved += booking.request.Quantity
		}
	}
	b.baskets, b.keys = len(baskets), len(s.reservations)
	for sku, n := range s.stock {
		b.moved += stocked[sku] - n
	}
	for reference, n := range s.orders {
		b.mostReceived = max(b.mostReceived, n)
		b.delivered += s.delivered[reference]
	}
	b.orders = len(s.orders)
	for _, reference := range inDoubt {
		b.doubtful += s.delivered[reference]
	}
	return b
}

// check returns what is wrong.
func (b books) check(s *shop) error {
	var errs []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	demand(b.keys == b.baskets, "%d idempotency keys for %d baskets", b.keys, b.baskets)
	demand(b.mostApplied <= 1, "a reservation was applied %d times", b.mostApplied)
	demand(b.moved == b.reserved, "%d articles left the stock for reservations of %d", b.moved, b.reserved)
	demand(b.mostReceived <= 1, "an order was received %d times", b.mostReceived)
	ok := s.results[result{"order", "ok"}]
	demand(b.delivered == ok+b.doubtful, "%d orders were delivered: %d confirmed, %d in doubt", b.delivered, ok, b.doubtful)
	demand(len(s.strange) == 0, "the shop saw errors that are not its own: %w", errors.Join(s.strange...))
	return errors.Join(errs...)
}
