package steady

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// What ends a call, to be matched with errors.Is.
var (
	// ErrBreakerOpen is the Reason of a RejectedError from a Breaker: open, forced open, or half-open with
	// all its probes given out.
	ErrBreakerOpen = errors.New("steady: breaker open")
	// ErrBulkheadFull is the Reason of a RejectedError from a Bulkhead: no slot free, and none within MaxWait.
	ErrBulkheadFull = errors.New("steady: bulkhead full")
	// ErrTimeout is matched by every TimeoutError.
	ErrTimeout = errors.New("steady: timeout")
	// ErrRetriesExhausted is the Reason of a RetryError when MaxAttempts were made.
	ErrRetriesExhausted = errors.New("steady: retries exhausted")
	// ErrRetryBudget is the Reason of a RetryError when the RetryBudget had no token.
	ErrRetryBudget = errors.New("steady: retry budget empty")
	// ErrRetryDeadline is the Reason of a RetryError when the delay would not have ended before the
	// deadline.
	ErrRetryDeadline = errors.New("steady: no time left to retry")
)

// RejectedError says that a Breaker or a Bulkhead did not let a call through. The function was not called.
// One value serves all the rejections of an open period; it may be shared and must not be changed.
type RejectedError struct {
	Policy string // the policy's Name
	Reason error  // ErrBreakerOpen or ErrBulkheadFull

	until instant // end of the open period
	timed bool    // there is such an end
	time  timekeeper
}

// RetryAfter returns what is left of the breaker's open period at the moment of asking, never negative. It
// is 0 when nobody can know: for a bulkhead, a half-open breaker and one that was forced open.
func (e *RejectedError) RetryAfter() time.Duration {
	if e == nil || !e.timed {
		return 0
	}
	return max(e.until.since(e.time.now()), 0)
}

func (e *RejectedError) Error() string {
	switch {
	case e == nil:
		return "steady: rejected"
	case e.timed:
		return fmt.Sprintf("%v: %q, for another %v", e.Reason, e.Policy, roundDuration(e.RetryAfter()))
	default:
		return fmt.Sprintf("%v: %q", e.Reason, e.Policy)
	}
}

// Unwrap returns the Reason.
func (e *RejectedError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Reason
}

func (e *RejectedError) outcome() Outcome { return Ignored }

// IsRejected reports whether a rejection by a Breaker or a Bulkhead ended the call: no attempt ran, or,
// inside a RetryError, none ran after those that failed.
func IsRejected(err error) bool {
	var rejected *RejectedError
	return errors.As(err, &rejected)
}

// TimeoutError says that a Timeout's limit ended the call. It matches ErrTimeout and
// context.DeadlineExceeded, and wraps what the function, or the policy inside, returned.
type TimeoutError struct {
	Policy string        // the Timeout's Name
	Limit  time.Duration // its Limit
	Err    error         // what came from inside
}

func (e *TimeoutError) Error() string {
	if e == nil {
		return "steady: timeout"
	}
	s := fmt.Sprintf("steady: timeout %q of %v", e.Policy, e.Limit)
	if e.Err != nil {
		s += ": " + untitled(e.Err)
	}
	return s
}

// Timeout returns true, as net.Error has it.
func (e *TimeoutError) Timeout() bool { return true }

// Is reports whether target is ErrTimeout or context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// Unwrap returns Err.
func (e *TimeoutError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// RetryError says why a Retry gave up on a call that it would have tried again. It matches both its Reason
// and the Last error.
type RetryError struct {
	Policy   string        // the Retry's Name
	Attempts int           // how often the function ran
	Elapsed  time.Duration // from the beginning of the first attempt
	Reason   error         // ErrRetriesExhausted, ErrRetryBudget, ErrRetryDeadline, a context's error or a rejection
	Last     error         // the last error of the function; nil if its last result was a failing value with a nil error
}

func (e *RetryError) Error() string {
	if e == nil {
		return "steady: retry gave up"
	}
	s := fmt.Sprintf("steady: retry %q gave up after %s in %v", e.Policy, plural(e.Attempts, "attempt"), roundDuration(e.Elapsed))
	if e.Reason != nil {
		s += ": " + untitled(e.Reason)
	}
	if e.Last != nil {
		s += "; last error: " + untitled(e.Last)
	}
	return s
}

// Timeout reports whether the Reason or the Last error is a timeout, as net.Error has it.
func (e *RetryError) Timeout() bool {
	var timeout interface{ Timeout() bool }
	for _, err := range e.Unwrap() {
		if errors.As(err, &timeout) && timeout.Timeout() ||
			errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
	}
	return false
}

// Unwrap returns the Reason and the Last error, those that are not nil.
func (e *RetryError) Unwrap() []error {
	if e == nil {
		return nil
	}
	errs := make([]error, 0, 2)
	for _, err := range []error{e.Reason, e.Last} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// PanicError carries a panic of the function to where it did not happen: out of the goroutine of an
// abandoning Timeout into its caller, or, once that has gone, to the OnAttempt hook. A hook also gets one,
// with a nil Value, for an attempt that a panic or runtime.Goexit is just unwinding.
type PanicError struct {
	Value any
	Stack []byte // of the panicking goroutine, as runtime/debug.Stack has it
}

func (e *PanicError) Error() string {
	if e == nil {
		return "steady: panic"
	}
	return fmt.Sprintf("steady: panic: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap returns the Value if it is an error.
func (e *PanicError) Unwrap() error {
	if e == nil {
		return nil
	}
	err, _ := e.Value.(error)
	return err
}

// untitled returns the text of err without the package's name, for use inside another of its errors.
func untitled(err error) string { return strings.TrimPrefix(err.Error(), "steady: ") }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// roundDuration makes a duration fit to be read: three or four figures.
func roundDuration(d time.Duration) time.Duration {
	unit := time.Nanosecond
	for _, u := range []time.Duration{time.Microsecond, time.Millisecond, time.Second} {
		if d >= u {
			unit = u
		}
	}
	return d.Round(max(unit/100, 1))
}
