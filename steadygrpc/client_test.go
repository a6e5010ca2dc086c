package steadygrpc_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadygrpc"
)

func TestACallIsRepeatedAsItsIntentAllows(t *testing.T) {
	throttled, err := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(0)})
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		intent   func(string) steady.Intent
		opts     []grpc.CallOption
		err      error
		attempts int64
	}{
		"by default it is not idempotent":              {err: errUnavailable, attempts: 1},
		"a read":                                       {intent: reads, err: errUnavailable, attempts: 3},
		"a read that is answered":                      {intent: reads, err: status.Error(codes.NotFound, ""), attempts: 1},
		"a read that has lost data":                    {intent: reads, err: status.Error(codes.DataLoss, ""), attempts: 1},
		"throttled, under every intent":                {err: throttled.Err(), attempts: 3},
		"too large a message, which may come too late": {intent: reads, err: status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"), attempts: 1},
		"one call said to be idempotent":               {opts: []grpc.CallOption{steadygrpc.WithIntent(steady.WriteIdempotent)}, err: errUnavailable, attempts: 3},
		"one call said not to be":                      {intent: reads, opts: []grpc.CallOption{steadygrpc.WithIntent(steady.WriteNonIdempotent)}, err: errUnavailable, attempts: 1},
		"the last word counts":                         {opts: []grpc.CallOption{steadygrpc.WithIntent(steady.WriteNonIdempotent), steadygrpc.WithIntent(steady.ReadIdempotent)}, err: errUnavailable, attempts: 3},
		"an intent that is none is the safe one":       {intent: func(string) steady.Intent { return 77 }, err: errUnavailable, attempts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := (&server{unary: func(context.Context, int64) error { return tt.err }}).serve(t)
			d := dependency(t, steady.DependencyConfig{})
			err := call(t.Context(), s.client(t, steadygrpc.ClientConfig{Dependency: d, Intent: tt.intent}), tt.opts...)
			assert.Equal(t, status.Code(tt.err), status.Code(err))
			assert.Equal(t, tt.attempts, s.calls.Load())
			nothingIsLeft(t, d)
		})
	}
}

func TestTheIntentIsAskedForTheMethod(t *testing.T) {
	s := new(server).serve(t)
	var asked string
	c := s.client(t, steadygrpc.ClientConfig{Dependency: dependency(t, steady.DependencyConfig{}), Intent: func(method string) steady.Intent {
		asked = method
		return steady.ReadIdempotent
	}})
	require.NoError(t, call(t.Context(), c))
	assert.Equal(t, unaryMethod, asked)
}

func TestAMessageTooLargeForTheClientIsNotFetchedAgain(t *testing.T) {
	s := new(server).serve(t)
	d := dependency(t, steady.DependencyConfig{})
	c := s.client(t, steadygrpc.ClientConfig{Dependency: d, Intent: reads})
	_, err := c.UnaryCall(t.Context(), &grpc_testing.SimpleRequest{ResponseSize: 100}, grpc.MaxCallRecvMsgSize(10))
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.EqualValues(t, 1, s.calls.Load(), "the server has executed the call")
	assert.Zero(t, d.Breaker().Stats().Failures)
}

func TestAStatusOfTheServersComesBackAsItIs(t *testing.T) {
	detailed, err := status.New(codes.FailedPrecondition, "no").WithDetails(&errdetails.ErrorInfo{Reason: "sold out"})
	require.NoError(t, err)
	s := (&server{unary: func(context.Context, int64) error { return detailed.Err() }}).serve(t)
	d := dependency(t, steady.DependencyConfig{})
	err = call(t.Context(), s.client(t, steadygrpc.ClientConfig{Dependency: d}))
	require.Error(t, err)
	assert.Equal(t, "no", status.Convert(err).Message())
	require.Len(t, status.Convert(err).Details(), 1)
	assert.NoError(t, errors.Unwrap(err), "it is not wrapped")
	assert.Equal(t, 1, d.Breaker().Stats().Calls)
	assert.Zero(t, d.Breaker().Stats().Failures, "an answer is no failure")
}

func TestRetryInfoIsWaitedForAtLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		info := &errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)}
		throttled, err := status.New(codes.ResourceExhausted, "slow down").WithDetails(info)
		require.NoError(t, err)
		s := (&server{unary: func(_ context.Context, n int64) error {
			if n == 1 {
				return throttled.Err()
			}
			return nil
		}}).serve(t)
		c := s.client(t, steadygrpc.ClientConfig{Dependency: dependency(t, steady.DependencyConfig{})})
		began := time.Now()
		require.NoError(t, call(t.Context(), c))
		assert.Equal(t, 7*time.Second, time.Since(began))
	})
}

