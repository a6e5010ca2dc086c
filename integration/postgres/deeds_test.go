package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady/steadysql"
)

// deeds are what transactions were to do, by id, and what their callers were told.
type deeds struct {
	mu                 sync.Mutex
	runs               map[string]int
	errs               map[string]error
	doubtful, repeated int
}

// ran notes that the function of a transaction has run.
func (d *deeds) ran(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs == nil {
		d.runs, d.errs = make(map[string]int), make(map[string]error)
	}
	d.runs[id]++
}

// ended notes what the caller was told.
func (d *deeds) ended(id string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs == nil {
		d.runs, d.errs = make(map[string]int), make(map[string]error)
	}
	d.errs[id] = err
}

// check compares what callers were told with what is in the table: what was acknowledged is there once, what failed is
// not there, and what is in doubt is there once or not.
func (d *deeds) check(t *testing.T, table, column string) (note string) {
	t.Helper()
	there, err := ask[map[string]int](server, fmt.Sprintf(
		"SELECT coalesce(jsonb_object_agg(id, n), '{}') FROM (SELECT %s AS id, count(*) AS n FROM %s GROUP BY 1) AS done", column, table))
	require.NoError(t, err)
	acknowledged, failed, done := 0, 0, 0
	for id, err := range d.errs {
		n := there[id]
		var doubt *steadysql.CommitError
		switch {
		case err == nil:
			acknowledged++
			assert.Equal(t, 1, n, "%s was acknowledged", id)
		case errors.As(err, &doubt):
			d.doubtful++
			done += n
			assert.LessOrEqual(t, n, 1, "%s is in doubt: %v", id, err)
		default:
			failed++
			assert.Zero(t, n, "%s failed: %v", id, err)
		}
		d.repeated += max(d.runs[id]-1, 0)
	}
	return fmt.Sprintf("%d acknowledged and there, %d failed or rejected and not there, %d in doubt (%d there), %d runs repeated",
		acknowledged, failed, d.doubtful, done, d.repeated)
}
