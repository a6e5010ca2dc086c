package steadysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadysql"
)

// bare returns a database that is not wrapped.
func bare(t testing.TB, f *fake) *sql.DB {
	t.Helper()
	db := sql.OpenDB(f)
	t.Cleanup(func() {
		assert.NoError(t, db.Close())
		assert.Zero(t, f.open.Load(), "open connections")
	})
	return db
}

// transfers returns a pipeline for transactions.
func transfers(t testing.TB, d *steady.Dependency, intent steady.Intent) *steady.Pipeline[int] {
	t.Helper()
	p, err := steady.NewPipelineFor(d, intent, steady.PipelineConfig[int]{})
	require.NoError(t, err)
	return p
}

// update is the transaction that the tests run.
func update(ctx context.Context, tx *sql.Tx) (int, error) {
	_, err := tx.ExecContext(ctx, "update")
	return 7, err
}

// times makes the first n calls that begin with a word fail.
func times(n int, word string, err error) func(ctx context.Context, call string) error {
	return func(_ context.Context, call string) error {
		if n > 0 && strings.HasPrefix(call, word) {
			n--
			return err
		}
		return nil
	}
}

// told returns the steps of transactions that the driver was told of.
func told(f *fake) (steps []string) {
	for _, call := range f.calls() {
		switch word, _, _ := strings.Cut(call, " "); word {
		case "begin", "exec", "commit", "rollback":
			steps = append(steps, word)
		}
	}
	return steps
}

func TestATransactionIsCommittedAndItsResultReturned(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	v, err := steadysql.InTx(t.Context(), bare(t, f), transfers(t, d, steady.WriteNonIdempotent),
		steadysql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true}, update)
	require.NoError(t, err)
	assert.Equal(t, 7, v)
	assert.Contains(t, f.calls(), "begin {6 true}", "with its options")
	assert.Equal(t, 1, d.Breaker().Stats().Calls)
}

func TestAConflictRunsTheWholeTransactionAgain(t *testing.T) {
	for _, conflict := range []error{state("40001"), state("40P01")} {
		for _, where := range []string{"exec", "commit"} {
			for _, intent := range []steady.Intent{steady.ReadIdempotent, steady.WriteIdempotent, steady.WriteNonIdempotent} {
				synctest.Test(t, func(t *testing.T) {
					f, d := &fake{}, newDependency(t, steady.DependencyConfig{Timeout: time.Minute})
					f.does(times(5, where, conflict))
					v, err := steadysql.InTx(t.Context(), bare(t, f), transfers(t, d, intent), steadysql.TxOptions{}, update)
					require.NoError(t, err)
					assert.Equal(t, 7, v)
					calls := told(f)
					if where == "exec" {
						assert.Equal(t, []string{"begin", "exec", "rollback"}, calls[:3])
					} else {
						assert.Equal(t, []string{"begin", "exec", "commit"}, calls[:3])
					}
					assert.Len(t, calls, 18, "six runs")
					stats := d.Breaker().Stats()
					assert.Equal(t, 6, stats.Calls)
					assert.Zero(t, stats.Failures, "the database is well")
					assert.Zero(t, d.Retry().Stats().Retries, "the budget has nothing to do with it")
				})
			}
		}
	}
}

func TestConflictsWithoutEndEndTheTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
		db, p := bare(t, f), transfers(t, d, steady.WriteNonIdempotent)
		f.does(fails("commit", state("40001")))
		_, err := steadysql.InTx(t.Context(), db, p, steadysql.TxOptions{}, update)
		assert.ErrorIs(t, err, steady.ErrRetriesExhausted)
		assert.ErrorIs(t, err, state("40001"))
		assert.Equal(t, 10, f.asked("commit"))
		f.calls()
		_, err = steadysql.InTx(t.Context(), db, p, steadysql.TxOptions{MaxRuns: 1}, update)
		assert.ErrorIs(t, err, state("40001"))
		assert.Equal(t, 1, f.asked("commit"))

		ctx, cancel := context.WithCancel(t.Context())
		f.does(func(_ context.Context, call string) error {
			if call == "commit" {
				cancel()
				return state("40001")
			}
			return nil
		})
		f.calls()
		_, err = steadysql.InTx(ctx, db, p, steadysql.TxOptions{}, update)
		assert.ErrorIs(t, err, state("40001"))
		assert.Equal(t, 1, f.asked("begin"), "not after the caller has gone")
	})
}

