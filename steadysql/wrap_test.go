package steadysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadysql"
)

// takes makes calls that begin with a word last, or end with their context.
func takes(word string, d time.Duration) func(ctx context.Context, call string) error {
	return func(ctx context.Context, call string) error {
		if !strings.HasPrefix(call, word) {
			return nil
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fails makes calls that begin with a word fail.
func fails(word string, err error) func(ctx context.Context, call string) error {
	return func(_ context.Context, call string) error {
		if strings.HasPrefix(call, word) {
			return err
		}
		return nil
	}
}

func TestEveryCallGoesThroughTheBreaker(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	calls := func() int { return d.Breaker().Stats().Calls }

	require.NoError(t, db.PingContext(t.Context()))
	assert.Equal(t, 2, calls(), "connect and ping")
	_, err := db.ExecContext(t.Context(), "insert")
	require.NoError(t, err)
	assert.Equal(t, 3, calls(), "exec; that the pooled connection was reset is no answer to anybody")
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), "select").Scan(&n))
	assert.Equal(t, 4, calls(), "query")
	stmt, err := db.PrepareContext(t.Context(), "insert")
	require.NoError(t, err)
	_, err = stmt.ExecContext(t.Context())
	require.NoError(t, err)
	require.NoError(t, stmt.QueryRowContext(t.Context()).Scan(&n))
	require.NoError(t, stmt.Close())
	assert.Equal(t, 7, calls(), "prepare, exec and query")
	assert.Zero(t, d.Breaker().Stats().Failures)
}

func TestSlowQueriesOpenTheBreakerWhileTheyRunAndTheConnectionsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
		db := open(t, f, d)
		warm(t, db, 11)
		f.calls()
		f.does(takes("query", time.Second))
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				var n int
				assert.NoError(t, db.QueryRowContext(t.Context(), "select").Scan(&n), "slow, but an answer")
			})
		}
		synctest.Wait()
		_, err := db.ExecContext(t.Context(), "insert")
		assert.ErrorIs(t, err, steady.ErrBulkheadFull)
		time.Sleep(200 * time.Millisecond)
		assert.Equal(t, steady.StateOpen, d.Breaker().State(), "none of them has returned")
		_, err = db.ExecContext(t.Context(), "insert")
		assert.ErrorIs(t, err, steady.ErrBreakerOpen)
		assert.True(t, steady.IsRejected(err))
		assert.NotErrorIs(t, err, driver.ErrBadConn)
		assert.Zero(t, f.asked("exec"))
		callers.Wait()
		assert.Zero(t, f.asked("close rows")-10)
		assert.Equal(t, 11, db.Stats().OpenConnections, "no connection was thrown away, and none opened")
		assert.Zero(t, f.asked("connect"))
	})
}

// warm opens n connections, which then are idle.
func warm(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	conns := make([]*sql.Conn, n)
	for i := range conns {
		c, err := db.Conn(t.Context())
		require.NoError(t, err)
		conns[i] = c
	}
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
}

func TestRowsHoldTheirSlotUntilTheyAreClosed(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	rows, err := db.QueryContext(t.Context(), "select")
	require.NoError(t, err)
	assert.Equal(t, 1, d.Bulkhead().Stats().InFlight)
	assert.Zero(t, d.Breaker().Stats().InFlight, "the verdict has fallen")
	require.True(t, rows.Next())
	assert.Equal(t, 1, d.Bulkhead().Stats().InFlight)
	require.NoError(t, rows.Close())
	assert.Zero(t, d.Bulkhead().Stats().InFlight)

	f.does(fails("close rows", io.ErrUnexpectedEOF))
	rows, err = db.QueryContext(t.Context(), "select")
	require.NoError(t, err)
	assert.ErrorIs(t, rows.Close(), io.ErrUnexpectedEOF)
	assert.Zero(t, d.Bulkhead().Stats().InFlight, "even if the driver cannot close them")
	assert.Equal(t, 1, d.Breaker().Stats().Failures)
}

