package steadygrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadygrpc"
)

// fakeStream ends as a test wants it to, and says nothing to gRPC's own callbacks.
type fakeStream struct {
	grpc.ClientStream
	md                   metadata.MD
	recv, send, header   error
	closed               bool
	attempt              context.Context
	fullMethod           string
	duringOpen, closeErr error
}

func (f *fakeStream) RecvMsg(any) error            { return f.recv }
func (f *fakeStream) SendMsg(any) error            { return f.send }
func (f *fakeStream) Header() (metadata.MD, error) { return f.md, f.header }
func (f *fakeStream) CloseSend() error             { f.closed = true; return f.closeErr }

// open opens a fake stream through the interceptor.
func (f *fakeStream) open(t testing.TB, ctx context.Context, cfg steadygrpc.ClientConfig, desc *grpc.StreamDesc) (grpc.ClientStream, error) {
	t.Helper()
	return streamInterceptor(t, cfg)(ctx, desc, nil, duplexMethod, func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
		f.attempt, f.fullMethod = ctx, method
		if f.duringOpen != nil {
			return nil, f.duringOpen
		}
		return f, nil
	})
}

var (
	duplex   = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	download = &grpc.StreamDesc{ServerStreams: true}
	upload   = &grpc.StreamDesc{ClientStreams: true}
)

// The ways are those of grpc.ClientConn.NewStream. That others forgot some of them is told in
// open-telemetry/opentelemetry-go-contrib#501 (a stream that is not opened), #818 (io.EOF without CloseSend), #839
// (the caller's context) and grpc/grpc-go#5324 (a stream must not be asked for its context).
func TestAStreamHasFinishedOnTheFirstOf(t *testing.T) {
	recv := func(s grpc.ClientStream) error { return s.RecvMsg(nil) }
	send := func(s grpc.ClientStream) error { return s.SendMsg(nil) }
	header := func(s grpc.ClientStream) error { _, err := s.Header(); return err }
	half := func(s grpc.ClientStream) error { return s.CloseSend() }
	boom := status.Error(codes.Internal, "boom")
	for name, tt := range map[string]struct {
		desc     *grpc.StreamDesc
		fake     fakeStream
		do       func(grpc.ClientStream) error
		finished bool
		failures int
	}{
		"a message":                             {desc: duplex, do: recv},
		"a message of a download":               {desc: download, do: recv},
		"the message of an upload":              {desc: upload, do: recv, finished: true},
		"an error in place of it":               {desc: upload, do: recv, fake: fakeStream{recv: boom}, finished: true, failures: 1},
		"io.EOF, which is success":              {desc: duplex, do: recv, fake: fakeStream{recv: io.EOF}, finished: true},
		"a failure":                             {desc: duplex, do: recv, fake: fakeStream{recv: boom}, finished: true, failures: 1},
		"an answer that ends it":                {desc: download, do: recv, fake: fakeStream{recv: status.Error(codes.NotFound, "")}, finished: true},
		"throttling":                            {desc: download, do: recv, fake: fakeStream{recv: status.Error(codes.ResourceExhausted, "")}, finished: true},
		"a message sent":                        {desc: duplex, do: send},
		"a message sent too late":               {desc: duplex, do: send, fake: fakeStream{send: io.EOF}},
		"a message that cannot be sent":         {desc: duplex, do: send, fake: fakeStream{send: boom}, finished: true, failures: 1},
		"headers":                               {desc: duplex, do: header, fake: fakeStream{md: metadata.MD{}}},
		"headers that do not come":              {desc: duplex, do: header, fake: fakeStream{header: boom}, finished: true, failures: 1},
		"no headers, and the status to be read": {desc: duplex, do: header, fake: fakeStream{header: io.EOF}},
		"half-closing":                          {desc: duplex, do: half},
	} {
		t.Run(name, func(t *testing.T) {
			d := dependency(t, steady.DependencyConfig{NoTimeout: true})
			fake := tt.fake
			s, err := fake.open(t, t.Context(), steadygrpc.ClientConfig{Dependency: d}, tt.desc)
			require.NoError(t, err)
			assert.Equal(t, 1, d.Breaker().Stats().Calls, "the verdict falls at the opening")
			require.NoError(t, fake.attempt.Err(), "its context outlives the interceptor")
			err = tt.do(s)
			for _, want := range []error{tt.fake.recv, tt.fake.send, tt.fake.header} {
				if want != nil {
					assert.Same(t, want, err, "what ends a stream comes back untouched")
				}
			}
			if !tt.finished {
				assert.Equal(t, 1, d.Bulkhead().Stats().InFlight)
				require.NoError(t, fake.attempt.Err())
				fake.recv = io.EOF
				require.Equal(t, io.EOF, s.RecvMsg(nil))
			}
			nothingIsLeft(t, d)
			require.ErrorIs(t, fake.attempt.Err(), context.Canceled, "its context is released")
			assert.Equal(t, 1, d.Breaker().Stats().Calls)
			assert.Equal(t, tt.failures, d.Breaker().Stats().Failures)
		})
	}
}

