package steadysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadysql"
)

// orders is the dependency of the examples.
func orders() *steady.Dependency {
	return steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:     "orders",
		Timeout:  2 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: 250 * time.Millisecond, WindowSize: 10, MinCalls: 5},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 8}, // fewer than the pool's connections
		Classify: steadysql.Classify,
	}))
}

func ExampleWrap() {
	dependency := orders()
	var connector driver.Connector = &fake{} // a driver's: stdlib.GetConnector(config), pq.NewConnector(dsn)
	db := sql.OpenDB(steadysql.Wrap(connector, steadysql.Config{Dependency: dependency}))
	defer db.Close()
	db.SetMaxOpenConns(10)

	var n int
	fmt.Println(db.QueryRow("SELECT count(*) FROM orders").Scan(&n), n)
	dependency.Breaker().ForceOpen("maintenance")
	err := db.QueryRow("SELECT count(*) FROM orders").Scan(&n)
	fmt.Println(steady.IsRejected(err), err)
	// Output:
	// <nil> 1
	// true steady: breaker open: "orders"
}

func ExampleNewConnector() {
	waits := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:     "orders",
		Timeout:  2 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: 250 * time.Millisecond},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 8, MaxWait: 50 * time.Millisecond},
	}))
	_, err := steadysql.NewConnector(&fake{}, steadysql.Config{Dependency: waits})
	fmt.Println(err)
	// Output:
	// steadysql: Config.Dependency "orders" must have a Bulkhead without MaxWait, got MaxWait 50ms (a call would wait for a slot while it holds a connection of the pool; leave MaxWait out)
}

func ExampleUnwrap() {
	db := sql.OpenDB(steadysql.Wrap(&fake{}, steadysql.Config{Dependency: orders()}))
	defer db.Close()
	conn, err := db.Conn(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	_ = conn.Raw(func(c any) error {
		_, driversOwn := steadysql.Unwrap(c).(interface {
			Prepare(string) (driver.Stmt, error)
		})
		fmt.Println(driversOwn)
		return nil
	})
	// Output:
	// true
}

func ExampleClassify() {
	fmt.Println(steadysql.Classify(sql.ErrNoRows))
	fmt.Println(steadysql.Classify(state("23505"))) // a unique violation
	fmt.Println(steadysql.Classify(state("57P01"))) // the server is shutting down
	fmt.Println(steadysql.Classify(driver.ErrBadConn))
	// Output:
	// success
	// success
	// transient
	// transient
}

func ExampleMark() {
	db := sql.OpenDB(&fake{})
	defer db.Close()
	count := steady.Must(steady.NewPipelineFor(orders(), steady.ReadIdempotent, steady.PipelineConfig[int]{}))
	n, err := count.Do(context.Background(), func(ctx context.Context) (n int, err error) {
		err = db.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&n)
		return n, steadysql.Mark(ctx, err)
	})
	fmt.Println(n, err)
	// Output:
	// 1 <nil>
}

func ExampleQuery() {
	db := sql.OpenDB(&fake{})
	defer db.Close()
	ids := steady.Must(steady.NewPipelineFor(orders(), steady.ReadIdempotent, steady.PipelineConfig[[]int]{}))

	open, err := steadysql.Query(context.Background(), ids, db.QueryContext, func(rows *sql.Rows) (id int, err error) {
		return id, rows.Scan(&id)
	}, "SELECT id FROM orders WHERE state = $1", "open")
	fmt.Println(open, err)
	// Output:
	// [1 2] <nil>
}

func ExampleExec() {
	db := sql.OpenDB(&fake{})
	defer db.Close()
	writes := steady.Must(steady.NewPipelineFor(orders(), steady.WriteNonIdempotent, steady.PipelineConfig[sql.Result]{}))

	_, err := steadysql.Exec(context.Background(), writes, db.ExecContext, "UPDATE orders SET state = 'paid' WHERE id = $1", 7)
	fmt.Println(err)
	// Output:
	// <nil>
}

func ExampleInTx() {
	f := &fake{}
	db := sql.OpenDB(f)
	defer db.Close()
	transfer := steady.Must(steady.NewPipelineFor(orders(), steady.WriteNonIdempotent, steady.PipelineConfig[int]{}))
	f.does(times(2, "commit", state("40001"))) // others get in the way, twice

	runs := 0
	_, err := steadysql.InTx(context.Background(), db, transfer, steadysql.TxOptions{Isolation: sql.LevelSerializable},
		func(ctx context.Context, tx *sql.Tx) (int, error) {
			runs++
			if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1"); err != nil {
				return 0, err
			}
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance + 10 WHERE id = 2")
			return 0, err
		})
	fmt.Println(runs, err)
	// Output:
	// 3 <nil>
}

func ExampleCommitError() {
	f := &fake{}
	db := sql.OpenDB(f)
	defer db.Close()
	transfer := steady.Must(steady.NewPipelineFor(orders(), steady.WriteIdempotent, steady.PipelineConfig[int]{}))
	f.does(fails("commit", io.ErrUnexpectedEOF)) // the connection breaks before the answer comes

	_, err := steadysql.InTx(context.Background(), db, transfer, steadysql.TxOptions{}, update)
	var doubt *steadysql.CommitError
	if errors.As(err, &doubt) {
		fmt.Println("look whether it is there:", doubt.Err)
	}
	// Output:
	// look whether it is there: unexpected EOF
}
