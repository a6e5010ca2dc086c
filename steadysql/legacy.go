package steadysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/steady-go/steady"
)

// What follows calls a driver as database/sql does: with the context where the driver takes one, and otherwise without,
// after a look at it. (*conn).BeginTx looks itself.

func prepare(ctx context.Context, c driver.Conn, query string) (driver.Stmt, error) {
	if c, ok := c.(driver.ConnPrepareContext); ok {
		return c.PrepareContext(ctx, query)
	}
	s, err := c.Prepare(query)
	if err == nil && ctx.Err() != nil {
		_ = s.Close()
		return nil, ctx.Err()
	}
	return s, err
}

func exec(ctx context.Context, c driver.Conn, query string, args []driver.NamedValue) (driver.Result, error) {
	if c, ok := c.(driver.ExecerContext); ok {
		return c.ExecContext(ctx, query, args)
	}
	values, err := unnamed(ctx, args)
	if err != nil {
		return nil, err
	}
	return c.(driver.Execer).Exec(query, values) //nolint:staticcheck // drivers may have nothing else
}

func queryConn(ctx context.Context, c driver.Conn, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c, ok := c.(driver.QueryerContext); ok {
		return c.QueryContext(ctx, query, args)
	}
	values, err := unnamed(ctx, args)
	if err != nil {
		return nil, err
	}
	return c.(driver.Queryer).Query(query, values) //nolint:staticcheck // drivers may have nothing else
}

func execStmt(ctx context.Context, s driver.Stmt, args []driver.NamedValue) (driver.Result, error) {
	if s, ok := s.(driver.StmtExecContext); ok {
		return s.ExecContext(ctx, args)
	}
	values, err := unnamed(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.Exec(values) //nolint:staticcheck // drivers may have nothing else
}

func queryStmt(ctx context.Context, s driver.Stmt, args []driver.NamedValue) (driver.Rows, error) {
	if s, ok := s.(driver.StmtQueryContext); ok {
		return s.QueryContext(ctx, args)
	}
	values, err := unnamed(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.Query(values) //nolint:staticcheck // drivers may have nothing else
}

// begin gives ctx to a driver that takes one.
func begin(ctx context.Context, c driver.Conn, opts driver.TxOptions) (driver.Tx, error) {
	if c, ok := c.(driver.ConnBeginTx); ok {
		return c.BeginTx(ctx, opts)
	}
	if opts.Isolation != driver.IsolationLevel(sql.LevelDefault) {
		return nil, unsupported("non-default isolation levels")
	}
	if opts.ReadOnly {
		return nil, unsupported("read-only transactions")
	}
	return c.Begin() //nolint:staticcheck // drivers may have nothing else
}

// unsupported returns an error for what the driver cannot do. The database has not been asked.
func unsupported(what string) error {
	return steady.Mark(errors.New("steadysql: the driver does not support "+what), steady.Ignored)
}

// unnamed returns the arguments for a driver without contexts, which knows no names either.
func unnamed(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, arg := range args {
		if arg.Name != "" {
			return nil, unsupported("named parameters")
		}
		values[i] = arg.Value
	}
	return values, ctx.Err()
}

func named(values []driver.Value) []driver.NamedValue {
	args := make([]driver.NamedValue, len(values))
	for i, v := range values {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return args
}
