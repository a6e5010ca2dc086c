package steadygrpc

import (
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/steady-go/steady"
)

// Classify says what the error of a gRPC call means: Success for nil; what [steady.Mark] said, and Ignored for a
// rejection of steady's; otherwise what the status code says, which is Unknown for an error without a status:
//
//   - Unavailable, DeadlineExceeded, Internal and Unknown are Transient;
//   - DataLoss, which by its definition cannot be recovered from, is Permanent;
//   - ResourceExhausted is Throttled, and so is repeated under every intent: a server must not answer it after it has
//     done the work. A message that is too large, which only the text of the status tells, may be found so when the
//     call has been executed: that is an answer;
//   - Canceled is Ignored;
//   - all others are answers: Success.
//
// The codes are those of https://grpc.io/docs/guides/status-codes. Who has cancelled a call is not in its error: the
// pipelines of the interceptors look at the caller's context first.
func Classify(err error) steady.Outcome {
	if o := steady.Classify(err); o != steady.Transient {
		return o
	}
	s, _ := status.FromError(err)
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown:
		return steady.Transient
	case codes.DataLoss:
		return steady.Permanent
	case codes.ResourceExhausted:
		if tooLarge(s) {
			return steady.Success
		}
		return steady.Throttled
	case codes.Canceled:
		return steady.Ignored
	default:
		return steady.Success
	}
}

// tooLarge reports whether the status is about the size of a message. Only the text tells.
func tooLarge(s *status.Status) bool {
	for _, text := range []string{
		"larger than",          // Go, C++ and Node
		"exceeds maximum size", // Java
		"exceeds the maximum configured message size", // .NET
	} {
		if strings.Contains(s.Message(), text) {
			return true
		}
	}
	return false
}

// RetryAfter returns how long the status of err asks to wait before another try: the delay of the RetryInfo among its
// details, 0 if there is none.
func RetryAfter(err error) time.Duration {
	s, _ := status.FromError(err)
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return max(info.GetRetryDelay().AsDuration(), 0)
		}
	}
	return 0
}
