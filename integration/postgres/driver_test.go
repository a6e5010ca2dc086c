package postgres_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadysql"
)

func TestPgxCanDoThroughTheWrapperWhatItCanDoWithout(t *testing.T) {
	ctx := context.Background()
	require.NoError(t, server.exec("CREATE TABLE copied (n int)"))
	s := newScenario(t, "driver")
	d := s.policies(steady.DependencyConfig{Timeout: 10 * time.Second, Breaker: steady.BreakerConfig{SlowThreshold: 5 * time.Second}})
	db := s.wrapped(d)

	var n int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM unnest($1::int[])", []int{1, 2, 3}).Scan(&n), "an array, which only pgx knows")
	assert.Equal(t, 3, n)
	require.NoError(t, db.QueryRowContext(ctx, "SELECT $1::int", pgx.QueryExecModeSimpleProtocol, 7).Scan(&n), "an option of pgx's")
	assert.Equal(t, 7, n)

	rows, err := db.QueryContext(ctx, "SELECT 1::numeric(7,2) AS price")
	require.NoError(t, err)
	types, err := rows.ColumnTypes()
	require.NoError(t, err)
	precision, scale, ok := types[0].DecimalSize()
	assert.Equal(t, []any{"price", "NUMERIC", int64(7), int64(2), true},
		[]any{types[0].Name(), types[0].DatabaseTypeName(), precision, scale, ok})
	require.NoError(t, rows.Close())

	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	require.NoError(t, conn.Raw(func(c any) error {
		_, err := steadysql.Unwrap(c).(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{"copied"}, []string{"n"},
			pgx.CopyFromRows([][]any{{1}, {2}}))
		return err
	}))
	require.NoError(t, conn.Close())
	require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM copied").Scan(&n))
	assert.Equal(t, 2, n)

	stmt, err := db.PrepareContext(ctx, "SELECT $1::int + 1")
	require.NoError(t, err)
	require.NoError(t, stmt.QueryRowContext(ctx, 41).Scan(&n))
	assert.Equal(t, 42, n)
	require.NoError(t, stmt.Close())
	for _, check := range s.checks {
		check()
	}
}

func TestATransactionOutlivesTheLimitOfItsBegin(t *testing.T) {
	s := newScenario(t, "outlives")
	d := s.policies(steady.DependencyConfig{Timeout: 400 * time.Millisecond})
	db := s.wrapped(d)
	tx, err := db.BeginTx(context.Background(), nil)
	require.NoError(t, err)
	_, err = tx.Exec("CREATE TABLE outlived ()")
	require.NoError(t, err)
	var later bool
	for !later {
		require.NoError(t, tx.QueryRow("SELECT clock_timestamp() - transaction_timestamp() > interval '600 ms'").Scan(&later))
	}
	require.NoError(t, tx.Commit(), "pgx keeps the context of BEGIN for it")
	there, err := ask[bool](server, "SELECT to_regclass('outlived') IS NOT NULL")
	require.NoError(t, err)
	assert.True(t, there)
}

func TestACancelledTransactionIsRolledBack(t *testing.T) {
	s := newScenario(t, "rollback")
	d := s.policies(steady.DependencyConfig{})
	db := s.wrapped(d)
	ctx, cancel := context.WithCancel(context.Background())
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	_, err = tx.Exec("CREATE TABLE never ()")
	require.NoError(t, err)
	cancel()
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, soon, time.Millisecond)
	assert.Zero(t, d.Bulkhead().Stats().InFlight)
	there, err := ask[bool](server, "SELECT to_regclass('never') IS NOT NULL")
	require.NoError(t, err)
	assert.False(t, there)
}

func TestWhatPostgresSaysOfACommitIsUnderstood(t *testing.T) {
	ctx := context.Background()
	require.NoError(t, server.exec("CREATE TABLE parents (id int PRIMARY KEY)",
		"CREATE TABLE children (parent int REFERENCES parents DEFERRABLE INITIALLY DEFERRED)"))
	s := newScenario(t, "commit")
	d := s.policies(steady.DependencyConfig{})
	p := steady.Must(steady.NewPipelineFor(d, steady.WriteIdempotent, steady.PipelineConfig[int]{}))
	var doubt *steadysql.CommitError

	_, err := steadysql.InTx(ctx, s.plain(true), p, steadysql.TxOptions{}, func(ctx context.Context, tx *sql.Tx) (int, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO children VALUES (7)")
		return 0, err
	})
	assert.ErrorContains(t, err, "23503", "at the commit")
	assert.NotErrorAs(t, err, &doubt)
	assert.Zero(t, d.Breaker().Stats().Failures)

	_, err = steadysql.InTx(ctx, s.plain(true), p, steadysql.TxOptions{}, func(ctx context.Context, tx *sql.Tx) (int, error) {
		_, _ = tx.ExecContext(ctx, "SELECT 1/0")
		return 0, nil // as if nothing had happened
	})
	assert.ErrorContains(t, err, "rollback")
	assert.NotErrorAs(t, err, &doubt)
	assert.Zero(t, d.Breaker().Stats().Failures, "the server is well, the program is not")
}

func TestAConnectThatTheServerRefusesIsUnsent(t *testing.T) {
	ctx := context.Background()
	require.NoError(t, server.exec("CREATE ROLE guest LOGIN CONNECTION LIMIT 0"))
	cfg, err := pgx.ParseConfig(server.dsn(server.addr(), "guest"))
	require.NoError(t, err)
	cfg.User = "guest"
	s := newScenario(t, "guest")
	d := s.policies(steady.DependencyConfig{Retry: steady.RetryConfig{NoDelay: true}})
	p := steady.Must(steady.NewPipelineFor(d, steady.WriteNonIdempotent, steady.PipelineConfig[sql.Result]{}))
	db := stdlib.OpenDB(*cfg)
	defer func() { assert.NoError(t, db.Close()) }()
	_, err = steadysql.Exec(ctx, p, db.ExecContext, "INSERT INTO nothing VALUES (1)")
	require.ErrorContains(t, err, "53300")
	assert.Equal(t, steady.Unsent, steady.Classify(err))
	assert.EqualValues(t, 2, d.Retry().Stats().Retries, "no statement was sent, so even this may be tried again")
	assert.Equal(t, 3, d.Breaker().Stats().Failures)
}
