package steadyhttp

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// retryAfter returns how long a response asks to be left alone, 0 if it does not: the Retry-After of a 429 or 503, in
// seconds or as a date in one of the three forms of RFC 9110, section 5.6.7. What is malformed or too far away for a
// time.Duration says nothing.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	value := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 63); err == nil {
		if seconds > uint64(math.MaxInt64/time.Second) {
			return 0
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	d := at.Sub(now)
	if d == math.MaxInt64 { // where Sub stops
		return 0
	}
	return max(d, 0)
}