func TestAStreamFinishesOnce(t *testing.T) {
	d := dependency(t, steady.DependencyConfig{NoTimeout: true})
	cfg := steadygrpc.ClientConfig{Dependency: d}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := &fakeStream{recv: io.EOF}
	s, err := first.open(t, ctx, cfg, duplex)
	require.NoError(t, err)
	require.Equal(t, io.EOF, s.RecvMsg(nil))
	_, err = new(fakeStream).open(t, ctx, cfg, duplex)
	require.NoError(t, err)

	first.recv, first.send, first.header = errUnavailable, errUnavailable, errUnavailable
	require.Error(t, s.RecvMsg(nil))
	require.Error(t, s.SendMsg(nil))
	_, err = s.Header()
	require.Error(t, err)
	assert.Equal(t, 1, d.Bulkhead().Stats().InFlight, "the slot of the other stream is still its own")
	assert.Zero(t, d.Breaker().Stats().Failures, "a stream that has ended well does not fail any more")
}

func TestAStreamThatIsNotOpenedHoldsNothing(t *testing.T) {
	d := dependency(t, steady.DependencyConfig{NoTimeout: true})
	fake := &fakeStream{duringOpen: status.Error(codes.Unavailable, "no connection")}
	s, err := fake.open(t, t.Context(), steadygrpc.ClientConfig{Dependency: d}, duplex)
	assert.Nil(t, s)
	assert.Same(t, fake.duringOpen, err)
	assert.Equal(t, 1, d.Breaker().Stats().Failures)
	assert.ErrorIs(t, fake.attempt.Err(), context.Canceled)
	nothingIsLeft(t, d)
}

func TestAStreamThatPanicsAtItsOpeningHoldsNothing(t *testing.T) {
	d := dependency(t, steady.DependencyConfig{NoTimeout: true})
	var attempt context.Context
	assert.PanicsWithValue(t, "boom", func() {
		_, _ = streamInterceptor(t, steadygrpc.ClientConfig{Dependency: d})(t.Context(), duplex, nil, duplexMethod,
			func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
				attempt = ctx
				panic("boom")
			})
	})
	require.ErrorIs(t, attempt.Err(), context.Canceled)
	nothingIsLeft(t, d)
}

func TestAStreamThatAHookKeepsFromItsCallerIsEnded(t *testing.T) {
	d := dependency(t, steady.DependencyConfig{NoTimeout: true, Hooks: &steady.Hooks{
		OnAttempt: func(context.Context, steady.Attempt) { panic("boom") },
	}})
	fake := new(fakeStream)
	assert.PanicsWithValue(t, "boom", func() { _, _ = fake.open(t, t.Context(), steadygrpc.ClientConfig{Dependency: d}, duplex) })
	require.ErrorIs(t, fake.attempt.Err(), context.Canceled)
	nothingIsLeft(t, d)
}

// leave opens a stream and leaves it alone.
func leave(t testing.TB, d *steady.Dependency) {
	t.Helper()
	_, err := new(fakeStream).open(t, t.Context(), steadygrpc.ClientConfig{Dependency: d}, duplex)
	require.NoError(t, err)
}

func TestALimitOfOursFinishesAStreamThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dependency(t, steady.DependencyConfig{Timeout: time.Second})
		leave(t, d)
		time.Sleep(time.Second)
		synctest.Wait()
		nothingIsLeft(t, d)
		assert.Equal(t, 1, d.Breaker().Stats().Failures)
	})
}

// stay is a handler that sends n messages and then stays until the client has gone.
func stay(n int) func(grpc_testing.TestService_FullDuplexCallServer) error {
	return func(stream grpc_testing.TestService_FullDuplexCallServer) error {
		for range n {
			if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
				return err
			}
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	}
}