func TestTheDependencysClassifyIsAskedFirst(t *testing.T) {
	notFound := status.Error(codes.NotFound, "")
	s := (&server{unary: func(context.Context, int64) error { return notFound }}).serve(t)
	d := dependency(t, steady.DependencyConfig{Classify: func(err error) steady.Outcome {
		if status.Code(err) == codes.NotFound {
			return steady.Transient
		}
		return 0
	}})
	c := s.client(t, steadygrpc.ClientConfig{Dependency: d, Intent: reads})
	require.Error(t, call(t.Context(), c))
	assert.EqualValues(t, 3, s.calls.Load())
	assert.Equal(t, 3, d.Breaker().Stats().Failures)

	notFound = status.Error(codes.Aborted, "")
	require.Error(t, call(t.Context(), c))
	assert.Equal(t, 3, d.Breaker().Stats().Failures, "where it does not say, the code does")
}

// refusing is a dialer that refuses connections while told to.
type refusing struct {
	*server
	refuses atomic.Bool
	dials   atomic.Int64
}

func (r *refusing) option() grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		r.dials.Add(1)
		if r.refuses.Load() {
			return nil, errors.New("connection refused")
		}
		return r.listener.DialContext(ctx)
	})
}

func TestACallThatNeverHadAConnectionIsRetriedUnderEveryIntent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusing{server: new(server).serve(t)}
		r.refuses.Store(true)
		d := dependency(t, steady.DependencyConfig{Retry: steady.RetryConfig{BaseDelay: 2 * time.Second, Jitter: steady.NoJitter}})
		c := r.client(t, steadygrpc.ClientConfig{Dependency: d}, r.option())
		time.AfterFunc(100*time.Millisecond, func() { r.refuses.Store(false) }) // gRPC connects again after about a second
		require.NoError(t, call(t.Context(), c))
		assert.EqualValues(t, 1, r.calls.Load())
		assert.EqualValues(t, 1, d.Retry().Stats().Retries)
		assert.Equal(t, 1, d.Breaker().Stats().Failures, "and it is a failure of the server's")
	})
}

// stub stands in for everything inside the interceptor: it may call gRPC or not, and says what came of it.
type stub func(invoke func(opts ...grpc.CallOption) error, opts []grpc.CallOption) error

func (s stub) option() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return s(func(opts ...grpc.CallOption) error { return invoker(ctx, method, req, reply, cc, opts...) }, opts)
	})
}

func TestACallThatWaitsForAConnectionInVainIsRetriedUnderEveryIntent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusing{server: new(server).serve(t)}
		r.refuses.Store(true)
		d := dependency(t, steady.DependencyConfig{
			AttemptTimeout: 600 * time.Millisecond,
			Retry:          steady.RetryConfig{MaxAttempts: 10, BaseDelay: time.Second, Jitter: steady.NoJitter},
		})
		c := r.client(t, steadygrpc.ClientConfig{Dependency: d}, r.option())
		time.AfterFunc(700*time.Millisecond, func() { r.refuses.Store(false) })
		require.NoError(t, call(t.Context(), c, grpc.WaitForReady(true)))
		assert.EqualValues(t, 1, r.calls.Load())
		assert.Positive(t, d.Retry().Stats().Retries)
		assert.Positive(t, d.Breaker().Stats().Slow, "the wait is the server's time")
	})
}

// nameless is a connection without addresses, as a dialer of the caller's own may make one.
type nameless struct{ net.Conn }

func (nameless) RemoteAddr() net.Addr { return nil }
func (nameless) LocalAddr() net.Addr  { return nil }

func TestAConnectionWithoutAnAddressIsOne(t *testing.T) {
	s := (&server{unary: func(context.Context, int64) error { return errUnavailable }}).serve(t)
	c := s.client(t, steadygrpc.ClientConfig{Dependency: dependency(t, steady.DependencyConfig{})},
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := s.listener.DialContext(ctx)
			return nameless{conn}, err
		}))
	assert.Equal(t, codes.Unavailable, status.Code(call(t.Context(), c)))
	assert.EqualValues(t, 1, s.calls.Load(), "it has been sent")
}

