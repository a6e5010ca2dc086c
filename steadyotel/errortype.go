package steadyotel

import (
	"context"
	"errors"
	"reflect"
	"strings"

	"github.com/steady-go/steady"
)

// typeOf returns the error.type of a call or attempt that did not succeed. For what the policies and the function
// return it allocates nothing.
func typeOf(err error) string {
	switch e := err.(type) { //nolint:errorlint // the errors of the policies, as they come; wrapped ones follow
	case nil:
		return "_OTHER"
	case *steady.PanicError: // whatever was panicked with
		return "panic"
	case *steady.RejectedError:
		return rejectedType(e.Reason)
	case *steady.TimeoutError:
		return "timeout"
	case *steady.RetryError:
		return typeOfGivingUp(e)
	}
	switch {
	case errors.Is(err, steady.ErrBreakerOpen):
		return rejectedType(steady.ErrBreakerOpen)
	case errors.Is(err, steady.ErrBulkheadFull):
		return rejectedType(steady.ErrBulkheadFull)
	case errors.Is(err, steady.ErrTimeout):
		return "timeout"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline_exceeded"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	if said := typeSaid(err); said != "" {
		return said
	}
	return reflect.TypeOf(unwrapped(err)).String()
}

// typeOfGivingUp returns what there was to retry, or what came in its way.
func typeOfGivingUp(e *steady.RetryError) string {
	switch e.Reason {
	case steady.ErrRetriesExhausted, steady.ErrRetryBudget, steady.ErrRetryDeadline, nil: //nolint:errorlint // joined with a rejection it is that
		return typeOf(e.Last)
	default: // a rejection, or the end of a context
		return typeOf(e.Reason)
	}
}

// typeSaid returns what the first error that has a type of its own, in the order of errors.As, says that it is.
func typeSaid(err error) string {
	switch e := err.(type) { //nolint:errorlint // goes through the wrappers itself: errors.As would allocate
	case *steady.PanicError:
		return "panic"
	case interface{ ErrorType() string }:
		return e.ErrorType()
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return typeSaid(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if said := typeSaid(inner); said != "" {
				return said
			}
		}
	}
	return ""
}

func rejectedType(reason error) string {
	if errors.Is(reason, steady.ErrBulkheadFull) {
		return "bulkhead_full"
	}
	return "breaker_open"
}

// unwrapped returns err without what merely wraps it.
func unwrapped(err error) error {
	for merelyWraps(err) {
		var inner error
		switch e := err.(type) { //nolint:errorlint // goes through the wrappers itself
		case interface{ Unwrap() error }:
			inner = e.Unwrap()
		case interface{ Unwrap() []error }:
			if all := e.Unwrap(); len(all) > 0 {
				inner = all[0]
			}
		}
		if inner == nil {
			break
		}
		err = inner
	}
	return err
}

// merelyWraps reports whether the error is one of fmt's, errors' or steady's, which say nothing by their type.
func merelyWraps(err error) bool {
	name := reflect.TypeOf(err).String()
	return strings.HasPrefix(name, "*fmt.") || strings.HasPrefix(name, "*steady.") || strings.HasPrefix(name, "*errors.")
}
