package steadysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/steady-go/steady"
)

// Config configures [Wrap].
type Config struct {
	// Dependency has the policies: its Breaker, its Bulkhead and, as the limit of each call, its AttemptTimeout, or its
	// Timeout if it has none; parts that were left out of it are left out. Its Retry is not used. Its Classify is asked
	// what an error means, and then the function Classify. Required. Its Bulkhead must be without MaxWait: a call would
	// wait for a slot while it holds a connection of the pool.
	Dependency *steady.Dependency
}

// Wrap returns a connector whose connections go through the policies of a [steady.Dependency], for
//
//	db := sql.OpenDB(steadysql.Wrap(connector, steadysql.Config{Dependency: orders}))
//
// It panics with the error of [NewConnector] if there is one; a program whose configuration is not a constant uses that.
//
// Each connect, ping, prepare, query and exec, with DB, Conn and Stmt, asks the breaker, takes a slot of the bulkhead, and
// has the time of the Timeout; so does what a driver does to see whether a pooled connection is alive. What is rejected
// comes back as a *steady.RejectedError, and never as driver.ErrBadConn: the connection stays in the pool, and
// database/sql does not try again. Time spent waiting for a connection of the pool is outside all of that; keep
// Bulkhead.MaxConcurrent below SetMaxOpenConns, and nobody waits.
//
// Rows hold their slot until they are closed, and the time of the Timeout runs until then. The verdict, and whether it
// was slow, falls when the query returns; an error while rows are read makes it a failure, once.
//
// Begin asks the breaker and takes the slot for the whole transaction: nothing in it is rejected or queued any more,
// neither statements, nor commit, nor rollback. Each statement and the commit has the time of the Timeout, and counts as
// a call of its own while the breaker is closed; time between statements is not the database's. The transaction as a
// whole has no limit but its caller's context. Transactions must be begun with BeginTx: a BEGIN sent as text is just a
// statement, and its COMMIT may be rejected.
//
// A driver may keep the context of BeginTx, pgx does. It gets one that lives until the transaction has ended, so that
// the rollback after a cancelled context still reaches the server; that rollback has the time of the Timeout, or 10
// seconds where there is none.
//
// driver.ErrBadConn passes untouched, and database/sql tries an operation up to three times then. A connection of the
// pool that turns out to be dead counts for nothing: the next try tells how the database is. On new connections every
// third in a row is one failure. Where there is but one try it counts: inside a transaction, for a ping, and on a
// *sql.Conn that has answered before, if the driver has a ResetSession.
//
// All optional interfaces of the driver's connections, statements and rows keep working, or are not offered where the
// driver does not. With (*sql.Conn).Raw, see [Unwrap].
func Wrap(c driver.Connector, cfg Config) driver.Connector {
	return steady.Must(NewConnector(c, cfg))
}

// NewConnector is [Wrap] for a configuration that may be wrong: the error names everything that is.
func NewConnector(c driver.Connector, cfg Config) (driver.Connector, error) {
	var errs []error
	if c == nil {
		errs = append(errs, errors.New("steadysql: Wrap needs a driver.Connector that is not nil; drivers have functions that make one"))
	}
	if cfg.Dependency == nil {
		errs = append(errs, errors.New("steadysql: Config.Dependency is required, got nil (make one with steady.NewDependency)"))
	} else if b := cfg.Dependency.Bulkhead(); b != nil && b.Config().MaxWait > 0 {
		errs = append(errs, fmt.Errorf("steadysql: Config.Dependency %q must have a Bulkhead without MaxWait, got MaxWait %v "+
			"(a call would wait for a slot while it holds a connection of the pool; leave MaxWait out)",
			cfg.Dependency.Name(), b.Config().MaxWait))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	g, err := newGuard(cfg.Dependency)
	if err != nil {
		return nil, err
	}
	return &connector{inner: c, guard: g}, nil
}

// connector makes protected connections.
type connector struct {
	inner driver.Connector
	guard *guard
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	var inner driver.Conn
	release, err := c.guard.hold(ctx, asks, func(ctx context.Context) (o steady.Outcome, err error) {
		inner, err = c.inner.Connect(ctx)
		return c.guard.connected(ctx, err)
	})
	release(nil)
	if err != nil {
		return nil, err
	}
	return offer(&conn{inner: inner, guard: c.guard}), nil
}

func (c *connector) Driver() driver.Driver { return c.inner.Driver() }

// Close closes the driver's connector if that can be closed, as (*sql.DB).Close does.
func (c *connector) Close() error {
	if closer, ok := c.inner.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// Unwrap returns the driver's own connection behind the one that (*sql.Conn).Raw gives, when it is of a wrapped
// connector, and what it was given otherwise. What is done with it goes through no policy; and a *sql.Conn that was taken
// while calls were rejected is reset by its first call, not by Raw:
//
//	err := conn.Raw(func(c any) error {
//		return copyInto(steadysql.Unwrap(c).(*stdlib.Conn).Conn())
//	})
func Unwrap(driverConn any) any {
	if c, ok := driverConn.(interface{ steadysqlUnwrap() driver.Conn }); ok {
		return c.steadysqlUnwrap()
	}
	return driverConn
}

func (c *conn) steadysqlUnwrap() driver.Conn { return c.inner }
