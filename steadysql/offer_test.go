package steadysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadysql"
)

// variants are the kinds of connections that drivers have.
func variants() map[string]func(base) driver.Conn {
	all := make(map[string]func(base) driver.Conn)
	for has := range 16 {
		all["with contexts and "+names(has)] = modern(has)
	}
	for has, name := range []string{"nothing", "Execer", "Queryer", "Execer and Queryer", "all"} {
		all["without contexts, with "+name] = old(has)
	}
	return all
}

func TestAWrappedDriverIsAskedWhatItWouldBeAskedWithoutTheWrapper(t *testing.T) {
	for name, variant := range variants() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bare, wrapped := &fake{variant: variant}, &fake{variant: variant}
				want := exercise(t, sql.OpenDB(bare), bare)
				got := exercise(t, sql.OpenDB(wrap(t, wrapped, newDependency(t, steady.DependencyConfig{}))), wrapped)
				assert.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
			})
		})
	}
}

// exercise does everything that database/sql can do, and returns what came of it and what the driver was asked.
func exercise(t *testing.T, db *sql.DB, f *fake) (story []string) {
	t.Helper()
	db.SetMaxOpenConns(1)
	note := func(what string, args ...any) {
		synctest.Wait()
		story = append(story, fmt.Sprintf(what, args...))
		story = append(story, f.calls()...)
	}
	outcome := func(err error) string { // the texts are ours where the driver has no say
		if err == nil {
			return "ok"
		}
		return "an error"
	}
	ctx := t.Context()

	note("ping: %v", db.PingContext(ctx))
	for _, args := range [][]any{{}, {1, "two"}, {odd{}}, {true}, {sql.Named("n", 1)}, {make(chan int)}} {
		_, err := db.ExecContext(ctx, "insert", args...)
		note("exec %T: %s", args, outcome(err))
		rows, err := db.QueryContext(ctx, "select", args...)
		note("query %T: %s", args, outcome(err))
		if err == nil {
			note("rows: %v", read(rows))
		}
	}

	stmt, err := db.PrepareContext(ctx, "prepared")
	note("prepare: %v", err)
	_, err = stmt.ExecContext(ctx, odd{})
	note("statement exec: %v", err)
	var n int
	note("statement query: %v %d", stmt.QueryRowContext(ctx, 1).Scan(&n), n)
	note("statement close: %v", stmt.Close())

	for _, opts := range []*sql.TxOptions{nil, {ReadOnly: true}, {Isolation: sql.LevelSerializable}} {
		tx, err := db.BeginTx(ctx, opts)
		note("begin %v: %s", opts, outcome(err))
		if err != nil {
			continue
		}
		_, err = tx.ExecContext(ctx, "update")
		note("in it: %v", err)
		note("commit: %v", tx.Commit())
	}

	cancelled, cancel := context.WithCancel(ctx)
	_, err = db.BeginTx(cancelled, nil)
	note("begin: %v", err)
	cancel()
	note("the transaction's context ends, and the connection is kept or closed")
	note("exec: %s", outcome(db.QueryRowContext(cancelled, "select").Err()))
	conn, err := db.Conn(ctx)
	note("conn: %v", err)
	_, err = conn.ExecContext(ctx, "update")
	note("exec: %v", err)
	note("close: %v", conn.Close())

	f.does(func(_ context.Context, call string) error {
		if call == "reset" || call == "valid?" {
			return driver.ErrBadConn
		}
		return nil
	})
	_, err = db.ExecContext(ctx, "update")
	note("exec, with connections that are no good: %v", err)
	note("close: %v", db.Close())
	return story
}

// read reads all there is to rows.
func read(rows *sql.Rows) (all []any) {
	types, err := rows.ColumnTypes()
	all = append(all, err)
	for _, ct := range types {
		length, ok := ct.Length()
		all = append(all, ct.Name(), ct.DatabaseTypeName(), length, ok, fmt.Sprint(ct.ScanType()))
		nullable, ok := ct.Nullable()
		all = append(all, nullable, ok)
		precision, scale, ok := ct.DecimalSize()
		all = append(all, precision, scale, ok)
	}
	for rows.Next() {
		var n int
		all = append(all, rows.Scan(&n), n)
	}
	all = append(all, rows.NextResultSet(), rows.Next(), rows.Err(), rows.Close())
	return all
}

