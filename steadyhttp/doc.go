// Package steadyhttp puts an HTTP client behind a [steady.Dependency], and a bulkhead before an HTTP server.
//
// [Transport] is an http.RoundTripper around another one. The shortest right client is an http.Client with one,
// made once and shared; the first example shows it. Each logical call goes through the dependency's timeouts, retry,
// breaker and bulkhead:
//
//	Client.Do ── Timeout (total) ── Retry ── Timeout (attempt) ── Breaker ── Bulkhead ── base transport
//
// What may be repeated depends on the method, or on what [WithIntent] says: GET, HEAD, OPTIONS and TRACE read; PUT,
// DELETE and whatever carries an Idempotency-Key may be written twice; everything else is repeated only where the
// server cannot have seen it, or refused it with 429. Besides, net/http itself repeats a request on another connection
// when the server had closed the one it was sent on; it does so for the methods that read and for whatever carries an
// Idempotency-Key, and else only for what was not written.
//
// A call is slow by the time to its response's header. The slot in the bulkhead and the deadlines stay until the body is
// closed, read to its end, or fails, and a body that fails is a failure of the call: close every body, as ever.
// Timeouts run on while a body is read; they must leave the time for it. The connection that follows a 101 response holds
// its slot until it is closed too, but with net/http no deadline ends it: it is the caller's.
//
// Leave http.Client.Timeout at zero. A transport cannot see it, only the deadline it puts on the request: it bounds all
// the attempts, the delays between them and the reading of the body together; a delay that would not fit is not slept;
// and when it passes, it counts as a failure of the dependency, as a caller's deadline does. [Timeouts] has Total for
// that, and Attempt beside it.
package steadyhttp
