package steadysql

import (
	"context"
	"database/sql/driver"
)

// What database/sql does depends on whether a connection has these methods, not on what they return: without Execer or
// Queryer it converts arguments differently, and with both SessionResetter and Validator it keeps a connection after
// the rollback of a cancelled transaction. So each of them is offered exactly when the driver has it.

type execer struct{ c *conn }

func (e execer) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	err = e.c.do(ctx, func(ctx context.Context) (err error) {
		res, err = exec(ctx, e.c.inner, query, args)
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

type queryer struct{ c *conn }

func (q queryer) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return q.c.query(ctx, func(ctx context.Context) (driver.Rows, error) {
		return queryConn(ctx, q.c.inner, query, args)
	})
}

type resetter struct{ c *conn }

// ResetSession comes when the connection leaves the pool.
func (r resetter) ResetSession(ctx context.Context) error {
	r.c.bad, r.c.unreset = stale, true
	if r.c.guard.rejects() {
		return nil // the call that follows is rejected, and that once
	}
	return r.c.reset(ctx)
}

type validator struct{ c *conn }

func (v validator) IsValid() bool { return v.c.inner.(driver.Validator).IsValid() }

// The optional interfaces, as bits.
const (
	execs = 1 << iota
	queries
	resets
	validates
)

func offered(inner driver.Conn) (has int) {
	switch inner.(type) {
	case driver.ExecerContext, driver.Execer: //nolint:staticcheck // drivers may still have it
		has |= execs
	}
	switch inner.(type) {
	case driver.QueryerContext, driver.Queryer: //nolint:staticcheck // likewise
		has |= queries
	}
	if _, ok := inner.(driver.SessionResetter); ok {
		has |= resets
	}
	if _, ok := inner.(driver.Validator); ok {
		has |= validates
	}
	return has
}

// offer returns c with the methods that its driver has.
func offer(c *conn) driver.Conn {
	e, q, r, v := execer{c}, queryer{c}, resetter{c}, validator{c}
	switch offered(c.inner) {
	case execs:
		return struct {
			*conn
			execer
		}{c, e}
	case queries:
		return struct {
			*conn
			queryer
		}{c, q}
	case execs | queries:
		return struct {
			*conn
			execer
			queryer
		}{c, e, q}
	case resets:
		return struct {
			*conn
			resetter
		}{c, r}
	case execs | resets:
		return struct {
			*conn
			execer
			resetter
		}{c, e, r}
	case queries | resets:
		return struct {
			*conn
			queryer
			resetter
		}{c, q, r}
	case execs | queries | resets:
		return struct {
			*conn
			execer
			queryer
			resetter
		}{c, e, q, r}
	case validates:
		return struct {
			*conn
			validator
		}{c, v}
	case execs | validates:
		return struct {
			*conn
			execer
			validator
		}{c, e, v}
	case queries | validates:
		return struct {
			*conn
			queryer
			validator
		}{c, q, v}
	case execs | queries | validates:
		return struct {
			*conn
			execer
			queryer
			validator
		}{c, e, q, v}
	case resets | validates:
		return struct {
			*conn
			resetter
			validator
		}{c, r, v}
	case execs | resets | validates:
		return struct {
			*conn
			execer
			resetter
			validator
		}{c, e, r, v}
	case queries | resets | validates:
		return struct {
			*conn
			queryer
			resetter
			validator
		}{c, q, r, v}
	case execs | queries | resets | validates:
		return struct {
			*conn
			execer
			queryer
			resetter
			validator
		}{c, e, q, r, v}
	default:
		return c
	}
}
