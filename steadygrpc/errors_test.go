package steadygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadygrpc"
)

// invoke makes a call through the interceptor of which f is the attempt.
func invoke(t testing.TB, ctx context.Context, cfg steadygrpc.ClientConfig, f func(context.Context) error) error {
	t.Helper()
	return unaryInterceptor(t, cfg)(ctx, unaryMethod, nil, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		return f(ctx)
	})
}

// isStatusEverywhere checks the code of an error, bare and wrapped.
func isStatusEverywhere(t testing.TB, code codes.Code, err error) {
	t.Helper()
	require.Error(t, err)
	assert.Implements(t, (*interface{ GRPCStatus() *status.Status })(nil), err)
	s, ok := status.FromError(err)
	assert.True(t, ok, "%v is no status", err)
	assert.Equal(t, code, s.Code())
	wrapped := fmt.Errorf("wrapped: %w", err)
	s, ok = status.FromError(wrapped)
	assert.True(t, ok)
	assert.Equal(t, code, s.Code(), "wrapped")
}

func TestARejectionOfABreakerIsUnavailableForTheRestOfItsPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dependency(t, steady.DependencyConfig{NoRetry: true, Breaker: steady.BreakerConfig{WindowSize: 1, OpenDuration: time.Minute}})
		cfg := steadygrpc.ClientConfig{Dependency: d}
		err := invoke(t, t.Context(), cfg, func(context.Context) error { return errUnavailable })
		require.Equal(t, errUnavailable, err, "it comes back as it is")
		time.Sleep(20 * time.Second)
		err = invoke(t, t.Context(), cfg, nil)
		isStatusEverywhere(t, codes.Unavailable, err)
		assert.ErrorIs(t, err, steady.ErrBreakerOpen)
		assert.True(t, steady.IsRejected(fmt.Errorf("wrapped: %w", err)))
		var rejected *steady.RejectedError
		require.ErrorAs(t, err, &rejected)
		assert.Equal(t, "server", rejected.Policy)
		assert.Equal(t, 40*time.Second, steadygrpc.RetryAfter(err))
		assert.Equal(t, steady.Ignored, steady.Classify(err), "for a breaker around")
		time.Sleep(10 * time.Second)
		assert.Equal(t, 30*time.Second, steadygrpc.RetryAfter(err), "what is left when asked")
	})
}

func TestARejectionThatNobodyKnowsTheEndOfSaysNothingOfIt(t *testing.T) {
	d := dependency(t, steady.DependencyConfig{})
	d.Breaker().ForceOpen("test")
	err := invoke(t, t.Context(), steadygrpc.ClientConfig{Dependency: d}, nil)
	isStatusEverywhere(t, codes.Unavailable, err)
	assert.Empty(t, status.Convert(err).Details())
}

func TestARejectionOfABulkheadIsResourceExhausted(t *testing.T) {
	d := dependency(t, steady.DependencyConfig{Breaker: steady.BreakerConfig{HalfOpenProbes: 1}, Bulkhead: steady.BulkheadConfig{MaxConcurrent: 1}})
	cfg := steadygrpc.ClientConfig{Dependency: d}
	require.NoError(t, invoke(t, t.Context(), cfg, func(ctx context.Context) error {
		err := invoke(t, ctx, cfg, nil)
		isStatusEverywhere(t, codes.ResourceExhausted, err)
		assert.ErrorIs(t, err, steady.ErrBulkheadFull)
		return nil
	}))
}

func TestARejectionAfterAnAttemptIsARejectionAndKeepsTheAttemptsStatus(t *testing.T) {
	d := dependency(t, steady.DependencyConfig{Breaker: steady.BreakerConfig{WindowSize: 1}})
	err := invoke(t, t.Context(), steadygrpc.ClientConfig{Dependency: d, Intent: reads}, func(context.Context) error {
		return status.Error(codes.Internal, "broken")
	})
	isStatusEverywhere(t, codes.Unavailable, err)
	assert.ErrorIs(t, err, steady.ErrBreakerOpen)
	var retried *steady.RetryError
	require.ErrorAs(t, err, &retried)
	assert.Equal(t, codes.Internal, status.Code(retried.Last))
}

func TestARetryThatGivesUpHasTheLastStatusWithItsDetails(t *testing.T) {
	last, err := status.New(codes.Internal, "broken").WithDetails(&errdetails.ErrorInfo{Reason: "disk"})
	require.NoError(t, err)
	d := dependency(t, steady.DependencyConfig{})
	err = invoke(t, t.Context(), steadygrpc.ClientConfig{Dependency: d, Intent: reads}, func(context.Context) error { return last.Err() })
	isStatusEverywhere(t, codes.Internal, err)
	assert.ErrorIs(t, err, steady.ErrRetriesExhausted)
	assert.ErrorIs(t, err, last.Err())
	assert.Len(t, status.Convert(err).Details(), 1)
	assert.Contains(t, status.Convert(err).Message(), "3 attempts")
}

