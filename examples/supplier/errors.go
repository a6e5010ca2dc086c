package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/steady-go/steady"
)

// What the shop knows of the supplier's troubles.
var (
	ErrUnavailable = errors.New("the supplier is unavailable")
	ErrTimedOut    = errors.New("the supplier timed out")
	ErrNotFound    = errors.New("the supplier has no such article")
	ErrSoldOut     = errors.New("the supplier has too few of the article")
	// ErrInDoubt comes with one of the others when an order may or may not have arrived.
	ErrInDoubt = errors.New("the order may have arrived")
)

// translate turns the error of a call into one of the shop's. What was behind it stays readable in the text,
// but out of reach of errors.Is and errors.As: the shop must not come to depend on it.
func translate(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err() // the shop gave up, and knows
	}
	return fmt.Errorf("%w (%s)", meaning(err), err.Error())
}

// translateWrite is translate for a write that was not repeated. It adds ErrInDoubt unless the error shows
// that nothing can have been done: by its outcome, a healthy "no" of the supplier (Success), a refusal at the
// door (Throttled), no connection (Unsent), or a rejection of our own (Ignored).
func translateWrite(ctx context.Context, err error) error {
	switch steady.Classify(err) {
	case steady.Success, steady.Throttled, steady.Unsent, steady.Ignored:
		return translate(ctx, err)
	default:
		return fmt.Errorf("%w: %w", ErrInDoubt, translate(ctx, err))
	}
}

// meaning returns which of the shop's errors it is.
func meaning(err error) error {
	var answer answered
	switch {
	case steady.IsRejected(err): // first: the breaker or the bulkhead had the last word
		return ErrUnavailable
	case errors.Is(err, context.DeadlineExceeded): // a limit of ours, or the shop's own
		return ErrTimedOut
	case errors.As(err, &answer) && answer.status == http.StatusNotFound:
		return ErrNotFound
	case errors.As(err, &answer) && answer.status == http.StatusConflict:
		return ErrSoldOut
	default:
		return ErrUnavailable
	}
}
