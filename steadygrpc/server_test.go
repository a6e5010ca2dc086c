package steadygrpc_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadygrpc"
)

func bulkhead(t testing.TB, cfg steady.BulkheadConfig) *steady.Bulkhead {
	t.Helper()
	cfg.Name = "handlers"
	b, err := steady.NewBulkhead(cfg)
	require.NoError(t, err)
	return b
}

func serverOptions(t testing.TB, cfg steadygrpc.ServerConfig) []grpc.ServerOption {
	t.Helper()
	unary, err := steadygrpc.NewUnaryServerInterceptor(cfg)
	require.NoError(t, err)
	stream, err := steadygrpc.NewStreamServerInterceptor(cfg)
	require.NoError(t, err)
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}

// plain is a client without interceptors.
func (s *server) plain(t testing.TB) grpc_testing.TestServiceClient {
	t.Helper()
	return grpc_testing.NewTestServiceClient(s.dial(t))
}

func TestAFullServerSaysSoAndWhenToComeBack(t *testing.T) {
	b := bulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	s := (&server{duplex: stay(1), unary: func(context.Context, int64) error { return nil }}).
		serve(t, serverOptions(t, steadygrpc.ServerConfig{Bulkhead: b, RetryAfter: 3 * time.Second})...)
	c := s.plain(t)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.FullDuplexCall(ctx)
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)

	err = call(t.Context(), c)
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.Equal(t, 3*time.Second, steadygrpc.RetryAfter(err))
	assert.Contains(t, status.Convert(err).Message(), `bulkhead full: "handlers"`)
	second, err := c.FullDuplexCall(t.Context())
	require.NoError(t, err)
	_, err = second.Recv()
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.Equal(t, 3*time.Second, steadygrpc.RetryAfter(err))
	assert.EqualValues(t, 1, s.calls.Load(), "no handler ran")

	cancel()
	require.Eventually(t, func() bool { return b.Stats().InFlight == 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, call(t.Context(), c))
}

func TestAFullServerNeedNotSayWhenToComeBack(t *testing.T) {
	b := bulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	_, err := b.Acquire(t.Context())
	require.NoError(t, err)
	s := new(server).serve(t, serverOptions(t, steadygrpc.ServerConfig{Bulkhead: b})...)
	err = call(t.Context(), s.plain(t))
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.Empty(t, status.Convert(err).Details())
}

func TestAClientOfAFullServerComesBackWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
		slot, err := b.Acquire(t.Context())
		require.NoError(t, err)
		time.AfterFunc(time.Second, slot.Release)
		s := new(server).serve(t, serverOptions(t, steadygrpc.ServerConfig{Bulkhead: b, RetryAfter: 3 * time.Second})...)
		d := dependency(t, steady.DependencyConfig{})
		began := time.Now()
		require.NoError(t, call(t.Context(), s.client(t, steadygrpc.ClientConfig{Dependency: d})))
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.Zero(t, d.Breaker().Stats().Failures, "a full server is no failing one")
	})
}

func TestAnExemptMethodNeedsNoSlot(t *testing.T) {
	b := bulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	_, err := b.Acquire(t.Context())
	require.NoError(t, err)
	s := (&server{duplex: func(grpc_testing.TestService_FullDuplexCallServer) error { return nil }}).
		serve(t, serverOptions(t, steadygrpc.ServerConfig{Bulkhead: b, Exempt: func(method string) bool { return method == unaryMethod }})...)
	c := s.plain(t)
	require.NoError(t, call(t.Context(), c))
	stream, err := c.FullDuplexCall(t.Context())
	require.NoError(t, err)
	_, err = stream.Recv()
	assert.Equal(t, codes.ResourceExhausted, status.Code(err), "another method does")
}

// serverStream is a stream with just a context.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s serverStream) Context() context.Context { return s.ctx }

