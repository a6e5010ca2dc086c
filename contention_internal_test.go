package steady

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The simulation that Brooker's "Exponential Backoff And Jitter" (AWS Architecture Blog 2015) draws its
// figures from, with the delays of this package: clients that all want to update one row read its version
// and write if it is still the same; those who come too late wait and begin again. A hop takes |N(10, 2)| ms.
//
// The expected writes are those of the author's program (github.com/aws-samples/aws-arch-backoff-simulator),
// a mean of 100 runs with the seed 1.
func TestContentionTakesAsManyCallsAsPublished(t *testing.T) {
	t.Parallel()
	clients := []int{10, 50, 100, 190}
	for _, row := range []struct {
		jitter Jitter
		calls  []float64
	}{
		{NoJitter, []float64{51.0, 624.6, 1853.7, 5186.6}},
		{EqualJitter, []float64{42.4, 347.1, 812.2, 1759.5}},
		{FullJitter, []float64{38.6, 332.3, 797.1, 1771.4}},
		{DecorrelatedJitter, []float64{37.9, 376.2, 1002.8, 2441.3}},
	} {
		t.Run(row.jitter.String(), func(t *testing.T) {
			t.Parallel()
			for i, n := range clients {
				calls := contention(row.jitter, n, 10_000/n)
				assert.InEpsilon(t, row.calls[i], calls, 0.03, "%d clients", n)
				t.Logf("%3d clients: %.1f calls, published %.1f (%+.1f %%)", n, calls, row.calls[i], 100*(calls/row.calls[i]-1))
			}
		})
	}
}

// contention returns how many writes n clients make until all of them have succeeded, as a mean of so many
// runs.
func contention(jitter Jitter, n, runs int) float64 {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	writes := 0
	for range runs {
		row := contendedRow{jitter: jitter, rand: random}
		for range n {
			heap.Push(&row.clients, &contender{at: row.hop()})
		}
		for len(row.clients) > 0 {
			row.step()
		}
		writes += row.writes
	}
	return float64(writes) / float64(runs)
}

// contendedRow is the row that all clients want to update, and the time that they share.
type contendedRow struct {
	jitter  Jitter
	rand    *rand.Rand
	clients contenders
	version int
	writes  int
}

// contender is a client, and the next of its requests to reach the row.
type contender struct {
	at       time.Duration
	writes   bool // it is a write, else a read
	read     int  // the version that the last read returned
	attempt  int
	previous time.Duration // the last delay
}

// step lets the next request reach the row, and sends off what its client does after the answer.
func (r *contendedRow) step() {
	c := r.clients[0]
	switch {
	case !c.writes:
		c.writes, c.read = true, r.version
	case c.read == r.version:
		r.writes++
		r.version++
		heap.Pop(&r.clients)
		return
	default:
		r.writes++
		c.writes = false
		c.attempt++
		c.previous = r.delay(c)
		c.at += c.previous
	}
	c.at += r.hop() + r.hop() // the answer, and the next request
	heap.Fix(&r.clients, 0)
}

// delay returns the client's next delay: base 5 ms and cap 2 s. In the original, the ceiling doubles before
// the first delay already; that of DecorrelatedJitter starts at the base.
func (r *contendedRow) delay(c *contender) time.Duration {
	const base, limit = 5 * time.Millisecond, 2 * time.Second
	n := c.attempt + 1
	if r.jitter == DecorrelatedJitter {
		n = c.attempt
	}
	return r.jitter.delay(n, base, limit, c.previous, r.rand.Float64())
}

func (r *contendedRow) hop() time.Duration {
	return time.Duration(math.Abs(10+2*r.rand.NormFloat64()) * float64(time.Millisecond))
}

// contenders is a heap of clients, the one with the next request first.
type contenders []*contender

func (e contenders) Len() int           { return len(e) }
func (e contenders) Less(i, j int) bool { return e[i].at < e[j].at }
func (e contenders) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *contenders) Push(c any)        { *e = append(*e, c.(*contender)) }

func (e *contenders) Pop() any {
	old := *e
	c := old[len(old)-1]
	*e = old[:len(old)-1]
	return c
}
