package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadysql"
)

// stocked is how many there are of each article at first.
const stocked = 1_000_000

// Shop is the service. It may be used by any number of goroutines.
type Shop struct {
	db       *database
	tillSide *steady.Dependency
	office   *steady.Dependency

	till    *sql.DB               // wrapped
	selling *steady.Pipeline[int] // without policies: the till's database has them
	files   *sql.DB               // not wrapped
	reports *steady.Pipeline[[]sold]

	mu     sync.Mutex
	counts [2]counts
	told   [2]counts // in the news already
	last   []sold    // the last report
}

// sold is a line of the report.
type sold struct{ article, quantity int }

// The two sides of the shop.
const (
	tillSide = iota
	officeSide
)

// counts are what became of what people wanted.
type counts struct {
	ok, stale, rejected, failed int
	slowest                     time.Duration
}

// NewShop opens a shop on a database.
func NewShop(db *database, hooks *steady.Hooks) (*Shop, error) {
	s := &Shop{db: db}
	var errs [5]error
	classify := func(err error) steady.Outcome {
		if db.classify != nil {
			if o := db.classify(err); o != 0 {
				return o
			}
		}
		return steadysql.Classify(err)
	}
	s.tillSide, errs[0] = steady.NewDependency(steady.DependencyConfig{
		Name:     "till",
		Timeout:  5 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: time.Second},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 8}, // of 10 connections
		Classify: classify,
		Hooks:    hooks,
	})
	s.office, errs[1] = steady.NewDependency(steady.DependencyConfig{
		Name:    "office",
		Timeout: 5 * time.Second,
		Breaker: steady.BreakerConfig{
			SlowThreshold: 300 * time.Millisecond, // a report takes 20 ms
			WindowSize:    10,
			MinCalls:      5,
			OpenDuration:  500 * time.Millisecond, // short, for the show
		},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 6}, // more than half of the window
		Classify: classify,
		Hooks:    hooks,
	})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	protected, err := steadysql.NewConnector(db.connector, steadysql.Config{Dependency: s.tillSide})
	errs[2] = err
	s.selling, errs[3] = steady.NewPipeline(steady.PipelineConfig[int]{Name: "sale"})
	s.reports, errs[4] = steady.NewPipelineFor(s.office, steady.ReadIdempotent, steady.PipelineConfig[[]sold]{Name: "report"})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	s.till, s.files = sql.OpenDB(protected), sql.OpenDB(db.connector)
	for _, pool := range []*sql.DB{s.till, s.files} {
		pool.SetMaxOpenConns(10)
		pool.SetMaxIdleConns(10)
	}
	return s, nil
}

// Close closes both pools.
func (s *Shop) Close() {
	_ = s.till.Close()
	_ = s.files.Close()
}

// Sell takes articles out of the stock and books them, both or neither.
func (s *Shop) Sell(ctx context.Context, article, quantity int) error {
	_, err := steadysql.InTx(ctx, s.till, s.selling, steadysql.TxOptions{Isolation: s.db.isolation, MaxRuns: 20},
		func(ctx context.Context, tx *sql.Tx) (int, error) {
			_, err := tx.ExecContext(ctx, "UPDATE steady_stock SET quantity = quantity - $1 WHERE article = $2", quantity, article)
			if err != nil {
				return 0, err
			}
			_, err = tx.ExecContext(ctx, "INSERT INTO steady_sales VALUES ($1, $2)", article, quantity)
			return quantity, err
		})
	return err
}

// Report says what was sold. While the database does not, it says what it said last, and that it does.
func (s *Shop) Report(ctx context.Context) (report []sold, stale bool, err error) {
	query := "WITH slow AS MATERIALIZED (SELECT " + s.db.sleep + " AS slept) " + // as if an index was missing
		"SELECT article, sum(quantity), count(slept) FROM steady_sales, slow GROUP BY article ORDER BY article"
	report, err = steadysql.Query(ctx, s.reports, s.files.QueryContext, func(rows *sql.Rows) (line sold, err error) {
		var slept int
		return line, rows.Scan(&line.article, &line.quantity, &slept)
	}, query, time.Duration(s.db.pause.Load()).Milliseconds())

	s.mu.Lock()
	defer s.mu.Unlock()
	if steady.IsRejected(err) && s.last != nil {
		return s.last, true, nil
	}
	if err == nil {
		s.last = report
	}
	return report, false, err
}

// sell and report are what the people in the shop do, and count.

func (s *Shop) sell(ctx context.Context) {
	began := time.Now()
	err := s.Sell(ctx, rand.IntN(articles), 1+rand.IntN(3))
	s.count(tillSide, began, false, err)
}

func (s *Shop) report(ctx context.Context) {
	began := time.Now()
	_, stale, err := s.Report(ctx)
	s.count(officeSide, began, stale, err)
}

func (s *Shop) count(side int, began time.Time, stale bool, err error) {
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.counts[side]
	c.slowest = max(c.slowest, took)
	switch {
	case stale:
		c.stale++
	case err == nil:
		c.ok++
	case steady.IsRejected(err):
		c.rejected++
	default:
		c.failed++
	}
}

// news returns what has happened since the last news.
func (s *Shop) news() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, before := s.counts, s.told
	s.told = now
	line := func(side int) string {
		return fmt.Sprintf("%d ok, %d stale, %d rejected, %d failed", now[side].ok-before[side].ok,
			now[side].stale-before[side].stale, now[side].rejected-before[side].rejected, now[side].failed-before[side].failed)
	}
	return "sales: " + line(tillSide) + "; reports: " + line(officeSide)
}

// summary returns what the shop has to say in the end.
func (s *Shop) summary() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\tok\tstale\trejected\tfailed\tslowest\tbreaker opened\tslots left taken")
	for side, d := range []*steady.Dependency{s.tillSide, s.office} {
		c, breaker := s.counts[side], d.Breaker().Stats()
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%v\t%v\t%d\n", []string{"sales", "reports"}[side], c.ok, c.stale, c.rejected,
			c.failed, c.slowest.Round(time.Millisecond), breaker.Transitions > 0, d.Bulkhead().Stats().InFlight)
	}
	_ = w.Flush()
	return b.String()
}

// audit compares the stock with the books.
func (s *Shop) audit(ctx context.Context) error {
	var left, booked int
	err := errors.Join(
		s.db.operator.QueryRowContext(ctx, "SELECT sum(quantity) FROM steady_stock").Scan(&left),
		s.db.operator.QueryRowContext(ctx, "SELECT coalesce(sum(quantity), 0) FROM steady_sales").Scan(&booked))
	if err != nil {
		return err
	}
	if left+booked != articles*stocked {
		return fmt.Errorf("%d articles left and %d sold of %d", left, booked, articles*stocked)
	}
	return nil
}