func TestATransactionWhoseCommitIsInDoubtIsNeverRunAgain(t *testing.T) {
	reckless := func(error) steady.Outcome { return steady.Unsent } // as if everything could be repeated
	for _, doubt := range []error{
		io.ErrUnexpectedEOF, driver.ErrBadConn, context.DeadlineExceeded,
		state("08006"), state("08007"), state("57P01"), state("40003"), state("XX000"), safe(false),
	} {
		for _, classify := range []func(error) steady.Outcome{nil, steadysql.Classify, reckless} {
			synctest.Test(t, func(t *testing.T) {
				f, d := &fake{}, newDependency(t, steady.DependencyConfig{Classify: classify})
				f.does(fails("commit", doubt))
				_, err := steadysql.InTx(t.Context(), bare(t, f), transfers(t, d, steady.WriteIdempotent), steadysql.TxOptions{}, update)
				var commit *steadysql.CommitError
				require.ErrorAs(t, err, &commit)
				assert.ErrorIs(t, err, doubt)
				assert.Equal(t, []string{"begin", "exec", "commit"}, told(f), "%v", doubt)
				assert.Positive(t, d.Breaker().Stats().Failures, "%v", doubt)
			})
		}
	}
}

func TestACommitThatTheDatabaseHasRefusedIsNotInDoubt(t *testing.T) {
	for _, c := range []struct {
		err  error
		runs int
	}{
		{state("23503"), 1}, // a deferred constraint
		{state("53100"), 3},
		{errors.New("commit unexpectedly resulted in rollback"), 1},
		{errors.New("pq: Could not complete operation in a failed transaction"), 1},
		{errors.New("pq: could not complete operation in a failed transaction"), 1}, // since 1.12
		{safe(true), 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
			f.does(fails("commit", c.err))
			_, err := steadysql.InTx(t.Context(), bare(t, f), transfers(t, d, steady.WriteIdempotent), steadysql.TxOptions{}, update)
			assert.ErrorIs(t, err, c.err)
			var commit *steadysql.CommitError
			assert.NotErrorAs(t, err, &commit, "%v", c.err)
			assert.Equal(t, c.runs, f.asked("begin"), "%v: it was not committed, so the intent says", c.err)
		})
	}
}

func TestWhatAnIntentRepeatsOfATransaction(t *testing.T) {
	for intent, runs := range map[steady.Intent]int{steady.WriteIdempotent: 2, steady.WriteNonIdempotent: 1} {
		synctest.Test(t, func(t *testing.T) {
			f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
			f.does(times(1, "exec", io.ErrUnexpectedEOF))
			_, err := steadysql.InTx(t.Context(), bare(t, f), transfers(t, d, intent), steadysql.TxOptions{}, update)
			assert.Equal(t, runs == 1, err != nil, intent)
			assert.Equal(t, runs, f.asked("begin"), intent)
			assert.Equal(t, 1, f.asked("rollback"))
		})
	}
}

func TestAFunctionThatSaysNoIsRolledBackAndReturned(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	_, err := steadysql.InTx(t.Context(), bare(t, f), transfers(t, d, steady.WriteIdempotent), steadysql.TxOptions{},
		func(context.Context, *sql.Tx) (int, error) { return 7, sql.ErrNoRows })
	assert.ErrorIs(t, err, sql.ErrNoRows)
	assert.Equal(t, []string{"begin", "rollback"}, told(f))
	assert.Zero(t, d.Breaker().Stats().Failures)
}

func TestAPanicOrGoexitRollsBack(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db, p := bare(t, f), transfers(t, d, steady.WriteIdempotent)
	assert.PanicsWithValue(t, "in the function", func() {
		_, _ = steadysql.InTx(t.Context(), db, p, steadysql.TxOptions{}, func(context.Context, *sql.Tx) (int, error) {
			panic("in the function")
		})
	})
	assert.Equal(t, []string{"begin", "rollback"}, told(f))

	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = steadysql.InTx(t.Context(), db, p, steadysql.TxOptions{}, func(context.Context, *sql.Tx) (int, error) {
			runtime.Goexit()
			return 0, nil
		})
	}()
	<-done
	assert.Equal(t, []string{"begin", "rollback"}, told(f))
	assert.Zero(t, db.Stats().InUse)
	nothingIsLeft(t, d)
}

func TestARollbackDoesNotUseTheDeadContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		f.does(func(ctx context.Context, call string) error {
			if call != "rollback" {
				return nil
			}
			assert.NoError(t, ctx.Err())
			began := time.Now()
			<-ctx.Done()
			assert.Equal(t, 10*time.Second, time.Since(began), "but it has an end")
			return ctx.Err()
		})
		_, err := steadysql.InTx(ctx, bare(t, f), transfers(t, d, steady.WriteIdempotent), steadysql.TxOptions{},
			func(ctx context.Context, _ *sql.Tx) (int, error) {
				cancel()
				<-ctx.Done()
				time.Sleep(time.Second)
				return 7, nil // as if it had not noticed
			})
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, []string{"begin", "rollback"}, told(f), "what nobody waits for is not committed")
		assert.Zero(t, d.Breaker().Stats().Failures)
	})
}

func TestACallerWhoCancelsTheCommitIsToldThatItIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
		f.does(takes("commit", time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err := steadysql.InTx(ctx, bare(t, f), transfers(t, d, steady.WriteIdempotent), steadysql.TxOptions{}, update)
		var commit *steadysql.CommitError
		require.ErrorAs(t, err, &commit)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, d.Breaker().Stats().Calls, "the caller's doing")
	})
}

