package steady

import (
	"math"
	"math/bits"
	"time"
)

// latencies tells quantiles of the durations of about the last ten minutes, in fixed memory: a histogram
// of geometric buckets for each of three slices of four minutes, the oldest of which is emptied as time
// goes on. Between eight and twelve minutes are seen.
//
// Seven buckets an octave have a ratio of 2^(1/7) = 1.104 between their bounds, so the middle of a bucket
// (the harmonic mean of its bounds) is at most 4.95 % off anything in it. Durations from 1.024 µs to
// 18 min are told apart; shorter and longer ones count as those.
type latencies struct {
	slices [latencySlices]latencySlice
	filled int     // the slice that is being filled
	until  instant // when the next one is to be
}

type latencySlice [latencyBuckets]uint32

const (
	latencySlices    = 3
	latencySliceTime = 4 * time.Minute

	octaveBuckets  = 7
	latencyMinBits = 10 // 2^10 ns = 1.024 µs
	latencyMaxBits = 40 // 2^40 ns = 18.3 min
	latencyBuckets = (latencyMaxBits - latencyMinBits) * octaveBuckets
)

// octaveBounds are the inner bounds of an octave's buckets, 2^(k/7), with 16 binary places.
var octaveBounds = func() (bounds [octaveBuckets - 1]uint32) {
	for k := range bounds {
		bounds[k] = uint32(math.Round(math.Exp2(float64(k+1)/octaveBuckets) * (1 << 16)))
	}
	return bounds
}()

func newLatencies(now instant) latencies { return latencies{until: now.add(latencySliceTime)} }

// record adds a duration that ended at now.
func (l *latencies) record(now instant, d time.Duration) {
	l.turn(now)
	if count := &l.slices[l.filled][latencyBucket(d)]; *count < math.MaxUint32 {
		*count++
	}
}

// quantiles returns the median and the 99th percentile, 0 when nothing was recorded in the last minutes.
func (l *latencies) quantiles(now instant) (p50, p99 time.Duration) {
	l.turn(now)
	var total uint64
	for i := range l.slices {
		for _, count := range l.slices[i] {
			total += uint64(count)
		}
	}
	if total == 0 {
		return 0, 0
	}
	// The nearest rank: the smallest value that at least q of all do not exceed.
	rank50, rank99 := (total+1)/2, total-total/100
	var seen uint64
	for i := 0; ; i++ { // until all of them have been seen
		for s := range l.slices {
			seen += uint64(l.slices[s][i])
		}
		if p50 == 0 && seen >= rank50 {
			p50 = latencyMiddle(i)
		}
		if seen >= rank99 {
			return p50, latencyMiddle(i)
		}
	}
}

// turn moves on to the slice that now belongs to, emptying those that are begun anew.
func (l *latencies) turn(now instant) {
	if now < l.until {
		return
	}
	behind := int64(now.since(l.until) / latencySliceTime)
	for range min(behind+1, latencySlices) {
		l.filled = (l.filled + 1) % latencySlices
		l.slices[l.filled] = latencySlice{}
	}
	l.until = l.until.add(time.Duration(behind+1) * latencySliceTime)
}

// latencyBucket returns the index of the bucket that holds d.
func latencyBucket(d time.Duration) int {
	if d < 1<<latencyMinBits {
		return 0
	}
	if d >= 1<<latencyMaxBits {
		return latencyBuckets - 1
	}
	octave := bits.Len64(uint64(d)) - 1
	mantissa := uint32(uint64(d) << (63 - octave) >> 47) // in [1, 2) with 16 binary places
	bucket := (octave - latencyMinBits) * octaveBuckets
	for _, bound := range octaveBounds {
		if mantissa >= bound {
			bucket++
		}
	}
	return bucket
}

// latencyMiddle returns the duration that stands for the bucket i.
func latencyMiddle(i int) time.Duration {
	low := math.Exp2(latencyMinBits + float64(i)/octaveBuckets)
	high := low * math.Exp2(1.0/octaveBuckets)
	return time.Duration(math.Round(2 * low * high / (low + high)))
}
