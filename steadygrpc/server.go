package steadygrpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/steady-go/steady"
)

// ServerConfig configures the server interceptors. One value may serve both.
type ServerConfig struct {
	// Bulkhead limits how many calls are handled at once. Interceptors that share one share its limit: unary calls
	// and streams together. Required.
	Bulkhead *steady.Bulkhead
	// RetryAfter is what a rejected client is told to wait, as the RetryInfo of the status. It must not be negative;
	// 0 means that it is told nothing.
	RetryAfter time.Duration
	// Exempt says which methods ("/package.Service/Method") are handled without a slot: health checks, say, by which
	// a server that is merely busy would be taken for dead. nil means none.
	Exempt func(fullMethod string) bool
}

func (cfg *ServerConfig) check() error {
	var errs []error
	if cfg.Bulkhead == nil {
		errs = append(errs, errors.New("steadygrpc: ServerConfig.Bulkhead is required, got nil (make one with steady.NewBulkhead)"))
	}
	if cfg.RetryAfter < 0 {
		errs = append(errs, fmt.Errorf("steadygrpc: ServerConfig.RetryAfter must not be negative, got %v (0 means that a client is told nothing)", cfg.RetryAfter))
	}
	return errors.Join(errs...)
}

// NewUnaryServerInterceptor returns an interceptor that handles a call only while it has a slot of the Bulkhead, or
// an error that names everything that is wrong with cfg. A call that gets none is answered ResourceExhausted, and its
// handler does not run; one whose context ends while it waits, with the status of that. The handler runs in the
// request's own context, and the slot is free again when it has returned or panicked.
func NewUnaryServerInterceptor(cfg ServerConfig) (grpc.UnaryServerInterceptor, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		leave, err := cfg.enter(ctx, info.FullMethod)
		if err != nil {
			return nil, err
		}
		defer leave()
		return handler(ctx, req)
	}, nil
}

// NewStreamServerInterceptor is [NewUnaryServerInterceptor] for streams, which hold their slot as long as their
// handler runs.
func NewStreamServerInterceptor(cfg ServerConfig) (grpc.StreamServerInterceptor, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		leave, err := cfg.enter(stream.Context(), info.FullMethod)
		if err != nil {
			return err
		}
		defer leave()
		return handler(srv, stream)
	}, nil
}

// enter takes a slot for a call; leave gives it back.
func (cfg *ServerConfig) enter(ctx context.Context, method string) (leave func(), err error) {
	if cfg.Exempt != nil && cfg.Exempt(method) {
		return func() {}, nil
	}
	slot, err := cfg.Bulkhead.Acquire(ctx)
	if err == nil {
		return slot.Release, nil
	}
	var rejected *steady.RejectedError
	if errors.As(err, &rejected) {
		return nil, &fullError{rejected, cfg.RetryAfter}
	}
	return nil, withStatus(err)
}

// fullError is a rejection as the client is told of it.
type fullError struct {
	*steady.RejectedError
	retryAfter time.Duration
}

func (e *fullError) Unwrap() error { return e.RejectedError }

func (e *fullError) GRPCStatus() *status.Status {
	return rejection(e.RejectedError, e.Error(), e.retryAfter)
}
