package harness

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"

	"github.com/steady-go/steady"
	"github.com/stretchr/testify/assert"
)

// Ledger counts what became of the calls of one scenario, for its callers. Any number of goroutines may share it.
type Ledger struct {
	Started, Answered, Failed, Rejected atomic.Int64
}

// Start notes that a caller begins a call. Each Start wants one End.
func (l *Ledger) Start() { l.Started.Add(1) }

// End notes what the caller was told: an answer, a rejection, or a failure.
func (l *Ledger) End(err error) {
	switch {
	case err == nil:
		l.Answered.Add(1)
	case steady.IsRejected(err):
		l.Rejected.Add(1)
	default:
		l.Failed.Add(1)
	}
}

// Lost is the number of calls that began and of which the caller heard nothing: it must be 0 once all callers are gone.
func (l *Ledger) Lost() int64 {
	return l.Started.Load() - l.Answered.Load() - l.Failed.Load() - l.Rejected.Load()
}

// Table collects the ledgers of a package's scenarios, to be printed when all have run.
type Table struct {
	mu   sync.Mutex
	rows []row
}

type row struct {
	scenario string
	ledger   *Ledger
	note     string
}

// Close checks that the scenario lost no call, and puts it on the table, with a note for what else it showed.
func (t *Table) Close(tb testing.TB, scenario string, l *Ledger, note string, args ...any) {
	tb.Helper()
	assert.Positive(tb, l.Started.Load(), "%s: nothing was called", scenario)
	assert.Zero(tb, l.Lost(), "%s: calls of which the caller heard nothing", scenario)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, row{scenario, l, fmt.Sprintf(note, args...)})
}

// Print writes the table, or nothing when no scenario ran.
func (t *Table) Print(w io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rows) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "scenario\tstarted\tanswered\tfailed\trejected\tlost\tnote")
	for _, r := range t.rows {
		l := r.ledger
		_, _ = fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", r.scenario,
			l.Started.Load(), l.Answered.Load(), l.Failed.Load(), l.Rejected.Load(), l.Lost(), r.note)
	}
	return tw.Flush()
}
