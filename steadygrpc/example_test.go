package steadygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadygrpc"
)

// shop is a service of the examples.
type shop struct {
	grpc_testing.UnimplementedTestServiceServer
	calls int
}

func (s *shop) UnaryCall(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	if s.calls++; s.calls == 1 {
		return nil, status.Error(codes.Unavailable, "restarting")
	}
	return &grpc_testing.SimpleResponse{}, nil
}

func (s *shop) StreamingOutputCall(_ *grpc_testing.StreamingOutputCallRequest, stream grpc_testing.TestService_StreamingOutputCallServer) error {
	for range 3 {
		if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
	return nil
}

// serveExample starts a server on loopback.
func serveExample(opts ...grpc.ServerOption) (target string, stop func()) {
	listener := steady.Must(net.Listen("tcp", "127.0.0.1:0"))
	server := grpc.NewServer(opts...)
	grpc_testing.RegisterTestServiceServer(server, &shop{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return listener.Addr().String(), func() { server.Stop(); <-done }
}

func ExampleNewUnaryClientInterceptor() {
	target, stop := serveExample()
	defer stop()
	dependency := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:     "shop",
		Timeout:  10 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: time.Second},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
	}))
	intercept := steady.Must(steadygrpc.NewUnaryClientInterceptor(steadygrpc.ClientConfig{Dependency: dependency}))
	conn := steady.Must(grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainUnaryInterceptor(intercept)))
	defer func() { _ = conn.Close() }()
	client := grpc_testing.NewTestServiceClient(conn)

	// This call may be repeated, and is: the server is restarting.
	_, err := client.UnaryCall(context.Background(), &grpc_testing.SimpleRequest{}, steadygrpc.WithIntent(steady.ReadIdempotent))
	fmt.Println(err, dependency.Retry().Stats().Retries)

	dependency.Breaker().ForceOpen("for the example")
	_, err = client.UnaryCall(context.Background(), &grpc_testing.SimpleRequest{})
	fmt.Println(err)
	fmt.Println(status.Code(err), errors.Is(err, steady.ErrBreakerOpen), steady.IsRejected(err))
	// Output:
	// <nil> 1
	// steady: breaker open: "shop"
	// Unavailable true true
}

func ExampleNewStreamClientInterceptor() {
	target, stop := serveExample()
	defer stop()
	dependency := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:     "shop",
		Timeout:  10 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: time.Second},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
	}))
	intercept := steady.Must(steadygrpc.NewStreamClientInterceptor(steadygrpc.ClientConfig{Dependency: dependency}))
	conn := steady.Must(grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainStreamInterceptor(intercept)))
	defer func() { _ = conn.Close() }()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // so the stream ends even if it is not read to its end
	stream := steady.Must(grpc_testing.NewTestServiceClient(conn).StreamingOutputCall(ctx, &grpc_testing.StreamingOutputCallRequest{}))
	for {
		_, err := stream.Recv()
		fmt.Println(err, dependency.Bulkhead().Stats().InFlight)
		if errors.Is(err, io.EOF) {
			return
		}
	}
	// Output:
	// <nil> 1
	// <nil> 1
	// <nil> 1
	// EOF 0
}

func ExampleClientConfig() {
	dependency := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:     "inventory",
		Timeout:  2 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 50}, // open streams included
	}))
	config := steadygrpc.ClientConfig{
		Dependency: dependency,
		Intent: func(fullMethod string) steady.Intent {
			_, method, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
			switch {
			case strings.HasPrefix(method, "Get"), strings.HasPrefix(method, "List"), strings.HasPrefix(method, "Watch"):
				return steady.ReadIdempotent
			case method == "PutItem":
				return steady.WriteIdempotent
			default:
				return steady.WriteNonIdempotent
			}
		},
		LongLived: func(fullMethod string) bool { return strings.Contains(fullMethod, "/Watch") },
	}
	fmt.Println(config.Intent("/inventory.Inventory/GetItem"), config.LongLived("/inventory.Inventory/GetItem"))
	fmt.Println(config.Intent("/inventory.Inventory/WatchItems"), config.LongLived("/inventory.Inventory/WatchItems"))
	fmt.Println(config.Intent("/inventory.Inventory/Order"))
	// Output:
	// read_idempotent false
	// read_idempotent true
	// write_non_idempotent
}

func ExampleWithIntent() {
	read := steadygrpc.WithIntent(steady.ReadIdempotent)
	_ = func(client grpc_testing.TestServiceClient) error {
		_, err := client.UnaryCall(context.Background(), &grpc_testing.SimpleRequest{}, read)
		return err
	}
	fmt.Printf("%T\n", read)
	// Output: steadygrpc.intentOption
}

func ExampleClassify() {
	fmt.Println(steadygrpc.Classify(status.Error(codes.Unavailable, "restarting")))
	fmt.Println(steadygrpc.Classify(status.Error(codes.NotFound, "no such item")))
	fmt.Println(steadygrpc.Classify(status.Error(codes.ResourceExhausted, "quota")))
	// Output:
	// transient
	// success
	// throttled
}

func ExampleServerConfig() {
	handlers := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{Name: "handlers", MaxConcurrent: 100}))
	config := steadygrpc.ServerConfig{
		Bulkhead:   handlers,
		RetryAfter: 500 * time.Millisecond,
		Exempt: func(fullMethod string) bool {
			return fullMethod == healthgrpc.Health_Check_FullMethodName || fullMethod == healthgrpc.Health_Watch_FullMethodName
		},
	}
	fmt.Println(config.Exempt("/grpc.health.v1.Health/Check"))
	// Output: true
}

func ExampleNewUnaryServerInterceptor() {
	handlers := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{Name: "handlers", MaxConcurrent: 1}))
	config := steadygrpc.ServerConfig{Bulkhead: handlers, RetryAfter: 500 * time.Millisecond}
	target, stop := serveExample(
		grpc.ChainUnaryInterceptor(steady.Must(steadygrpc.NewUnaryServerInterceptor(config))),
		grpc.ChainStreamInterceptor(steady.Must(steadygrpc.NewStreamServerInterceptor(config))))
	defer stop()
	conn := steady.Must(grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer func() { _ = conn.Close() }()

	busy := steady.Must(handlers.Acquire(context.Background())) // by another call
	_, err := grpc_testing.NewTestServiceClient(conn).UnaryCall(context.Background(), &grpc_testing.SimpleRequest{})
	fmt.Println(status.Code(err), steadygrpc.RetryAfter(err))
	busy.Release()
	// Output: ResourceExhausted 500ms
}

func ExampleNewStreamServerInterceptor() {
	handlers := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{Name: "handlers", MaxConcurrent: 1}))
	config := steadygrpc.ServerConfig{Bulkhead: handlers}
	target, stop := serveExample(grpc.ChainStreamInterceptor(steady.Must(steadygrpc.NewStreamServerInterceptor(config))))
	defer stop()
	conn := steady.Must(grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer func() { _ = conn.Close() }()

	busy := steady.Must(handlers.Acquire(context.Background())) // by another stream
	stream := steady.Must(grpc_testing.NewTestServiceClient(conn).StreamingOutputCall(context.Background(), &grpc_testing.StreamingOutputCallRequest{}))
	_, err := stream.Recv()
	fmt.Println(err)
	busy.Release()
	// Output: rpc error: code = ResourceExhausted desc = steady: bulkhead full: "handlers"
}