func TestTheCallersCancelFinishesAStreamAndSaysNothingOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&server{duplex: stay(1)}).serve(t)
		d := dependency(t, steady.DependencyConfig{NoTimeout: true})
		c := s.client(t, steadygrpc.ClientConfig{Dependency: d})
		ctx, cancel := context.WithCancel(t.Context())
		for range 50 {
			stream, err := c.FullDuplexCall(ctx)
			require.NoError(t, err)
			_, err = stream.Recv()
			require.NoError(t, err)
		}
		assert.Equal(t, 50, d.Bulkhead().Stats().InFlight)
		cancel()
		synctest.Wait()
		nothingIsLeft(t, d)
		assert.Zero(t, d.Breaker().Stats().Failures)
		assert.Equal(t, steady.StateClosed, d.Breaker().State())
	})
}

func TestManyStreamsThatEndInEveryWayAtOnceLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&server{duplex: func(stream grpc_testing.TestService_FullDuplexCallServer) error {
			if _, err := stream.Recv(); err != nil {
				return err
			}
			return status.Error(codes.Unavailable, "")
		}}).serve(t)
		d := dependency(t, steady.DependencyConfig{Breaker: steady.BreakerConfig{WindowSize: 1000, MinCalls: 1000}})
		c := s.client(t, steadygrpc.ClientConfig{Dependency: d})
		var streams sync.WaitGroup
		for range 100 {
			streams.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				stream, err := c.FullDuplexCall(ctx)
				if !assert.NoError(t, err) {
					cancel()
					return
				}
				var users sync.WaitGroup
				users.Go(cancel)
				users.Go(func() { _ = stream.Send(&grpc_testing.StreamingOutputCallRequest{}) })
				users.Go(func() { _, _ = stream.Header() })
				users.Go(func() { _, _ = stream.Recv() })
				users.Wait()
			})
		}
		streams.Wait()
		synctest.Wait()
		nothingIsLeft(t, d)
	})
}

func TestCloseOfTheConnectionFinishesAStreamThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&server{duplex: stay(0)}).serve(t)
		d := dependency(t, steady.DependencyConfig{NoTimeout: true})
		conn := s.dial(t, grpc.WithChainStreamInterceptor(streamInterceptor(t, steadygrpc.ClientConfig{Dependency: d})))
		_, err := grpc_testing.NewTestServiceClient(conn).FullDuplexCall(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, d.Bulkhead().Stats().InFlight)
		require.NoError(t, conn.Close())
		synctest.Wait()
		nothingIsLeft(t, d)
		assert.Zero(t, d.Breaker().Stats().Failures)
	})
}

// gRPC may end a stream on a goroutine of its own, before the interceptor has anything to release.
func TestCloseOfTheConnectionWhileAStreamIsOpenedFinishesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dependency(t, steady.DependencyConfig{NoTimeout: true})
		conn := new(server).serve(t).dial(t)
		require.NoError(t, conn.Close())
		fake := &fakeStream{recv: errUnavailable}
		s, err := streamInterceptor(t, steadygrpc.ClientConfig{Dependency: d})(t.Context(), duplex, conn, duplexMethod,
			func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				fake.attempt = ctx
				for _, opt := range opts {
					if o, ok := opt.(grpc.OnFinishCallOption); ok {
						o.OnFinish(status.Error(codes.Canceled, "closing"))
					}
				}
				return fake, nil
			})
		require.NoError(t, err)
		synctest.Wait()
		nothingIsLeft(t, d)
		require.ErrorIs(t, fake.attempt.Err(), context.Canceled)
		assert.Same(t, errUnavailable, s.RecvMsg(nil), "its status can still be read")
		assert.Zero(t, d.Breaker().Stats().Failures)
	})
}

func TestAStreamThatEndsInPlaceOfItsHeadersHasFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&server{duplex: func(grpc_testing.TestService_FullDuplexCallServer) error { return errUnavailable }}).serve(t)
		d := dependency(t, steady.DependencyConfig{NoTimeout: true})
		stream, err := s.client(t, steadygrpc.ClientConfig{Dependency: d}).FullDuplexCall(t.Context())
		require.NoError(t, err)
		md, err := stream.Header()
		require.NoError(t, err)
		assert.Nil(t, md, "gRPC leaves the status to RecvMsg, which nobody calls")
		nothingIsLeft(t, d)
		assert.Equal(t, 1, d.Breaker().Stats().Failures)
	})
}

