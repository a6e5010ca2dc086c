// Package steadydebug shows what every breaker sees, now: an http.Handler with one page, read-only and a
// second old at most, to mount at a path of your choice.
//
//	page := steady.Must(steadydebug.NewHandler(steadydebug.HandlerConfig{Title: "checkout"}))
//	defer page.Close()
//	catalog := steady.Must(steady.NewDependency(steady.DependencyConfig{
//		Name:  "catalog",
//		Hooks: steady.JoinHooks(steady.LogHooks(nil), page.Hooks()),
//		…
//	}))
//	err := page.Add(catalog)
//	internal.Handle("/debug/steady", page)
//
// The page has a tile for each dependency, the worst first: its state and why, the calls of the last two
// minutes, what is in flight, latencies, the retry budget and the configuration; and below, the last 256
// transitions. It tells names, numbers and the words given to ForceOpen to whoever can reach it, so it belongs on an internal
// listener, or behind your authentication.
//
// # Addresses
//
// The handler answers GET and HEAD at whatever path it is mounted, behind http.StripPrefix or not:
//
//	…/debug/steady                 the page
//	…/debug/steady?format=json     a snapshot
//	…/debug/steady?format=events   a stream of server-sent events, one a second
//
// The first event of a stream, and each one after the client has missed some or dependencies have come or gone, is a
// "snapshot". The others are an "update": the snapshot's at and sequence, those dependencies that have changed,
// without name, config and history, and the transitions since. One that is left out is as it was a second ago,
// its latest counts included.
//
// # The snapshot
//
// A JSON object. Fields may be added to it; a change of those that are here changes schema. Moments are in
// UTC, as RFC 3339 with milliseconds, and null when there is none; durations are in milliseconds. A part
// that a dependency does not have is null.
//
//	schema         1
//	title          of the page
//	at, sequence   when it was read; a number that grows by 1 with each reading
//	intervalMs     between two readings
//	dependencies[]
//	  id           its number while the handler lives; names may repeat where dependencies come and go
//	  name
//	  breaker      name, state ("closed", "open", "half-open", "forced-open", "forced-closed"), since, openUntil,
//	               why (of its last transition, in words; empty when none was heard), hooksJoined (false when it has
//	               made transitions and none was heard), shadow;
//	               calls, failed, slow, deciding: its window; failureRate, slowRate, and their limits
//	               failureRateLimit, slowRateLimit; minCalls; inFlight, overdue; rejected, transitions,
//	               timeOpenMs: since it was made; p50Ms, p99Ms, slowThresholdMs (0: does not count slow calls),
//	               headroom (0: not known)
//	  bulkhead     limit, inFlight, waiting, maxQueue; rejected: since it was made
//	  retry        calls, retries, succeededAfterRetry, exhausted, budgetDenied, deadlineDenied: since it was made
//	  budget       tokens, burst
//	  timeouts     expired (of the whole and of attempts), abandonedNow
//	  latest       answered, slow, failed, rejected: in the last second
//	  history      the same as arrays over the last 120 seconds, oldest first; leading zeros are left out
//	  config       the effective configuration, as pairs of name and value
//	transitions[]  newest first: sequence, breaker, from, to, reason, why, at, openForMs, shadow
//
// Of the counts, answered are the calls that ended with an answer the breaker does not hold against the
// dependency, and failed those it does; slow are the calls that reached SlowThreshold, which may still be
// running and will be answered or failed too; rejected are those that a breaker or a bulkhead turned away,
// which a breaker in shadow never does.
package steadydebug
