package steady

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var jitters = []Jitter{FullJitter, EqualJitter, DecorrelatedJitter, NoJitter}

// The largest number that a Rand may give.
var almostOne = math.Nextafter(1, 0)

func TestDelayFollowsTheFormulas(t *testing.T) { // R1
	const base, limit = 100 * time.Millisecond, time.Second
	for _, tc := range []struct {
		jitter   Jitter
		n        int
		previous time.Duration
		r        float64
		want     time.Duration
	}{
		{FullJitter, 1, 0, 0, 0},
		{FullJitter, 1, 0, 0.25, 25 * time.Millisecond},
		{FullJitter, 3, 0, 0.25, 100 * time.Millisecond},
		{FullJitter, 4, 0, 0.5, 400 * time.Millisecond},
		{FullJitter, 5, 0, 0.5, 500 * time.Millisecond},
		{FullJitter, 50, 0, 0.25, 250 * time.Millisecond},
		{EqualJitter, 1, 0, 0, 50 * time.Millisecond},
		{EqualJitter, 1, 0, 0.5, 75 * time.Millisecond},
		{EqualJitter, 2, 0, 0.5, 150 * time.Millisecond},
		{EqualJitter, 5, 0, 0.5, 750 * time.Millisecond},
		{NoJitter, 1, 0, 0.5, 100 * time.Millisecond},
		{NoJitter, 4, 0, 0.5, 800 * time.Millisecond},
		{NoJitter, 5, 0, 0.5, time.Second},
		{DecorrelatedJitter, 1, 0, 0, base},
		{DecorrelatedJitter, 1, 0, 0.5, 200 * time.Millisecond},
		{DecorrelatedJitter, 2, 200 * time.Millisecond, 0, base},
		{DecorrelatedJitter, 2, 200 * time.Millisecond, 0.5, 350 * time.Millisecond},
		{DecorrelatedJitter, 3, 350 * time.Millisecond, almostOne, time.Second},
		{DecorrelatedJitter, 9, 10 * time.Millisecond, 0.5, 200 * time.Millisecond}, // previous is no less than base
	} {
		got := tc.jitter.delay(tc.n, base, limit, tc.previous, tc.r)
		assert.Equal(t, tc.want, got, "%v, after attempt %d, previous %v, rand %v", tc.jitter, tc.n, tc.previous, tc.r)
	}
}

func TestDelayStaysInRangeAtAnyAttempt(t *testing.T) { // R1
	const huge = time.Duration(math.MaxInt64)
	for _, jitter := range jitters {
		for _, base := range []time.Duration{0, 1, 3, time.Millisecond, time.Hour, huge/2 + 1, huge} {
			for _, limit := range []time.Duration{base, max(base, time.Minute), huge} {
				for _, r := range []float64{0, 0.3, almostOne} {
					var previous time.Duration
					for n := 1; n <= 10_000; n++ {
						ceiling := limit
						if shift := n - 1; base == 0 || shift < 63 && base <= limit>>shift {
							ceiling = base << shift
						}
						low, high := time.Duration(0), ceiling
						switch jitter {
						case EqualJitter:
							low = ceiling / 2
						case DecorrelatedJitter:
							low, high = base, limit
						case NoJitter:
							low = ceiling
						}
						d := jitter.delay(n, base, limit, previous, r)
						if d < low || d > high {
							require.FailNow(t, "out of range", "%v: after attempt %d, base %v, limit %v, previous %v, rand %v: %v not in [%v, %v]",
								jitter, n, base, limit, previous, r, d, low, high)
						}
						previous = d
					}
				}
			}
		}
	}
}

func TestDelayOfAnEvenRandIsSpreadEvenly(t *testing.T) { // R1
	const n, steps = 20, 1000 // far past the cap of a second
	for _, tc := range []struct {
		jitter    Jitter
		low, high time.Duration
	}{
		{FullJitter, 0, time.Second},
		{EqualJitter, time.Second / 2, time.Second},
	} {
		for i := range steps {
			r := float64(i) / steps
			want := tc.low + time.Duration(r*float64(tc.high-tc.low))
			assert.InDelta(t, want, tc.jitter.delay(n, time.Millisecond, time.Second, 0, r), 1, "%v, rand %v", tc.jitter, r)
		}
	}
}

func TestRandOutOfRangeCountsAsZero(t *testing.T) {
	for _, r := range []float64{-1, 1, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)} {
		assert.Zero(t, unit(r), "%v", r)
	}
	for _, r := range []float64{0, 0.5, almostOne} {
		assert.Equal(t, r, unit(r))
	}
}

func TestJitterNames(t *testing.T) {
	assert.Equal(t, "[full equal decorrelated none jitter 9]", fmt.Sprintf("%v", append(jitters, 9)))
}
