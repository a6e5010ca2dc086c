package steadygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadygrpc"
)

func TestEveryCodeHasItsMeaning(t *testing.T) {
	for code, want := range map[codes.Code]steady.Outcome{
		codes.OK:                 steady.Success,
		codes.Canceled:           steady.Ignored,
		codes.Unknown:            steady.Transient,
		codes.InvalidArgument:    steady.Success,
		codes.DeadlineExceeded:   steady.Transient,
		codes.NotFound:           steady.Success,
		codes.AlreadyExists:      steady.Success,
		codes.PermissionDenied:   steady.Success,
		codes.ResourceExhausted:  steady.Throttled,
		codes.FailedPrecondition: steady.Success,
		codes.Aborted:            steady.Success,
		codes.OutOfRange:         steady.Success,
		codes.Unimplemented:      steady.Success,
		codes.Internal:           steady.Transient,
		codes.Unavailable:        steady.Transient,
		codes.DataLoss:           steady.Permanent,
		codes.Unauthenticated:    steady.Success,
	} {
		assert.Equal(t, want, steadygrpc.Classify(status.Error(code, "")), code.String())
		if code != codes.OK {
			assert.Equal(t, want, steadygrpc.Classify(fmt.Errorf("wrapped: %w", status.Error(code, ""))), "%v, wrapped", code)
		}
	}
}

func TestWhatIsNotJustAStatusHasItsMeaning(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want steady.Outcome
	}{
		"nil":                     {nil, steady.Success},
		"an error without status": {errors.New("boom"), steady.Transient},
		"a context's":             {context.DeadlineExceeded, steady.Transient},
		"marked":                  {steady.Mark(status.Error(codes.Unavailable, ""), steady.Success), steady.Success},
		"a rejection":             {&steady.RejectedError{Policy: "p", Reason: steady.ErrBreakerOpen}, steady.Ignored},
		"too large, of grpc-go":   {status.Error(codes.ResourceExhausted, "trying to send message larger than max (5 vs. 4)"), steady.Success},
		"too large, of C++":       {status.Error(codes.ResourceExhausted, "SERVER: Received message larger than max (5 vs. 4)"), steady.Success},
		"too large, of Node":      {status.Error(codes.ResourceExhausted, "Attempted to send message with a size larger than 4"), steady.Success},
		"too large, of .NET":      {status.Error(codes.ResourceExhausted, "Sending message exceeds the maximum configured message size."), steady.Success},
		"too large, of Java":      {status.Error(codes.ResourceExhausted, "gRPC message exceeds maximum size 4: 5"), steady.Success},
	} {
		assert.Equal(t, tt.want, steadygrpc.Classify(tt.err), name)
	}
}

func TestRetryAfterIsReadFromTheDetails(t *testing.T) {
	with := func(d *durationpb.Duration) error {
		s, err := status.New(codes.Unavailable, "").WithDetails(&errdetails.ErrorInfo{}, &errdetails.RetryInfo{RetryDelay: d})
		require.NoError(t, err)
		return s.Err()
	}
	assert.Equal(t, 1500*time.Millisecond, steadygrpc.RetryAfter(with(durationpb.New(1500*time.Millisecond))))
	assert.Equal(t, time.Second, steadygrpc.RetryAfter(fmt.Errorf("wrapped: %w", with(durationpb.New(time.Second)))))
	assert.Equal(t, time.Duration(math.MaxInt64), steadygrpc.RetryAfter(with(&durationpb.Duration{Seconds: math.MaxInt64})))
	for name, err := range map[string]error{
		"nil":       nil,
		"no status": errors.New("boom"),
		"no detail": status.Error(codes.Unavailable, ""),
		"no delay":  with(nil),
		"negative":  with(durationpb.New(-time.Second)),
	} {
		assert.Zero(t, steadygrpc.RetryAfter(err), name)
	}
}