func TestAnErrorWhileRowsAreReadIsOneFailure(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	rows, err := db.QueryContext(t.Context(), "select")
	require.NoError(t, err)
	require.True(t, rows.Next())
	before := d.Breaker().Stats()
	assert.Zero(t, before.Failures)
	f.does(func(_ context.Context, call string) error {
		if call == "next" || call == "close rows" {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	require.False(t, rows.Next())
	require.ErrorIs(t, rows.Err(), io.ErrUnexpectedEOF)
	_ = rows.Close()
	after := d.Breaker().Stats()
	assert.Equal(t, 1, after.Failures)
	assert.Equal(t, before.Calls, after.Calls, "it is the outcome of the query that has changed")
}

func TestALimitThatComesWhileRowsAreReadIsATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{AttemptTimeout: 500 * time.Millisecond})
		db := open(t, f, d)
		f.does(takes("next", time.Hour))
		rows, err := db.QueryContext(t.Context(), "select")
		require.NoError(t, err)
		require.False(t, rows.Next())
		var timeout *steady.TimeoutError
		require.ErrorAs(t, rows.Err(), &timeout)
		assert.Equal(t, "db.attempt", timeout.Policy)
		assert.ErrorIs(t, rows.Err(), context.DeadlineExceeded)
		assert.Equal(t, 1, d.Breaker().Stats().Failures)
	})
}

func TestACallerWhoCancelsWhileRowsAreReadIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
		db := open(t, f, d)
		f.does(takes("next", time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		rows, err := db.QueryContext(ctx, "select")
		require.NoError(t, err)
		time.AfterFunc(time.Second, cancel)
		require.False(t, rows.Next())
		require.ErrorIs(t, rows.Err(), context.Canceled)
		_ = rows.Close()
		assert.Zero(t, d.Breaker().Stats().Failures)
	})
}

func TestNothingInsideATransactionIsRejected(t *testing.T) {
	for _, why := range []string{"breaker open", "breaker half-open, its probes out", "bulkhead full"} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, d := &fake{}, newDependency(t, steady.DependencyConfig{
					Breaker:  steady.BreakerConfig{HalfOpenProbes: 1, OpenDuration: time.Second, MinCalls: 1, WindowSize: 1},
					Bulkhead: steady.BulkheadConfig{MaxConcurrent: 1},
				})
				db := open(t, f, d)
				tx, err := db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				rejected := steady.ErrBreakerOpen
				switch why {
				case "breaker open":
					d.Breaker().ForceOpen("for the test")
				case "bulkhead full":
					rejected = steady.ErrBulkheadFull
				default:
					trip(t, d.Breaker())
					time.Sleep(time.Second)
					probe, err := d.Breaker().Allow()
					require.NoError(t, err)
					defer probe.Done(steady.Ignored)
				}
				_, err = db.ExecContext(t.Context(), "another")
				require.ErrorIs(t, err, rejected)
				before := d.Breaker().Stats().Rejected

				var n int
				_, err = tx.ExecContext(t.Context(), "update")
				require.NoError(t, err)
				require.NoError(t, tx.QueryRowContext(t.Context(), "select").Scan(&n))
				stmt, err := tx.PrepareContext(t.Context(), "insert")
				require.NoError(t, err)
				_, err = stmt.ExecContext(t.Context())
				require.NoError(t, err)
				require.NoError(t, stmt.QueryRowContext(t.Context()).Scan(&n))
				assert.Equal(t, 1, d.Bulkhead().Stats().InFlight, "one slot for all of it")
				require.NoError(t, tx.Commit())
				assert.Equal(t, 1, f.asked("commit"))
				assert.Zero(t, d.Bulkhead().Stats().InFlight)
				assert.Equal(t, before, d.Breaker().Stats().Rejected)
			})
		})
	}
}

