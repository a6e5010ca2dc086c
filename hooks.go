package steady

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Hooks are called when something happens. Any of them may be nil. They run on the goroutine of the call
// that made it happen (OnTransition: of the one that noticed, or that is just telling another), with no lock
// held, so they should return soon; they may call any method of this package. A panic in one unwinds that goroutine, after every permit, slot and token it held went back.
//
// A constructor copies the Hooks it is given.
type Hooks struct {
	OnTransition func(Transition)                  // by a Breaker, in order and one at a time, after each change of state
	OnReject     func(context.Context, Rejection)  // by a Breaker or Bulkhead, before the rejection is returned
	OnRetry      func(context.Context, RetryDelay) // by a Retry that has decided to try again, before it waits
	OnTimeout    func(context.Context, Expiry)     // by a Timeout whose limit ended the call
	OnWait       func(context.Context, Wait)       // by a Bulkhead, after a call has waited for a slot
	OnAttempt    func(context.Context, Attempt)    // by a Pipeline, after each run of the function
	OnDone       func(context.Context, Completion) // by a Pipeline, after each call; after Hold, at the release
}

// Transition is a breaker's change of state.
type Transition struct {
	Breaker  string
	From, To State
	Reason   Reason
	Detail   string        // the caller's words, when the Reason is ReasonManual
	At       time.Time     // when it happened, whenever it was noticed
	OpenFor  time.Duration // when To is StateOpen: this period's length, jitter included
	Window   BreakerStats  // what the breaker saw when it decided, before any reset
	Shadow   bool          // the breaker only reports, and rejects nothing

	cfg *BreakerConfig // what the numbers are measured against
}

// String answers the question of the post-mortem in one line:
//
//	catalog: closed → open at 14:07:03.120: slow-call rate 0.60 ≥ 0.50 over 20 calls (12 slow, 0 failed), open for 10.8s
func (t Transition) String() string {
	s := fmt.Sprintf("%s: %v → %v at %s: %s", t.Breaker, t.From, t.To, t.At.Format("15:04:05.000"), t.why())
	if t.To == StateOpen {
		s += ", open for " + roundDuration(t.OpenFor).String()
	}
	if t.onlyWatched() {
		s += " (shadow: nothing is rejected)"
	}
	return s
}

// onlyWatched reports whether the transition is one of a breaker in shadow, which rejects nothing, unless it is forced
// open.
func (t Transition) onlyWatched() bool {
	return t.Shadow && t.From != StateForcedOpen && t.To != StateForcedOpen
}

// why puts the Reason and its numbers into words.
func (t Transition) why() string {
	cfg := t.cfg
	if cfg == nil { // not made by a Breaker
		cfg = new(BreakerConfig)
	}
	rate := func(what string, rate, limit float64) string {
		return fmt.Sprintf("%s rate %.2f ≥ %.2f over %s (%d slow, %d failed)",
			what, rate, limit, plural(t.Window.Calls, "call"), t.Window.Slow, t.Window.Failures)
	}
	switch t.Reason {
	case ReasonFailureRate:
		return rate("failure", t.Window.FailureRate, cfg.FailureRate)
	case ReasonSlowRate:
		return rate("slow-call", t.Window.SlowRate, cfg.SlowRate)
	case ReasonProbeFailed:
		return "probe failed"
	case ReasonProbeSlow:
		return fmt.Sprintf("probe slow, running for %v", cfg.SlowThreshold)
	case ReasonProbeTimeout:
		return fmt.Sprintf("probe timed out, running for %v", cfg.ProbeTimeout)
	case ReasonProbesSucceeded:
		return plural(cfg.HalfOpenProbes, "probe") + " succeeded"
	case ReasonOpenElapsed:
		return "open period elapsed"
	case ReasonManual:
		return "manual: " + t.Detail
	default:
		return t.Reason.String()
	}
}

// Rejection is a call that a Breaker or a Bulkhead did not let through.
type Rejection struct {
	Policy string
	Err    *RejectedError
	Shadow bool // it was let through: the breaker is in shadow mode
	Waited bool // for MaxWait, in the queue of a bulkhead
}

// RetryDelay is a wait before another attempt.
type RetryDelay struct {
	Policy  string
	Attempt int           // the one that failed, counted from 1
	Delay   time.Duration // 0 with NoDelay, and by chance with FullJitter
	Outcome Outcome       // of that attempt
	Err     error         // of that attempt; nil for a failing value
}

