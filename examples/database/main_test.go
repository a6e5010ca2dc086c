package main

import (
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/steady-go/steady"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestASlowReportOpensItsBreakerAndTheTillGoesOn(t *testing.T) {
	var out strings.Builder
	shop, err := show{well: time.Second, slow: 2 * time.Second, last: 4 * time.Second}.run(t.Context(), &out)
	t.Log(out.String())
	require.NoError(t, err, "everything that was sold is in the books")

	sales, reports := shop.counts[tillSide], shop.counts[officeSide]
	assert.Positive(t, sales.ok)
	assert.Zero(t, sales.failed+sales.rejected, "the till has noticed something")
	assert.Zero(t, shop.tillSide.Breaker().Stats().Transitions)
	assert.Positive(t, reports.ok)
	assert.Positive(t, reports.stale, "the office had the last report")
	assert.Zero(t, reports.failed)
	for _, d := range []*steady.Dependency{shop.tillSide, shop.office} {
		assert.Zero(t, d.Breaker().Stats().InFlight)
		assert.Zero(t, d.Bulkhead().Stats().InFlight)
	}
	for _, line := range []string{
		"--- all is well, for 1s", "--- the report is slow, for 2s", "office: closed → open", "slow-call rate",
		"office: half-open → closed", "slots left taken",
	} {
		assert.Contains(t, out.String(), line)
	}
}

func TestAnAuditShowsWhatIsMissing(t *testing.T) {
	db, err := openDatabase(t.Context(), "")
	require.NoError(t, err)
	defer func() { assert.NoError(t, db.close(t.Context())) }()
	shop, err := NewShop(db, nil)
	require.NoError(t, err)
	defer shop.Close()
	require.NoError(t, shop.Sell(t.Context(), 1, 2))
	require.NoError(t, shop.audit(t.Context()))
	_, err = db.operator.ExecContext(t.Context(), "DELETE FROM steady_sales")
	require.NoError(t, err)
	assert.ErrorContains(t, shop.audit(t.Context()), "4999998 articles left and 0 sold of 5000000")
}

func TestAConstraintOfSQLiteIsAHealthyNo(t *testing.T) {
	db, err := openDatabase(t.Context(), "")
	require.NoError(t, err)
	defer func() { assert.NoError(t, db.close(t.Context())) }()
	_, err = db.operator.ExecContext(t.Context(), "INSERT INTO steady_stock VALUES (0, 1)")
	require.ErrorIs(t, err, sqlite3.CONSTRAINT)
	assert.Equal(t, steady.Success, db.classify(err))
	_, err = db.operator.ExecContext(t.Context(), "no SQL at all")
	assert.Zero(t, db.classify(err))
}
