package steadysql

import (
	"context"
	"database/sql/driver"
)

// stmt is a prepared statement of a protected connection.
type stmt struct {
	inner driver.Stmt
	conn  *conn
}

// columnStmt is one whose driver converts its arguments by column.
type columnStmt struct {
	*stmt
	converter driver.ColumnConverter //nolint:staticcheck // drivers may still have it
}

func (s columnStmt) ColumnConverter(i int) driver.ValueConverter {
	return s.converter.ColumnConverter(i)
}

func offerStmt(s *stmt) driver.Stmt {
	if converter, ok := s.inner.(driver.ColumnConverter); ok { //nolint:staticcheck // drivers may still have it
		return columnStmt{s, converter}
	}
	return s
}

// Close asks nobody: a statement can always be closed.
func (s *stmt) Close() error { return s.inner.Close() }

func (s *stmt) NumInput() int { return s.inner.NumInput() }

// CheckNamedValue asks the driver's statement, and then its connection, in the order that database/sql has.
func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := s.inner.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	err = s.conn.do(ctx, func(ctx context.Context) (err error) {
		res, err = execStmt(ctx, s.inner, args)
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.query(ctx, func(ctx context.Context) (driver.Rows, error) {
		return queryStmt(ctx, s.inner, args)
	})
}

// Exec is there because driver.Stmt asks for it.
func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

// Query is there because driver.Stmt asks for it.
func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}