func TestALimitThatEndsTheCommitIsATimeoutAndADoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{AttemptTimeout: time.Second})
		f.does(takes("commit", time.Hour))
		_, err := steadysql.InTx(t.Context(), bare(t, f), transfers(t, d, steady.WriteIdempotent), steadysql.TxOptions{}, update)
		var commit *steadysql.CommitError
		require.ErrorAs(t, err, &commit)
		assert.ErrorIs(t, err, steady.ErrTimeout)
		assert.Equal(t, 1, f.asked("commit"))
	})
}

func TestABeginThatHangsEndsWithTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{Timeout: time.Second})
		f.does(takes("begin", time.Hour))
		_, err := steadysql.InTx(t.Context(), bare(t, f), transfers(t, d, steady.WriteNonIdempotent), steadysql.TxOptions{}, update)
		assert.ErrorIs(t, err, steady.ErrTimeout)
	})
}

func TestInTxOnADatabaseWrappedWithTheSameDependencyIsRefused(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := open(t, f, d)
	for _, connections := range []string{"new", "pooled"} {
		_, err := steadysql.InTx(t.Context(), db, transfers(t, d, steady.WriteIdempotent), steadysql.TxOptions{}, update)
		assert.ErrorContains(t, err, `steadysql: InTx was given a pipeline of the Dependency "db" that its DB is wrapped with`)
		assert.Zero(t, f.asked("begin"), connections)
		warm(t, db, 1)
	}
	assert.Zero(t, d.Breaker().Stats().Failures)

	none, err := steady.NewPipeline(steady.PipelineConfig[int]{})
	require.NoError(t, err)
	_, err = steadysql.InTx(t.Context(), db, none, steadysql.TxOptions{}, update)
	assert.NoError(t, err)
	other := newDependency(t, steady.DependencyConfig{})
	_, err = steadysql.InTx(t.Context(), db, transfers(t, other, steady.WriteIdempotent), steadysql.TxOptions{}, update)
	assert.NoError(t, err)
}

func TestInTxOnAWrappedDatabaseRunsConflictsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
		db := open(t, f, d)
		none, err := steady.NewPipeline(steady.PipelineConfig[int]{})
		require.NoError(t, err)
		f.does(times(3, "commit", state("40001")))
		_, err = steadysql.InTx(t.Context(), db, none, steadysql.TxOptions{}, update)
		require.NoError(t, err)
		assert.Equal(t, 4, f.asked("commit"))
		f.does(fails("commit", io.ErrUnexpectedEOF))
		_, err = steadysql.InTx(t.Context(), db, none, steadysql.TxOptions{}, update)
		var commit *steadysql.CommitError
		assert.ErrorAs(t, err, &commit)
		assert.Equal(t, 1, d.Breaker().Stats().Failures)
	})
}

func TestAConflictIsNotRunAgainByTheTransactionsAroundIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{Timeout: time.Minute})
		db, p := bare(t, f), transfers(t, d, steady.WriteNonIdempotent)
		f.does(fails("exec", state("40001")))
		_, err := steadysql.InTx(t.Context(), db, p, steadysql.TxOptions{}, func(ctx context.Context, _ *sql.Tx) (int, error) {
			return steadysql.InTx(ctx, db, p, steadysql.TxOptions{}, update)
		})
		assert.ErrorIs(t, err, steady.ErrRetriesExhausted)
		assert.Equal(t, 10, f.asked("exec"))
		assert.Equal(t, 11, f.asked("rollback"))
		nothingIsLeft(t, d)
	})
}

func TestInTxRefusesWhatItCannotUse(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db, p := bare(t, f), transfers(t, d, steady.WriteIdempotent)
	_, err := steadysql.InTx[int](t.Context(), db, p, steadysql.TxOptions{}, nil)
	assert.EqualError(t, err, "steadysql: InTx needs a db, a pipeline and a function that are not nil")
	_, err = steadysql.InTx(t.Context(), db, p, steadysql.TxOptions{MaxRuns: 101}, update)
	assert.EqualError(t, err, "steadysql: TxOptions.MaxRuns must be in [1, 100], got 101 (0 means 10)")

	limit, err := steady.NewTimeout(steady.TimeoutConfig{Name: "hasty", Limit: time.Second, Abandon: true})
	require.NoError(t, err)
	p, err = steady.NewPipeline(steady.PipelineConfig[int]{Policies: []steady.Policy{limit}})
	require.NoError(t, err)
	_, err = steadysql.InTx(t.Context(), db, p, steadysql.TxOptions{}, update)
	assert.ErrorContains(t, err, `steadysql: InTx was given a pipeline with the abandoning Timeout "hasty"`)
	assert.Empty(t, f.calls())
}