func TestWhetherAConnectionHasAnInterfaceIsWhetherItsDriverHasIt(t *testing.T) {
	for name, variant := range variants() {
		f := &fake{variant: variant}
		c := wrap(t, f, newDependency(t, steady.DependencyConfig{}))
		wrapped, err := c.Connect(t.Context())
		require.NoError(t, err)
		inner := steadysql.Unwrap(wrapped)

		_, exec := inner.(driver.ExecerContext)
		_, oldExec := inner.(driver.Execer) //nolint:staticcheck // drivers may still have it
		_, got := wrapped.(driver.ExecerContext)
		assert.Equal(t, exec || oldExec, got, "%s: ExecerContext", name)
		_, query := inner.(driver.QueryerContext)
		_, oldQuery := inner.(driver.Queryer) //nolint:staticcheck // drivers may still have it
		_, got = wrapped.(driver.QueryerContext)
		assert.Equal(t, query || oldQuery, got, "%s: QueryerContext", name)
		_, want := inner.(driver.SessionResetter)
		_, got = wrapped.(driver.SessionResetter)
		assert.Equal(t, want, got, "%s: SessionResetter", name)
		_, want = inner.(driver.Validator)
		_, got = wrapped.(driver.Validator)
		assert.Equal(t, want, got, "%s: Validator", name)
	}
}

func TestRawReachesTheDriversOwnConnection(t *testing.T) {
	f := &fake{}
	db := sql.OpenDB(wrap(t, f, newDependency(t, steady.DependencyConfig{})))
	defer db.Close()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Raw(func(c any) error {
		_, ours := c.(interface {
			CheckNamedValue(*driver.NamedValue) error
		})
		assert.True(t, ours)
		assert.IsType(t, modern(execs|queries|resets|validates)(base{f}), steadysql.Unwrap(c))
		return nil
	}))
	assert.Equal(t, 7, steadysql.Unwrap(7), "what is not ours stays what it is")
}

func TestAConnectorThatCanBeClosedIsClosed(t *testing.T) {
	f := &fake{}
	db := sql.OpenDB(wrap(t, f, newDependency(t, steady.DependencyConfig{})))
	assert.Equal(t, fakeDriver{}, db.Driver())
	require.NoError(t, db.Close())
	assert.Equal(t, []string{"connector close"}, f.calls())

	db = sql.OpenDB(wrap(t, struct{ driver.Connector }{&fake{}}, newDependency(t, steady.DependencyConfig{})))
	require.NoError(t, db.Close())
}

func TestAStatementOfADriverWithoutContextsLooksAtItsContextFirst(t *testing.T) {
	f := &fake{variant: old(execs | queries)}
	c, err := wrap(t, f, newDependency(t, steady.DependencyConfig{Timeout: time.Second})).Connect(t.Context())
	require.NoError(t, err)
	s, err := c.Prepare("insert")
	require.NoError(t, err)
	_, err = s.Exec([]driver.Value{int64(1)}) //nolint:staticcheck // the interface has it
	require.NoError(t, err)
	rows, err := s.Query(nil) //nolint:staticcheck // the interface has it
	require.NoError(t, err)
	require.NoError(t, rows.Close())
	tx, err := c.Begin() //nolint:staticcheck // the interface has it
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	f.calls()

	for what, call := range map[string]func(ctx context.Context) error{
		"prepare": func(ctx context.Context) error {
			_, err := c.(driver.ConnPrepareContext).PrepareContext(ctx, "select")
			return err
		},
		"begin": func(ctx context.Context) error {
			_, err := c.(driver.ConnBeginTx).BeginTx(ctx, driver.TxOptions{})
			return err
		},
		"exec": func(ctx context.Context) error {
			_, err := c.(driver.ExecerContext).ExecContext(ctx, "insert", nil)
			return err
		},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		f.does(func(context.Context, string) error { cancel(errors.New("the caller has gone")); return nil })
		if what == "exec" {
			cancel(nil)
		}
		assert.ErrorIs(t, call(ctx), context.Canceled, what)
	}
	assert.Equal(t, []string{"begin", "close statement", "prepare select", "rollback"}, sorted(f.calls()),
		"what was begun is ended, and what was not begun is not")
}
