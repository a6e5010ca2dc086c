// Package steady keeps a service healthy when a dependency is slow, failing or gone. It puts a circuit
// breaker, a bulkhead, a retry and timeouts around any func(context.Context) (T, error):
//
//	Do(ctx, fn) ── Timeout (total) ── Retry ── Timeout (attempt) ── Breaker ── Bulkhead ── fn
//
// A breaker that counts errors never opens for a dependency that answers 200 in eight seconds, while every
// call holds a connection until there is none left. A [Breaker] of this package counts slow calls beside
// failed ones, and counts a call as slow while it is still running; a [Bulkhead] bounds the calls in
// flight; so the damage stops at the slow threshold, not at the response.
//
// A [Dependency] has all the policies for one thing that can fail on its own, and [NewPipelineFor] makes
// pipelines for its calls, by what may be repeated. Where another order or subset is wanted, [NewPipeline]
// takes any.
//
// # Outcomes
//
// Every end of the function has an [Outcome], on which the policies act. By default nil is a Success and
// every error a Transient failure. A domain's own "no" is an answer too: let sql.ErrNoRows, a 404 or a
// unique violation be a Success, with [Mark] or a Classify function, or your users' typing errors open the
// breaker for everybody. An error while the caller's context is cancelled counts for nothing: the caller
// gave up.
//
// # Testing your code
//
// A Breaker is best tested on clock.NewMock(), moved by hand: see the example Breaker (MockClock). Deadlines
// on a mock are in its own time, 1970 say, which no socket or driver understands; a delay waits until another
// goroutine moves the mock; and the mock sleeps a real millisecond at each timer. So whole pipelines, with
// real waits, are best tested on the system clock inside a testing/synctest bubble: see the example Pipeline
// (Synctest).
package steady
