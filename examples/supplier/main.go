// Supplier shows a client of one dependency, a stock supplier's HTTP API, with three kinds of calls:
//
//   - reading the stock, which may be repeated at will;
//   - reserving, which may be repeated because each reservation has an idempotency key;
//   - ordering, which must not be repeated, for the supplier would deliver twice.
//
// A few shoppers use it while the supplier, a real server on loopback, goes through three acts: it fails at
// random, with 500, 503, 429, before or after it has done the work; it hangs; it is well again. The log is
// what steady.LogHooks writes. In the end come what the shoppers met with, the Stats of each policy, and
// the supplier's books: whether any reservation was applied twice, or any order received twice.
//
// Where to look: client.go is the client; errors.go is where its errors become those of the domain; shop.go is
// the domain, which knows neither steady nor HTTP.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/steady-go/steady/examples/internal/screen"
)

// show is what the program is told.
type show struct {
	rough, hang, well time.Duration // the length of each act
	shoppers          int
	seed              uint64
}

func main() {
	var s show
	flag.DurationVar(&s.rough, "rough", 5*time.Second, "time in which the supplier fails at random")
	flag.DurationVar(&s.hang, "hang", 4*time.Second, "time in which it answers nothing")
	flag.DurationVar(&s.well, "well", 6*time.Second, "time in which it is well again")
	flag.IntVar(&s.shoppers, "shoppers", 16, "how many shop at once")
	flag.Uint64Var(&s.seed, "seed", 1, "of the supplier's faults and the shoppers' wishes")
	flag.Parse()
	if _, err := s.run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is the whole program.
func (s show) run(out io.Writer) (*outcome, error) {
	w := screen.New(out)
	began := time.Now()
	server, err := startSupplier(s.seed)
	if err != nil {
		return nil, err
	}
	defer server.close()
	client, err := NewClient(server.url, w.Logger(began))
	if err != nil {
		return nil, err
	}
	defer client.Close()

	shop := newShop(client)
	ctx, closing := context.WithCancel(context.Background())
	defer closing()
	closed := shop.open(ctx, s.shoppers, s.seed)
	for _, act := range []struct {
		name string
		mood mood
		time time.Duration
	}{
		{"the supplier fails at random", rough, s.rough},
		{"the supplier hangs", hanging, s.hang},
		{"the supplier is well again", well, s.well},
	} {
		server.mood.Store(int32(act.mood))
		w.Printf("\n--- %s, for %v\n", act.name, act.time)
		watch(w, shop, began, act.time)
	}
	closing()
	closed()

	o := &outcome{shop: shop, supplier: client.supplier, books: server.audit(shop.inDoubt)}
	o.print(w)
	return o, o.books.check(shop)
}

// watch prints what the shoppers met with, once a second.
func watch(w *screen.Screen, shop *shop, began time.Time, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(time.Second, time.Until(end)))
		w.Printf("> %4.1fs  shoppers: %s\n", time.Since(began).Seconds(), shop.news())
	}
}
