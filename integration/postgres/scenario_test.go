package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/integration/internal/harness"
	"github.com/steady-go/steady/steadysql"
)

// soon is how long a test waits for what must come: slow machines run these tests, too.
const soon = 30 * time.Second

// scenario is what a test needs: clients of one database, each with a dependency and a ledger, and the certainty that
// nothing is left of them in the end.
type scenario struct {
	*testing.T
	app    string
	proxy  *harness.Proxy
	relay  *relay   // in front of the proxy
	checks []func() // for what is left
	close  []func()
}

// newScenario begins a scenario. The clients' names start with app, which tells their connections apart at the server.
func newScenario(t *testing.T, app string) *scenario {
	t.Helper()
	before := goleak.IgnoreCurrent()
	s := &scenario{T: t, app: app}
	t.Cleanup(func() {
		for _, close := range slices.Backward(s.close) {
			close()
		}
		assert.EventuallyWithT(t, func(c *assert.CollectT) {
			n, err := ask[int](server, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE $1", app+"%")
			assert.NoError(c, err)
			assert.Zero(c, n, "connections at the server")
		}, soon, 50*time.Millisecond)
		err := goleak.Find(before) // waits a second
		for end := time.Now().Add(soon); err != nil && time.Now().Before(end); {
			err = goleak.Find(before)
		}
		assert.NoError(t, err, "goroutines")
		assert.NoError(t, server.exec("DROP SCHEMA public CASCADE", "CREATE SCHEMA public"))
	})
	s.proxy = harness.NewProxy(t, server.addr())
	s.relay = newRelay(t, s.proxy.Addr())
	return s
}

// end checks, when all callers have gone, that they took nothing with them, and puts the ledger on the table.
func (s *scenario) end(name string, l *harness.Ledger, note string, args ...any) {
	s.Helper()
	for _, check := range s.checks {
		check()
	}
	table.Close(s, name, l, note, args...)
}

// policies returns a dependency for tests that have no time: cfg with what it does not say filled in.
func (s *scenario) policies(cfg steady.DependencyConfig) *steady.Dependency {
	s.Helper()
	fill := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if cfg.Name == "" {
		cfg.Name = s.app
	}
	fill(&cfg.Timeout, time.Second)
	fill(&cfg.Breaker.SlowThreshold, 300*time.Millisecond)
	fill(&cfg.Breaker.OpenDuration, 300*time.Millisecond)
	cfg.Breaker.WindowSize = 10 // half of it is less than may be in flight
	if cfg.Bulkhead.MaxConcurrent == 0 {
		cfg.Bulkhead.MaxConcurrent = 8
	}
	cfg.Breaker.MinCalls = 5
	cfg.Classify = steadysql.Classify
	d, err := steady.NewDependency(cfg)
	require.NoError(s, err)
	s.checks = append(s.checks, func() {
		assert.Eventually(s, func() bool { return d.Bulkhead().Stats().InFlight == 0 }, soon, 10*time.Millisecond, "slots of %s", cfg.Name)
		assert.Zero(s, d.Breaker().Stats().InFlight, "permits of %s", cfg.Name)
	})
	return d
}

// connector is pgx's, through the proxy unless direct is set.
func (s *scenario) connector(direct bool, suffix string) (driver.Connector, string) {
	s.Helper()
	addr := s.relay.listener.Addr().String()
	if direct {
		addr = server.addr()
	}
	dsn := server.dsn(addr, s.app+suffix)
	cfg, err := pgx.ParseConfig(dsn)
	require.NoError(s, err)
	return stdlib.GetConnector(*cfg), dsn
}

// pool finishes a *sql.DB: ten connections, and none in use in the end.
func (s *scenario) pool(db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(10)
	s.close = append(s.close, func() { assert.NoError(s, db.Close()) })
	s.checks = append(s.checks, func() {
		assert.Eventually(s, func() bool { return db.Stats().InUse == 0 }, soon, 10*time.Millisecond, "connections in use")
	})
	return db
}

// wrapped is a database behind the proxy, every connection of which goes through d.
func (s *scenario) wrapped(d *steady.Dependency) *sql.DB {
	s.Helper()
	connector, _ := s.connector(false, "-wrapped")
	return s.pool(sql.OpenDB(steadysql.Wrap(connector, steadysql.Config{Dependency: d})))
}

// plain is a database that is not wrapped.
func (s *scenario) plain(direct bool) *sql.DB {
	s.Helper()
	connector, _ := s.connector(direct, "-plain")
	return s.pool(sql.OpenDB(connector))
}

// pgxPool is a pool of pgx's own, behind the proxy.
func (s *scenario) pgxPool() *pgxpool.Pool {
	s.Helper()
	_, dsn := s.connector(false, "-pgxpool")
	pool, err := pgxpool.New(s.Context(), dsn+"&pool_max_conns=10")
	require.NoError(s, err)
	s.close = append(s.close, pool.Close)
	s.checks = append(s.checks, func() {
		assert.Eventually(s, func() bool { return pool.Stat().AcquiredConns() == 0 }, soon, 10*time.Millisecond, "connections in use")
	})
	return pool
}

// client is one way to use the database.
type client struct {
	name string
	d    *steady.Dependency
	read func(ctx context.Context, query string) error
}

// clients are the ways: a wrapped *sql.DB, and the closure form around pgxpool. Each has a dependency of its own.
func (s *scenario) clients(cfg steady.DependencyConfig) []client {
	s.Helper()
	cfg.Name = s.app + ", wrapped"
	d := s.policies(cfg)
	db := s.wrapped(d)
	cfg.Name = s.app + ", pgxpool"
	cfg.NoRetry = true // one call, one entry in the ledger of the dependency
	c := s.policies(cfg)
	pool := s.pgxPool()
	p := steady.Must(steady.NewPipelineFor(c, steady.ReadIdempotent, steady.PipelineConfig[[]string]{}))
	return []client{
		{"database/sql, wrapped", d, func(ctx context.Context, query string) error {
			var v sql.NullString
			return db.QueryRowContext(ctx, query).Scan(&v)
		}},
		{"pgxpool, closure", c, func(ctx context.Context, query string) error {
			_, err := steadysql.Query(ctx, p, pool.Query, func(rows pgx.Rows) (string, error) {
				var v any
				return "", rows.Scan(&v)
			}, query)
			return err
		}},
	}
}

// load is callers at work.
type load struct {
	ledger  harness.Ledger
	stopped atomic.Bool
	callers sync.WaitGroup
}

// loads returns n of them, which end with the test if not before.
func (s *scenario) loads(n int) []load {
	loads := make([]load, n)
	s.close = append(s.close, func() { stop(loads) })
	return loads
}

// stop stops loads, all of them before anybody looks what is left.
func stop(loads []load) {
	for i := range loads {
		loads[i].stop()
	}
}

// start makes n callers call until the load is stopped, each with a pause after each call.
func (l *load) start(n int, pause time.Duration, call func(caller, i int) error) {
	for caller := range n {
		l.callers.Go(func() {
			for i := 0; !l.stopped.Load(); i++ {
				if steady.IsRejected(l.once(func() error { return call(caller, i) })) {
					time.Sleep(20 * time.Millisecond) // nobody hammers at a closed door
				}
				time.Sleep(pause)
			}
		})
	}
}

// once enters one call into the ledger, and returns its error.
func (l *load) once(call func() error) error {
	l.ledger.Start()
	err := call()
	l.ledger.End(err)
	return err
}

// stop waits for the callers to leave.
func (l *load) stop() {
	l.stopped.Store(true)
	l.callers.Wait()
}

// becomes waits for a breaker to be in a state.
func (s *scenario) becomes(d *steady.Dependency, state steady.State) {
	s.Helper()
	require.Eventually(s, func() bool { return d.Breaker().State() == state }, soon, 5*time.Millisecond,
		"%s: never %v; %+v", d.Name(), state, d.Breaker().Stats())
}

// goesOn waits until a ledger has n more answers.
func (s *scenario) goesOn(l *harness.Ledger, n int64) {
	s.Helper()
	want := l.Answered.Load() + n
	require.Eventually(s, func() bool { return l.Answered.Load() >= want }, soon, 5*time.Millisecond, "no answers any more")
}
