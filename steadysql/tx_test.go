package steadysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

func TestATransactionThatBeganAtTheLimitAndCannotBeRolledBackTakesItsConnectionAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{Timeout: time.Second})
		db := open(t, f, d)
		f.does(func(ctx context.Context, call string) error {
			switch {
			case strings.HasPrefix(call, "begin"):
				<-ctx.Done()
				return nil // the answer was there already
			case call == "rollback":
				return ctx.Err() // nothing is sent
			}
			return nil
		})
		_, err := db.BeginTx(t.Context(), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, db.Stats().OpenConnections, "the next one would find itself in that transaction")
		f.does(nil)
	})
}

func TestACommitHasNoLimitButTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := steady.NewDependency(steady.DependencyConfig{
			Name:      "db",
			NoTimeout: true,
			Breaker:   steady.BreakerConfig{SlowThreshold: time.Hour},
			Bulkhead:  steady.BulkheadConfig{MaxConcurrent: 10},
		})
		require.NoError(t, err)
		f := &fake{}
		db := open(t, f, d)
		f.does(takes("commit", time.Minute))
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		d.Breaker().ForceOpen("for the test")
		assert.NoError(t, tx.Commit())
		d.Breaker().Reset("for the test")
	})
}

func TestACommitThatWasAnsweredWithRollbackIsNoFailure(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	for _, text := range []string{
		"commit unexpectedly resulted in rollback",
		"pq: could not complete operation in a failed transaction",
	} {
		f.does(fails("commit", errors.New(text)))
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.EqualError(t, tx.Commit(), text)
	}
	assert.Zero(t, d.Breaker().Stats().Failures, "the program went on after a statement that had failed")
}

func TestADatabasesStatementInATransactionIsPreparedAgainAndNotRejected(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{Bulkhead: steady.BulkheadConfig{MaxConcurrent: 3}})
	db := open(t, f, d)
	stmt, err := db.PrepareContext(t.Context(), "insert")
	require.NoError(t, err)
	warm(t, db, 3)
	var open []*sql.Tx
	for range 3 {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		open = append(open, tx)
	}
	assert.Equal(t, 3, d.Bulkhead().Stats().InFlight)
	d.Breaker().ForceOpen("for the test")
	f.calls()
	for _, tx := range open {
		_, err := tx.StmtContext(t.Context(), stmt).ExecContext(t.Context())
		assert.NoError(t, err)
	}
	assert.Positive(t, f.asked("prepare"), "on the connections that had not seen it")
	for _, tx := range open {
		assert.NoError(t, tx.Commit())
	}
	nothingIsLeft(t, d)
	require.NoError(t, stmt.Close())
}

func TestAPanicInRawLeavesNothing(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	assert.Panics(t, func() { _ = conn.Raw(func(any) error { panic("raw") }) })
	nothingIsLeft(t, d)
	assert.Zero(t, db.Stats().OpenConnections)
}

func TestWhatADriverCannotDoIsNoFailureOfTheDatabase(t *testing.T) {
	f, d := &fake{variant: old(execs | queries)}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	for _, call := range []func() error{
		func() error {
			_, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable})
			return err
		},
		func() error {
			_, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
			return err
		},
		func() error {
			_, err := db.ExecContext(t.Context(), "insert", sql.Named("n", 1))
			return err
		},
		func() error {
			_, err := db.QueryContext(t.Context(), "select", sql.Named("n", 1)) //nolint:rowserrcheck,sqlclosecheck // there are none
			return err
		},
	} {
		err := call()
		require.ErrorContains(t, err, "steadysql: the driver does not support ")
		assert.NotErrorIs(t, err, driver.ErrBadConn)
	}
	assert.Zero(t, d.Breaker().Stats().Failures)
	assert.Equal(t, []string{"connect"}, f.calls())
}
