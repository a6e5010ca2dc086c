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
	"log/slog"
	"os"
	"sync"
	"time"
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
	w, began := &screen{w: out}, time.Now()
	server, err := startServer(60)
	if err != nil {
		return nil, err
	}
	defer func() { server.kill() }()
	client, err := NewClient(server.addr, logger(w, began))
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
		w.printf("\n--- %s\n", act.name)
		if err := act.begin(); err != nil {
			return nil, err
		}
		for range 2 {
			time.Sleep(s.act / 2)
			w.printf("> %4.1fs  %s\n", time.Since(began).Seconds(), crowd.report())
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

func (o *outcome) print(w *screen) {
	d := o.client.prices
	breaker, retry := d.Breaker().Stats(), d.Retry().Stats()
	w.printf("\n--- what the callers met with\n%s\n", counts(o.crowd.met, "\n"))
	w.printf("\n--- the client's policies\n")
	w.printf("breaker: %v, %d transitions, %d rejected, %v open\n", breaker.State, breaker.Transitions, breaker.Rejected, breaker.TimeOpen.Round(time.Millisecond))
	w.printf("bulkhead: %d rejected, %d slots taken now\n", d.Bulkhead().Stats().Rejected, d.Bulkhead().Stats().InFlight)
	w.printf("retry: %d retries, %d calls succeeded after one, %d denied by the budget\n", retry.Retries, retry.SucceededAfterRetry, retry.BudgetDenied)
	w.printf("\n--- the server's bulkhead\n%d rejected\n", o.server.bulkhead.Stats().Rejected)
	w.printf("\n--- the orders\n%d placed, %d confirmed, %d of these lost, %d received twice\n", o.crowd.orders, len(o.crowd.confirmed), o.missing, o.twice)
}

// logger writes what a reader of this show wants to see: seconds since its start in place of the date, and nothing
// that the message and its detail say anyhow.
func logger(w io.Writer, began time.Time) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey:
				return slog.String(slog.TimeKey, fmt.Sprintf("%.1fs", time.Since(began).Seconds()))
			case "at", "calls", "failed", "slow", "abandoned", "steady.breaker.from", "steady.breaker.to", "steady.breaker.reason":
				return slog.Attr{}
			}
			if a.Value.Kind() == slog.KindDuration {
				return slog.Duration(a.Key, a.Value.Duration().Round(time.Millisecond))
			}
			return a
		},
	}))
}

// screen is where the log and everything else is written, by several goroutines at once.
type screen struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

func (s *screen) printf(format string, args ...any) { _, _ = fmt.Fprintf(s, format, args...) }
