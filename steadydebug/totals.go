package steadydebug

import (
	"math"

	"github.com/steady-go/steady"
)

// totals is what became of the calls since construction.
type totals struct {
	answered, slow, failed, rejected uint64
}

// add adds what a breaker has counted.
func (t *totals) add(s steady.BreakerStats) {
	c := s.Totals
	t.answered += c.Success + c.Throttled
	t.slow += c.Slow
	t.failed += c.Transient + c.Unsent + c.Permanent
}

// less returns what has been counted between an earlier reading and this one.
func (t totals) less(earlier totals) counts {
	return counts{
		Answered: difference(t.answered, earlier.answered),
		Slow:     difference(t.slow, earlier.slow),
		Failed:   difference(t.failed, earlier.failed),
		Rejected: difference(t.rejected, earlier.rejected),
	}
}

func difference(later, earlier uint64) uint32 {
	return uint32(min(later-earlier, math.MaxUint32))
}
