package steadysql_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadysql"
)

func scanInt(rows *sql.Rows) (n int, err error) { return n, rows.Scan(&n) }

// lists returns a pipeline for queries.
func lists(t testing.TB, d *steady.Dependency) *steady.Pipeline[[]int] {
	t.Helper()
	p, err := steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[[]int]{})
	require.NoError(t, err)
	return p
}

func TestQueryReadsAllRowsAndClosesThem(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	all, err := steadysql.Query(t.Context(), lists(t, d), bare(t, f).QueryContext, scanInt, "select", 1, "two")
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2}, all)
	assert.Equal(t, []string{"connect", "query select [{ 1 1} { 2 two}]", "next", "next", "next", "next result set?", "close rows", "valid?"}, f.calls())
}

func TestAnErrorAmongTheRowsIsTheAttemptsAndIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
		f.does(times(1, "next", io.ErrUnexpectedEOF))
		all, err := steadysql.Query(t.Context(), lists(t, d), bare(t, f).QueryContext, scanInt, "select")
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2}, all, "none twice")
		stats := d.Breaker().Stats()
		assert.Equal(t, 2, stats.Calls)
		assert.Equal(t, 1, stats.Failures, "counted once")
		assert.Equal(t, 2, f.asked("close rows"))
	})
}

func TestTimeBetweenTheFirstRowAndTheLastIsTheDatabases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
		f.does(takes("next", 60*time.Millisecond))
		_, err := steadysql.Query(t.Context(), lists(t, d), bare(t, f).QueryContext, scanInt, "select")
		require.NoError(t, err)
		assert.Equal(t, 1, d.Breaker().Stats().Slow)
	})
}

func TestAScanThatFailsIsNoFailureOfTheDatabase(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	strange := errors.New("no int of this world")
	_, err := steadysql.Query(t.Context(), lists(t, d), bare(t, f).QueryContext,
		func(*sql.Rows) (int, error) { return 0, strange }, "select")
	assert.ErrorIs(t, err, strange)
	assert.Equal(t, 1, f.asked("query"), "not tried again")
	assert.Equal(t, 1, f.asked("close rows"))
	assert.Zero(t, d.Breaker().Stats().Failures)
}

func TestAScanThatPanicsClosesTheRows(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	db := bare(t, f)
	assert.Panics(t, func() {
		_, _ = steadysql.Query(t.Context(), lists(t, d), db.QueryContext, func(*sql.Rows) (int, error) { panic("scan") }, "select")
	})
	assert.Equal(t, 1, f.asked("close rows"))
	assert.Zero(t, db.Stats().InUse)
}

func TestARowThatCannotBeClosedIsAFailure(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{NoRetry: true})
	f.does(fails("close rows", io.ErrUnexpectedEOF))
	all, err := steadysql.Query(t.Context(), lists(t, d), bare(t, f).QueryContext, scanInt, "select")
	if err == nil { // database/sql closes rows at the end of their own accord, and keeps the error to itself
		assert.Equal(t, []int{1, 2}, all)
	}
	_, err = steadysql.Query(t.Context(), lists(t, d), func(context.Context, string, ...any) (badClose, error) {
		return badClose{}, nil
	}, func(badClose) (int, error) { return 0, nil }, "select")
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// badClose are rows that cannot be closed.
type badClose struct{}

func (badClose) Next() bool        { return false }
func (badClose) Scan(...any) error { return nil }
func (badClose) Err() error        { return nil }
func (badClose) Close() error      { return io.ErrUnexpectedEOF }

// pgxRows are rows whose Close returns nothing, and whose Err knows, as pgx has them.
type pgxRows struct {
	next   int
	closed *int
	err    error
}

func (r *pgxRows) Next() bool { r.next--; return r.next >= 0 }
func (r *pgxRows) Scan(dest ...any) error {
	*dest[0].(*int) = r.next
	return nil
}
func (r *pgxRows) Close()     { *r.closed++ }
func (r *pgxRows) Err() error { return r.err }

func TestRowsThatCloseWithoutAnErrorAreReadToo(t *testing.T) {
	d := newDependency(t, steady.DependencyConfig{NoRetry: true})
	closed := 0
	var late error
	query := func() ([]int, error) {
		return steadysql.Query(t.Context(), lists(t, d),
			func(context.Context, string, ...any) (*pgxRows, error) {
				return &pgxRows{next: 2, closed: &closed, err: late}, nil
			},
			func(rows *pgxRows) (n int, err error) { return n, rows.Scan(&n) }, "select")
	}
	all, err := query()
	require.NoError(t, err)
	assert.Equal(t, []int{1, 0}, all)
	assert.Equal(t, 1, closed)
	late = io.ErrUnexpectedEOF
	all, err = query()
	assert.ErrorIs(t, err, late)
	assert.Nil(t, all)
	assert.Equal(t, 2, closed)
	assert.Equal(t, 1, d.Breaker().Stats().Failures)
}

func TestAQueryThatTheServerHasCancelledAtTheLimitIsATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := &fake{}, newDependency(t, steady.DependencyConfig{Timeout: time.Second, NoRetry: true})
		f.does(func(ctx context.Context, call string) error {
			if call != "next" {
				return nil
			}
			<-ctx.Done()
			return state("57014")
		})
		_, err := steadysql.Query(t.Context(), lists(t, d), bare(t, f).QueryContext, scanInt, "select")
		assert.ErrorIs(t, err, steady.ErrTimeout)
		assert.Equal(t, 1, d.Breaker().Stats().Failures)
	})
}

func TestExecMarksItsErrors(t *testing.T) {
	f, d := &fake{}, newDependency(t, steady.DependencyConfig{})
	p, err := steady.NewPipelineFor(d, steady.WriteIdempotent, steady.PipelineConfig[sql.Result]{})
	require.NoError(t, err)
	db := bare(t, f)
	res, err := steadysql.Exec(t.Context(), p, db.ExecContext, "insert", 1)
	require.NoError(t, err)
	n, err := res.RowsAffected()
	require.NoError(t, err)
	assert.EqualValues(t, 1, n)

	f.does(fails("exec", state("23505")))
	_, err = steadysql.Exec(t.Context(), p, db.ExecContext, "insert", 1)
	assert.ErrorIs(t, err, state("23505"))
	assert.Equal(t, 2, f.asked("exec"), "not tried again")
	assert.Zero(t, d.Breaker().Stats().Failures, "though the Dependency has no Classify")
}

func TestTheHelpersRefuseNil(t *testing.T) {
	_, err := steadysql.Query[int, *sql.Rows](t.Context(), nil, nil, nil, "")
	assert.EqualError(t, err, "steadysql: Query needs a pipeline, a query and a scan that are not nil")
	_, err = steadysql.Exec[sql.Result](t.Context(), nil, nil, "")
	assert.EqualError(t, err, "steadysql: Exec needs a pipeline and an exec that are not nil")
}
