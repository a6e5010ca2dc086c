// Dashboard serves the page of steadydebug for five dependencies that get into trouble in turn.
//
// They are real servers on loopback, each called all the time, at its own rate, through its own
// steady.Dependency. Every few seconds another act begins: the catalogue turns slow, payments fail, the search
// hangs, and after each all is well again for a while. The stock is never well: its p99 is so near to the
// threshold of a slow call that the page says so. The address of the page is printed first, and each act as it
// begins.
//
// Where to look: shop.go has the dependencies and how the page gets to know them; backend.go the servers;
// load.go the acts and the calls.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"
)

// show is what the program is told.
type show struct {
	addr     string
	duration time.Duration // 0 for until interrupted
	act      time.Duration
}

func main() {
	var s show
	flag.StringVar(&s.addr, "addr", "127.0.0.1:8080", "where to serve the page; port 0 takes a free one")
	flag.DurationVar(&s.duration, "for", 0, "how long to run; 0 means until interrupted")
	flag.DurationVar(&s.act, "act", 12*time.Second, "how long each act lasts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := s.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is the whole program.
func (s show) run(ctx context.Context, out io.Writer) error {
	if s.act <= 0 {
		return fmt.Errorf("-act must be positive, got %v", s.act)
	}
	if s.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.duration)
		defer cancel()
	}
	shop, err := openShop()
	if err != nil {
		return err
	}
	defer shop.close()
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/steady", shop.page)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	server.RegisterOnShutdown(shop.page.Close) // Shutdown waits for streams, which Close ends
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	_, _ = fmt.Fprintf(out, "http://%s/debug/steady\n", listener.Addr())

	shop.run(ctx, s.act, out)
	if err := server.Shutdown(context.Background()); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
