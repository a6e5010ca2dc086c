package steadygrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/steady-go/steady"
)

// statusError is an error of steady's, or of a context, that is a status as well.
type statusError struct{ error }

func (e *statusError) Unwrap() error { return e.error }

// GRPCStatus returns the status, with what is left of an open period now.
func (e *statusError) GRPCStatus() *status.Status { return statusOf(e.error) }

// withStatus makes a status of an error that is steady's; any other comes back as it is.
func withStatus(err error) error {
	if isStatus(err) || statusOf(err) == nil {
		return err
	}
	return &statusError{err}
}

// isStatus reports whether err is a status itself, not just wraps one.
func isStatus(err error) bool {
	_, ok := err.(interface{ GRPCStatus() *status.Status })
	return ok
}

// statusOf returns the status of an error of steady's: that of what ended the call. It returns nil when the error is
// neither steady's nor a context's, or has a status already.
func statusOf(err error) *status.Status {
	var (
		rejected *steady.RejectedError
		retried  *steady.RetryError
		expired  *steady.TimeoutError
	)
	switch isRetried := errors.As(err, &retried); {
	case errors.As(err, &rejected):
		return rejection(rejected, err.Error(), rejected.RetryAfter())
	case isRetried && retried.Reason != nil && isContextError(retried.Reason):
		return status.New(status.FromContextError(retried.Reason).Code(), err.Error())
	case errors.As(err, &expired):
		return status.New(codes.DeadlineExceeded, err.Error())
	case isRetried:
		return status.Convert(err) // the last error's
	case isContextError(err) && !hasStatus(err):
		return status.FromContextError(err)
	default:
		return nil
	}
}

// hasStatus reports whether err is a status or wraps one.
func hasStatus(err error) bool {
	var s interface{ GRPCStatus() *status.Status }
	return errors.As(err, &s)
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// rejection returns the status of a rejection.
func rejection(e *steady.RejectedError, text string, retryAfter time.Duration) *status.Status {
	code := codes.Unavailable
	if errors.Is(e.Reason, steady.ErrBulkheadFull) {
		code = codes.ResourceExhausted
	}
	s := status.New(code, text)
	if retryAfter <= 0 {
		return s
	}
	if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)}); err == nil {
		return detailed
	}
	return s
}

// deadlineError is a status that a deadline on this side has caused.
type deadlineError struct{ error }

func (e *deadlineError) Unwrap() error              { return e.error }
func (e *deadlineError) Is(target error) bool       { return target == context.DeadlineExceeded }
func (e *deadlineError) GRPCStatus() *status.Status { return status.Convert(e.error) }

// causedBy lets a DeadlineExceeded match context.DeadlineExceeded if the deadline of ctx is what it is about.
func causedBy(ctx context.Context, err error) error {
	if err == nil || status.Code(err) != codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded) || !expired(ctx) {
		return err
	}
	return &deadlineError{err}
}

// expired reports whether the deadline of ctx has been reached. Its own timer may be late.
func expired(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() == context.DeadlineExceeded || ok && !time.Now().Before(deadline)
}