// trip makes a breaker whose window is one call open.
func trip(t *testing.T, b *steady.Breaker) {
	t.Helper()
	p, err := b.Allow()
	require.NoError(t, err)
	p.Done(steady.Transient)
	require.Equal(t, steady.StateOpen, b.State())
}

func TestARollbackIsNotRejectedAndGivesTheSlotBack(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	d.Breaker().ForceOpen("for the test")
	require.NoError(t, tx.Rollback())
	assert.Equal(t, 1, f.asked("rollback"))
	assert.Zero(t, d.Bulkhead().Stats().InFlight)
}

func TestBeginIsRejectedWithoutAskingTheDriver(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	warm(t, db, 1)
	d.Breaker().ForceOpen("for the test")
	_, err := db.BeginTx(t.Context(), nil)
	assert.ErrorIs(t, err, steady.ErrBreakerOpen)
	assert.Zero(t, f.asked("begin"))
	assert.Equal(t, 1, db.Stats().Idle)
}

func TestEachStatementOfATransactionCountsAndTheTimeBetweenThemDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
		db := open(t, f, d)
		warm(t, db, 1)
		d.Breaker().Reset("an empty window")
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		time.Sleep(time.Minute) // longer than the Timeout, too
		f.does(takes("exec", 300*time.Millisecond))
		_, err = tx.ExecContext(t.Context(), "update")
		require.NoError(t, err)
		f.does(fails("exec", io.ErrUnexpectedEOF))
		_, err = tx.ExecContext(t.Context(), "update")
		require.Error(t, err)
		f.does(takes("commit", 300*time.Millisecond))
		require.NoError(t, tx.Commit())
		stats := d.Breaker().Stats()
		assert.Equal(t, 4, stats.Calls, "begin, two statements, commit")
		assert.Equal(t, 2, stats.Slow, "a statement and the commit")
		assert.Equal(t, 1, stats.Failures)
	})
}

func TestStatementsOfTransactionsThatHangOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{Breaker: steady.BreakerConfig{MinCalls: 10, WindowSize: 10}})
		db := open(t, f, d)
		f.does(takes("exec", time.Hour))
		var callers sync.WaitGroup
		for range 10 {
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			callers.Go(func() {
				_, err := tx.ExecContext(t.Context(), "update")
				assert.ErrorIs(t, err, steady.ErrTimeout)
				assert.NoError(t, tx.Rollback())
			})
		}
		time.Sleep(time.Second)
		assert.Equal(t, steady.StateOpen, d.Breaker().State())
		callers.Wait()
	})
}

func TestADriverMayKeepTheContextOfBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{Timeout: time.Second})
		db := open(t, f, d)
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "the caller's")
		f.does(func(ctx context.Context, call string) error {
			switch {
			case strings.HasPrefix(call, "begin"), call == "commit", call == "rollback":
				deadline, ok := ctx.Deadline()
				assert.True(t, ok, "%s: a deadline", call)
				assert.Equal(t, time.Second, time.Until(deadline), call)
				assert.Equal(t, "the caller's", ctx.Value(key{}))
				return ctx.Err()
			}
			return nil
		})
		for _, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			time.Sleep(time.Minute)
			assert.NoError(t, end(tx))
		}
	})
}

