package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadysql"
)

const (
	accounts = 12
	balance  = 1000 // of each, at first
)

func TestTwentyConcurrentTransfersWithConflictsAndResetsLoseNothing(t *testing.T) {
	require.NoError(t, server.exec(
		"CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL)",
		"CREATE TABLE transfers (id text, amount int NOT NULL)", // no key: one that was done twice shows
	))
	for _, way := range []string{"plain", "wrapped"} {
		require.NoError(t, server.exec("TRUNCATE accounts",
			fmt.Sprintf("INSERT INTO accounts SELECT id, %d FROM generate_series(1, %d) id", balance, accounts)))
		s := newScenario(t, "transfer-"+way)
		d := s.policies(steady.DependencyConfig{
			Timeout:  10 * time.Second,
			Breaker:  steady.BreakerConfig{SlowThreshold: 5 * time.Second, OpenDuration: 20 * time.Millisecond},
			Bulkhead: steady.BulkheadConfig{MaxConcurrent: 10},
		})
		db, p := s.plain(false), steady.Must(steady.NewPipelineFor(d, steady.WriteIdempotent, steady.PipelineConfig[int]{}))
		if way == "wrapped" {
			db, p = s.wrapped(d), steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{}))
		}
		l := &s.loads(1)[0]
		var deeds deeds
		l.start(20, 0, func(caller, n int) error {
			id := fmt.Sprintf("%s-%d-%d", way, caller, n)
			amount := rand.IntN(10)
			from, to := 1+rand.IntN(accounts), 1+rand.IntN(accounts)
			_, err := steadysql.InTx(context.Background(), db, p, steadysql.TxOptions{Isolation: sql.LevelSerializable, MaxRuns: 20},
				func(ctx context.Context, tx *sql.Tx) (int, error) {
					deeds.ran(id)
					return 0, transfer(ctx, tx, id, from, to, amount)
				})
			deeds.ended(id, err)
			return err
		})
		for range 5 {
			s.goesOn(&l.ledger, 25)
			s.relay.reset()
		}
		s.goesOn(&l.ledger, 25)
		l.stop()

		sum, err := ask[int](server, "SELECT sum(balance) FROM accounts")
		require.NoError(t, err)
		assert.Equal(t, accounts*balance, sum, "money came or went")
		note := deeds.check(t, "transfers", "id")
		assert.Positive(t, deeds.repeated, "nothing was in the way of anything")
		s.end("20 transfers, serializable, 5 resets: InTx, "+way, &l.ledger, "sum %d of %d; %s", sum, accounts*balance, note)
	}
}

// transfer moves money, after a look at both balances that others may make wrong.
func transfer(ctx context.Context, tx *sql.Tx, id string, from, to, amount int) error {
	var sum int
	if err := tx.QueryRowContext(ctx, "SELECT sum(balance) FROM accounts WHERE id IN ($1, $2)", from, to).Scan(&sum); err != nil {
		return err
	}
	for _, step := range []struct {
		query string
		args  []any
	}{
		{"UPDATE accounts SET balance = balance - $2 WHERE id = $1", []any{from, amount}},
		{"UPDATE accounts SET balance = balance + $2 WHERE id = $1", []any{to, amount}},
		{"INSERT INTO transfers VALUES ($1, $2)", []any{id, amount}},
	} {
		if _, err := tx.ExecContext(ctx, step.query, step.args...); err != nil {
			return err
		}
	}
	return nil
}
