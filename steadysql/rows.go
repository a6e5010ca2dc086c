package steadysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"os"
	"reflect"

	"github.com/steady-go/steady"
)

// rows are the rows of a protected query. All optional interfaces are there: what they return where the driver has them
// not is what database/sql assumes then.
type rows struct {
	inner   driver.Rows
	caller  context.Context // the query's
	ctx     context.Context // the driver's, with the limit
	guard   *guard
	release func(err error)
	late    error // the first that came after the query had returned
}

func (r *rows) Columns() []string { return r.inner.Columns() }

func (r *rows) Next(dest []driver.Value) error { return r.fail(r.inner.Next(dest)) }

// Close gives everything back, whatever the driver says.
func (r *rows) Close() error {
	defer func() { r.release(r.late) }()
	return r.fail(r.inner.Close())
}

func (r *rows) HasNextResultSet() bool {
	next, ok := r.inner.(driver.RowsNextResultSet)
	return ok && next.HasNextResultSet()
}

func (r *rows) NextResultSet() error {
	if next, ok := r.inner.(driver.RowsNextResultSet); ok {
		return r.fail(next.NextResultSet())
	}
	return io.EOF
}

// fail keeps the first error for the release, and says of one that the limit has caused that it was that.
func (r *rows) fail(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // as database/sql has it
		return err
	}
	err = withCause(r.ctx, err)
	if r.timedOut(err) {
		err = &steady.TimeoutError{Policy: r.guard.limit.Name(), Limit: r.guard.limit.Config().Limit, Err: err}
	}
	if r.late == nil {
		r.late = err
	}
	return err
}

func (r *rows) timedOut(err error) bool {
	if r.guard.limit == nil || r.caller.Err() != nil || r.ctx.Err() != context.DeadlineExceeded {
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if t, ok := r.inner.(driver.RowsColumnTypeScanType); ok {
		return t.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if t, ok := r.inner.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return t.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

func (r *rows) ColumnTypeLength(i int) (length int64, ok bool) {
	if t, ok := r.inner.(driver.RowsColumnTypeLength); ok {
		return t.ColumnTypeLength(i)
	}
	return 0, false
}

func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if t, ok := r.inner.(driver.RowsColumnTypeNullable); ok {
		return t.ColumnTypeNullable(i)
	}
	return false, false
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if t, ok := r.inner.(driver.RowsColumnTypePrecisionScale); ok {
		return t.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}
