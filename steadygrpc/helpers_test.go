package steadygrpc_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadygrpc"
)

const (
	unaryMethod  = "/grpc.testing.TestService/UnaryCall"
	duplexMethod = "/grpc.testing.TestService/FullDuplexCall"
)

var errUnavailable = status.Error(codes.Unavailable, "out of order")

// server is a real gRPC server, whose handlers a test gives it.
type server struct {
	grpc_testing.UnimplementedTestServiceServer
	calls atomic.Int64

	unary    func(ctx context.Context, n int64) error // n counts the calls from 1
	duplex   func(grpc_testing.TestService_FullDuplexCallServer) error
	download func(grpc_testing.TestService_StreamingOutputCallServer) error
	upload   func(grpc_testing.TestService_StreamingInputCallServer) error

	listener *bufconn.Listener
	server   *grpc.Server
}

func (s *server) UnaryCall(ctx context.Context, req *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	n := s.calls.Add(1)
	if s.unary != nil {
		if err := s.unary(ctx, n); err != nil {
			return nil, err
		}
	}
	return &grpc_testing.SimpleResponse{Payload: &grpc_testing.Payload{Body: make([]byte, req.GetResponseSize())}}, nil
}

func (s *server) FullDuplexCall(stream grpc_testing.TestService_FullDuplexCallServer) error {
	s.calls.Add(1)
	return s.duplex(stream)
}

func (s *server) StreamingOutputCall(_ *grpc_testing.StreamingOutputCallRequest, stream grpc_testing.TestService_StreamingOutputCallServer) error {
	s.calls.Add(1)
	return s.download(stream)
}

func (s *server) StreamingInputCall(stream grpc_testing.TestService_StreamingInputCallServer) error {
	s.calls.Add(1)
	return s.upload(stream)
}

// serve starts the server, which ends with the test.
func (s *server) serve(t testing.TB, opts ...grpc.ServerOption) *server {
	t.Helper()
	s.listener = bufconn.Listen(1 << 16)
	s.server = grpc.NewServer(opts...)
	grpc_testing.RegisterTestServiceServer(s.server, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.server.Serve(s.listener)
	}()
	t.Cleanup(func() {
		s.server.Stop()
		<-done
	})
	return s
}

// dial connects to the server; the connection ends with the test.
func (s *server) dial(t testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.listener.DialContext(ctx) }),
	}, opts...)
	conn, err := grpc.NewClient("passthrough:///test", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// client connects to the server through the interceptors, with others around them and inside them.
func (s *server) client(t testing.TB, cfg steadygrpc.ClientConfig, opts ...grpc.DialOption) grpc_testing.TestServiceClient {
	t.Helper()
	opts = append([]grpc.DialOption{
		grpc.WithChainUnaryInterceptor(unaryInterceptor(t, cfg)),
		grpc.WithChainStreamInterceptor(streamInterceptor(t, cfg)),
	}, opts...)
	return grpc_testing.NewTestServiceClient(s.dial(t, opts...))
}

func unaryInterceptor(t testing.TB, cfg steadygrpc.ClientConfig) grpc.UnaryClientInterceptor {
	t.Helper()
	i, err := steadygrpc.NewUnaryClientInterceptor(cfg)
	require.NoError(t, err)
	return i
}

func streamInterceptor(t testing.TB, cfg steadygrpc.ClientConfig) grpc.StreamClientInterceptor {
	t.Helper()
	i, err := steadygrpc.NewStreamClientInterceptor(cfg)
	require.NoError(t, err)
	return i
}

// dependency returns one with a breaker that opens at once, and is slow to close, unless cfg says otherwise.
func dependency(t testing.TB, cfg steady.DependencyConfig) *steady.Dependency {
	t.Helper()
	cfg.Name = "server"
	if cfg.Timeout == 0 && !cfg.NoTimeout {
		cfg.Timeout = time.Minute
	}
	if cfg.Breaker.SlowThreshold == 0 {
		cfg.Breaker.SlowThreshold = 500 * time.Millisecond
	}
	if cfg.Breaker.OpenDuration == 0 {
		cfg.Breaker.OpenDuration = time.Minute
	}
	cfg.Breaker.NoOpenJitter = true
	if cfg.Bulkhead.MaxConcurrent == 0 {
		cfg.Bulkhead.MaxConcurrent = 100
	}
	if cfg.Retry.BaseDelay == 0 && !cfg.Retry.NoDelay {
		cfg.Retry.NoDelay = true
	}
	d, err := steady.NewDependency(cfg)
	require.NoError(t, err)
	return d
}

// reads says that every method reads.
func reads(string) steady.Intent { return steady.ReadIdempotent }

func call(ctx context.Context, c grpc_testing.TestServiceClient, opts ...grpc.CallOption) error {
	_, err := c.UnaryCall(ctx, &grpc_testing.SimpleRequest{}, opts...)
	return err
}

// nothingIsLeft checks that no call holds anything of the dependency.
func nothingIsLeft(t testing.TB, d *steady.Dependency) {
	t.Helper()
	assert.Zero(t, d.Breaker().Stats().InFlight, "calls in the breaker")
	assert.Zero(t, d.Bulkhead().Stats().InFlight, "slots taken")
}
