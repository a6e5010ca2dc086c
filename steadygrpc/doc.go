// Package steadygrpc puts the policies of steady around gRPC calls: interceptors for clients, unary and stream, and
// a bulkhead for servers.
//
//	pricing := steady.Must(steady.NewDependency(…))
//	config := steadygrpc.ClientConfig{Dependency: pricing, Intent: readsAreIdempotent}
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(steady.Must(steadygrpc.NewUnaryClientInterceptor(config))),
//		grpc.WithChainStreamInterceptor(steady.Must(steadygrpc.NewStreamClientInterceptor(config))))
//
// # What a status means
//
// [Classify] says it. Unavailable, DeadlineExceeded, Internal and Unknown are Transient, DataLoss is Permanent, and all
// of these are failures of the server. ResourceExhausted is Throttled. Canceled is the caller's doing. Every other code is
// an answer, a Success to the breaker. What the caller has cancelled is Ignored whatever the status; the caller's own
// deadline is not a cancel, for a server that hangs would never be noticed otherwise. The Classify of the Dependency is
// asked first. A RetryInfo among the details of a status is what [steady.Retry] waits for at least.
//
// A failed call that never had a connection to be sent on, for the server could not be reached, is Unsent: it is retried
// whatever its intent. Nothing else is taken for unsent; streams that a server refused without looking at them are
// retried by gRPC itself. After a connection has failed, gRPC waits before it tries another, a second at first: until then
// every attempt fails at once, and retries help only if they take longer, if grpc.WithConnectParams makes that wait
// shorter, or if grpc.WaitForReady makes the attempts wait too.
//
// What happens inside a call of gRPC is one attempt: its transparent retries, a retryPolicy in the service config, and
// with grpc.WaitForReady the wait for a connection, which then counts as time that the server took. An interceptor further
// in that makes several calls of one at once must give each of them CallOptions of its own, as for any grpc.Peer.
//
// # Errors
//
// A status of the server's comes back as it is, and io.EOF too. An error of steady's is still matched by errors.Is and
// errors.As ([steady.ErrBreakerOpen], [*steady.TimeoutError], …) and is a status as well: Unavailable for a breaker,
// ResourceExhausted for a bulkhead, DeadlineExceeded for a timeout, the last status of the server for a Retry that gave up.
// A rejection of a breaker carries a RetryInfo with what is left of its open period. A DeadlineExceeded that the caller's
// deadline or a limit of steady's has caused matches context.DeadlineExceeded too; one of the server's own does not, nor
// does that of a timeout further in, as in the service config, for nothing tells the two apart.
//
// # Other retries
//
// A retrying interceptor outside of these ones sees a rejection as Unavailable, which is what such interceptors retry:
// with WithCodes(codes.Unavailable), say, it would call an open breaker again and again. The best is to leave it out
// and let the Dependency retry. Where it must stay, let it ask about the error, not only its code: one that
// [steady.IsRejected] must not be retried before its RetryInfo. One that knows nothing but codes belongs inside, after these
// interceptors in the chain, where it never sees a rejection; all its attempts are then one attempt of steady's, and
// the Dependency should have NoRetry. The same holds for a retryPolicy in the service config, which is always inside.
package steadygrpc