func TestTheRollbackAfterACancelReachesTheServer(t *testing.T) {
	for _, noTimeout := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg := steady.DependencyConfig{NoTimeout: noTimeout}
			cfg.Timeout = map[bool]time.Duration{false: 10 * time.Second}[noTimeout]
			f := &fake{}
			cfg.Name, cfg.Breaker.SlowThreshold, cfg.Bulkhead.MaxConcurrent = "db", time.Second, 5
			d, err := steady.NewDependency(cfg)
			require.NoError(t, err)
			db := open(t, f, d)
			ctx, cancel := context.WithCancel(t.Context())
			_, err = db.BeginTx(ctx, nil)
			require.NoError(t, err)
			rolledBack := make(chan error, 1)
			f.does(func(ctx context.Context, call string) error {
				if call != "rollback" {
					return nil
				}
				rolledBack <- ctx.Err()
				began := time.Now()
				<-ctx.Done()
				assert.Equal(t, 10*time.Second, time.Since(began), "but not for ever")
				assert.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
				return ctx.Err()
			})
			cancel()
			assert.NoError(t, <-rolledBack)
			time.Sleep(time.Minute)
			assert.Zero(t, d.Bulkhead().Stats().InFlight)
		})
	}
}

func TestACommitThatTheCallerCancelsIsStoppedAndNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
		db := open(t, f, d)
		f.does(takes("commit", time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		assert.ErrorIs(t, tx.Commit(), context.Canceled)
		assert.Equal(t, time.Second, time.Since(began))
		assert.Zero(t, d.Breaker().Stats().Failures)
	})
}

func TestACommitThatHangsEndsAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{Timeout: 2 * time.Second})
		db := open(t, f, d)
		f.does(takes("commit", time.Hour))
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		assert.ErrorIs(t, tx.Commit(), steady.ErrTimeout)
		stats := d.Breaker().Stats()
		assert.Equal(t, 1, stats.Failures)
	})
}

func TestABeginThatHangsEndsAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{Timeout: 2 * time.Second})
		db := open(t, f, d)
		f.does(takes("begin", time.Hour))
		_, err := db.BeginTx(t.Context(), nil)
		assert.ErrorIs(t, err, steady.ErrTimeout)
		assert.Equal(t, 1, d.Breaker().Stats().Failures)
	})
}

func TestThreeTriesOfDatabaseSQLAreOneFailure(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{Breaker: steady.BreakerConfig{MinCalls: 20}})
	db := open(t, f, d)
	f.does(fails("exec", driver.ErrBadConn))
	for n := 1; n <= 3; n++ {
		_, err := db.ExecContext(t.Context(), "insert")
		assert.ErrorIs(t, err, driver.ErrBadConn)
		assert.Equal(t, 3*n, f.asked("exec"), "database/sql's three tries, and no more")
		assert.Equal(t, n, d.Breaker().Stats().Failures)
	}
	assert.Zero(t, db.Stats().OpenConnections, "bad connections are thrown away")
}

func TestConnectionsThatDiedInThePoolAreNoFailures(t *testing.T) {
	for _, where := range []string{"reset", "exec", "prepare"} { // where the driver notices
		for _, variant := range []func(base) driver.Conn{modern(execs | resets), modern(execs)} {
			synctest.Test(t, func(t *testing.T) {
				f, d := &fake{variant: variant}, newDependency(t, steady.DependencyConfig{Bulkhead: steady.BulkheadConfig{MaxConcurrent: 100}})
				db := open(t, f, d)
				conns := make([]*sql.Conn, 40)
				for i := range conns {
					var err error
					conns[i], err = db.Conn(t.Context())
					require.NoError(t, err)
					_, err = conns[i].ExecContext(t.Context(), "insert")
					require.NoError(t, err)
				}
				for _, c := range conns {
					require.NoError(t, c.Close())
				}
				var dead atomic.Int64
				dead.Store(f.open.Load())
				f.does(func(_ context.Context, call string) error {
					time.Sleep(time.Millisecond) // so that all are at it at once
					switch {
					case strings.HasPrefix(call, where) && dead.Add(-1) >= 0:
						return driver.ErrBadConn
					case where == "prepare" && strings.HasPrefix(call, "exec"):
						return driver.ErrSkip // without a look, as MySQL's when there are arguments
					}
					return nil
				})
				d.Breaker().Reset("a server was restarted")
				var callers sync.WaitGroup
				for range 20 {
					callers.Go(func() {
						_, err := db.ExecContext(t.Context(), "insert")
						assert.NoError(t, err, "the third try has a new connection")
					})
				}
				callers.Wait()
				assert.Zero(t, d.Breaker().Stats().Failures)
				assert.Equal(t, steady.StateClosed, d.Breaker().State())
			})
		}
	}
}