func TestWhatMayHaveBeenSentIsNotRetriedWhenItIsNotIdempotent(t *testing.T) {
	for name, inside := range map[string]stub{
		"the server answered":              func(invoke func(...grpc.CallOption) error, opts []grpc.CallOption) error { return invoke(opts...) },
		"an interceptor drops the options": func(invoke func(...grpc.CallOption) error, _ []grpc.CallOption) error { return invoke() },
		"an interceptor answers itself":    func(func(...grpc.CallOption) error, []grpc.CallOption) error { return errUnavailable },
		"an interceptor calls twice": func(invoke func(...grpc.CallOption) error, opts []grpc.CallOption) error {
			_ = invoke(opts...)
			return invoke(opts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var runs int
			s := (&server{unary: func(context.Context, int64) error { return errUnavailable }}).serve(t)
			d := dependency(t, steady.DependencyConfig{})
			c := s.client(t, steadygrpc.ClientConfig{Dependency: d}, stub(func(invoke func(...grpc.CallOption) error, opts []grpc.CallOption) error {
				runs++
				return inside(invoke, opts)
			}).option())
			assert.Equal(t, codes.Unavailable, status.Code(call(t.Context(), c)))
			assert.Equal(t, 1, runs)
		})
	}
}

func TestAnInterceptorThatCallsAgainWithoutAConnectionMayHaveSentBefore(t *testing.T) {
	var runs int
	r := &refusing{}
	r.server = (&server{unary: func(context.Context, int64) error { return errUnavailable }}).serve(t)
	c := r.client(t, steadygrpc.ClientConfig{Dependency: dependency(t, steady.DependencyConfig{})}, r.option(),
		stub(func(invoke func(...grpc.CallOption) error, opts []grpc.CallOption) error {
			runs++
			_ = invoke(opts...)
			r.refuses.Store(true)
			r.server.server.Stop()
			for { // until gRPC has noticed, and found no other connection
				if err := invoke(opts...); r.dials.Load() > 1 && status.Code(err) == codes.Unavailable {
					return err
				}
			}
		}).option())
	assert.Equal(t, codes.Unavailable, status.Code(call(t.Context(), c)))
	assert.Equal(t, 1, runs)
}

func TestAConnectionThatBreaksUnderACallIsNotRetriedWhenItIsNotIdempotent(t *testing.T) {
	conns := make(chan net.Conn, 1)
	s := (&server{unary: func(ctx context.Context, _ int64) error {
		_ = (<-conns).Close()
		<-ctx.Done()
		return ctx.Err()
	}}).serve(t)
	d := dependency(t, steady.DependencyConfig{})
	c := s.client(t, steadygrpc.ClientConfig{Dependency: d}, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := s.listener.DialContext(ctx)
		select {
		case conns <- conn:
		default: // gRPC connects again at once
		}
		return conn, err
	}))
	assert.Equal(t, codes.Unavailable, status.Code(call(t.Context(), c)))
	assert.EqualValues(t, 1, s.calls.Load())
	assert.Equal(t, 1, d.Breaker().Stats().Failures)
}

func TestCallsThatHangOpenTheBreakerWhileTheyHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&server{unary: func(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() }}).serve(t)
		d := dependency(t, steady.DependencyConfig{})
		c := s.client(t, steadygrpc.ClientConfig{Dependency: d, Intent: reads})
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() { assert.Equal(t, codes.Canceled, status.Code(call(ctx, c))) })
		}
		time.Sleep(501 * time.Millisecond)
		assert.Equal(t, steady.StateOpen, d.Breaker().State())
		err := call(t.Context(), c)
		assert.ErrorIs(t, err, steady.ErrBreakerOpen)
		assert.Equal(t, codes.Unavailable, status.Code(err))
		cancel()
		calls.Wait()
		nothingIsLeft(t, d)
	})
}

func TestCallersThatCancelSayNothingOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&server{unary: func(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() }}).serve(t)
		d := dependency(t, steady.DependencyConfig{})
		c := s.client(t, steadygrpc.ClientConfig{Dependency: d, Intent: reads})
		for range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			assert.Equal(t, codes.Canceled, status.Code(call(ctx, c)))
		}
		assert.Zero(t, d.Breaker().Stats().Calls)
		assert.Zero(t, d.Retry().Stats().Retries)
	})
}

func TestACallersDeadlineIsAFailureOfTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&server{unary: func(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() }}).serve(t)
		d := dependency(t, steady.DependencyConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := call(ctx, s.client(t, steadygrpc.ClientConfig{Dependency: d}))
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, steady.ErrTimeout, "the limit was not ours")
		assert.Equal(t, 1, d.Breaker().Stats().Failures)
	})
}

func TestADeadlineOfTheServersOwnIsJustAStatus(t *testing.T) {
	s := (&server{unary: func(context.Context, int64) error { return status.Error(codes.DeadlineExceeded, "its database") }}).serve(t)
	d := dependency(t, steady.DependencyConfig{AttemptTimeout: time.Minute})
	err := call(t.Context(), s.client(t, steadygrpc.ClientConfig{Dependency: d}))
	assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
	assert.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, 1, d.Breaker().Stats().Failures)
}

