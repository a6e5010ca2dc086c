package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

func TestADatabaseThatTurnsSlowOpensTheBreakerWhileItsQueriesHang(t *testing.T) {
	require.NoError(t, server.exec(
		"CREATE TABLE pace (seconds float)", "INSERT INTO pace VALUES (0.08)",
		// VOLATILE, so that each call looks anew
		"CREATE FUNCTION work() RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep((SELECT seconds FROM pace)); RETURN 'done'; END $$",
	))
	s := newScenario(t, "slow")
	var opened atomic.Int64 // answers of slow queries when the first breaker opened, plus one
	var slow, slowAnswers atomic.Int64
	clients := s.clients(steady.DependencyConfig{
		Timeout: 10 * time.Second,
		Hooks: &steady.Hooks{OnTransition: func(tr steady.Transition) {
			if tr.To == steady.StateOpen && tr.Reason == steady.ReasonSlowRate {
				opened.CompareAndSwap(0, slowAnswers.Load()+1)
			}
		}},
	})
	loads := s.loads(len(clients))
	for i, c := range clients {
		loads[i].start(8, 40*time.Millisecond, func(int, int) error {
			began := slow.Load()
			err := c.read(context.Background(), "SELECT work()")
			if began == 1 && err == nil {
				slowAnswers.Add(1)
			}
			return err
		})
	}
	// The rest of the service: the same server, another pool, another dependency.
	rest := s.policies(steady.DependencyConfig{Name: "the rest", Breaker: steady.BreakerConfig{SlowThreshold: 900 * time.Millisecond}})
	other := s.plain(true)
	p := steady.Must(steady.NewPipelineFor(rest, steady.ReadIdempotent, steady.PipelineConfig[int]{}))
	alive := &s.loads(1)[0]
	alive.start(4, 10*time.Millisecond, func(int, int) error {
		_, err := p.Do(context.Background(), func(ctx context.Context) (n int, err error) {
			return n, other.QueryRowContext(ctx, "SELECT 1").Scan(&n)
		})
		return err
	})

	for i := range loads {
		s.goesOn(&loads[i].ledger, 30)
		require.Equal(t, steady.StateClosed, clients[i].d.Breaker().State(), "80 ms are well")
	}
	require.NoError(t, server.exec("UPDATE pace SET seconds = 3"))
	slow.Store(1) // what begins from here on is slow
	for _, c := range clients {
		s.becomes(c.d, steady.StateOpen)
	}
	assert.EqualValues(t, 1, opened.Load(), "opened before any slow query had been answered")
	s.goesOn(&alive.ledger, 50)
	slow.Store(2)
	require.NoError(t, server.exec("UPDATE pace SET seconds = 0.08"))
	for i, c := range clients {
		s.becomes(c.d, steady.StateClosed)
		s.goesOn(&loads[i].ledger, 20)
	}
	stop(loads)
	alive.stop()
	assert.Zero(t, alive.ledger.Failed.Load()+alive.ledger.Rejected.Load(), "the rest of the service has noticed nothing")
	assert.Equal(t, steady.StateClosed, rest.Breaker().State())
	for i, c := range clients {
		assert.Zero(t, loads[i].ledger.Failed.Load(), "slow is not failed")
		s.end("turns slow, 80 ms to 3 s: "+c.name, &loads[i].ledger, "opened before a slow query was answered; closed again")
	}
	s.end("turns slow: the rest of the service", &alive.ledger, "p99 %d ms", rest.Breaker().Stats().LatencyP99.Milliseconds())
}
