package grpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/integration/internal/harness"
	"github.com/steady-go/steady/steadygrpc"
)

// watch opens a long-lived stream and reads its first message.
func (s *scene) watch(ctx context.Context, opts ...grpc.CallOption) (grpc_testing.TestService_StreamingOutputCallClient, error) {
	stream, err := s.client.StreamingOutputCall(ctx, &grpc_testing.StreamingOutputCallRequest{}, opts...)
	if err != nil {
		return nil, err
	}
	_, err = stream.Recv()
	return stream, err
}

// follow reads a stream to its end.
func follow(stream grpc_testing.TestService_StreamingOutputCallClient, messages *atomic.Int64) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		messages.Add(1)
	}
}

func TestStreamsThatAreAbandoned(t *testing.T) {
	s := set(t, steady.DependencyConfig{Breaker: unhurried, Bulkhead: steady.BulkheadConfig{MaxConcurrent: 200}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 200 {
		s.load.Go(func() {
			s.ledger.Start()
			_, err := s.watch(ctx)
			s.ledger.End(err)
			assert.NoError(t, err)
		})
	}
	s.load.Wait()
	assert.Equal(t, 200, s.dep.Bulkhead().Stats().InFlight, "nobody reads them on")
	cancel()
	s.holdsNothing()

	for range 100 { // and these end with the connection
		s.ledger.Start()
		_, err := s.watch(t.Context())
		s.ledger.End(err)
		require.NoError(t, err)
	}
	require.NoError(t, s.conn.Close())
	s.holdsNothing()
	assert.Zero(t, s.dep.Breaker().Stats().Failures)
	assert.Zero(t, s.opened())
	s.end("streams abandoned, by a cancel (200) or with the connection (100)", "failures in the breaker's window: %d", s.dep.Breaker().Stats().Failures)
}

func TestStreamsThatAreHalfClosed(t *testing.T) {
	s := set(t, steady.DependencyConfig{Timeout: soon, Breaker: unhurried, Bulkhead: steady.BulkheadConfig{MaxConcurrent: 50}})
	var halfClosed, goOn sync.WaitGroup
	halfClosed.Add(50)
	goOn.Add(1)
	for i := range 50 {
		s.load.Go(func() {
			s.ledger.Start()
			err := func() error {
				stream, err := s.client.FullDuplexCall(t.Context())
				if err != nil {
					halfClosed.Done()
					return err
				}
				for j := range 3 {
					body := fmt.Appendf(nil, "%d of %d", j, i)
					err = errors.Join(err, stream.Send(&grpc_testing.StreamingOutputCallRequest{Payload: &grpc_testing.Payload{Body: body}}))
				}
				err = errors.Join(err, stream.CloseSend())
				halfClosed.Done()
				goOn.Wait()
				for j := range 3 {
					m, e := stream.Recv()
					err = errors.Join(err, e)
					assert.Equal(t, fmt.Sprintf("%d of %d", j, i), string(m.GetPayload().GetBody()))
				}
				if _, e := stream.Recv(); !errors.Is(e, io.EOF) {
					err = errors.Join(err, fmt.Errorf("after the last message: %w", e))
				}
				return err
			}()
			assert.NoError(t, err)
			s.ledger.End(err)
		})
	}
	halfClosed.Wait()
	assert.Equal(t, 50, s.dep.Bulkhead().Stats().InFlight, "a stream that is half-closed is at work")
	goOn.Done()
	s.load.Wait()
	assert.Zero(t, s.dep.Breaker().Stats().Failures)
	s.end("streams half-closed", "150 messages came back")
}

func TestStreamsThatAreReset(t *testing.T) {
	s := set(t, steady.DependencyConfig{Breaker: unhurried})
	var messages atomic.Int64
	follower := func() error {
		s.ledger.Start()
		stream, err := s.watch(t.Context(), steadygrpc.WithIntent(steady.ReadIdempotent))
		if err == nil {
			err = follow(stream, &messages)
		}
		s.ledger.End(err)
		return err
	}
	for range 20 {
		s.load.Go(func() { assert.Equal(t, codes.Unavailable, status.Code(follower())) })
	}
	s.eventually("all streams deliver", func() bool { return s.server.handlers.Load() == 20 && messages.Load() > 200 })
	begun := s.server.streams.Load()
	s.proxy.Add(harness.Toxic{Type: "reset_peer"})
	s.load.Wait()
	assert.Equal(t, begun, s.server.streams.Load(), "a stream is not retried once a message was delivered")
	assert.Equal(t, 1, s.opened(), "streams that fail later open the breaker")
	s.holdsNothing()

	s.proxy.Heal()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.eventually("probes, which are streams, close it", func() bool {
		s.ledger.Start()
		_, err := s.watch(ctx)
		s.ledger.End(err)
		return s.dep.Breaker().State() == steady.StateClosed
	})
	cancel()
	s.end("streams reset, then opened again", "messages delivered: %d", messages.Load())
}

func TestAServerThatStopsAnsweringBetweenTwoMessages(t *testing.T) {
	for name, still := range map[string]func(*scene){
		"its handler hangs": func(s *scene) { s.server.silent.Store(true) },
		"the network is a black hole": func(s *scene) {
			s.proxy.Add(harness.Toxic{Type: "timeout", Attributes: map[string]any{"timeout": 0}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, steady.DependencyConfig{Timeout: 3 * time.Second, Breaker: unhurried})
			var messages atomic.Int64
			for i := range 20 {
				ctx := t.Context()
				bounded := i%2 == 0 // by the limit of the dependency; the others are long-lived, and bounded by their callers
				if s.bounded.Store(bounded); !bounded {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 3*time.Second)
					defer cancel()
				}
				s.ledger.Start()
				stream, err := s.watch(ctx)
				require.NoError(t, err)
				s.load.Go(func() {
					err := follow(stream, &messages)
					s.ledger.End(err)
					assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				})
			}
			still(s)
			s.load.Wait()
			s.breakerIs(steady.StateHalfOpen) // once its period has elapsed
			assert.Equal(t, 10, s.dep.Breaker().Stats().Failures, "only a limit of ours is a failure of the server's")
			assert.Equal(t, 1, s.opened())
			s.proxy.Heal()
			s.end("a server that stops between two messages: "+name, "failures in the breaker's window: 10; messages before: %d", messages.Load())
		})
	}
}

func TestStreamsLiveOnWhileTheBreakerIsOpen(t *testing.T) {
	s := set(t, steady.DependencyConfig{Timeout: time.Second, Bulkhead: steady.BulkheadConfig{MaxConcurrent: 30}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var messages atomic.Int64
	var streams sync.WaitGroup
	for range 10 {
		s.ledger.Start()
		stream, err := s.watch(ctx)
		require.NoError(t, err)
		streams.Go(func() {
			err := follow(stream, &messages)
			assert.Equal(t, codes.Canceled, status.Code(err), "their callers have ended them, and nothing else")
			s.ledger.End(nil)
		})
	}
	s.under(20, func() { _, _ = s.call(t.Context()) })
	for range 2 {
		answered := s.ledger.Answered.Load()
		s.eventually("calls are answered", func() bool { return s.ledger.Answered.Load() > answered+100 })
		s.server.delay.Store(int64(2 * time.Second))
		s.breakerIs(steady.StateOpen)
		before := messages.Load()
		s.eventually("streams deliver meanwhile", func() bool { return messages.Load() > before+100 })
		s.server.delay.Store(0)
		s.breakerIs(steady.StateClosed)
	}
	s.rest()
	assert.Equal(t, 10, s.dep.Bulkhead().Stats().InFlight, "what is left is the streams")
	cancel()
	streams.Wait()
	assert.EqualValues(t, 10, s.server.streams.Load())
	s.end("10 streams live on while calls turn slow, twice", "messages delivered: %d", messages.Load())
}