func TestStreamsOfHoursAreNeitherSlowNorInTheWayOfProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&server{duplex: stay(1)}).serve(t)
		d := dependency(t, steady.DependencyConfig{Breaker: steady.BreakerConfig{HalfOpenProbes: 2}, NoRetry: true})
		r := &refusing{server: s}
		r.refuses.Store(true)
		c := s.client(t, steadygrpc.ClientConfig{Dependency: d, LongLived: func(method string) bool { return method == duplexMethod }}, r.option())
		ctx, cancel := context.WithCancel(t.Context())
		open := func() (grpc_testing.TestService_FullDuplexCallClient, error) { return c.FullDuplexCall(ctx) }
		for range 10 {
			_, err := open()
			require.Equal(t, codes.Unavailable, status.Code(err))
		}
		require.Equal(t, steady.StateOpen, d.Breaker().State())
		_, err := open()
		require.ErrorIs(t, err, steady.ErrBreakerOpen)

		r.refuses.Store(false)
		time.Sleep(5 * time.Minute) // gRPC waits before it connects again
		for range 2 {
			stream, err := open()
			require.NoError(t, err)
			_, err = stream.Recv()
			require.NoError(t, err)
		}
		assert.Equal(t, steady.StateClosed, d.Breaker().State(), "a probe has succeeded when its stream is open")
		for range 20 {
			_, err := open()
			require.NoError(t, err)
		}
		time.Sleep(5 * time.Hour)
		assert.Equal(t, 22, d.Bulkhead().Stats().InFlight)
		stats := d.Breaker().Stats()
		assert.Equal(t, steady.StateClosed, stats.State)
		assert.Zero(t, stats.Slow)
		assert.Zero(t, stats.InFlight)
		cancel()
		synctest.Wait()
		nothingIsLeft(t, d)
	})
}

func TestAProbeThatFailsLaterOpensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := make(chan struct{})
		s := (&server{
			unary: func(context.Context, int64) error { return errUnavailable },
			duplex: func(grpc_testing.TestService_FullDuplexCallServer) error {
				<-fail
				return errUnavailable
			},
		}).serve(t)
		d := dependency(t, steady.DependencyConfig{Breaker: steady.BreakerConfig{HalfOpenProbes: 2}, NoTimeout: true})
		c := s.client(t, steadygrpc.ClientConfig{Dependency: d})
		for range 10 {
			require.Error(t, call(t.Context(), c))
		}
		time.Sleep(time.Minute)
		stream, err := c.FullDuplexCall(t.Context())
		require.NoError(t, err)
		require.Equal(t, steady.StateHalfOpen, d.Breaker().State())
		close(fail)
		_, err = stream.Recv()
		require.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, steady.StateOpen, d.Breaker().State())
	})
}

func TestStreamsThatFailLaterOpenTheBreaker(t *testing.T) {
	s := (&server{duplex: func(stream grpc_testing.TestService_FullDuplexCallServer) error {
		_ = stream.Send(&grpc_testing.StreamingOutputCallResponse{})
		return errUnavailable
	}}).serve(t)
	d := dependency(t, steady.DependencyConfig{})
	c := s.client(t, steadygrpc.ClientConfig{Dependency: d, Intent: reads})
	for range 10 {
		stream, err := c.FullDuplexCall(t.Context())
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, codes.Unavailable, status.Code(err))
	}
	assert.EqualValues(t, 10, s.calls.Load(), "a stream is not retried once a message was delivered, though it reads")
	assert.Equal(t, steady.StateOpen, d.Breaker().State())
	nothingIsLeft(t, d)
}

func TestAStreamThatNeverHadAConnectionIsOpenedAgainUnderEveryIntent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusing{server: (&server{duplex: stay(1)}).serve(t)}
		r.refuses.Store(true)
		d := dependency(t, steady.DependencyConfig{Retry: steady.RetryConfig{BaseDelay: 2 * time.Second, Jitter: steady.NoJitter}})
		c := r.client(t, steadygrpc.ClientConfig{Dependency: d}, r.option())
		time.AfterFunc(100*time.Millisecond, func() { r.refuses.Store(false) }) // gRPC connects again after about a second
		stream, err := c.FullDuplexCall(t.Context())
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		assert.EqualValues(t, 1, r.calls.Load())
		assert.EqualValues(t, 1, d.Retry().Stats().Retries)
	})
}

