package grpc_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/integration/internal/harness"
	"github.com/steady-go/steady/steadygrpc"
)

// books are what callers of writes know: which were acknowledged.
type books struct {
	mu    sync.Mutex
	acked []string
}

func (b *books) note(id string, err error) {
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.acked = append(b.acked, id)
	}
}

// check compares the books with the server's.
func (b *books) check(t testing.TB, s *server) {
	t.Helper()
	for _, id := range b.acked {
		assert.Positive(t, s.times(id), "%s was acknowledged, and never executed", id)
	}
}

func TestAServerThatTurnsSlow(t *testing.T) {
	s := set(t, steady.DependencyConfig{})
	s.server.delay.Store(int64(5 * time.Millisecond))
	var slowAnswers atomic.Int64
	s.onOpen = func() { slowAnswers.Store(s.server.slow.Load()) }
	s.under(20, func() { _, _ = s.call(t.Context()) })
	s.eventually("calls are answered", func() bool { return s.ledger.Answered.Load() > 100 })

	s.server.delay.Store(int64(2 * time.Second))
	s.breakerIs(steady.StateOpen)
	slowThen := slowAnswers.Load()
	assert.Zero(t, slowThen, "it opens before any slow call has been answered")
	s.eventually("calls are rejected", func() bool { return s.ledger.Rejected.Load() > 100 })

	s.server.delay.Store(int64(5 * time.Millisecond))
	s.breakerIs(steady.StateClosed)
	s.rest()
	s.end("a server turns slow, 5 ms → 2 s", "slow answers when the breaker opened: %d", slowThen)
}

func TestAServerThatIsKilledUnderLoad(t *testing.T) {
	s := set(t, steady.DependencyConfig{})
	var b books
	s.under(10, func() { b.note(s.call(t.Context())) })
	for range 2 {
		answered := s.ledger.Answered.Load()
		s.eventually("calls are answered", func() bool { return s.ledger.Answered.Load() > answered+100 })
		opened := s.opened()
		s.server.kill()
		s.eventually("the breaker opens", func() bool { return s.opened() > opened })
		s.server.start()
		s.breakerIs(steady.StateClosed)
	}
	s.rest()
	b.check(t, s.server)
	assert.Equal(t, 1, s.server.most(), "a call that is not idempotent was executed twice")
	s.end("killed and restarted under load, writes that must not be repeated",
		"retries of what was never sent: %d; executed at most %d times", s.dep.Retry().Stats().Retries, s.server.most())
}

func TestAServerThatIsRestartedGracefully(t *testing.T) {
	s := set(t, steady.DependencyConfig{})
	s.server.delay.Store(int64(5 * time.Millisecond))
	var b books
	s.under(10, func() { b.note(s.call(t.Context())) })
	for range 3 {
		answered := s.ledger.Answered.Load()
		s.eventually("calls are answered", func() bool { return s.ledger.Answered.Load() > answered+100 })
		s.server.retire()
		s.server.start()
	}
	answered := s.ledger.Answered.Load()
	s.eventually("calls are answered", func() bool { return s.ledger.Answered.Load() > answered+100 })
	s.rest()
	b.check(t, s.server)
	assert.Equal(t, 1, s.server.most(), "a call that is not idempotent was executed twice")
	s.end("restarted gracefully under load, writes that must not be repeated",
		"retries of what was never sent: %d; executed at most %d times", s.dep.Retry().Stats().Retries, s.server.most())
}

func TestConnectionsResetUnderLoad(t *testing.T) {
	for name, intent := range map[string]steady.Intent{
		"writes that must not be repeated": steady.WriteNonIdempotent,
		"writes that may be repeated":      steady.WriteIdempotent,
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, steady.DependencyConfig{})
			s.server.delay.Store(int64(20 * time.Millisecond)) // so that a reset finds calls in flight
			var b books
			s.under(10, func() { b.note(s.call(t.Context(), steadygrpc.WithIntent(intent))) })
			for range 5 {
				answered := s.ledger.Answered.Load()
				s.eventually("calls are answered", func() bool { return s.ledger.Answered.Load() > answered+50 })
				failed := s.dep.Breaker().Stats().Failures
				s.proxy.Add(harness.Toxic{Type: "reset_peer"})
				s.eventually("calls have failed", func() bool { return s.dep.Breaker().Stats().Failures != failed })
				s.proxy.Heal()
			}
			s.breakerIs(steady.StateClosed)
			s.rest()
			b.check(t, s.server)
			if intent == steady.WriteNonIdempotent {
				assert.Equal(t, 1, s.server.most(), "a call was executed twice")
			}
			s.end("connections reset, "+name, "retries: %d; executed at most %d times", s.dep.Retry().Stats().Retries, s.server.most())
		})
	}
}