func TestTheEndOfTheCallersContextIsAStatusToo(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := steadygrpc.ClientConfig{Dependency: dependency(t, steady.DependencyConfig{}), Intent: reads}
	err := invoke(t, canceled, cfg, nil)
	isStatusEverywhere(t, codes.Canceled, err)
	assert.ErrorIs(t, err, context.Canceled)

	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	err = invoke(t, expired, cfg, nil)
	isStatusEverywhere(t, codes.DeadlineExceeded, err)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestACancelBetweenTwoAttemptsIsTheEndOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := dependency(t, steady.DependencyConfig{Retry: steady.RetryConfig{BaseDelay: time.Second, Jitter: steady.NoJitter}})
		err := invoke(t, ctx, steadygrpc.ClientConfig{Dependency: d, Intent: reads}, func(context.Context) error {
			time.AfterFunc(time.Millisecond, cancel)
			return errUnavailable
		})
		isStatusEverywhere(t, codes.Canceled, err)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, errUnavailable)
	})
}

func TestAnErrorThatIsNeitherAStatusNorOursIsLeftAlone(t *testing.T) {
	boom := errors.New("boom")
	cfg := steadygrpc.ClientConfig{Dependency: dependency(t, steady.DependencyConfig{NoRetry: true})}
	err := invoke(t, t.Context(), cfg, func(context.Context) error { return boom })
	assert.Same(t, boom, err)
}

func TestAStatusIsFoundWhereAnInterceptorInsideHasWrappedIt(t *testing.T) {
	cfg := steadygrpc.ClientConfig{Dependency: dependency(t, steady.DependencyConfig{NoRetry: true})}
	broken := errors.Join(status.Error(codes.Internal, "broken"), context.Canceled)
	err := invoke(t, t.Context(), cfg, func(context.Context) error { return broken })
	assert.Same(t, broken, err)
	assert.Equal(t, codes.Internal, status.Code(err), "though it matches a context's error as well")
}

func TestALimitThatEndsTheWaitForASlotIsAStatusToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dependency(t, steady.DependencyConfig{
			Timeout:  time.Second,
			NoRetry:  true,
			Breaker:  steady.BreakerConfig{HalfOpenProbes: 1},
			Bulkhead: steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: 900 * time.Millisecond},
		})
		slot, err := d.Bulkhead().Acquire(t.Context())
		require.NoError(t, err)
		defer slot.Release()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		isStatusEverywhere(t, codes.DeadlineExceeded, invoke(t, ctx, steadygrpc.ClientConfig{Dependency: d}, nil))

		attempt := dependency(t, steady.DependencyConfig{
			NoRetry:        true,
			AttemptTimeout: 600 * time.Millisecond,
			Breaker:        steady.BreakerConfig{HalfOpenProbes: 1},
			Bulkhead:       steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: 900 * time.Millisecond},
		})
		other, err := attempt.Bulkhead().Acquire(t.Context())
		require.NoError(t, err)
		defer other.Release()
		err = invoke(t, t.Context(), steadygrpc.ClientConfig{Dependency: attempt}, nil)
		isStatusEverywhere(t, codes.DeadlineExceeded, err)
		assert.ErrorIs(t, err, steady.ErrTimeout)
	})
}

// A connection that was given the deadline may notice it before the context's own timer does.
func TestADeadlineIsKnownBeforeTheContextKnowsIt(t *testing.T) {
	d := dependency(t, steady.DependencyConfig{NoTimeout: true})
	ctx := late{t.Context(), time.Now()}
	err := invoke(t, ctx, steadygrpc.ClientConfig{Dependency: d}, func(context.Context) error {
		return status.Error(codes.DeadlineExceeded, "as gRPC says it")
	})
	isStatusEverywhere(t, codes.DeadlineExceeded, err)
	assert.Equal(t, "as gRPC says it", status.Convert(err).Message())
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// late is a context whose timer has not fired at its deadline.
type late struct {
	context.Context
	deadline time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.deadline, true }

func TestARejectionTravelsToTheNextServersClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dependency(t, steady.DependencyConfig{NoRetry: true, Breaker: steady.BreakerConfig{WindowSize: 1}})
		middle := (&server{unary: func(ctx context.Context, _ int64) error {
			return invoke(t, ctx, steadygrpc.ClientConfig{Dependency: d}, func(context.Context) error { return errUnavailable })
		}}).serve(t)
		c := middle.client(t, steadygrpc.ClientConfig{Dependency: dependency(t, steady.DependencyConfig{NoRetry: true})})
		assert.Equal(t, codes.Unavailable, status.Code(call(t.Context(), c)))
		err := call(t.Context(), c)
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, time.Minute, steadygrpc.RetryAfter(err))
		assert.False(t, steady.IsRejected(err), "here it is a failure of the server's")
	})
}
