package steadysql_test

import (
	"database/sql"
	"database/sql/driver"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadysql"
)

// newDependency returns one whose breaker needs ten calls, with what cfg does not say filled in.
func newDependency(t testing.TB, cfg steady.DependencyConfig) *steady.Dependency {
	t.Helper()
	cfg.Name = "db"
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.Breaker.SlowThreshold == 0 {
		cfg.Breaker.SlowThreshold = 100 * time.Millisecond
	}
	cfg.Breaker.NoOpenJitter = true
	if cfg.Bulkhead.MaxConcurrent == 0 {
		cfg.Bulkhead.MaxConcurrent = 10
	}
	d, err := steady.NewDependency(cfg)
	require.NoError(t, err)
	return d
}

func wrap(t testing.TB, c driver.Connector, d *steady.Dependency) driver.Connector {
	t.Helper()
	wrapped, err := steadysql.NewConnector(c, steadysql.Config{Dependency: d})
	require.NoError(t, err)
	return wrapped
}

// open returns a wrapped database on a fake, which is closed in the end, and checked to have nothing left.
func open(t testing.TB, f *fake, d *steady.Dependency) *sql.DB {
	t.Helper()
	db := sql.OpenDB(wrap(t, f, d))
	db.SetMaxIdleConns(100)
	t.Cleanup(func() {
		assert.NoError(t, db.Close())
		nothingIsLeft(t, d)
		assert.Zero(t, f.open.Load(), "open connections")
	})
	return db
}

// nothingIsLeft checks that no slot is taken and no call in flight.
func nothingIsLeft(t testing.TB, d *steady.Dependency) {
	t.Helper()
	if b := d.Bulkhead(); b != nil {
		assert.Zero(t, b.Stats().InFlight, "slots")
	}
	if b := d.Breaker(); b != nil {
		assert.Zero(t, b.Stats().InFlight, "calls in flight")
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
