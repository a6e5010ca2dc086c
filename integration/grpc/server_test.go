package grpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
)

// server is a gRPC server on loopback, which can be slow, be killed and come back.
type server struct {
	grpc_testing.UnimplementedTestServiceServer
	t    testing.TB
	opts []grpc.ServerOption

	delay  atomic.Int64 // of an answer to a unary call, in nanoseconds
	silent atomic.Bool  // streams send nothing more

	conns    atomic.Int64 // open now
	handlers atomic.Int64 // at work now
	busiest  atomic.Int64 // most handlers at work at once
	slow     atomic.Int64 // answers that took a second or more
	streams  atomic.Int64 // that were begun

	mu       sync.Mutex
	executed map[string]int // how often each unary call was, by the id in its payload

	addr string
	grpc *grpc.Server
	done chan struct{}
}

func newServer(t testing.TB, opts ...grpc.ServerOption) *server {
	t.Helper()
	s := &server{t: t, executed: make(map[string]int), addr: "127.0.0.1:0"}
	s.opts = append([]grpc.ServerOption{grpc.StatsHandler(connections{&s.conns})}, opts...)
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start listens, after a kill at the same address.
func (s *server) start() {
	s.t.Helper()
	listener, err := net.Listen("tcp", s.addr)
	require.NoError(s.t, err)
	s.addr = listener.Addr().String()
	server, done := grpc.NewServer(s.opts...), make(chan struct{})
	grpc_testing.RegisterTestServiceServer(server, s)
	s.grpc, s.done = server, done
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
}

// kill ends the server and everything it does.
func (s *server) kill() {
	s.grpc.Stop()
	<-s.done
}

// retire ends the server when it has answered what it was asked.
func (s *server) retire() {
	s.grpc.GracefulStop()
	<-s.done
}

func (s *server) enter() (leave func()) {
	n := s.handlers.Add(1)
	for {
		most := s.busiest.Load()
		if n <= most || s.busiest.CompareAndSwap(most, n) {
			return func() { s.handlers.Add(-1) }
		}
	}
}

// UnaryCall executes the call, and answers after the delay.
func (s *server) UnaryCall(ctx context.Context, req *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	defer s.enter()()
	s.mu.Lock()
	s.executed[string(req.GetPayload().GetBody())]++
	s.mu.Unlock()
	delay := time.Duration(s.delay.Load())
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if delay >= time.Second {
		s.slow.Add(1)
	}
	return &grpc_testing.SimpleResponse{}, nil
}

// StreamingOutputCall sends a message every few milliseconds, until it is silent, or the client has gone.
func (s *server) StreamingOutputCall(_ *grpc_testing.StreamingOutputCallRequest, stream grpc_testing.TestService_StreamingOutputCallServer) error {
	defer s.enter()()
	s.streams.Add(1)
	for {
		if !s.silent.Load() {
			if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
				return err
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// FullDuplexCall keeps what it is sent, and sends it back when the client has closed its half.
func (s *server) FullDuplexCall(stream grpc_testing.TestService_FullDuplexCallServer) error {
	defer s.enter()()
	s.streams.Add(1)
	var got []*grpc_testing.Payload
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		got = append(got, m.GetPayload())
	}
	for _, payload := range got {
		if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{Payload: payload}); err != nil {
			return err
		}
	}
	return nil
}

// times returns how often the call with that id was executed.
func (s *server) times(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.executed[id]
}

// most returns how often the call that was executed most often was.
func (s *server) most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := 0
	for _, n := range s.executed {
		most = max(most, n)
	}
	return most
}

// connections counts the open ones.
type connections struct{ open *atomic.Int64 }

func (connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (connections) HandleRPC(context.Context, stats.RPCStats)                         {}
func (connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (c connections) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		c.open.Add(1)
	case *stats.ConnEnd:
		c.open.Add(-1)
	}
}
