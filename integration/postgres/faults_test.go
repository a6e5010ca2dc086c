package postgres_test

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/integration/internal/harness"
)

// blackhole swallows what the server sends.
var blackhole = harness.Toxic{Type: "timeout", Attributes: map[string]any{"timeout": 0}}

func TestABlackholedDatabaseHoldsNobodyForLong(t *testing.T) {
	s := newScenario(t, "blackhole")
	clients := s.clients(steady.DependencyConfig{Timeout: 700 * time.Millisecond})
	loads := s.loads(len(clients))
	for i, c := range clients {
		loads[i].start(8, 10*time.Millisecond, func(int, int) error {
			return c.read(context.Background(), "SELECT 'here'")
		})
	}
	for i := range loads {
		s.goesOn(&loads[i].ledger, 50)
	}
	s.proxy.Add(blackhole)
	for i, c := range clients {
		s.becomes(c.d, steady.StateOpen)
		failed := &loads[i].ledger.Failed
		require.Eventually(t, func() bool { return failed.Load() > 0 }, soon, 5*time.Millisecond, "nobody was told")
	}
	s.proxy.Heal()
	for i, c := range clients {
		s.becomes(c.d, steady.StateClosed)
		s.goesOn(&loads[i].ledger, 50)
	}
	stop(loads)
	for i, c := range clients {
		stats := c.d.Timeout().Stats()
		s.end("blackholed: "+c.name, &loads[i].ledger, "%d calls ended by the Timeout", stats.Expired)
	}
}

func TestRowsThatAreLeftOpenTakeNoConnectionFromAnybodyElse(t *testing.T) {
	s := newScenario(t, "rows")
	d := s.policies(steady.DependencyConfig{Timeout: time.Minute})
	db := s.wrapped(d)
	l := &s.loads(1)[0]
	ctx, leave := context.WithCancel(context.Background())
	open := make([]*sql.Rows, 8)
	for i := range open {
		l.once(func() (err error) {
			open[i], err = db.QueryContext(ctx, "SELECT generate_series(1, 100000)")
			return err
		})
		require.True(t, open[i].Next())
	}
	read := func() error {
		var n int
		return db.QueryRowContext(context.Background(), "SELECT 1").Scan(&n)
	}
	for range 50 {
		l.once(read)
	}
	assert.EqualValues(t, 50, l.ledger.Rejected.Load(), "at once, without a wait for a connection")
	assert.Zero(t, db.Stats().WaitCount)
	require.NoError(t, open[0].Close())
	l.once(read)
	assert.EqualValues(t, 9, l.ledger.Answered.Load(), "there is a slot again")

	leave() // which is all that the forgetful ever do
	require.Eventually(t, func() bool { return d.Bulkhead().Stats().InFlight == 0 }, soon, time.Millisecond)
	for range 20 {
		l.once(read)
	}
	for _, rows := range open[1:] {
		assert.ErrorIs(t, rows.Err(), context.Canceled)
	}
	assert.Zero(t, d.Breaker().Stats().Failures)
	s.end("rows left open", &l.ledger, "8 slots taken by 8 open rows")
}

func TestCallersThatCancelByTheHundredOpenNothing(t *testing.T) {
	s := newScenario(t, "cancel")
	clients := s.clients(steady.DependencyConfig{Timeout: 20 * time.Second, Breaker: steady.BreakerConfig{SlowThreshold: 5 * time.Second}})
	for _, c := range clients {
		l := &s.loads(1)[0]
		for range 8 {
			l.callers.Go(func() {
				for range 40 {
					ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, nil)
					time.AfterFunc(time.Duration(rand.Int64N(int64(20*time.Millisecond))), cancel)
					l.once(func() error { return c.read(ctx, "SELECT pg_sleep(3)::text") })
				}
			})
		}
		l.stop()
		assert.EqualValues(t, 320, l.ledger.Failed.Load(), "all of them have cancelled")
		stats := c.d.Breaker().Stats()
		assert.Equal(t, steady.StateClosed, stats.State)
		assert.Zero(t, stats.Failures+stats.Slow)
		assert.Zero(t, stats.Transitions)
		require.NoError(t, c.read(context.Background(), "SELECT 'well'"))
		s.end("callers that cancel: "+c.name, &l.ledger, "breaker %v, %d failures", stats.State, stats.Failures)
	}
	require.Eventually(t, func() bool {
		n, err := ask[int](server, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'cancel%' AND state = 'active'")
		return err == nil && n == 0
	}, soon, 20*time.Millisecond, "queries that nobody waits for run on")
}

func TestACallThatAskedForTooLongIsWhoseLimitItWas(t *testing.T) {
	s := newScenario(t, "limits")
	for _, c := range s.clients(steady.DependencyConfig{Timeout: time.Second, Breaker: steady.BreakerConfig{SlowThreshold: 900 * time.Millisecond}}) {
		err := c.read(context.Background(), "SELECT pg_sleep(10)::text")
		require.ErrorIs(t, err, steady.ErrTimeout, c.name)
		assert.ErrorIs(t, err, context.DeadlineExceeded, c.name)
		assert.Equal(t, 1, c.d.Breaker().Stats().Failures, "%s: ours", c.name)

		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(20*time.Millisecond, cancel)
		err = c.read(ctx, "SELECT pg_sleep(10)::text")
		require.ErrorIs(t, err, context.Canceled, c.name)
		assert.Equal(t, 1, c.d.Breaker().Stats().Failures, "%s: the caller's", c.name)

		err = c.read(context.Background(), "SELECT pg_cancel_backend(pg_backend_pid())::text || pg_sleep(10)::text")
		require.Error(t, err)
		assert.NotErrorIs(t, err, steady.ErrTimeout, c.name)
		assert.ErrorContains(t, err, "57014", c.name)
		assert.Equal(t, 2, c.d.Breaker().Stats().Failures, "%s: an operator's, as a statement_timeout", c.name)
		for _, check := range s.checks {
			check()
		}
	}
}
