package steadysql_test

import (
	"database/sql/driver"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

func TestARejectedCallIsRejectedOnce(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{Bulkhead: steady.BulkheadConfig{MaxConcurrent: 3}})
	db := open(t, f, d)
	warm(t, db, 4)
	f.calls()
	for range 3 {
		rows, err := db.QueryContext(t.Context(), "select")
		require.NoError(t, err)
		defer func() { assert.NoError(t, rows.Close()) }() //nolint:sqlclosecheck // all are open at once
	}
	_, err := db.ExecContext(t.Context(), "insert")
	require.ErrorIs(t, err, steady.ErrBulkheadFull)
	assert.EqualValues(t, 1, d.Bulkhead().Stats().Rejected, "the reset of the pooled connection is no call of its own")
	d.Breaker().ForceOpen("for the test")
	_, err = db.ExecContext(t.Context(), "insert")
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	assert.EqualValues(t, 1, d.Breaker().Stats().Rejected)
}

func TestEachConnectionThatDiesWhileASQLConnUsesItIsAFailure(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	for n := 1; n <= 4; n++ {
		f.does(nil)
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		_, err = conn.ExecContext(t.Context(), "insert")
		require.NoError(t, err)
		if n%2 == 0 { // a prepared statement changes nothing
			_, err = conn.PrepareContext(t.Context(), "insert")
			require.NoError(t, err)
		}
		f.does(fails("exec", driver.ErrBadConn))
		_, err = conn.ExecContext(t.Context(), "insert")
		require.ErrorIs(t, err, driver.ErrBadConn)
		assert.Equal(t, n, d.Breaker().Stats().Failures, "database/sql does not try again")
		require.Error(t, conn.Close(), "it is closed already")
	}
}

func TestAPreparedStatementWhoseConnectionsDieIsTriedThreeTimesAndOneFailure(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	stmt, err := db.PrepareContext(t.Context(), "insert")
	require.NoError(t, err)
	f.does(fails("statement exec", driver.ErrBadConn))
	f.calls()
	_, err = stmt.ExecContext(t.Context())
	require.ErrorIs(t, err, driver.ErrBadConn)
	assert.Equal(t, 3, f.asked("statement exec"))
	assert.LessOrEqual(t, d.Breaker().Stats().Failures, 1)
	f.does(nil)
	require.NoError(t, stmt.Close())
}