func TestAServerInABlackHole(t *testing.T) {
	s := set(t, steady.DependencyConfig{AttemptTimeout: 500 * time.Millisecond, Timeout: time.Second})
	var timedOut atomic.Int64
	s.under(10, func() {
		_, err := s.call(t.Context())
		if status.Code(err) != codes.DeadlineExceeded {
			return
		}
		timedOut.Add(1)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, steady.ErrTimeout)
	})
	s.eventually("calls are answered", func() bool { return s.ledger.Answered.Load() > 100 })
	s.proxy.Add(harness.Toxic{Type: "timeout", Attributes: map[string]any{"timeout": 0}})
	s.breakerIs(steady.StateOpen)
	s.eventually("limits have ended calls", func() bool { return s.dep.AttemptTimeout().Stats().Expired >= 10 })
	s.proxy.Heal()
	s.proxy.Stop() // nobody will ever answer on the old connections
	s.proxy.Start()
	s.breakerIs(steady.StateClosed)
	s.rest()
	assert.GreaterOrEqual(t, timedOut.Load(), int64(10))
	s.end("blackholed", "calls that a limit of ours ended: %d", timedOut.Load())
}

func TestCallersThatCancelByTheHundred(t *testing.T) {
	s := set(t, steady.DependencyConfig{Breaker: unhurried, Bulkhead: steady.BulkheadConfig{MaxConcurrent: 300}})
	for range 50 {
		_, err := s.call(t.Context())
		require.NoError(t, err)
	}
	s.server.delay.Store(int64(soon))
	for range 300 {
		s.load.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(rand.N(100*time.Millisecond), cancel)
			_, err := s.call(ctx, steadygrpc.WithIntent(steady.ReadIdempotent))
			assert.Equal(t, codes.Canceled, status.Code(err))
		})
	}
	s.load.Wait()
	stats := s.dep.Breaker().Stats()
	assert.Equal(t, steady.StateClosed, stats.State)
	assert.Zero(t, stats.Failures)
	assert.Zero(t, s.dep.Retry().Stats().Retries)
	s.end("callers that cancel by the hundred", "failures in the breaker's window: %d", stats.Failures)
}

func TestAServerThatIsFullSaysSo(t *testing.T) {
	const slots = 4
	bulkhead, err := steady.NewBulkhead(steady.BulkheadConfig{Name: "handlers", MaxConcurrent: slots})
	require.NoError(t, err)
	unary, err := steadygrpc.NewUnaryServerInterceptor(steadygrpc.ServerConfig{Bulkhead: bulkhead, RetryAfter: 20 * time.Millisecond})
	require.NoError(t, err)
	s := set(t, steady.DependencyConfig{
		Breaker:  unhurried,
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 40},
		Retry:    steady.RetryConfig{MaxAttempts: 100, NoBudget: true, ThrottledDelay: 20 * time.Millisecond},
	}, grpc.ChainUnaryInterceptor(unary))
	s.server.delay.Store(int64(5 * time.Millisecond))
	for range 40 {
		s.load.Go(func() {
			for range 3 {
				_, _ = s.call(t.Context())
			}
		})
	}
	s.load.Wait()
	assert.Positive(t, s.ledger.Answered.Load())
	assert.Positive(t, bulkhead.Stats().Rejected)
	assert.LessOrEqual(t, s.server.busiest.Load(), int64(slots))
	assert.Equal(t, 1, s.server.most(), "what was rejected was not executed")
	assert.Zero(t, s.dep.Breaker().Stats().Failures, "a full server is no failing one")
	assert.Zero(t, bulkhead.Stats().InFlight)
	s.end("a server with 4 slots and 40 callers", "rejected by the server and tried again: %d; handlers at once: %d",
		bulkhead.Stats().Rejected, s.server.busiest.Load())
}
