package steadysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/steady-go/steady"
)

// rollbackLimit is the time of a rollback where nothing else limits it. The driver may not heed it, or do without.
const rollbackLimit = 10 * time.Second

// tx is a transaction on a protected connection. It holds a slot until it is over.
type tx struct {
	inner   driver.Tx
	conn    *conn
	caller  context.Context // BeginTx's
	ctx     *txContext      // the driver's
	release func(error)
}

func (c *conn) Begin() (driver.Tx, error) { return c.BeginTx(context.Background(), driver.TxOptions{}) }

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	t := &tx{conn: c, caller: ctx, ctx: newTxContext(ctx)}
	release, err := c.call(ctx, func(ctx context.Context) (err error) {
		stop := t.ctx.during(ctx)
		t.inner, err = begin(t.ctx, c.inner, opts)
		if stop() || err != nil {
			return err
		}
		err = ctx.Err()
		if t.inner.Rollback() != nil { // the driver's context has ended, too
			err = errors.Join(err, driver.ErrBadConn) // for the pool must not have it
		}
		return err
	})
	if err != nil {
		release(nil)
		t.ctx.cancel(nil)
		return nil, err
	}
	t.release = release
	c.tx = t
	return t, nil
}

// Commit is sent whatever the state of the caller's context: database/sql takes the transaction for ended, and the
// connection for free. That context's end stops a driver that kept it, as it would without the wrapper.
func (t *tx) Commit() error {
	return t.end(context.WithoutCancel(t.caller), t.conn.guard.inside(), func(ctx context.Context) (steady.Outcome, error) {
		stop := context.AfterFunc(t.caller, func() { t.ctx.cancel(t.caller.Err()) })
		defer stop()
		o, err := t.conn.guard.ended(ctx, t.inner.Commit(), final)
		if err != nil && t.caller.Err() == context.Canceled {
			o = steady.Ignored
		}
		return o, err
	})
}

// Rollback is no news of the database for the breaker: what made it necessary has been counted.
func (t *tx) Rollback() error {
	ctx := context.WithoutCancel(t.caller)
	if t.conn.guard.limit == nil {
		limited, cancel := context.WithTimeout(ctx, rollbackLimit)
		defer cancel()
		ctx = limited
	}
	return t.end(ctx, bounded, func(ctx context.Context) (steady.Outcome, error) {
		return t.conn.guard.ended(ctx, t.inner.Rollback(), final)
	})
}

func (t *tx) end(ctx context.Context, m mode, f call) error {
	defer t.over()
	release, err := t.conn.guard.hold(ctx, m, func(ctx context.Context) (steady.Outcome, error) {
		defer t.ctx.during(ctx)()
		return f(ctx)
	})
	release(nil)
	return err
}

// over gives everything back. It may be called more than once.
func (t *tx) over() {
	t.conn.tx = nil
	t.ctx.cancel(nil)
	t.release(nil)
}
