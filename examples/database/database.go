package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/steady-go/steady"
)

// database is one database, as its driver has it.
type database struct {
	connector driver.Connector
	isolation sql.IsolationLevel
	classify  func(err error) steady.Outcome // what the driver's errors mean, before steadysql.Classify; may be nil
	sleep     string                         // an expression that takes $1 milliseconds
	pause     atomic.Int64                   // what the report takes besides, a time.Duration
	operator  *sql.DB                        // for making and removing everything
	dir       string                         // to remove, too
}

const articles = 5

// openDatabase opens a PostgreSQL, or a new SQLite without a dsn, and makes the tables.
func openDatabase(ctx context.Context, dsn string) (db *database, err error) {
	if dsn == "" {
		db, err = openSQLite()
	} else {
		db, err = openPostgres(dsn)
	}
	if err != nil {
		return nil, err
	}
	db.operator = sql.OpenDB(db.connector)
	for _, statement := range []string{
		"DROP TABLE IF EXISTS steady_sales", "DROP TABLE IF EXISTS steady_stock",
		"CREATE TABLE steady_stock (article INT PRIMARY KEY, quantity INT NOT NULL)",
		"CREATE TABLE steady_sales (article INT NOT NULL, quantity INT NOT NULL)",
	} {
		if _, err := db.operator.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, db.close(ctx))
		}
	}
	for article := range articles {
		if _, err := db.operator.ExecContext(ctx, "INSERT INTO steady_stock VALUES ($1, $2)", article, stocked); err != nil {
			return nil, errors.Join(err, db.close(ctx))
		}
	}
	return db, nil
}

// close drops the tables, and removes the files of an SQLite.
func (db *database) close(ctx context.Context) error {
	_, sales := db.operator.ExecContext(ctx, "DROP TABLE IF EXISTS steady_sales")
	_, stock := db.operator.ExecContext(ctx, "DROP TABLE IF EXISTS steady_stock")
	err := errors.Join(sales, stock, db.operator.Close())
	if db.dir != "" {
		err = errors.Join(err, os.RemoveAll(db.dir))
	}
	return err
}

func openPostgres(dsn string) (*database, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	return &database{
		connector: stdlib.GetConnector(*cfg),
		isolation: sql.LevelSerializable,
		sleep:     "(SELECT pg_sleep($1 / 1000.0)::text)",
	}, nil
}

// registerSleep gives SQLite a function that takes some milliseconds. The driver keeps it for the whole program.
var registerSleep = sync.OnceValue(func() error {
	return sqlite.RegisterScalarFunction("sleep", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		milliseconds, ok := args[0].(int64)
		if !ok {
			return nil, fmt.Errorf("sleep wants milliseconds, got %T", args[0])
		}
		time.Sleep(time.Duration(milliseconds) * time.Millisecond)
		return nil, nil
	})
})

func openSQLite() (*database, error) {
	if err := registerSleep(); err != nil {
		return nil, err
	}
	registered, err := sql.Open("sqlite", "")
	if err != nil {
		return nil, err
	}
	d := registered.Driver()
	dir, err := os.MkdirTemp("", "steady-database-")
	if err = errors.Join(err, registered.Close()); err != nil {
		return nil, err
	}
	return &database{
		// In WAL mode those who read and those who write do not wait for each other.
		connector: sqliteConnector{d, "file:" + filepath.Join(dir, "shop.db") +
			"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(2000)&_pragma=synchronous(OFF)&_txlock=immediate"},
		classify: classifySQLite,
		sleep:    "sleep($1)",
		dir:      dir,
	}, nil
}

// sqliteConnector is a connector for a driver that has none of its own.
type sqliteConnector struct {
	driver driver.Driver
	dsn    string
}

func (c sqliteConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c sqliteConnector) Driver() driver.Driver                        { return c.driver }

// classifySQLite says what SQLite's errors mean, which have no SQLSTATE: a constraint is a healthy "no". The rest it
// leaves to the default.
func classifySQLite(err error) steady.Outcome {
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_CONSTRAINT {
		return steady.Success
	}
	return 0
}