func TestABadConnectionInsideATransactionIsAFailure(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	f.does(fails("exec", driver.ErrBadConn))
	_, err = tx.ExecContext(t.Context(), "update")
	require.ErrorIs(t, err, driver.ErrBadConn)
	assert.Equal(t, 1, d.Breaker().Stats().Failures, "database/sql does not try again")
	require.NoError(t, tx.Rollback())
}

func TestAPingOfABadConnectionIsAFailure(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	f.does(fails("ping", driver.ErrBadConn))
	require.ErrorIs(t, db.PingContext(t.Context()), driver.ErrBadConn)
	assert.Equal(t, 1, d.Breaker().Stats().Failures)
}

func TestADriverThatSkipsACallHasNeitherFailedNorAnswered(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	f.does(fails("exec", driver.ErrSkip))
	_, err := db.ExecContext(t.Context(), "insert")
	require.NoError(t, err)
	assert.Equal(t, 1, f.asked("statement exec"), "a statement was prepared instead")
	stats := d.Breaker().Stats()
	assert.Equal(t, 3, stats.Calls, "connect, prepare, exec")
	assert.Zero(t, stats.Failures)
}

func TestAFailedConnectIsUnsent(t *testing.T) {
	var ended []steady.Outcome
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{Hooks: &steady.Hooks{
		OnAttempt: func(_ context.Context, a steady.Attempt) { ended = append(ended, a.Outcome) },
	}})
	db := open(t, f, d)
	for _, c := range []struct {
		err  error
		want steady.Outcome
	}{
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, steady.Unsent},
		{io.ErrUnexpectedEOF, steady.Unsent},
		{state("57P03"), steady.Unsent},
		{state("28P01"), steady.Permanent},
	} {
		ended = nil
		f.does(fails("connect", c.err))
		_, err := db.ExecContext(t.Context(), "insert")
		assert.ErrorIs(t, err, c.err)
		assert.Equal(t, c.want, steady.Classify(err), "for a pipeline around")
		assert.Equal(t, []steady.Outcome{c.want}, ended)
	}
	f.does(fails("connect", driver.ErrBadConn))
	before := d.Breaker().Stats().Failures
	_, err := db.ExecContext(t.Context(), "insert")
	assert.ErrorIs(t, err, driver.ErrBadConn)
	assert.Equal(t, before+1, d.Breaker().Stats().Failures)
	f.does(nil)
}

func TestALivenessCheckThatHangsTakesASlotAndEndsAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{Timeout: time.Second})
		db := open(t, f, d)
		warm(t, db, 1)
		f.does(func(ctx context.Context, call string) error {
			if call != "reset" {
				return nil
			}
			assert.Equal(t, 1, d.Bulkhead().Stats().InFlight)
			<-ctx.Done()
			return driver.ErrBadConn // which is what pgx makes of a ping that fails
		})
		_, err := db.ExecContext(t.Context(), "insert")
		require.NoError(t, err, "with another connection")
		assert.Equal(t, 1, d.Breaker().Stats().Slow)
	})
}

