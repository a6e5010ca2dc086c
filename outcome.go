package steady

import (
	"errors"
	"strconv"
	"time"
)

// Outcome says what the end of an attempt means: whether a [Breaker] counts it, and whether a [Retry]
// tries again. An Outcome that is none of the constants counts as Transient.
type Outcome uint8

const (
	// Success is an answer. That includes a healthy "no": not found, a unique violation, a 404.
	Success Outcome = iota + 1
	// Transient is a failure that may pass: a reset connection, a 500, a timeout. It is tried again unless
	// the intent forbids it.
	Transient
	// Unsent is a failure of which the dependency cannot have seen anything: a refused connection. It is
	// tried again under every intent.
	Unsent
	// Permanent is a failure that repeating cannot mend: a bad certificate.
	Permanent
	// Throttled is a refusal before anything was done, a 429: no breaker counts it, and it is tried again
	// under every intent, after RetryConfig.ThrottledDelay.
	Throttled
	// Ignored says nothing of the dependency: the caller gave up, or a policy rejected the call.
	Ignored
)

// outcomeDefault is the Outcome 0: it asks for the default classification.
const outcomeDefault Outcome = 0

// String returns the outcome's name in lower case.
func (o Outcome) String() string {
	switch o {
	case outcomeDefault:
		return "default"
	case Success:
		return "success"
	case Transient:
		return "transient"
	case Unsent:
		return "unsent"
	case Permanent:
		return "permanent"
	case Throttled:
		return "throttled"
	case Ignored:
		return "ignored"
	default:
		return "outcome " + strconv.Itoa(int(o))
	}
}

// failed reports whether a breaker counts the outcome as a failure.
func (o Outcome) failed() bool {
	switch o {
	case Success, Throttled, Ignored:
		return false
	default:
		return true
	}
}

// known returns o, or Transient when o is none of the constants.
func (o Outcome) known() Outcome {
	if o < Success || o > Ignored {
		return Transient
	}
	return o
}

// Classify is the default classification. It returns Success for nil, what [Mark] said for a marked error,
// Ignored for a rejection of a policy of this package, and Transient for every other error, context errors
// and deadlines included. Where an error joins or wraps several of these, the first one counts, in the
// order of errors.As. It never returns 0.
func Classify(err error) Outcome {
	if err == nil {
		return Success
	}
	if c, ok := err.(classified); ok { //nolint:errorlint // saves the allocation of errors.As, which follows
		return c.outcome()
	}
	var c classified
	if errors.As(err, &c) {
		return c.outcome()
	}
	return Transient
}

// classified is an error that knows its outcome.
type classified interface {
	error
	outcome() Outcome
}

// Mark returns an error that wraps err and that [Classify] takes for o. Its text is err's, and errors.Is
// and errors.As see through it. Mark returns nil for a nil err, and err itself for an o of 0.
func Mark(err error, o Outcome) error {
	if err == nil || o == outcomeDefault {
		return err
	}
	return &markedError{error: err, o: o.known()}
}

// MarkRetryAfter is [Mark] for an error that says when to come back: a [Retry] waits at least d before the
// next attempt, its own delay on top. A d of 0 or less says nothing, and an o of 0 leaves the
// classification to err.
func MarkRetryAfter(err error, o Outcome, d time.Duration) error {
	err = Mark(err, o)
	if err == nil || d <= 0 {
		return err
	}
	return &retryAfterError{error: err, d: d}
}

type markedError struct {
	error
	o Outcome
}

func (m *markedError) Unwrap() error    { return m.error }
func (m *markedError) outcome() Outcome { return m.o }

type retryAfterError struct {
	error
	d time.Duration
}

func (r *retryAfterError) Unwrap() error { return r.error }

// markedRetryAfter returns what MarkRetryAfter said of err, 0 if nothing.
func markedRetryAfter(err error) time.Duration {
	var r *retryAfterError
	if errors.As(err, &r) {
		return r.d
	}
	return 0
}
