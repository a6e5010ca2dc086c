package steady

import (
	"math"
	"strconv"
	"time"
)

// Jitter says how a Retry spreads its delays. All but NoJitter keep callers that failed together from
// coming back together.
type Jitter uint8

const (
	// FullJitter waits anything from 0 to the ceiling: the least work under contention, and the default
	// (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog 2015).
	FullJitter Jitter = iota
	// EqualJitter waits half of the ceiling, and anything up to the other half.
	EqualJitter
	// DecorrelatedJitter waits anything from BaseDelay to three times the previous delay (Brooker 2015).
	DecorrelatedJitter
	// NoJitter waits the ceiling. Callers that failed together come back together.
	NoJitter
)

// String returns the jitter's name in lower case.
func (j Jitter) String() string {
	switch j {
	case FullJitter:
		return "full"
	case EqualJitter:
		return "equal"
	case DecorrelatedJitter:
		return "decorrelated"
	case NoJitter:
		return "none"
	default:
		return "jitter " + strconv.Itoa(int(j))
	}
}

// delay returns what to wait before attempt n+1. Its ceiling is c = min(limit, base·2^(n-1)), and the delay
// is r·c for FullJitter, c/2 + r·c/2 for EqualJitter, c for NoJitter, and
// min(limit, base + r·(3·previous − base)) for DecorrelatedJitter, with r in [0, 1). The cap comes before
// the jitter, so that delays at the cap are spread like all others; DecorrelatedJitter, whose definition
// caps last, is the exception. Nothing overflows, whatever n is.
func (j Jitter) delay(n int, base, limit, previous time.Duration, r float64) time.Duration {
	if j == DecorrelatedJitter {
		span := 3*float64(max(previous, base)) - float64(base)
		return saturated(math.Min(float64(limit), float64(base)+r*span))
	}
	c := ceiling(n, base, limit)
	switch j {
	case NoJitter:
		return c
	case EqualJitter:
		return c/2 + saturated(r*float64(c-c/2))
	default:
		return saturated(r * float64(c))
	}
}

// ceiling returns min(limit, base·2^(n-1)).
func ceiling(n int, base, limit time.Duration) time.Duration {
	shift := n - 1
	if shift >= 63 || base > limit>>shift {
		if base == 0 {
			return 0
		}
		return limit
	}
	return base << shift
}

// saturated returns the duration of f nanoseconds, or the longest there is.
func saturated(f float64) time.Duration {
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(f)
}

// unit returns what a caller's source of randomness gave, or 0 if that is not in [0, 1).
func unit(r float64) float64 {
	if r >= 0 && r < 1 {
		return r
	}
	return 0
}
