package main

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadygrpc"
)

// server has the prices. It can be slow, be killed and come back.
type server struct {
	addr     string
	options  []grpc.ServerOption
	bulkhead *steady.Bulkhead // of its handlers

	delay atomic.Int64 // of Get and Order, in nanoseconds

	mu       sync.Mutex
	received map[string]int // how often each order was

	grpc *grpc.Server
	done chan struct{}
}

// startServer starts a server on loopback that handles at most slots calls at once, streams apart.
func startServer(slots int) (*server, error) {
	bulkhead, err := steady.NewBulkhead(steady.BulkheadConfig{Name: "handlers", MaxConcurrent: slots})
	if err != nil {
		return nil, err
	}
	intercept, err := steadygrpc.NewUnaryServerInterceptor(steadygrpc.ServerConfig{Bulkhead: bulkhead, RetryAfter: 50 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	s := &server{
		addr:     "127.0.0.1:0",
		options:  []grpc.ServerOption{grpc.ChainUnaryInterceptor(intercept)},
		bulkhead: bulkhead,
		received: make(map[string]int),
	}
	return s, s.start()
}

// start listens, after a kill at the same address.
func (s *server) start() error {
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	s.addr = listener.Addr().String()
	running, done := grpc.NewServer(s.options...), make(chan struct{})
	running.RegisterService(&pricesDesc, s)
	s.grpc, s.done = running, done
	go func() {
		defer close(done)
		_ = running.Serve(listener)
	}()
	return nil
}

// kill ends the server, and everything that it does.
func (s *server) kill() {
	s.grpc.Stop()
	<-s.done
}

// work takes as long as it takes.
func (s *server) work(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(s.delay.Load())):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get returns the price of an article.
func (s *server) Get(ctx context.Context, _ *wrapperspb.StringValue) (*wrapperspb.DoubleValue, error) {
	return wrapperspb.Double(9.99), s.work(ctx)
}

// Watch sends a price every now and then, as long as the client listens.
func (s *server) Watch(_ *wrapperspb.StringValue, stream grpc.ServerStreamingServer[wrapperspb.DoubleValue]) error {
	for {
		if err := stream.Send(wrapperspb.Double(9.99)); err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// Order delivers. It would deliver twice what it is sent twice.
func (s *server) Order(ctx context.Context, reference *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	s.mu.Lock()
	s.received[reference.GetValue()]++
	s.mu.Unlock()
	return wrapperspb.String("thank you for " + reference.GetValue()), s.work(ctx)
}

// audit returns how many of the orders that customers have a confirmation of never came, and how many orders
// came twice.
func (s *server) audit(confirmed []string) (missing, twice int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, reference := range confirmed {
		if s.received[reference] == 0 {
			missing++
		}
	}
	for _, n := range s.received {
		if n > 1 {
			twice++
		}
	}
	return missing, twice
}
