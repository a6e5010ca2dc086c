// Rpc shows gRPC calls and streams through steady's interceptors.
//
//	cd examples/rpc && go run .
//
// A server has prices: a call asks for one, a stream follows one, and an order must not be sent twice. 200 callers a
// second and a few watchers use it through one connection, while it is well, turns slow, is well again, is killed and
// comes back; and then more come than it can handle. The log is the breaker's transitions, as steady.LogHooks writes
// them. In the end come what everybody met with, and whether any order was lost or received twice.
//
// Look for: the breaker opens while the slow calls are still running, and the streams that are open live through it;
// when the server is killed, reads are repeated, and orders only where they cannot have been sent; the server's own
// bulkhead answers ResourceExhausted with a RetryInfo, and that opens no breaker.
//
// Where to look: client.go is the client, server.go the server, service.go what protoc would have written; crowd.go
// is the callers.
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
	act time.Duration // the length of each act
}

// outcome is what there is to see in the end.
type outcome struct {
	crowd          *crowd
	client         *Client
	server         *server
	missing, twice int // orders
}

func main() {
	var s show
	flag.DurationVar(&s.act, "act", 2*time.Second, "length of each of the five acts")
	flag.Parse()
	if _, err := s.run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rpc:", err)
		os.Exit(1)
	}
}

// run is the whole program.
func (s show) run(out io.Writer) (*outcome, error) {
	w, began := screen.New(out), time.Now()
	server, err := startServer(60)
	if err != nil {
		return nil, err
	}
	defer func() { server.kill() }()
	client, err := NewClient(server.addr, w.Logger(began))
	if err != nil {
		return nil, err
	}
	defer client.Close()

	crowd := newCrowd(client)
	ctx, closing := context.WithCancel(context.Background())
	defer closing()
	slowness := func(d time.Duration) func() error {
		return func() error { server.delay.Store(int64(d)); return nil }
	}
	for _, act := range []struct {
		name  string
		begin func() error
	}{
		{"all is well", func() error { crowd.come(ctx, 200, 4); return slowness(10 * time.Millisecond)() }},
		{"the server is slow: 3 s for what took 10 ms", slowness(3 * time.Second)},
		{"it is well again", slowness(10 * time.Millisecond)},
		{"it is killed, and comes back after a while", func() error {
			server.kill()
			time.Sleep(s.act / 4)
			return server.start()
		}},
		{"a crowd comes: 600 callers a second, for handlers that can do 300", func() error {
			crowd.come(ctx, 400, 0)
			return server.bulkhead.SetMaxConcurrent(3)
		}},
	} {
		w.Printf("\n--- %s\n", act.name)
		if err := act.begin(); err != nil {
			return nil, err
		}
		for range 2 {
			time.Sleep(s.act / 2)
			w.Printf("> %4.1fs  %s\n", time.Since(began).Seconds(), crowd.report())
		}
	}
	closing()
	crowd.callers.Wait()

	o := &outcome{crowd: crowd, client: client, server: server}
	o.missing, o.twice = server.audit(crowd.confirmed)
	o.print(w)
	if o.missing+o.twice > 0 {
		return o, fmt.Errorf("%d orders lost, %d received twice", o.missing, o.twice)
	}
	return o, nil
}

func (o *outcome) print(w *screen.Screen) {
	d := o.client.prices
	breaker, retry := d.Breaker().Stats(), d.Retry().Stats()
	w.Printf("\n--- what the callers met with\n%s\n", counts(o.crowd.met, "\n"))
	w.Printf("\n--- the client's policies\n")
	w.Printf("breaker: %v, %d transitions, %d rejected, %v open\n", breaker.State, breaker.Transitions, breaker.Rejected, breaker.TimeOpen.Round(time.Millisecond))
	w.Printf("bulkhead: %d rejected, %d slots taken now\n", d.Bulkhead().Stats().Rejected, d.Bulkhead().Stats().InFlight)
	w.Printf("retry: %d retries, %d calls succeeded after one, %d denied by the budget\n", retry.Retries, retry.SucceededAfterRetry, retry.BudgetDenied)
	w.Printf("\n--- the server's bulkhead\n%d rejected\n", o.server.bulkhead.Stats().Rejected)
	w.Printf("\n--- the orders\n%d placed, %d confirmed, %d of these lost, %d received twice\n", o.crowd.orders, len(o.crowd.confirmed), o.missing, o.twice)
}