// handlers run a handler through each of the server interceptors.
func handlers(t testing.TB, cfg steadygrpc.ServerConfig) map[string]func(context.Context, func(context.Context) error) error {
	t.Helper()
	unary, err := steadygrpc.NewUnaryServerInterceptor(cfg)
	require.NoError(t, err)
	stream, err := steadygrpc.NewStreamServerInterceptor(cfg)
	require.NoError(t, err)
	return map[string]func(context.Context, func(context.Context) error) error{
		"unary": func(ctx context.Context, f func(context.Context) error) error {
			reply, err := unary(ctx, "request", &grpc.UnaryServerInfo{FullMethod: unaryMethod}, func(ctx context.Context, req any) (any, error) {
				assert.Equal(t, "request", req)
				return "reply", f(ctx)
			})
			if err == nil {
				assert.Equal(t, "reply", reply)
			}
			return err
		},
		"stream": func(ctx context.Context, f func(context.Context) error) error {
			return stream("service", serverStream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: duplexMethod}, func(srv any, stream grpc.ServerStream) error {
				assert.Equal(t, "service", srv)
				return f(stream.Context())
			})
		},
	}
}

func TestAHandlerRunsInItsOwnContextAndHoldsItsSlotUntilItReturns(t *testing.T) {
	b := bulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	for name, handle := range handlers(t, steadygrpc.ServerConfig{Bulkhead: b}) {
		ctx, cancel := context.WithCancel(t.Context())
		err := handle(ctx, func(inside context.Context) error {
			assert.Equal(t, ctx, inside, name)
			cancel() // the client has gone, and the handler is still at work
			assert.Equal(t, 1, b.Stats().InFlight, name)
			return errUnavailable
		})
		assert.Same(t, errUnavailable, err, name)
		assert.Zero(t, b.Stats().InFlight, name)
	}
}

func TestAHandlerThatPanicsGivesItsSlotBack(t *testing.T) {
	b := bulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	for name, handle := range handlers(t, steadygrpc.ServerConfig{Bulkhead: b}) {
		assert.PanicsWithValue(t, "boom", func() {
			_ = handle(t.Context(), func(context.Context) error { panic("boom") })
		}, name)
		assert.Zero(t, b.Stats().InFlight, name)
	}
}

func TestAHandlerThatExitsItsGoroutineGivesItsSlotBack(t *testing.T) {
	b := bulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	for name, handle := range handlers(t, steadygrpc.ServerConfig{Bulkhead: b}) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = handle(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
		}()
		<-done
		assert.Zero(t, b.Stats().InFlight, name)
	}
}

func TestACallThatGivesUpInTheQueueIsToldWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Minute})
		slot, err := b.Acquire(t.Context())
		require.NoError(t, err)
		defer slot.Release()
		for name, handle := range handlers(t, steadygrpc.ServerConfig{Bulkhead: b}) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := handle(ctx, nil)
			isStatusEverywhere(t, codes.DeadlineExceeded, err)
			assert.ErrorIs(t, err, context.DeadlineExceeded, name)
			cancel()

			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			isStatusEverywhere(t, codes.Canceled, handle(ctx, nil))
		}
		assert.Zero(t, b.Stats().Waiting)
	})
}

func TestARejectionOnTheServerIsKnownToInterceptorsAround(t *testing.T) {
	b := bulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	slot, err := b.Acquire(t.Context())
	require.NoError(t, err)
	defer slot.Release()
	for name, handle := range handlers(t, steadygrpc.ServerConfig{Bulkhead: b, RetryAfter: time.Second}) {
		err := handle(t.Context(), nil)
		isStatusEverywhere(t, codes.ResourceExhausted, err)
		assert.True(t, steady.IsRejected(err), name)
		assert.ErrorIs(t, err, steady.ErrBulkheadFull, name)
		assert.Equal(t, time.Second, steadygrpc.RetryAfter(err), name)
	}
}

func TestServerConfigIsCheckedAllAtOnce(t *testing.T) {
	const want = "steadygrpc: ServerConfig.Bulkhead is required, got nil (make one with steady.NewBulkhead)\n" +
		"steadygrpc: ServerConfig.RetryAfter must not be negative, got -1s (0 means that a client is told nothing)"
	_, err := steadygrpc.NewUnaryServerInterceptor(steadygrpc.ServerConfig{RetryAfter: -time.Second})
	assert.EqualError(t, err, want)
	_, err = steadygrpc.NewStreamServerInterceptor(steadygrpc.ServerConfig{RetryAfter: -time.Second})
	assert.EqualError(t, err, want)
}