func TestALimitOfOursMatchesEverythingADeadlineShould(t *testing.T) {
	for name, cfg := range map[string]steady.DependencyConfig{
		"of the attempt, not retried": {AttemptTimeout: time.Second, NoRetry: true},
		"of the attempt, retried":     {AttemptTimeout: time.Second},
		"of the whole":                {Timeout: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := (&server{unary: func(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() }}).serve(t)
				d := dependency(t, cfg)
				err := call(t.Context(), s.client(t, steadygrpc.ClientConfig{Dependency: d, Intent: reads}))
				require.Error(t, err)
				assert.ErrorIs(t, err, steady.ErrTimeout)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				isStatusEverywhere(t, codes.DeadlineExceeded, err)
				var expired *steady.TimeoutError
				require.ErrorAs(t, err, &expired)
				assert.Equal(t, time.Second, expired.Limit)
				assert.Equal(t, codes.DeadlineExceeded, status.Code(expired.Err), "the status is inside")
			})
		})
	}
}

func TestTheOptionsOfTheCallerAreNotWrittenTo(t *testing.T) {
	s := new(server).serve(t)
	c := s.client(t, steadygrpc.ClientConfig{Dependency: dependency(t, steady.DependencyConfig{})},
		// The options as a connection has them: with room behind, and shared by all calls.
		stub(func(invoke func(...grpc.CallOption) error, opts []grpc.CallOption) error { return invoke(opts...) }).option())
	shared := make([]grpc.CallOption, 0, 10)
	interceptor := unaryInterceptor(t, steadygrpc.ClientConfig{Dependency: dependency(t, steady.DependencyConfig{})})
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			assert.NoError(t, call(t.Context(), c))
			assert.NoError(t, interceptor(t.Context(), unaryMethod, nil, nil, nil, func(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
				if len(opts) == 0 {
					return errors.New("no options")
				}
				return nil
			}, shared...))
		})
	}
	calls.Wait()
	assert.Nil(t, shared[:1][0])
}

func TestAPanicInsideGivesEverythingBack(t *testing.T) {
	d := dependency(t, steady.DependencyConfig{})
	interceptor := unaryInterceptor(t, steadygrpc.ClientConfig{Dependency: d})
	assert.PanicsWithValue(t, "boom", func() {
		_ = interceptor(t.Context(), unaryMethod, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			panic("boom")
		})
	})
	nothingIsLeft(t, d)
	assert.Equal(t, 1, d.Breaker().Stats().Failures)
}

// A retrying interceptor around, as others have them: it looks at codes only, or asks about the error too.
func retrying(tries *int, again func(error) bool) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		for {
			*tries++
			err := invoker(ctx, method, req, reply, cc, opts...)
			if !again(err) || *tries == 10 {
				return err
			}
		}
	}
}

func TestARetryAroundIsKeptFromSpinningOnRejections(t *testing.T) {
	byCode := func(err error) bool { return status.Code(err) == codes.Unavailable }
	byError := func(err error) bool { return byCode(err) && !steady.IsRejected(err) }
	s := new(server).serve(t)
	d := dependency(t, steady.DependencyConfig{})
	d.Breaker().ForceOpen("test")
	steadys := unaryInterceptor(t, steadygrpc.ClientConfig{Dependency: d})
	for name, tt := range map[string]struct {
		chain func(tries *int) []grpc.UnaryClientInterceptor
		tries int
	}{
		"outside, by code: it spins": {func(tries *int) []grpc.UnaryClientInterceptor {
			return []grpc.UnaryClientInterceptor{retrying(tries, byCode), steadys}
		}, 10},
		"outside, asking about the error": {func(tries *int) []grpc.UnaryClientInterceptor {
			return []grpc.UnaryClientInterceptor{retrying(tries, byError), steadys}
		}, 1},
		"inside, by code: it sees no rejection": {func(tries *int) []grpc.UnaryClientInterceptor {
			return []grpc.UnaryClientInterceptor{steadys, retrying(tries, byCode)}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var tries int
			c := grpc_testing.NewTestServiceClient(s.dial(t, grpc.WithChainUnaryInterceptor(tt.chain(&tries)...)))
			assert.ErrorIs(t, call(t.Context(), c), steady.ErrBreakerOpen)
			assert.Equal(t, tt.tries, tries)
		})
	}
}

func TestClientConfigIsChecked(t *testing.T) {
	const want = "steadygrpc: ClientConfig.Dependency is required, got nil (make one with steady.NewDependency)"
	_, err := steadygrpc.NewUnaryClientInterceptor(steadygrpc.ClientConfig{})
	assert.EqualError(t, err, want)
	_, err = steadygrpc.NewStreamClientInterceptor(steadygrpc.ClientConfig{})
	assert.EqualError(t, err, want)
}
