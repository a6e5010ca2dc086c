package steadysql

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/steady-go/steady"
)

// conn is a protected connection, with the optional interfaces that mean the same whether the driver has them or not. The
// others are in offer.go. database/sql holds a connection's lock around each call of it, of its statements, its rows and
// its transaction.
type conn struct {
	inner   driver.Conn
	guard   *guard
	tx      *tx   // the one that is open, nil if none is
	bad     trial // what becomes of an ErrBadConn
	unreset bool  // the last ResetSession was rejected
}

// call makes a call that belongs to the open transaction or, without one, stands for itself.
func (c *conn) call(ctx context.Context, f func(ctx context.Context) error) (release func(error), err error) {
	if c.unreset {
		if err := c.reset(ctx); c.unreset || errors.Is(err, driver.ErrBadConn) {
			return func(error) {}, err
		}
	}
	m, t := asks, c.bad
	if c.tx != nil {
		m, t = c.guard.inside(), final
	}
	return c.guard.hold(ctx, m, func(ctx context.Context) (steady.Outcome, error) {
		err := f(ctx)
		if err != driver.ErrSkip && !errors.Is(err, driver.ErrBadConn) { //nolint:errorlint // as database/sql has it
			c.answered()
		}
		return c.guard.ended(ctx, err, t)
	})
}

// answered notes that the connection is alive. When it is used again without a reset, it was not in the pool meanwhile:
// it is a *sql.Conn's, for which database/sql does not try again. A driver without resets leaves that open.
func (c *conn) answered() {
	c.bad = stale
	if _, ok := c.inner.(driver.SessionResetter); ok {
		c.bad = final
	}
}

// do is call for what is over when it returns.
func (c *conn) do(ctx context.Context, f func(ctx context.Context) error) error {
	release, err := c.call(ctx, f)
	release(nil)
	return err
}

// query is call for rows, which hold what it took until they are closed.
func (c *conn) query(ctx context.Context, f func(ctx context.Context) (driver.Rows, error)) (driver.Rows, error) {
	r := &rows{caller: ctx, guard: c.guard}
	release, err := c.call(ctx, func(ctx context.Context) (err error) {
		r.ctx = ctx
		r.inner, err = f(ctx)
		return err
	})
	if err != nil {
		release(nil)
		return nil, err
	}
	r.release = release
	return r, nil
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	var inner driver.Stmt
	bad := c.bad
	err := c.do(ctx, func(ctx context.Context) (err error) {
		inner, err = prepare(ctx, c.inner, query)
		return err
	})
	if err != nil {
		return nil, err
	}
	if bad != final && c.bad == final {
		c.bad = tried // database/sql may have prepared it itself, and tries both again
	}
	return offerStmt(&stmt{inner: inner, conn: c}), nil
}

func (c *conn) Ping(ctx context.Context) error {
	pinger, ok := c.inner.(driver.Pinger)
	if !ok {
		return nil // as database/sql has it
	}
	release, err := c.guard.hold(ctx, asks, func(ctx context.Context) (steady.Outcome, error) {
		return c.guard.ended(ctx, pinger.Ping(ctx), final)
	})
	release(nil)
	return err
}

// CheckNamedValue leaves what the driver does not check to database/sql, as if there was no such method.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.inner.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// Close asks nobody: a connection can always be closed.
func (c *conn) Close() error {
	if c.tx != nil {
		defer c.tx.over()
	}
	return c.inner.Close()
}

// reset lets the driver look after a connection that comes from the pool. Many look whether it is alive, and may hang
// then, so this is a call like others, but for a success: that is no answer of the database to anybody. What it rejects
// cannot be returned, for database/sql uses the connection after every error but ErrBadConn; the next call makes up for
// it.
func (c *conn) reset(ctx context.Context) error {
	resetter, ok := c.inner.(driver.SessionResetter)
	if !ok {
		return nil
	}
	ran := false
	release, err := c.guard.hold(ctx, asks, func(ctx context.Context) (steady.Outcome, error) {
		ran = true
		err := resetter.ResetSession(ctx)
		if err == nil {
			return steady.Ignored, nil
		}
		return c.guard.ended(ctx, err, stale)
	})
	release(nil)
	c.unreset = !ran
	return err
}
