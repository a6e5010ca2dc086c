package main

// faults is what is planted, in the order of docs/design.md. One idea each; the text is as short as is
// enough to be there only once.
var faults = []fault{
	// Outcomes.
	{
		"O1", "a call whose context is done is admitted all the same", "dispatch.go",
		"err := r.ctx.Err()\n", "err := error(nil)\n",
		"TestADoneContextRunsAndCountsNothing",
	},
	{
		"O1", "a context that ended on the way in is not looked at again", "dispatch.go",
		"if err := r.plan.time.errAt(ctx, now); err != nil {", "if err := r.plan.time.errAt(ctx, now); false {",
		"TestAContextThatEndsOnTheWayInNeverReachesTheFunction",
	},
	{
		"O1", "the breaker hears the last attempt's outcome of a call cancelled in a delay", "permit.go",
		"!t.started || c.fate == cut && c.gone()", "!t.started",
		"TestACallCancelledWhileItWaitsToBeRetriedIsIgnored",
	},
	{
		"O1", "an open breaker rejects a call whose context is done", "gate.go",
		"ctx.Err() != nil", "ctx == nil",
		"TestTheShortcutOfAnOpenBreakerChangesNothing",
	},
	{
		"O2", "an error counts though the caller has cancelled", "dispatch.go",
		"if r.err != nil && r.gone() {", "if false {",
		"TestWhatTheCallersCancelMeans",
	},
	{
		"O2", "a failing value counts though the caller has cancelled", "dispatch.go",
		"if o != Success && r.gone() {", "if false {",
		"TestWhatTheCallersCancelMeans",
	},
	{
		"O2", "the caller's deadline is taken for a cancellation", "call.go",
		"return c.ctx.Err() == context.Canceled", "return c.ctx.Err() != nil",
		"TestTheCallersDeadlineIsAFailure",
	},
	{
		"O2", "a rejection of our own is classified as a failure", "errors.go",
		"func (e *RejectedError) outcome() Outcome { return Ignored }", "func (e *RejectedError) outcome() Outcome { return Transient }",
		"TestClassifyByDefault",
	},
	{
		"O2", "Classify is asked twice", "dispatch.go",
		"o = r.p.cfg.Classify(r.v, r.err)\n", "o = r.p.cfg.Classify(r.v, r.err)\n\t\to = r.p.cfg.Classify(r.v, r.err)\n",
		"TestClassifyIsAskedOnceAnAttemptAndZeroMeansTheDefault",
	},
	{
		"O3", "what is ignored or throttled counts as a success", "permit.go",
		"case o == Success:\n\t\tb.recordLatency", "case true:\n\t\tb.recordLatency",
		"TestIgnoredAndThrottledCallsCountOnlyWhenTheyAreSlow",
	},
	{
		"O3", "what is throttled counts as a failure", "outcome.go",
		"case Success, Throttled, Ignored:", "case Success, Ignored:",
		"TestWhatIsIgnoredOrThrottledCountsForNothing",
	},
	{
		"O3", "a slow probe counts only at its end", "inflight.go",
		"\t\tif t.probe {\n\t\t\tb.trip(at, ReasonProbeSlow)\n\t\t}\n", "",
		"TestASlowProbeOpensAgainWhileItRunsWhateverItsOutcome",
	},
	{
		"O4", "a panic in the function is ignored", "dispatch.go",
		"r.outcome = Transient\n", "r.outcome = Ignored\n",
		"TestAPanicIsAFailureAndGivesEverythingBack",
	},
	{
		"O4", "a panic in Classify is not recorded", "dispatch.go",
		"if a.phase != reported {", "if a.phase == inside {",
		"TestAPanicIsAFailureAndGivesEverythingBack",
	},
	{
		"O4", "a panic keeps the bulkhead's slot", "bulkhead.go",
		"defer c.leave(keepsake{bulkhead: s.b})\n\treturn s.next.handle(ctx, c)", "err := s.next.handle(ctx, c)\n\tc.leave(keepsake{bulkhead: s.b})\n\treturn err",
		"TestAPanicIsAFailureAndGivesEverythingBack",
	},
	{
		"O5", "a failing value does not reach the caller", "dispatch.go",
		"if r.fate == ran {", "if r.fate == ran && r.outcome == Success {",
		"TestAFailingValueComesBackWhenNothingIsLeftToTry",
	},
	{
		"O5", "a failing value becomes a RetryError when nothing is left to try", "retry.go",
		"case err == nil: // a failing value\n\t\tc.gaveUp = reason\n\t\treturn nil\n", "",
		"TestRetryGivesBackAFailingValueWhenNothingIsLeftToTry",
	},
	{
		"O5", "OnDone does not hear why a failing value was not tried again", "retry.go",
		"c.gaveUp = reason\n\t\treturn nil\n", "return nil\n",
		"TestOnDoneTellsWhyARetryGaveUpAlsoOfAFailingValue",
	},
	{
		"O5", "OnDone hears why an inner Retry gave up though the outer one went on", "call.go",
		"\tc.gaveUp = nil\n", "",
		"TestOnDoneTellsWhyARetryGaveUpAlsoOfAFailingValue",
	},
	{
		"O5", "OnDone hears of an inner Retry's retries", "retry.go",
		"c.retries = a.n - 1\n", "c.retries = max(c.retries, a.n-1)\n",
		"TestOnDoneTellsTheRetriesOfTheOutermostRetry",
	},
	{
		"O5", "OnDone does not hear that a limit ended the retries it abandoned", "abandon.go",
		"if s.retries {", "if false {",
		"TestAbandonAroundARetryTellsWhyItEnded",
	},
	{
		"O5", "a result that is retried is discarded after the delay", "retry.go",
		"\tc.owner.drop()\n", "\tdefer c.owner.drop()\n",
		"TestARetriedResultIsDiscardedBeforeTheDelay",
	},
	{
		"O6", "a success after the limit becomes a TimeoutError", "timeout.go",
		"if err != nil && s.caused(ctx, d.at, err) {", "if s.time.now() >= d.at {",
		"TestTimeoutReturnsASuccessThatComesLate",
	},
	{
		"O7", "a RetryError does not match the last error", "errors.go",
		"[]error{e.Reason, e.Last}", "[]error{e.Reason}",
		"TestRetryGivesUpAfterMaxAttempts",
	},
	{
		"O7", "with one attempt the error is wrapped", "retry.go",
		"if s.r.cfg.MaxAttempts == 1 {", "if false {",
		"TestRetryWithOneAttemptReturnsTheErrorUntouched",
	},
	{
		"O7", "a rejection hides the error of the attempt before it", "retry.go",
		"if a.failed && err != nil {", "if false {",
		"TestARejectionAfterAFailedAttemptKeepsTheAttemptsError",
	},
	{
		"O7", "an abandoned call loses the function's last error", "abandon.go",
		"if f.last != nil {", "if false {",
		"TestAbandonAroundARetryEndsItWhileTheFunctionRuns",
	},
	{
		"O8", "the fallback is asked when the caller has cancelled", "pipeline.go",
		"ask = fallback && err != nil && !r.gone()", "ask = fallback && err != nil",
		"TestTheFallbackIsAskedForEveryErrorButTheCallersCancellation",
	},
	{
		"O8", "the fallback is not asked when the caller's deadline has passed", "pipeline.go",
		"ask = fallback && err != nil && !r.gone()", "ask = fallback && err != nil && r.ctx.Err() == nil",
		"TestAPassedDeadlineGoesToTheFallback",
	},
	{
		"O9", "what is held gives its slot back at the return", "hold.go",
		"if c.hold && c.made {", "if false {",
		"TestAHeldValueKeepsItsSlotAndItsContextsUntilTheRelease",
	},
	{
		"O9", "every release of a held value counts", "hold.go",
		"!released.Swap(true)", "!released.Load()",
		"TestAReleaseCountsOnce",
	},
	{
		"O9", "a late failure counts in another generation", "permit.go",
		"case t.gen == nil || t.gen != b.gen.Load():", "case t.gen == nil:",
		"FuzzBreaker",
	},
	{
		"O9", "a late failure decides nothing", "permit.go",
		"if b.window.fail(now, t.place) {\n\t\tb.decide(now)\n\t}", "b.window.fail(now, t.place)",
		"FuzzBreaker",
	},
	{
		"O9", "a late failure of a probe does not open again", "permit.go",
		"\tcase t.passed:\n\t\tb.trip(now, ReasonProbeFailed)\n", "",
		"TestALateFailureOfAProbeOpensAgain",
	},
	{
		"O9", "an abandoning Timeout holds", "hold.go",
		"if p.abandons != nil {", "if false {",
		"TestHoldThroughAnAbandoningTimeoutIsAnError",
	},
	{
		"O10", "next runs the function after the Middleware has returned", "middleware.go",
		"\tn.ended = true\n", "",
		"TestACallOfNextAfterTheMiddlewareReturnedIsAnError",
	},
	{
		"O10", "two calls of next run at once", "middleware.go",
		"if n.busy || n.ended {", "if n.ended {",
		"TestTwoCallsOfNextAtOnceAreAnError",
	},
	{
		"O10", "a Middleware that returns too early is not held back", "middleware.go",
		"\tn.running.Wait()\n", "",
		"TestAMiddlewareThatReturnsTooEarlyIsHeldBack",
	},
	{
		"O10", "a probe that a Middleware kept away from the function fails", "permit.go",
		"if !t.started || c.fate == cut && c.gone() {", "if c.fate == cut && c.gone() {",
		"TestAProbeThatAMiddlewareKeepsAwayIsGivenBackAfterAnAttemptThatFailed",
	},

	// Window.
	{
		"W1", "a failure that has left the window is still counted", "window.go",
		"\tif outcome&failedBit != 0 {\n\t\tw.failures--\n\t}\n", "",
		"FuzzWindow",
	},
	{
		"W1", "one outcome more than WindowSize is kept", "window.go",
		"if w.len() == w.size {", "if w.len() > w.size {",
		"FuzzWindow",
	},
	{
		"W1", "an outcome that has left the window fails another one", "window.go",
		"\tif n < w.first {\n\t\treturn false\n\t}\n", "",
		"FuzzWindow",
	},
	{
		"W1", "the ring goes back in time", "window.go",
		"w.latest = max(w.latest, now)", "w.latest = now",
		"FuzzWindow",
	},
	{
		"W1", "an outcome is as old as its call's beginning", "permit.go",
		"t.recorded, t.place = true, b.window.record(now, true, false)", "t.recorded, t.place = true, b.window.record(now-instant(t.took), true, false)",
		"TestAnOutcomeIsAsOldAsItsCompletion",
	},
	{
		"W2", "what is too old has a say in the decision", "window.go",
		"\tw.expire(now)\n\tif w.len() == w.size {", "\tif w.len() == w.size {",
		"FuzzBreaker",
	},
	{
		"W2", "ageing decides when somebody looks", "breaker.go",
		"seen := b.snapshot(now)\n", "seen := b.snapshot(now)\n\tb.decide(now)\n",
		"TestAgeingThatRaisesARateToItsLimitOpensNothing",
	},
	{
		"W2", "a manual transition tells of outcomes that are too old", "breaker.go",
		"\tif g.rejected == nil { // calls pass; an open breaker keeps the numbers that opened it\n\t\tb.window.expire(now)\n\t}\n", "",
		"TestAManualTransitionTellsOfNoOutcomeThatIsTooOld",
	},
	{
		"W3", "the breaker decides on failures only", "permit.go",
		"b.window.record(now, false, false)\n\t\tb.decide(now)", "b.window.record(now, false, false)",
		"TestTheBreakerDecidesAfterEveryOutcomeSuccessesToo",
	},
	{
		"W3", "MinCalls is ignored", "breaker.go",
		"if calls < b.cfg.MinCalls ||", "if calls == 0 ||",
		"FuzzBreaker",
	},
	{
		"W3", "a failure rate that equals the limit does not open", "breaker.go",
		"float64(calls) >= b.cfg.FailureRate", "float64(calls) > b.cfg.FailureRate",
		"TestARateThatEqualsTheLimitOpens",
	},
	{
		"W3", "a slow-call rate that equals the limit does not open", "breaker.go",
		"float64(calls) >= b.cfg.SlowRate", "float64(calls) > b.cfg.SlowRate",
		"TestARateThatEqualsTheLimitOpens",
	},
	{
		"W3", "the failure rate is rounded to a percentage", "breaker.go",
		"float64(b.window.failures)/float64(calls) >= b.cfg.FailureRate", "float64((200*b.window.failures+calls)/(2*calls))/100 >= b.cfg.FailureRate",
		"TestTheRateIsTheQuotientUnrounded",
	},
	{
		"W4", "slow is longer than SlowThreshold", "inflight.go",
		"entered.add(b.cfg.SlowThreshold)", "entered.add(b.cfg.SlowThreshold + 1)",
		"TestSlowMeansTheThresholdOrLonger",
	},
	{
		"W4", "the two rates are added", "breaker.go",
		"float64(b.window.slow)/float64(calls) >=", "float64(b.window.slow+b.window.failures)/float64(calls) >=",
		"TestTheSlowAndTheFailedRateAreNotAdded",
	},
	{
		"W4", "a slow call cannot fail any more", "permit.go",
		"case t.recorded && o.failed():", "case false:",
		"TestALateFailureIsAddedToTheSameOutcomeAndDecides",
	},
	{
		"W5", "an outcome as old as WindowAge is too old", "window.go",
		"now.since(w.moment(w.first)) > w.age", "now.since(w.moment(w.first)) >= w.age",
		"FuzzWindow",
	},
	{
		"W5", "outcomes age in buckets", "window.go",
		"int64(w.latest-w.base) << momentShift", "int64(w.latest-w.base) &^ 15 << momentShift",
		"FuzzWindow",
	},

	// Breaker.
	{
		"B1", "an outcome counts in another generation", "permit.go",
		"return !t.reported && t.gen == b.gen.Load() }", "return !t.reported }",
		"FuzzBreaker",
	},
	{
		"B1", "InFlight forgets the calls of other generations", "permit.go",
		"\t\tb.running.remove(&t.slowAt)\n\t\tb.inFlight--\n", "\t\tb.running.remove(&t.slowAt)\n\t\tif t.gen == b.gen.Load() {\n\t\t\tb.inFlight--\n\t\t}\n",
		"FuzzBreaker",
	},
	{
		"B2", "a Rand out of its range is believed", "breaker.go",
		"r = unit(b.cfg.Rand())", "r = b.cfg.Rand()",
		"TestARandOutsideItsRangeCountsAsZero",
	},
	{
		"B2", "a Rand that panics leaves the breaker between two states", "breaker.go",
		"\t\tb.openTripped(r)\n\t\tif !answered", "\t\tif answered {\n\t\t\tb.openTripped(r)\n\t\t}\n\t\tif !answered",
		"TestAPanickingRandLeavesThePeriodWithoutJitterAndThePanicGoesOn",
	},
	{
		"B2", "a Rand that uses the breaker is asked again", "breaker.go",
		"if b.asking {", "if false {",
		"TestRandMayUseTheBreaker",
	},
	{
		"B3", "every rejection is an error of its own", "permit.go",
		"b.reject(ctx, g.rejected, false)\n\t\t\treturn g.rejected, true", "e := *g.rejected\n\t\t\tb.reject(ctx, &e, false)\n\t\t\treturn &e, true",
		"TestARejectionSaysWhenToComeBackAndIsOneValueAPeriod",
	},
	{
		"B3", "a rejection while open allocates", "gate.go",
		"\treturn gen.rejected\n", "\te := *gen.rejected\n\treturn &e\n",
		"TestAnOpenRejectionAllocatesNothing",
	},

	{
		"B3", "a rejection while open takes the lock", "permit.go",
		"if now < g.until && !b.cfg.Shadow {\n", "if now < g.until && !b.cfg.Shadow {\n\t\t\tb.mu.Lock()\n\t\t\tb.mu.Unlock()\n",
		"TestAnOpenRejectionTakesNoLock",
	},
	{
		"B4", "the open period lasts a moment too long", "breaker.go",
		"g.state == StateOpen && now >= g.until {\n\t\tb.enter", "g.state == StateOpen && now > g.until {\n\t\tb.enter",
		"FuzzBreaker",
	},
	{
		"B4", "State does not tell that the open period is over", "breaker.go",
		"\tif g.state == StateOpen && now >= g.until {\n\t\treturn StateHalfOpen, g.until\n\t}\n", "",
		"FuzzBreaker",
	},
	{
		"B4", "State makes the transition to half-open", "breaker.go",
		"state, _ := b.gen.Load().at(now)", "b.halfOpen(now)\n\tstate, _ := b.gen.Load().at(now)",
		"FuzzBreaker",
	},
	{
		"B4", "the shortcut of an open breaker does not see that the period is over", "gate.go",
		" || g.b.time.now() >= gen.until", "",
		"TestTheShortcutOfAnOpenBreakerChangesNothing",
	},
	{
		"B5", "one probe that succeeds closes", "permit.go",
		"b.probesPassed == b.cfg.HalfOpenProbes", "b.probesPassed == 1",
		"TestOneLuckyProbeDoesNotClose",
	},
	{
		"B5", "a probe that has succeeded makes room for another", "permit.go",
		"b.probesOut+b.probesPassed < b.cfg.HalfOpenProbes", "b.probesOut < b.cfg.HalfOpenProbes",
		"TestNeverMoreProbesThanConfigured",
	},
	{
		"B5", "an ignored probe is not given back", "permit.go",
		"\tb.probesOut--\n\tif o != Success {\n\t\treturn\n\t}\n", "\tif o != Success {\n\t\treturn\n\t}\n\tb.probesOut--\n",
		"TestAnIgnoredProbeIsGivenBack",
	},
	{
		"B5", "a failed probe is only given back", "permit.go",
		"\tif o.failed() {\n\t\tb.trip(now, ReasonProbeFailed)\n\t\treturn\n\t}\n", "",
		"TestTheFirstFailedProbeOpensAgain",
	},
	{
		"B5", "MinCalls probes must succeed", "permit.go",
		"b.probesPassed == b.cfg.HalfOpenProbes", "b.probesPassed >= max(b.cfg.HalfOpenProbes, b.cfg.MinCalls)",
		"TestMinCallsPlaysNoPartInHalfOpen",
	},
	{
		"B6", "a probe that does not reach the function in time is never given back", "inflight.go",
		"t.reported = true\n\t\t\t\tb.probesOut--", "t.reported = true",
		"TestAProbeThatDoesNotReachTheFunctionInTimeIsGivenBack",
	},
	{
		"B6", "a probe counts that was given back before", "inflight.go",
		"\t\t\t\tt.reported = true\n", "",
		"FuzzBreaker",
	},
	{
		"B6", "a probe that has reached the function does not time out", "permit.go",
		"\tif t.probe && b.live(t) {\n\t\tb.awaitProbe(t, now)\n\t}\n", "",
		"FuzzBreaker",
	},
	{
		"B6", "at one moment ProbeTimeout comes before SlowThreshold", "inflight.go",
		"slow.at <= fail.at", "slow.at < fail.at",
		"TestTheEarlierOfSlowAndProbeTimeoutGivesTheReason",
	},
	{
		"B7", "a call in flight is no evidence", "inflight.go",
		"b.recordSlow(t, at)\n", "_ = at\n",
		"TestCallsThatHangOpenTheBreakerLongBeforeTheyReturn",
	},
	{
		"B7", "a call gets slow when somebody looks", "inflight.go",
		"b.recordSlow(t, at)", "_ = at\n\t\t\t\tb.recordSlow(t, now)",
		"TestWhatHappenedDoesNotDependOnWhoLooked",
	},
	{
		"B7", "one decision for all calls that become slow at the same moment", "inflight.go",
		"b.window.record(at, false, true)\n\t\t\tb.decide(at)",
		"b.window.record(at, false, true)\n\t\t\tif b.running.first == nil || b.running.first.at > at {\n\t\t\t\tb.decide(at)\n\t\t\t}",
		"TestTwentyHangingCallsOpenTheBreakerAtTheThresholdLongBeforeAnyAnswers",
	},
	{
		"B7", "the end of a call comes before the overdue calls before it", "permit.go",
		"\t\tb.catchUp(now)\n\t\tb.halt(t, now)\n\t\tb.count", "\t\tb.halt(t, now)\n\t\tb.count",
		"TestTheFinishOfOneCallBringsInTheOverdueOnesBeforeIt",
	},
	{
		"B7", "an overdue call counts again when it returns", "inflight.go",
		"t.recorded, t.place = true, b.window.record(at, false, true)", "t.place = b.window.record(at, false, true)",
		"TestAnOverdueCallCountsOnceWhateverBecomesOfIt",
	},
	{
		"B7", "calls in flight stand in the order in which they came, not in that of their starts", "inflight.go",
		"for prev != nil && (", "for false && (",
		"TestCallsInFlightStandInTheOrderInWhichTheyBecomeSlow",
	},
	{
		"B7", "of calls that become slow at the same moment, who looked when says which is the first", "inflight.go",
		" || prev.at == at && at != never && prev.ticket.number > t.number", "",
		"TestTheOrderOfCallsThatEnteredAtTheSameMomentDoesNotDependOnWhoLooked",
	},
	{
		"B7", "who comes while a look goes on passes by the state before it", "permit.go",
		"\t\tif !due {", "\t\tif !b.due(now) && (due || !due) {",
		"TestWhoeverComesAfterADueMomentFindsTheBreakerOpen",
	},
	{
		"B7", "the list, once full, is not used again", "inflight.go",
		"\tb.entrants.count.Store(0) //", "\tif b.entrants.top.Load() == nil {\n\t\treturn\n\t}\n\tb.entrants.count.Store(0) //",
		"TestTheListIsUsedAgainAfterItWasFull",
	},
	{
		"B7", "calls that never become slow are put in order", "inflight.go",
		" && at != never", "",
		"TestCallsThatNeverBecomeSlowAreInNoOrder",
	},
	{
		"B7", "a probe's end is not expected", "inflight.go",
		"\tb.expect(t.failAt.at)\n", "",
		"FuzzBreaker",
	},
	{
		"B7", "a call that enters the function is not expected to become overdue", "permit.go",
		"\tb.expect(b.overdueAt(now))\n", "",
		"TestTwentyHangingCallsOpenTheBreakerAtTheThresholdLongBeforeAnyAnswers",
	},
	{
		"B7", "those that have entered are collected and not watched", "inflight.go",
		"\t\t\tb.run(t)\n\t\t}\n\t\tt = next\n", "\t\t}\n\t\tt = next\n",
		"TestTwentyHangingCallsOpenTheBreakerAtTheThresholdLongBeforeAnyAnswers",
	},
	{
		"B7", "a call that was collected once does not list itself again", "inflight.go",
		"\t\tt.listed.Store(false)\n", "",
		"FuzzBreaker",
	},
	{
		"B7", "a look misses those that come while it goes on", "inflight.go",
		"b.entrants.top.Load() == nil { // else", "true { // else",
		"TestACallThatEntersDuringALookIsNotMissed",
	},
	{
		"B7", "the list of those that have entered keeps all of them for ever", "inflight.go",
		"e.count.Add(1) > maxEntrants", "false",
		"TestFinishedCallsAreNotKept",
	},
	{
		"B8", "Classify is the function's time for who looks meanwhile", "dispatch.go",
		"if r.p.classifies() {", "if false {",
		"TestClassifyIsNotTheFunctionsTimeWhoeverLooks",
	},
	{
		"B8", "a call that enters tells another's transition", "permit.go",
		"changed = (b.transitions != before || b.tripped != tripped) && b.unsettled()", "changed = b.unsettled()\n\t_, _ = before, tripped",
		"TestAHookOfAnothersTransitionIsNotTheCallsTime",
	},
	{
		"B8", "what fell due in the wait for a slot is heard in the function's time", "dispatch.go",
		"if !looked {", "if !looked && false {",
		"TestAHookThatHearsOfWhatFellDueInAQueueIsNotTheDependencysTime",
	},
	{
		"B8", "the wait for a slot is the dependency's time", "bulkhead.go",
		"\t\tc.fresh = false\n\t}\n\tdefer c.leave", "\t}\n\tdefer c.leave",
		"TestTimeSpentWaitingInThisProcessIsNotTheDependencys",
	},
	{
		"B8", "every attempt of a Retry inside is an outcome", "permit.go",
		"once: !p.repeats,", "once: true,",
		"TestWithRetryInsideOnePermitGivesOneOutcomeTheLastSlowIfAnyWas",
	},
	{
		"B8", "every slow attempt of a Retry inside is an outcome", "inflight.go",
		"\t\tif !t.recorded {\n", "\t\tif true {\n",
		"FuzzBreaker",
	},
	{
		"B9", "re-opening does not double the period", "breaker.go",
		"ceiling(b.openings, b.cfg", "ceiling(1, b.cfg",
		"TestReopeningDoublesThePeriodUntilACloseResetsIt",
	},
	{
		"B9", "a close does not reset the period", "breaker.go",
		"\t\tb.openings = 0\n", "",
		"TestReopeningDoublesThePeriodUntilACloseResetsIt",
	},
	{
		"B9", "MaxOpenDuration cuts off the jitter", "breaker.go",
		"c.OpenFor = period + min(jitter, math.MaxInt64-period)\n", "c.OpenFor = min(period+min(jitter, math.MaxInt64-period), b.cfg.MaxOpenDuration)\n",
		"TestAnOpenPeriodIsStretchedByTheJitter",
	},
	{
		"B9", "all breakers have the same jitter", "breaker.go",
		"b.open(c, rand.Float64())", "b.open(c, 0.5+0*rand.Float64())",
		"TestOpenPeriodsAreSpreadWithoutARandOfTheCallers",
	},
	{
		"B10", "a transition is delivered within the delivery of another", "breaker.go",
		"if len(b.changes) == 0 || b.delivering {", "if len(b.changes) == 0 {",
		"TestTransitionHooksMayUseTheBreakerAndHearEverythingInOrder",
	},
	{
		"B10", "transitions are delivered by several goroutines at once", "breaker.go",
		"\tb.delivering = true\n\tb.mu.Unlock()\n", "\tb.mu.Unlock()\n",
		"TestBreakerStressTransitionsAreOneChain",
	},
	{
		"B10", "a hook that panics ends the deliveries", "breaker.go",
		"if !told { // the hook panicked, and the panic goes on once the others have been told", "if false && !told {",
		"TestAPanickingTransitionHookLosesNothing",
	},
	{
		"B10", "a start that a hook prevents is kept", "call.go",
		"t.b.back(t, !t.once && c.runs > 0)", "t.b.back(t, true)",
		"TestAHookThatPanicsAtTheVeryStartTakesItBack",
	},
	{
		"B10", "a start that a hook prevents takes the run before it along", "call.go",
		"t.b.back(t, !t.once && c.runs > 0)", "t.b.back(t, false)",
		"TestAHookThatPanicsAtTheVeryStartTakesItBack",
	},
	{
		"B10", "a hook that panics at an admission keeps the permit", "permit.go",
		"if !told && admitted {", "if false && !told {",
		"TestAPermitGoesBackWhenAHookPanicsAtItsAdmission",
	},
	{
		"B11", "a shadow that is forced open is said to reject nothing", "hooks.go",
		"return t.Shadow && t.From != StateForcedOpen && t.To != StateForcedOpen", "return t.Shadow",
		"TestAShadowThatIsForcedOpenIsLoggedAsWhatItIs",
	},
	{
		"B11", "a breaker in shadow mode rejects while open", "permit.go",
		"if now < g.until && !b.cfg.Shadow {", "if now < g.until {",
		"TestShadowDecidesAndReportsButRejectsNothing",
	},
	{
		"B11", "a breaker in shadow mode lets calls through that ForceOpen rejects", "permit.go",
		"\tcase StateForcedOpen:\n\t\tb.reject", "\tcase StateForcedOpen:\n\t\tif b.cfg.Shadow {\n\t\t\tt.gen = g\n\t\t\treturn nil, false\n\t\t}\n\t\tb.reject",
		"FuzzBreaker",
	},
	{
		"B11", "a breaker in shadow mode counts no rejections", "permit.go",
		"\tif rejected != nil {\n\t\tb.reject(", "\tif rejected != nil && !shadow {\n\t\tb.reject(",
		"TestShadowDecidesAndReportsButRejectsNothing",
	},
	{
		"B11", "in shadow mode every call is a probe", "permit.go",
		"\t\tif t.probe {\n\t\t\tb.reportProbe", "\t\tif t.probe || b.cfg.Shadow {\n\t\t\tb.reportProbe",
		"FuzzBreaker",
	},
	{
		"B12", "a manual transition skips the half-open state that State has told", "breaker.go",
		"\tb.halfOpen(now)\n\tb.enter(to", "\tb.enter(to",
		"TestAManualTransitionComesFromTheStateThatStateWouldTell",
	},
	{
		"B12", "the rates open a breaker that is forced closed", "breaker.go",
		"b.gen.Load().state != StateClosed {\n\t\treturn", "b.gen.Load().state == StateOpen {\n\t\treturn",
		"TestForcedStatesAreManualTransitions",
	},
	{
		"B13", "an instant is a time of day", "clock.go",
		"return instant(k.clock.Now().Sub(origin))", "return instant(k.clock.Now().Round(0).Sub(origin))",
		"TestAStepOfTheTimeOfDayChangesNothing",
	},
	{
		"B13", "a goroutine watches each call", "permit.go",
		"\tb.expect(b.overdueAt(now))\n", "\tb.expect(b.overdueAt(now))\n\tgo func() { <-make(chan int) }()\n",
		"TestABreakerMakesNoGoroutine",
	},
	{
		"B13", "the clock is read under the lock", "breaker.go",
		"func (b *Breaker) State() State {\n\tnow := b.time.now()\n\tb.mu.Lock()\n", "func (b *Breaker) State() State {\n\tb.mu.Lock()\n\tnow := b.time.now()\n",
		"TestNeitherTheClockNorTheCallersCodeRunsUnderTheLock",
	},
	{
		"B14", "a call counts in the totals each time it ends", "permit.go",
		"if t.started && !t.counted {", "if t.started {",
		"TestAbandonedCallCountsOnceInTheBreakerInside",
	},
	{
		"B14", "a call that did not enter the function counts in the totals", "permit.go",
		"\tt.started = again\n", "\t_ = again\n",
		"TestACallThatAHookKeptFromTheFunctionIsNotCounted",
	},
	{
		"B14", "a call counts as slow in the totals for each slow attempt", "inflight.go",
		"\t\t\tif !t.slow {", "\t\t\tif true {",
		"TestTotalsCountACallWithSeveralAttemptsOnce",
	},
	{
		"B14", "calls and failures are two readings", "breaker.go",
		"seen := b.snapshot(now)\n", "seen := b.snapshot(now)\n\tb.mu.Unlock()\n\ttime.Sleep(1)\n\tb.mu.Lock()\n\tseen.stats.Failures = b.window.failures\n",
		"TestARateIsOneConsistentReading",
	},
	{
		"B14", "six latency buckets an octave", "latency.go",
		"octaveBuckets  = 7", "octaveBuckets  = 6",
		"TestEveryDurationIsWithinFivePercentOfItsBucket",
	},
	{
		"B14", "the latency of failed calls counts", "permit.go",
		"\tcase o.failed():\n\t\tt.recorded", "\tcase o.failed():\n\t\tb.recordLatency(t, now)\n\t\tt.recorded",
		"TestLatencyIsOfCallsThatDidNotFail",
	},
	{
		"B15", "opening empties the window", "breaker.go",
		"\tif to != StateOpen {\n\t\tb.window.clear()\n\t}", "\tb.window.clear()",
		"TestAnOpenBreakerKeepsTheNumbersThatOpenedIt",
	},
	{
		"B15", "ForceClosed keeps the window", "breaker.go",
		"\tif to != StateOpen {\n\t\tb.window", "\tif to != StateOpen && to != StateForcedClosed {\n\t\tb.window",
		"FuzzBreaker",
	},
	{
		"B15", "probes are recorded in the window", "permit.go",
		"\tt.passed = true\n", "\tt.passed = true\n\tb.window.record(now, false, false)\n",
		"FuzzBreaker",
	},
	{
		"B15", "Allow gives OnReject no context", "permit.go",
		"b.admit(context.Background(), now, p.t)", "b.admit(nil, now, p.t)",
		"TestOnRejectOfAllowHasABackgroundContext",
	},

	// Bulkhead.
	{
		"H1", "looking for a free slot and taking it are two steps", "bulkhead.go",
		"if b.free.CompareAndSwap(free, free-slot) {\n\t\t\treturn true\n\t\t}", "time.Sleep(1) // so that others come between\n\t\tb.free.Add(-slot)\n\t\treturn true",
		"TestBulkheadStressOfTwoAtOnceOneTakesTheSlot",
	},
	{
		"H1", "one call more than MaxConcurrent is let in", "bulkhead.go",
		"b.free.Store(int64(cfg.MaxConcurrent) * slot)", "b.free.Store(int64(cfg.MaxConcurrent+1) * slot)",
		"FuzzBulkhead",
	},
	{
		"H2", "a rejection at the end of MaxWait looks like one without room in the queue", "bulkhead.go",
		"return b.rejected(ctx, true)", "return b.rejected(ctx, false)",
		"TestOnWaitTellsHowLongACallWaitedAndWhetherItGotIn",
	},
	{
		"H2", "an OnWait that panics keeps the slot", "bulkhead.go",
		"if !told && w.Admitted {", "if !told && false {",
		"TestAnOnWaitThatPanicsGivesTheSlotBack",
	},
	{
		"H2", "a slot is given back behind the waiters' backs", "bulkhead.go",
		"\t\tif free&waitersBit != 0 {\n\t\t\tbreak\n\t\t}\n", "\t\tif b == nil {\n\t\t\tbreak\n\t\t}\n",
		"FuzzBulkhead",
	},
	{
		"H2", "the last to come is the first to be served", "bulkhead.go",
		"w := b.first\n", "w := b.last\n",
		"TestBulkheadServesWaitersInTheOrderOfTheirArrival",
	},
	{
		"H2", "one caller more than MaxQueue waits", "bulkhead.go",
		"if b.waiting >= b.cfg.MaxQueue {", "if b.waiting > b.cfg.MaxQueue {",
		"FuzzBulkhead",
	},
	{
		"H2", "a waiter that is granted a slot at the end of its wait gives up all the same", "bulkhead.go",
		"if !w.queued {\n\t\treturn true\n\t}", "if !w.queued {\n\t\treturn false\n\t}",
		"TestBulkheadSlotGrantedAtTheEndOfMaxWaitHasOneAnswer",
	},
	{
		"H2", "those behind a waiter that leaves are forgotten", "bulkhead.go",
		"\t\tw.prev.next = w.next\n", "\t\tw.prev.next = nil\n",
		"FuzzBulkhead",
	},
	{
		"H3", "a free slot beats a done context", "bulkhead.go",
		"if err := ctx.Err(); err != nil {\n\t\treturn Slot{}, err", "if err := ctx.Err(); false {\n\t\treturn Slot{}, err",
		"TestBulkheadDoneContextBeatsAFreeSlot",
	},
	{
		"H3", "a slot that was granted to a done context is lost", "bulkhead.go",
		"if granted && err != nil {", "if false {",
		"TestBulkheadPassesOnASlotThatWasGrantedToADoneContext",
	},
	{
		"H4", "the slot is given back before the function has returned", "bulkhead.go",
		"defer c.leave(", "c.leave(",
		"TestBulkheadKeepsTheSlotUntilTheFunctionReturnsPastItsTimeout",
	},
	{
		"H4", "a Bulkhead may stand outside an abandoning Timeout", "pipeline.go",
		"if policy.cfg.Abandon && bulkhead >= 0 {", "if false {",
		"TestAbandonRefusesABulkheadOutside",
	},
	{
		"H5", "growing wakes nobody", "bulkhead.go",
		"b.free.Add(more * slot)\n\tb.grant()", "b.free.Add(more * slot)",
		"FuzzBulkhead",
	},
	{
		"H5", "a shrink below the calls inside is forgotten", "bulkhead.go",
		"b.free.Add(more * slot)\n", "b.free.Add(max(more*slot, -b.free.Load()&^waitersBit))\n",
		"FuzzBulkhead",
	},

	// Timeout.
	{
		"T1", "the function does not see the deadline", "timeout.go",
		"s.next.handle(d, c)", "s.next.handle(context.WithoutCancel(d), c)",
		"TestTimeoutGivesTheFunctionADeadlineAndNamesItselfInTheError",
	},
	{
		"T1", "of nested timeouts the outer one is named though the inner one fired", "timeout.go",
		"ctx.Err() != nil || s.time.now() < deadline", "ctx.Err() != nil",
		"TestTimeoutNestedNamesTheOneThatFired",
	},
	{
		"T1", "a context that nobody has asked for Done does not end", "deadline.go",
		" && now < d.at && ", " && ",
		"TestTheContextEndsAtItsLimitWhateverWasAskedOfIt",
	},
	{
		"T1", "a limit on another clock is measured on this one", "deadline.go",
		"ok && sameClock(d.time.clock, k.clock)", "ok",
		"TestAnOuterLimitOnAnotherClockIsSeen",
	},
	{
		"T1", "the deadline is another time of day each time", "deadline.go",
		"if d.dated.Load() {\n\t\treturn d.date\n\t}\n\tdate := d.time.wall().of(d.at)", "date := d.time.wall().of(d.at)\n\td.dated.Store(false)",
		"TestTheDeadlineIsTheSameEachTime",
	},
	{
		"T1", "on a fake clock Done closes some time after the parent", "clock.go",
		"if err := parent.Err(); err != nil { // not", "if err := parent.Err(); false { // not",
		"TestDoneIsClosedWhenTheParentHasEnded",
	},
	{
		"T1", "contexts made of the function's take a goroutine each", "deadline.go",
		"\tif _, ok := key.(*int); ok {", "\tif false {",
		"TestContextsMadeOfTheContextTakeNoGoroutine",
	},
	{
		"T1", "an earlier deadline of the parent is not told", "deadline.go",
		"ok && outer.Before(at)", "ok && false",
		"TestTheContextTellsAnEarlierDeadlineOfItsParent",
	},
	{
		"T2", "any error past the limit becomes a TimeoutError", "timeout.go",
		"return errors.Is(err, context.DeadlineExceeded) ||", "return true || errors.Is(err, context.DeadlineExceeded) ||",
		"TestTimeoutTakesAnErrorForItsOwnOnlyIfItIs",
	},
	{
		"T2", "the Timeout claims what the caller's own end has ended", "timeout.go",
		"ctx.Err() != nil || s.time.now() < deadline", "s.time.now() < deadline",
		"TestTimeoutLeavesTheCallersOwnEndAlone",
	},
	{
		"T2", "a connection's own deadline error is not recognised", "timeout.go",
		"errors.Is(err, os.ErrDeadlineExceeded)", "errors.Is(err, os.ErrClosed)",
		"TestTimeoutKnowsItsDeadlineInAConnectionsError",
	},
	{
		"T3", "a breaker inside does not hear that a call was abandoned", "abandon.go",
		"t.b.giveUp(t, now, f.outcome)", "_, _ = t, now",
		"TestAbandonedCallCountsOnceInTheBreakerInside",
	},
	{
		"T3", "an abandoned call counts again when it returns", "permit.go",
		"\t\tb.report(t, now, o)\n\t}\n\treturn", "\t\tb.report(t, now, o)\n\t\tt.reported, t.recorded = false, false\n\t}\n\treturn",
		"TestAbandonedCallCountsOnceInTheBreakerInside",
	},
	{
		"T3", "the stopwatch of a breaker outside goes on for an abandoned call", "abandon.go",
		"\t\tc.stop(now)\n", "",
		"TestAbandonBreakersOutsideDoNotCountARetrysDelays",
	},
	{
		"T3", "the function is called after its caller has gone", "abandon.go",
		"\tif f.abandoned {\n\t\treturn false, false\n\t}\n", "",
		"TestAbandonBeforeTheFunctionIsReachedNeverRunsIt",
	},
	{
		"T3", "a panic after the caller has gone is not reported", "abandon.go",
		"if f.unreported == nil {\n\t\treturn\n\t}", "if true {\n\t\treturn\n\t}",
		"TestAbandonGivesALatePanicToOnAttempt",
	},
	{
		"T3", "a panicking hook ends the process once the caller has gone", "abandon.go",
		"\tdefer func() { _ = recover() }()\n", "",
		"TestAbandonSurvivesAHookThatPanicsAfterTheCallerHasGone",
	},
	{
		"T3", "a panic becomes an error while the caller is there", "abandon.go",
		"panic(f.panicked)", "return f.panicked",
		"TestAbandonRepeatsAPanicInTheCaller",
	},
	{
		"T4", "the timer of a call that has ended stays", "deadline.go",
		"\tif d.made.Load() {\n\t\td.stop()", "\tif false {\n\t\td.stop()",
		"TestCallsThatHaveEndedLeaveNoTimer",
	},
	{
		"T4", "a context first asked after its call says what became of the parent", "deadline.go",
		"if !d.retired.Load() {\n\t\treturn", "if true {\n\t\treturn",
		"TestAContextFirstAskedAfterItsCallIsCanceled",
	},
	{
		"T4", "deadlines run on the system clock", "clock.go",
		"if k.clock == nil {\n\t\treturn context.WithDeadline(parent, at)", "if true {\n\t\treturn context.WithDeadline(parent, at)",
		"TestTimeoutRunsOnTheFakeClock",
	},
	{
		"T4", "a deadline's timer runs on after the call", "clock.go",
		"\t\ttimer.Stop()\n\t\tunlink()", "\t\t_ = timer\n\t\tunlink()",
		"TestTimeoutStopsItsTimersOnReturn",
	},

	// Retry.
	{
		"R1", "the cap comes after the jitter", "backoff.go",
		"return saturated(r * float64(c))", "return min(limit, saturated(r*float64(ceiling(n, base, math.MaxInt64))))",
		"TestRetryDelaysAtTheCapAreStillSpread",
	},
	{
		"R1", "the delay overflows at a late attempt", "backoff.go",
		"if shift >= 63 || base > limit>>shift {", "if base<<shift > limit {",
		"TestDelayStaysInRangeAtAnyAttempt",
	},
	{
		"R1", "the decorrelated delay does not grow", "backoff.go",
		"3*float64(max(previous, base))", "3*float64(base)",
		"TestDelayFollowsTheFormulas",
	},
	{
		"R2", "a delay is slept that the deadline will cut off", "retry.go",
		"ok && delay >= deadline.Sub(s.time.wallNow())", "ok && delay < 0 && deadline.IsZero()",
		"TestRetryDoesNotWaitForWhatTheDeadlineWouldCutOff",
	},
	{
		"R2", "a delay is slept that ends at the deadline", "retry.go",
		"ok && delay >= deadline", "ok && delay > deadline",
		"TestRetryDoesNotWaitForWhatTheDeadlineWouldCutOff",
	},
	{
		"R3", "a cancel does not end the delay", "retry.go",
		"\t\tcase <-ctx.Done():\n", "",
		"TestRetryCancelledInADelayReturnsAtOnceWithBothErrors",
	},
	{
		"R3", "a timer and a cancel together start another attempt", "retry.go",
		"if err := ctx.Err(); err != nil { // also when both came together\n\t\treturn err", "if err := ctx.Err(); false { // also when both came together\n\t\treturn err",
		"TestRetryCancelledInADelayMakesNoFurtherAttempt",
	},
	{
		"R4", "what the dependency asked for takes the place of the delay", "retry.go",
		"return floor + min(a.previous, math.MaxInt64-floor)", "return max(floor, min(a.previous, math.MaxInt64))",
		"TestRetryComesBackNoSoonerThanAskedAndNotTogether",
	},
	{
		"R4", "MaxDelay caps what the dependency asked for", "retry.go",
		"return floor + min(a.previous, math.MaxInt64-floor)", "return min(floor+min(a.previous, math.MaxInt64-floor), cfg.MaxDelay)",
		"TestRetryComesBackNoSoonerThanAskedAndNotTogether",
	},
	{
		"R5", "the budget earns from failures too", "retry.go",
		"\t\tif c.outcome == Success {\n\t\t\tif s.deposits", "\t\tif c.outcome != 0 {\n\t\t\tif s.deposits",
		"TestBudgetEarnsNothingFromWhatIsNoSuccess",
	},
	{
		"R5", "a retry that is not run keeps its token", "retry.go",
		"if !goes && s.budget != nil {", "if false && !goes {",
		"TestBudgetGetsTheTokenBackWhenTheFunctionIsNotRunAfterAll",
	},
	{
		"R5", "a retry that is rejected keeps its token", "retry.go",
		"if c.runs == a.before {\n\t\t\t\ts.budget", "if false {\n\t\t\t\ts.budget",
		"TestBudgetGetsTheTokenBackWhenTheFunctionIsNotRunAfterAll",
	},
	{
		"R5", "a call through two Retries of one budget deposits twice", "retry.go",
		"s.deposits = false", "_ = b",
		"TestACallDepositsOnceThroughTwoRetries",
	},
	{
		"R5", "the budget holds more than Burst", "budget.go",
		"min(have+units, b.burst)", "have+units",
		"FuzzBudget",
	},
	{
		"R5", "a fraction of a token is enough for a retry", "budget.go",
		"if have < tokenUnits {", "if have <= 0 {",
		"FuzzBudget",
	},
	{
		"R5", "ten tenths are not one", "budget.go",
		"int64(math.Round(cfg.Ratio * tokenUnits))", "int64(math.Ceil(cfg.Ratio*tokenUnits)) - 1",
		"FuzzBudget",
	},
	{
		"R6", "calls count their attempts together", "retry.go",
		"\t\ta.n++\n\t\ts.r.counts.retries.Add(1)\n", "\t\ta.n = 1 + int(s.r.counts.retries.Add(1))\n",
		"TestRetryIsSharedByManyCallsAtOnce",
	},
	{
		"R7", "what an inner policy rejected is retried", "retry.go",
		"return s.r.cfg.RetryRejected\n", "return true\n",
		"TestRetryDoesNotRetryWhatAnInnerPolicyRejected",
	},
	{
		"R7", "RetryRejected does not wait for the breaker", "retry.go",
		"floor = c.rejection.RetryAfter()", "floor = 0",
		"TestRetryRejectedWaitsForTheBreaker",
	},
	{
		"R8", "an attempt's own timeout ends the Retry", "retry.go",
		"return ctx.Err() == nil\n", "return false\n",
		"TestRetryTakesATimeoutBeforeTheFunctionForUnsent",
	},
	{
		"R8", "the context of the Retry does not end it", "retry.go",
		"if err := ctx.Err(); err != nil {\n\t\treturn 0, err", "if err := ctx.Err(); false {\n\t\treturn 0, err",
		"TestRetryIsEndedByTheContextItWasGiven",
	},

	// Dependency.
	{
		"D1", "the careful Retry has a budget of its own", "retry.go",
		"c.cautious = true\n", "c.cautious = true\n\tc.cfg.Budget = Must(NewRetryBudget(RetryBudgetConfig{}))\n",
		"TestAllPipelinesOfADependencyShareItsParts",
	},
	{
		"D1", "the breaker is outside the attempt's timeout", "dependency.go",
		"\tif d.attempt != nil {\n\t\tpolicies = append(policies, d.attempt)\n\t}\n\tif d.breaker != nil {\n\t\tpolicies = append(policies, d.breaker)\n\t}\n",
		"\tif d.breaker != nil {\n\t\tpolicies = append(policies, d.breaker)\n\t}\n\tif d.attempt != nil {\n\t\tpolicies = append(policies, d.attempt)\n\t}\n",
		"TestADependencyHasItsPartsInTheStandardOrder",
	},
	{
		"D2", "a write that is not idempotent is repeated after any failure", "retry.go",
		"o == Transient && !s.r.cautious", "o == Transient",
		"TestWhatAnIntentRepeats",
	},
	{
		"D2", "a write that is not idempotent is never repeated", "dependency.go",
		"policies = append(policies, d.careful)", "_ = d.careful",
		"TestWhatAnIntentRepeats",
	},
	{
		"D3", "a SlowThreshold at the limit of the attempt is no contradiction", "dependency.go",
		"slow >= cfg.AttemptTimeout", "slow > cfg.AttemptTimeout",
		"TestNewDependencyReportsEveryContradiction",
	},
	{
		"D3", "the contradictions stop at the first", "dependency.go",
		"\treturn f.errs\n", "\treturn f.errs[:min(1, len(f.errs))]\n",
		"TestNewDependencyReportsEveryContradiction",
	},

	// Construction.
	{
		"C1", "a percentage is accepted as a rate", "config.go",
		"f.require(r > 0 && r <= 1,", "f.require(r > 0 && r <= 100,",
		"TestConfigFaultsOfABreakerComeTogether",
	},
	{
		"C1", "a default is not the documented one", "breaker.go",
		"setDefault(&cfg.WindowSize, 20)", "setDefault(&cfg.WindowSize, 100)",
		"TestConfigDefaultsAreFilledIn",
	},
	{
		"C1", "what is out of range is clamped", "retry.go",
		"setDefault(&cfg.MaxAttempts, 3)\n", "setDefault(&cfg.MaxAttempts, 3)\n\tcfg.MaxAttempts = min(max(cfg.MaxAttempts, 1), 100)\n",
		"TestConfigFaultsOfARetryComeTogether",
	},
	{
		"C1", "only the first fault of a config comes back", "config.go",
		"return errors.Join(f.errs...)", "return errors.Join(f.errs[:min(1, len(f.errs))]...)",
		"TestConfigFaultsOfABreakerComeTogether",
	},
	{
		"C1", "the hooks of a config are not copied", "hooks.go",
		"\town := *h\n\treturn &own\n", "\treturn h\n",
		"TestConfigChangedAfterwardsChangesNothing",
	},
	{
		"C2", "an instance may be there twice", "pipeline.go",
		"seen[policy] = i", "_ = i",
		"TestNewPipelineRefusesWhatCannotStandTogether",
	},
	{
		"C2", "a nil pointer is a policy", "pipeline.go",
		"if policy == nil || policy.absent() {\n\t\t\trefuse", "if policy == nil {\n\t\t\trefuse",
		"TestNewPipelineRefusesWhatCannotStandTogether",
	},
	{
		"C2", "a pipeline takes different clocks", "pipeline.go",
		"case !sameClock(c, other):", "case false:",
		"TestAPipelineIsOnOneClock",
	},
	{
		"C3", "every call has a new record", "pipeline.go",
		"\tp.records.Put(r)\n", "",
		"TestASuccessAllocatesNothing",
	},
	{
		"C3", "every admission makes a ticket", "permit.go",
		"\tt := c.tickets[s.index]\n", "\tt := newTicket(s.b, s.once)\n\tc.tickets[s.index] = t\n",
		"TestASuccessAllocatesNothing",
	},
}