func TestWhatIsRejectedBeforeTheLivenessCheckKeepsTheConnectionAndIsCheckedLater(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	warm(t, db, 1)
	f.calls()
	d.Breaker().ForceOpen("for the test")
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	for range 2 {
		_, err = conn.ExecContext(t.Context(), "insert")
		require.ErrorIs(t, err, steady.ErrBreakerOpen)
	}
	assert.Empty(t, f.calls())
	d.Breaker().Reset("it is well")
	_, err = conn.ExecContext(t.Context(), "insert")
	require.NoError(t, err)
	assert.Equal(t, []string{"reset", "exec insert []"}, f.calls())
	require.NoError(t, conn.Close())
	f.calls()

	d.Breaker().ForceOpen("for the test")
	conn, err = db.Conn(t.Context())
	require.NoError(t, err)
	d.Breaker().Reset("it is well")
	f.does(fails("reset", driver.ErrBadConn))
	_, err = conn.ExecContext(t.Context(), "insert")
	require.ErrorIs(t, err, driver.ErrBadConn)
	assert.Zero(t, f.asked("exec"))
	f.does(nil)
	f.calls()
}

func TestCallersThatCancelDoNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
		db := open(t, f, d)
		f.does(takes("query", time.Hour))
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			_, err := db.QueryContext(ctx, "select") //nolint:rowserrcheck // there are none
			require.ErrorIs(t, err, context.Canceled)
		}
		stats := d.Breaker().Stats()
		assert.Equal(t, steady.StateClosed, stats.State)
		assert.Zero(t, stats.Failures)
		assert.Equal(t, 1, stats.Calls, "the first connect")
	})
}

func TestAServerThatSaysItWasAskedToCancelIsATimeoutIfTheLimitHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{Timeout: time.Second})
		db := open(t, f, d)
		f.does(func(ctx context.Context, call string) error {
			if !strings.HasPrefix(call, "exec") {
				return nil
			}
			<-ctx.Done()
			return state("57014")
		})
		_, err := db.ExecContext(t.Context(), "update")
		assert.ErrorIs(t, err, steady.ErrTimeout)
		assert.ErrorIs(t, err, state("57014"))
		f.does(fails("exec", state("57014")))
		_, err = db.ExecContext(t.Context(), "update")
		assert.NotErrorIs(t, err, steady.ErrTimeout, "a statement_timeout")
		assert.Equal(t, 2, d.Breaker().Stats().Failures)
	})
}

func TestADomainsNoOpensNothing(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	f.does(fails("exec", state("23505")))
	for range 50 {
		_, err := db.ExecContext(t.Context(), "insert")
		require.Equal(t, state("23505"), err, "untouched")
	}
	assert.Zero(t, d.Breaker().Stats().Failures)
}

func TestTheDependencysOwnClassifyIsAskedFirst(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{Classify: func(err error) steady.Outcome {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return steady.Success
		}
		return 0
	}})
	db := open(t, f, d)
	f.does(fails("exec", io.ErrUnexpectedEOF))
	_, _ = db.ExecContext(t.Context(), "insert")
	assert.Zero(t, d.Breaker().Stats().Failures)
	f.does(fails("exec", io.ErrNoProgress))
	_, _ = db.ExecContext(t.Context(), "insert")
	assert.Equal(t, 1, d.Breaker().Stats().Failures)
}

func TestAPanicInTheDriverGivesTheSlotBack(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	c, err := wrap(t, f, d).Connect(t.Context())
	require.NoError(t, err)
	f.does(func(context.Context, string) error { panic("driver") })
	assert.Panics(t, func() { _ = c.(driver.Pinger).Ping(t.Context()) })
	assert.Panics(t, func() { _, _ = c.(driver.QueryerContext).QueryContext(t.Context(), "select", nil) })
	assert.Panics(t, func() { _, _ = c.(driver.ConnBeginTx).BeginTx(t.Context(), driver.TxOptions{}) })
	nothingIsLeft(t, d)

	f.does(nil)
	rows, err := c.(driver.QueryerContext).QueryContext(t.Context(), "select", nil)
	require.NoError(t, err)
	tx, err := c.(driver.ConnBeginTx).BeginTx(t.Context(), driver.TxOptions{})
	require.NoError(t, err)
	f.does(func(context.Context, string) error { panic("driver") })
	assert.Panics(t, func() { _ = rows.Close() })
	assert.Panics(t, func() { _ = tx.Commit() })
	nothingIsLeft(t, d)
}