func TestAServerThatStopsBetweenTwoMessagesIsCutOffAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&server{duplex: stay(1)}).serve(t)
		d := dependency(t, steady.DependencyConfig{AttemptTimeout: time.Second})
		stream, err := s.client(t, steadygrpc.ClientConfig{Dependency: d}).FullDuplexCall(t.Context())
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		began := time.Now()
		_, err = stream.Recv()
		assert.Equal(t, time.Second, time.Since(began))
		isStatusEverywhere(t, codes.DeadlineExceeded, err)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		nothingIsLeft(t, d)
		assert.Equal(t, 1, d.Breaker().Stats().Failures)
	})
}

func TestALongLivedStreamEndsWithItsCallersDeadlineAndThatIsNoFailure(t *testing.T) {
	for name, tt := range map[string]struct {
		longLived bool
		failures  int
	}{
		"long-lived":     {longLived: true},
		"not said to be": {failures: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := (&server{duplex: stay(1)}).serve(t)
				d := dependency(t, steady.DependencyConfig{Timeout: 3 * time.Hour})
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				c := s.client(t, steadygrpc.ClientConfig{Dependency: d, LongLived: func(string) bool { return tt.longLived }})
				stream, err := c.FullDuplexCall(ctx)
				require.NoError(t, err)
				_, err = stream.Recv()
				require.NoError(t, err)
				_, err = stream.Recv()
				assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
				synctest.Wait()
				nothingIsLeft(t, d)
				assert.Equal(t, tt.failures, d.Breaker().Stats().Failures)
			})
		})
	}
}

func TestALongLivedStreamOutlivesTheLimitsAndCountsWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := make(chan struct{})
		s := (&server{duplex: func(grpc_testing.TestService_FullDuplexCallServer) error {
			<-fail
			return errUnavailable
		}}).serve(t)
		d := dependency(t, steady.DependencyConfig{Timeout: time.Minute, AttemptTimeout: time.Second})
		c := s.client(t, steadygrpc.ClientConfig{Dependency: d, LongLived: func(string) bool { return true }})
		stream, err := c.FullDuplexCall(t.Context())
		require.NoError(t, err)
		time.AfterFunc(time.Hour, func() { close(fail) })
		_, err = stream.Recv()
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, 1, d.Breaker().Stats().Failures)
	})
}

func TestALongLivedStreamsEndIsNoFailureWhateverTheDependencySaysOfDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&server{duplex: stay(0)}).serve(t)
		d := dependency(t, steady.DependencyConfig{Classify: func(err error) steady.Outcome {
			if status.Code(err) == codes.DeadlineExceeded {
				return steady.Permanent
			}
			return 0
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		stream, err := s.client(t, steadygrpc.ClientConfig{Dependency: d, LongLived: func(string) bool { return true }}).FullDuplexCall(ctx)
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		synctest.Wait()
		nothingIsLeft(t, d)
		assert.Zero(t, d.Breaker().Stats().Failures)
	})
}

func TestADependencyWithNothingButALimitLeavesALongLivedStreamAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := steady.NewDependency(steady.DependencyConfig{Name: "server", Timeout: time.Second, NoRetry: true, NoBreaker: true, NoBulkhead: true})
		require.NoError(t, err)
		s := (&server{duplex: stay(1)}).serve(t)
		stream, err := s.client(t, steadygrpc.ClientConfig{Dependency: d, LongLived: func(string) bool { return true }}).FullDuplexCall(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Hour)
		_, err = stream.Recv()
		assert.NoError(t, err)
	})
}

func TestAnInterceptorInsideMayOpenSeveralStreamsAndCancelAllButOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&server{duplex: stay(2)}).serve(t)
		d := dependency(t, steady.DependencyConfig{NoTimeout: true})
		c := s.client(t, steadygrpc.ClientConfig{Dependency: d}, grpc.WithChainStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				loser, cancel := context.WithCancel(ctx)
				defer cancel()
				if _, err := streamer(loser, desc, cc, method, opts...); err != nil {
					return nil, err
				}
				return streamer(ctx, desc, cc, method, opts...)
			}))
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := c.FullDuplexCall(ctx)
		require.NoError(t, err)
		synctest.Wait()
		for range 2 {
			_, err = stream.Recv()
			require.NoError(t, err)
			assert.Equal(t, 1, d.Bulkhead().Stats().InFlight, "the loser's end is not that of the call")
		}
		cancel()
		synctest.Wait()
		nothingIsLeft(t, d)
	})
}