// Expiry is a Timeout's limit that ended a call.
type Expiry struct {
	Policy    string
	Limit     time.Duration
	Abandoned bool // the function goes on without its caller
}

// Wait is a call's stay in the queue of a Bulkhead.
type Wait struct {
	Policy   string
	Duration time.Duration
	Admitted bool // it got a slot; otherwise its context ended, or MaxWait
}

// Attempt is one run of the function.
type Attempt struct {
	Pipeline string
	Attempt  int           // counted from 1 within the call
	Duration time.Duration // inside the function
	Outcome  Outcome
	Err      error // the function's; a *PanicError when it did not return
}

// Completion is the end of a call.
type Completion struct {
	Pipeline string
	Attempts int           // runs of the function
	Duration time.Duration // of the whole call, waits included, the fallback not
	Outcome  Outcome       // of the last attempt; Ignored when it did not run
	Err      error         // what the policies returned; a *PanicError when a panic ended the call
	Fallback bool          // a fallback is asked for the answer
	Retry    *Retry        // the outermost of the pipeline; nil if it has none
	Retries  int           // its attempts after the first, whether or not they reached the function; of a call that a Timeout has abandoned none are known
	GaveUp   error         // why a Retry did not try again what it would have: the Reason of its RetryError, which a failing value has none of
}

// Reason says why a breaker changed its state.
type Reason uint8

// The reasons of a Transition.
const (
	ReasonFailureRate     Reason = iota + 1 // closed → open: too many calls in the window failed
	ReasonSlowRate                          // closed → open: too many calls in the window were slow
	ReasonProbeFailed                       // half-open → open
	ReasonProbeSlow                         // half-open → open
	ReasonProbeTimeout                      // half-open → open: a probe ran for ProbeTimeout
	ReasonProbesSucceeded                   // half-open → closed
	ReasonOpenElapsed                       // open → half-open
	ReasonManual                            // ForceOpen, ForceClosed or Reset
)

// String returns the reason's name in lower case, words joined by underscores.
func (r Reason) String() string {
	switch r {
	case ReasonFailureRate:
		return "failure_rate"
	case ReasonSlowRate:
		return "slow_rate"
	case ReasonProbeFailed:
		return "probe_failed"
	case ReasonProbeSlow:
		return "probe_slow"
	case ReasonProbeTimeout:
		return "probe_timeout"
	case ReasonProbesSucceeded:
		return "probes_succeeded"
	case ReasonOpenElapsed:
		return "open_elapsed"
	case ReasonManual:
		return "manual"
	default:
		return "reason " + strconv.Itoa(int(r))
	}
}

// JoinHooks returns Hooks that call each of the given ones, in order; nil ones are left out. One that
// panics does not keep the others from being called.
func JoinHooks(hooks ...*Hooks) *Hooks {
	var joined Hooks
	for _, h := range hooks {
		if h == nil {
			continue
		}
		h := *h
		joined.OnTransition = join1(joined.OnTransition, h.OnTransition)
		joined.OnReject = join2(joined.OnReject, h.OnReject)
		joined.OnRetry = join2(joined.OnRetry, h.OnRetry)
		joined.OnTimeout = join2(joined.OnTimeout, h.OnTimeout)
		joined.OnWait = join2(joined.OnWait, h.OnWait)
		joined.OnAttempt = join2(joined.OnAttempt, h.OnAttempt)
		joined.OnDone = join2(joined.OnDone, h.OnDone)
	}
	return &joined
}

func join1[E any](first, second func(E)) func(E) {
	if first == nil || second == nil {
		if first == nil {
			return second
		}
		return first
	}
	return func(e E) {
		defer second(e)
		first(e)
	}
}

func join2[E any](first, second func(context.Context, E)) func(context.Context, E) {
	if first == nil || second == nil {
		if first == nil {
			return second
		}
		return first
	}
	return func(ctx context.Context, e E) {
		defer second(ctx, e)
		first(ctx, e)
	}
}

// hooksOf returns a copy of what a config was given.
func hooksOf(h *Hooks) *Hooks {
	if h == nil {
		return &noHooks
	}
	own := *h
	return &own
}

var noHooks Hooks