func TestClosingAConnectionEndsItsTransaction(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	c, err := wrap(t, f, d).Connect(t.Context())
	require.NoError(t, err)
	_, err = c.(driver.ConnBeginTx).BeginTx(t.Context(), driver.TxOptions{})
	require.NoError(t, err)
	d.Breaker().ForceOpen("for the test")
	require.NoError(t, c.Close())
	nothingIsLeft(t, d)
}

func TestPartsThatTheDependencyLeavesOutAreLeftOut(t *testing.T) {
	f := &fake{}
	d, err := steady.NewDependency(steady.DependencyConfig{
		Name: "db", NoTimeout: true, NoRetry: true, NoBreaker: true, NoBulkhead: true,
	})
	require.NoError(t, err)
	db := open(t, f, d)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	rows, err := tx.QueryContext(t.Context(), "select")
	require.NoError(t, err)
	f.does(fails("next", context.DeadlineExceeded))
	assert.False(t, rows.Next())
	assert.ErrorIs(t, rows.Err(), context.DeadlineExceeded)
	f.does(nil)
	require.NoError(t, tx.Commit())
}

func TestAWrongConfigIsRefused(t *testing.T) {
	_, err := steadysql.NewConnector(nil, steadysql.Config{})
	assert.ErrorContains(t, err, "steadysql: Wrap needs a driver.Connector")
	assert.ErrorContains(t, err, "steadysql: Config.Dependency is required, got nil (make one with steady.NewDependency)")

	d := newDependency(t, steady.DependencyConfig{Bulkhead: steady.BulkheadConfig{MaxConcurrent: 5, MaxWait: time.Second}})
	_, err = steadysql.NewConnector(&fake{}, steadysql.Config{Dependency: d})
	assert.EqualError(t, err, `steadysql: Config.Dependency "db" must have a Bulkhead without MaxWait, got MaxWait 1s `+
		`(a call would wait for a slot while it holds a connection of the pool; leave MaxWait out)`)
	assert.PanicsWithError(t, err.Error(), func() { steadysql.Wrap(&fake{}, steadysql.Config{Dependency: d}) })
}

func TestManyCallersOfAWrappedDatabaseLeaveNothingBehind(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{Breaker: steady.BreakerConfig{OpenDuration: time.Millisecond}})
	db := open(t, f, d)
	db.SetMaxOpenConns(20)
	var n int64
	var mu sync.Mutex
	f.does(func(context.Context, string) error {
		mu.Lock()
		defer mu.Unlock()
		n++
		return map[int64]error{3: io.ErrUnexpectedEOF, 5: driver.ErrBadConn, 7: state("40001")}[n%23]
	})
	var callers sync.WaitGroup
	for i := range 40 {
		callers.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+j)%7 == 0 {
					go cancel()
				}
				work(ctx, db, i+j)
				cancel()
			}
		})
	}
	callers.Wait()
	f.does(nil)
	assert.Eventually(t, func() bool {
		return d.Bulkhead().Stats().InFlight == 0 && db.Stats().InUse == 0
	}, 10*time.Second, time.Millisecond, "rollbacks after a cancel come from database/sql's own goroutines")
}

// work does something with a database, and does not mind what comes of it.
func work(ctx context.Context, db *sql.DB, i int) {
	switch i % 3 {
	case 0:
		_, _ = db.ExecContext(ctx, "insert")
	case 1:
		rows, err := db.QueryContext(ctx, "select")
		if err != nil {
			return
		}
		for rows.Next() && i%2 == 0 {
		}
		_ = rows.Err()
		_ = rows.Close()
	default:
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return
		}
		_, _ = tx.ExecContext(ctx, fmt.Sprint("update ", i))
		if i%2 == 0 {
			_ = tx.Commit()
		} else {
			_ = tx.Rollback()
		}
	}
}
