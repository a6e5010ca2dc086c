package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/ncruces/go-sqlite3"
	sqlite "github.com/ncruces/go-sqlite3/driver"
	_ "github.com/ncruces/go-sqlite3/embed" // SQLite itself

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

func openSQLite() (*database, error) {
	dir, err := os.MkdirTemp("", "steady-database-")
	if err != nil {
		return nil, err
	}
	// In WAL mode those who read and those who write do not wait for each other.
	connector, err := (&sqlite.SQLite{}).OpenConnector("file:" + filepath.Join(dir, "shop.db") +
		"?_pragma=busy_timeout(2000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &database{
		connector: sqliteConnector{connector},
		classify:  classifySQLite,
		sleep:     "sleep($1)",
		dir:       dir,
	}, nil
}

// sqliteConnector makes connections with a function that takes some milliseconds.
type sqliteConnector struct{ driver.Connector }

func (c sqliteConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	err = conn.(sqlite.Conn).Raw().CreateFunction("sleep", 1, 0, func(_ sqlite3.Context, args ...sqlite3.Value) {
		time.Sleep(time.Duration(args[0].Int64()) * time.Millisecond)
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// classifySQLite says what SQLite's errors mean, which have no SQLSTATE: a constraint is a healthy "no". The rest it
// leaves to the default.
func classifySQLite(err error) steady.Outcome {
	if errors.Is(err, sqlite3.CONSTRAINT) {
		return steady.Success
	}
	return 0
}
