// Database shows a service on database/sql whose reports become slow, and that the rest of it stays alive.
//
// The service has one database and two ways to it. The till sells articles: its *sql.DB is wrapped (steadysql.Wrap), so
// that its code knows nothing of steady, and its sales are transactions that are run again on conflicts (steadysql.InTx).
// The office reads a report now and then: a pipeline around a query (steadysql.Query), with a breaker, slots and
// connections of its own. In the second act the report takes seconds, as without its index. What was in flight opens the
// breaker while it hangs, the office goes on with the report it had, and the till does not notice.
//
// The database is an SQLite that lives in a temporary directory, or a PostgreSQL:
//
//	go run .
//	go run . -dsn postgres://user@host/name   # makes, and drops, tables named steady_…
//
// Where to look: shop.go is the service; database.go opens the database, with what differs between the two.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/examples/internal/screen"
)

// show is what the program is told.
type show struct {
	dsn              string
	well, slow, last time.Duration // the length of each act
}

func main() {
	var s show
	flag.StringVar(&s.dsn, "dsn", "", "of a PostgreSQL; empty for an SQLite of the program's own")
	flag.DurationVar(&s.well, "well", 2*time.Second, "time in which all is well")
	flag.DurationVar(&s.slow, "slow", 3*time.Second, "time in which the report is slow")
	flag.DurationVar(&s.last, "last", 3*time.Second, "time in which all is well again")
	flag.Parse()
	if _, err := s.run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is the whole program.
func (s show) run(ctx context.Context, out io.Writer) (shop *Shop, err error) {
	w := screen.New(out)
	db, err := openDatabase(ctx, s.dsn)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := db.close(context.WithoutCancel(ctx)); err == nil {
			err = e
		}
	}()
	if shop, err = NewShop(db, transitions(w)); err != nil {
		return nil, err
	}
	defer shop.Close()

	began := time.Now()
	shop.report(ctx) // so that there is one
	work, home := context.WithCancel(ctx)
	var people sync.WaitGroup
	for range 6 {
		people.Go(func() { every(work, 20*time.Millisecond, shop.sell) })
	}
	for range 9 { // more than have slots
		people.Go(func() { every(work, 100*time.Millisecond, shop.report) })
	}
	for _, act := range []struct {
		name  string
		pause time.Duration // of the report
		time  time.Duration
	}{
		{"all is well", 20 * time.Millisecond, s.well},
		{"the report is slow", 2 * time.Second, s.slow},
		{"all is well again", 20 * time.Millisecond, s.last},
	} {
		w.Printf("\n--- %s, for %v\n", act.name, act.time)
		db.pause.Store(int64(act.pause))
		for end := time.Now().Add(act.time); time.Now().Before(end); {
			time.Sleep(min(time.Second, time.Until(end)))
			w.Printf("> %4.1fs  %s\n", time.Since(began).Seconds(), shop.news())
		}
	}
	home()
	people.Wait()
	w.Printf("\n%s", shop.summary())
	return shop, shop.audit(context.WithoutCancel(ctx))
}

// every does something again and again, after a pause of about that length, until ctx ends. What has begun is done to the
// end.
func every(ctx context.Context, pause time.Duration, do func(context.Context)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)):
			do(context.WithoutCancel(ctx))
		}
	}
}

// transitions writes what the breakers do.
func transitions(w *screen.Screen) *steady.Hooks {
	return &steady.Hooks{OnTransition: func(t steady.Transition) { w.Printf("! %v\n", t) }}
}