func TestAnInterceptorInsideMayReadAStreamAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		s.duplex = func(stream grpc_testing.TestService_FullDuplexCallServer) error {
			if s.calls.Load() == 1 {
				return errUnavailable
			}
			return stay(1)(stream)
		}
		s.serve(t)
		d := dependency(t, steady.DependencyConfig{NoTimeout: true})
		c := s.client(t, steadygrpc.ClientConfig{Dependency: d}, grpc.WithChainStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				first, err := streamer(ctx, desc, cc, method, opts...)
				return &rereading{first, func() (grpc.ClientStream, error) { return streamer(ctx, desc, cc, method, opts...) }}, err
			}))
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := c.FullDuplexCall(ctx)
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err, "the first stream's end is not that of the call")
		assert.Equal(t, 1, d.Bulkhead().Stats().InFlight)
		cancel()
		synctest.Wait()
		nothingIsLeft(t, d)
	})
}

// rereading is a stream that is opened again when it fails.
type rereading struct {
	grpc.ClientStream
	again func() (grpc.ClientStream, error)
}

func (r *rereading) RecvMsg(m any) (err error) {
	if r.ClientStream.RecvMsg(m) == nil {
		return nil
	}
	if r.ClientStream, err = r.again(); err != nil {
		return err
	}
	return r.ClientStream.RecvMsg(m)
}

func TestDownloadsAndUploadsOfGeneratedCodeHoldTheirSlotToTheEnd(t *testing.T) {
	s := (&server{
		download: func(stream grpc_testing.TestService_StreamingOutputCallServer) error {
			for range 3 {
				if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
					return err
				}
			}
			return nil
		},
		upload: func(stream grpc_testing.TestService_StreamingInputCallServer) error {
			for {
				if _, err := stream.Recv(); errors.Is(err, io.EOF) {
					return stream.SendAndClose(&grpc_testing.StreamingInputCallResponse{AggregatedPayloadSize: 3})
				} else if err != nil {
					return err
				}
			}
		},
	}).serve(t)
	d := dependency(t, steady.DependencyConfig{})
	c := s.client(t, steadygrpc.ClientConfig{Dependency: d})

	down, err := c.StreamingOutputCall(t.Context(), &grpc_testing.StreamingOutputCallRequest{})
	require.NoError(t, err)
	for range 3 {
		_, err = down.Recv()
		require.NoError(t, err)
		assert.Equal(t, 1, d.Bulkhead().Stats().InFlight)
	}
	_, err = down.Recv()
	assert.Equal(t, io.EOF, err)
	nothingIsLeft(t, d)

	up, err := c.StreamingInputCall(t.Context())
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, up.Send(&grpc_testing.StreamingInputCallRequest{}))
	}
	assert.Equal(t, 1, d.Bulkhead().Stats().InFlight)
	sum, err := up.CloseAndRecv()
	require.NoError(t, err)
	assert.EqualValues(t, 3, sum.GetAggregatedPayloadSize())
	nothingIsLeft(t, d)
	assert.Equal(t, 2, d.Breaker().Stats().Calls)
	assert.Zero(t, d.Breaker().Stats().Failures)
}

func TestAFullBulkheadRejectsAStream(t *testing.T) {
	d := dependency(t, steady.DependencyConfig{Breaker: steady.BreakerConfig{HalfOpenProbes: 1}, Bulkhead: steady.BulkheadConfig{MaxConcurrent: 1}})
	leave(t, d)
	s, err := new(fakeStream).open(t, t.Context(), steadygrpc.ClientConfig{Dependency: d}, duplex)
	assert.Nil(t, s)
	isStatusEverywhere(t, codes.ResourceExhausted, err)
	assert.ErrorIs(t, err, steady.ErrBulkheadFull)
}

func TestAConnectionThatBreaksUnderStreamsFailsThemAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan net.Conn, 10)
		s := (&server{duplex: stay(1)}).serve(t)
		d := dependency(t, steady.DependencyConfig{NoTimeout: true})
		c := s.client(t, steadygrpc.ClientConfig{Dependency: d}, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := s.listener.DialContext(ctx)
			conns <- conn
			return conn, err
		}))
		var streams []grpc_testing.TestService_FullDuplexCallClient
		for range 10 {
			stream, err := c.FullDuplexCall(t.Context())
			require.NoError(t, err)
			_, err = stream.Recv()
			require.NoError(t, err)
			streams = append(streams, stream)
		}
		require.NoError(t, (<-conns).Close())
		for _, stream := range streams {
			_, err := stream.Recv()
			assert.Equal(t, codes.Unavailable, status.Code(err))
		}
		nothingIsLeft(t, d)
		assert.Equal(t, steady.StateOpen, d.Breaker().State())
	})
}
