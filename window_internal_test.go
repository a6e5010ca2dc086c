package steady

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWindowKeepsTheLastOutcomes(t *testing.T) {
	w := newWindow(3, 0, 0)
	w.record(1, true, false)
	w.record(2, false, true)
	w.record(3, true, true)
	assert.Equal(t, []int{3, 2, 2}, []int{w.len(), w.failures, w.slow})

	w.record(4, false, false) // pushes out the first failure
	assert.Equal(t, []int{3, 1, 2}, []int{w.len(), w.failures, w.slow})
	w.record(5, false, false) // and the slow one
	assert.Equal(t, []int{3, 1, 1}, []int{w.len(), w.failures, w.slow})
}

func TestWindowDropsWhatIsOlderThanItsAge(t *testing.T) {
	w := newWindow(10, 5, 0)
	w.record(0, true, true)
	w.record(1, true, false)

	w.expire(5)
	assert.Equal(t, 2, w.len(), "an outcome as old as the limit counts")
	w.expire(6)
	assert.Equal(t, 1, w.len(), "an older one does not")
	assert.Equal(t, 0, w.slow)
	w.record(7, false, false)
	assert.Equal(t, []int{1, 0}, []int{w.len(), w.failures}, "dropped before the record")
}

func TestWindowFailsAnOutcomeOnceAndOnlyWhileItIsThere(t *testing.T) {
	w := newWindow(2, 0, 0)
	first := w.record(1, false, true)
	assert.True(t, w.fail(2, first))
	assert.True(t, w.fail(2, first))
	assert.Equal(t, []int{1, 1}, []int{w.failures, w.slow})

	w.record(3, false, false)
	w.record(4, false, false)
	assert.False(t, w.fail(5, first), "it has been pushed out")
	assert.Equal(t, 0, w.failures)

	second := w.record(6, false, false)
	w.clear()
	assert.False(t, w.fail(7, second), "it has been cleared away")
	assert.Equal(t, []int{0, 0, 0}, []int{w.len(), w.failures, w.slow})
}

func TestWindowNeverGoesBackInTime(t *testing.T) {
	w := newWindow(4, 5, 0)
	w.record(10, true, false)
	w.record(9, true, false) // another goroutine read the clock before, and came after
	w.expire(15)
	assert.Equal(t, 2, w.len(), "both are at 10")
}

// A synctest bubble begins before the moment a breaker of a package variable was made at.
func TestWindowWorksFarFromItsBase(t *testing.T) {
	for _, base := range []instant{0, -1 << 60, 1 << 60} {
		w := newWindow(4, time.Second, base)
		at := base.add(-40 * 365 * 24 * time.Hour)
		w.record(at, true, true)
		w.expire(at.add(time.Second))
		assert.Equal(t, []int{1, 1, 1}, []int{w.len(), w.failures, w.slow})
		w.expire(at.add(time.Second + 1))
		assert.Equal(t, []int{0, 0, 0}, []int{w.len(), w.failures, w.slow})
	}
}

func TestLatencyQuantilesAreAtMostFivePercentOff(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, spread := range []float64{0.1, 1, 3} {
		l := newLatencies(0)
		var all []time.Duration
		for range 20_000 {
			d := time.Duration(float64(20*time.Millisecond) * math.Exp(spread*random.NormFloat64()))
			all = append(all, d)
			l.record(0, d)
		}
		slices.Sort(all)
		p50, p99 := l.quantiles(0)
		assert.InEpsilon(t, all[len(all)/2-1], p50, 0.05)
		assert.InEpsilon(t, all[len(all)*99/100-1], p99, 0.05)
	}
}

func TestEveryDurationIsWithinFivePercentOfItsBucket(t *testing.T) {
	for d := 1024.0; d < float64(18*time.Minute); d *= 1.0007 {
		got := latencyMiddle(latencyBucket(time.Duration(d)))
		require.InEpsilon(t, d, float64(got), 0.05)
	}
	assert.Equal(t, 0, latencyBucket(0))
	assert.Equal(t, 0, latencyBucket(1<<latencyMinBits))
	assert.Equal(t, latencyBuckets-1, latencyBucket(1<<latencyMaxBits-1))
	assert.Equal(t, latencyBuckets-1, latencyBucket(1<<latencyMaxBits))
	assert.Equal(t, latencyBuckets-1, latencyBucket(math.MaxInt64))
	assert.InEpsilon(t, float64(1<<latencyMaxBits), latencyMiddle(latencyBuckets-1), 0.05)
}

func TestLatenciesForgetAfterAboutTenMinutes(t *testing.T) {
	at := func(d time.Duration) instant { return instant(d) - 1<<61 }
	l := newLatencies(at(0))
	l.record(at(0), time.Second)
	for minute := time.Duration(0); minute <= 8; minute++ {
		_, p99 := l.quantiles(at(minute * time.Minute))
		assert.NotZero(t, p99, "after %d minutes", minute)
	}
	_, p99 := l.quantiles(at(12 * time.Minute))
	assert.Zero(t, p99)

	l.record(at(13*time.Minute), time.Millisecond)
	p50, _ := l.quantiles(at(13 * time.Minute))
	assert.InEpsilon(t, time.Millisecond, p50, 0.05)
	p50, _ = l.quantiles(at(24 * time.Hour))
	assert.Zero(t, p50)
}

func TestALatencyAtTheTurnBelongsToTheNextSlice(t *testing.T) {
	l := newLatencies(0)
	l.record(instant(latencySliceTime), time.Second)
	_, p99 := l.quantiles(instant(3 * latencySliceTime))
	assert.NotZero(t, p99, "the first slice is emptied")
	_, p99 = l.quantiles(instant(4 * latencySliceTime))
	assert.Zero(t, p99)
}

func TestACountOfLatenciesDoesNotOverflow(t *testing.T) {
	l := newLatencies(0)
	l.slices[l.filled][latencyBucket(time.Second)] = math.MaxUint32
	l.record(0, time.Second)
	p50, _ := l.quantiles(0)
	assert.InEpsilon(t, time.Second, p50, 0.05)
}
