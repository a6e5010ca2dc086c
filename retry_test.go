package steady_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// script is a function that answers from a list, and the last of it for ever.
type script struct {
	errs []error
	runs int
}

func (s *script) next(context.Context) (int, error) {
	err := s.errs[min(s.runs, len(s.errs)-1)]
	s.runs++
	return s.runs, err
}

// retries collects what the OnRetry hook is told.
type retries struct{ all []steady.RetryDelay }

func (r *retries) hooks() *steady.Hooks {
	return &steady.Hooks{OnRetry: func(_ context.Context, e steady.RetryDelay) { r.all = append(r.all, e) }}
}

func (r *retries) delays() (delays []time.Duration) {
	for _, e := range r.all {
		delays = append(delays, e.Delay)
	}
	return delays
}

func requireGaveUp(t *testing.T, err, reason error) *steady.RetryError {
	t.Helper()
	var gaveUp *steady.RetryError
	require.ErrorAs(t, err, &gaveUp)
	require.ErrorIs(t, gaveUp.Reason, reason)
	return gaveUp
}

func fixed(r float64) func() float64 { return func() float64 { return r } }

const ms = time.Millisecond

func TestRetryTriesAgainWhatMayPassAndNothingElse(t *testing.T) {
	for _, tc := range []struct {
		outcome steady.Outcome
		runs    int
	}{
		{steady.Transient, 2},
		{steady.Unsent, 2},
		{steady.Throttled, 2},
		{steady.Success, 1},
		{steady.Permanent, 1},
		{steady.Ignored, 1},
	} {
		t.Run(tc.outcome.String(), func(t *testing.T) {
			r := newRetry(t, steady.RetryConfig{NoDelay: true})
			marked := steady.Mark(errBoom, tc.outcome)
			fn := &script{errs: []error{marked, nil}}
			v, err := pipeline(t, r).Do(t.Context(), fn.next)
			assert.Equal(t, tc.runs, fn.runs)
			if tc.runs == 2 {
				require.NoError(t, err)
				assert.Equal(t, 2, v)
				assert.Equal(t, steady.RetryStats{Calls: 1, Retries: 1, SucceededAfterRetry: 1}, r.Stats())
			} else {
				assert.Equal(t, marked, err, "untouched")
				assert.Equal(t, steady.RetryStats{Calls: 1}, r.Stats())
			}
		})
	}
}

func TestRetryGivesUpAfterMaxAttempts(t *testing.T) { // O7
	synctest.Test(t, func(t *testing.T) {
		var told retries
		r := newRetry(t, steady.RetryConfig{Name: "catalog", BaseDelay: time.Second, Jitter: steady.NoJitter, Hooks: told.hooks()})
		last := fmt.Errorf("third: %w", errBoom)
		fn := &script{errs: []error{errors.New("first"), errors.New("second"), last}}
		_, err := pipeline(t, r).Do(t.Context(), fn.next)
		assert.Equal(t, &steady.RetryError{
			Policy: "catalog", Attempts: 3, Elapsed: 3 * time.Second, Reason: steady.ErrRetriesExhausted, Last: last,
		}, err)
		assert.ErrorIs(t, err, steady.ErrRetriesExhausted)
		assert.ErrorIs(t, err, errBoom)
		assert.Equal(t, `steady: retry "catalog" gave up after 3 attempts in 3s: retries exhausted; last error: third: boom`, err.Error())
		assert.Equal(t, steady.RetryStats{Name: "catalog", Calls: 1, Retries: 2, Exhausted: 1}, r.Stats())
		assert.Equal(t, []steady.RetryDelay{
			{Policy: "catalog", Attempt: 1, Delay: time.Second, Outcome: steady.Transient, Err: errors.New("first")},
			{Policy: "catalog", Attempt: 2, Delay: 2 * time.Second, Outcome: steady.Transient, Err: errors.New("second")},
		}, told.all, "and none when no retry follows")
	})
}

func TestRetryWithOneAttemptReturnsTheErrorUntouched(t *testing.T) { // O7
	r := newRetry(t, steady.RetryConfig{MaxAttempts: 1})
	_, err := pipeline(t, r).Do(t.Context(), returns(0, errBoom))
	assert.Equal(t, errBoom, err)
	assert.Equal(t, steady.RetryStats{Calls: 1}, r.Stats())
}

func TestRetryReturnsTheFunctionsOwnAnswerUntouchedAtAnyAttempt(t *testing.T) { // O7
	for _, o := range []steady.Outcome{steady.Success, steady.Permanent, steady.Ignored} {
		final := steady.Mark(errors.New("not found"), o)
		fn := &script{errs: []error{errBoom, final}}
		_, err := pipeline(t, newRetry(t, steady.RetryConfig{NoDelay: true})).Do(t.Context(), fn.next)
		assert.Equal(t, final, err)
		assert.Equal(t, 2, fn.runs)
	}
}

func TestRetryDelaysFollowTheFormulas(t *testing.T) { // R1
	for _, tc := range []struct {
		jitter steady.Jitter
		rand   float64
		want   []time.Duration // with BaseDelay 100 ms and MaxDelay 700 ms
	}{
		{steady.FullJitter, 0, []time.Duration{0, 0, 0, 0, 0}},
		{steady.FullJitter, 0.5, []time.Duration{50 * ms, 100 * ms, 200 * ms, 350 * ms, 350 * ms}},
		{steady.EqualJitter, 0, []time.Duration{50 * ms, 100 * ms, 200 * ms, 350 * ms, 350 * ms}},
		{steady.EqualJitter, 0.5, []time.Duration{75 * ms, 150 * ms, 300 * ms, 525 * ms, 525 * ms}},
		{steady.NoJitter, 0.5, []time.Duration{100 * ms, 200 * ms, 400 * ms, 700 * ms, 700 * ms}},
		{steady.DecorrelatedJitter, 0, []time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms}},
		{steady.DecorrelatedJitter, 0.5, []time.Duration{200 * ms, 350 * ms, 575 * ms, 700 * ms, 700 * ms}},
		{steady.FullJitter, 1, []time.Duration{0, 0, 0, 0, 0}}, // a Rand out of range counts as 0
		{steady.FullJitter, -1, []time.Duration{0, 0, 0, 0, 0}},
		{steady.FullJitter, math.NaN(), []time.Duration{0, 0, 0, 0, 0}},
	} {
		t.Run(fmt.Sprintf("%v jitter, rand %v", tc.jitter, tc.rand), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told retries
				r := newRetry(t, steady.RetryConfig{
					MaxAttempts: 6, BaseDelay: 100 * ms, MaxDelay: 700 * ms,
					Jitter: tc.jitter, Rand: fixed(tc.rand), Hooks: told.hooks(),
				})
				began := time.Now()
				_, err := pipeline(t, r).Do(t.Context(), returns(0, errBoom))
				requireGaveUp(t, err, steady.ErrRetriesExhausted)
				assert.Equal(t, tc.want, told.delays())
				var total time.Duration
				for _, d := range tc.want {
					total += d
				}
				assert.Equal(t, total, time.Since(began), "it waits as long as it says")
			})
		})
	}
}

// The delays of many calls against the distributions that the documentation of the jitters gives, by the statistic of
// Kolmogorov and Smirnov: whatever the delay is uniform on, u is where in that it lies.
func TestRetryDelaysAreDistributedAsTheJitterSays(t *testing.T) { // R1
	const calls, base, limit = 3000, 100.0, 700.0 // ms
	ceilings := []float64{100, 200, 400, 700, 700}
	for _, tc := range []struct {
		jitter  steady.Jitter
		uniform func(k int, previous float64) (low, high float64) // before the cap
	}{
		{steady.FullJitter, func(k int, _ float64) (float64, float64) { return 0, ceilings[k] }},
		{steady.EqualJitter, func(k int, _ float64) (float64, float64) { return ceilings[k] / 2, ceilings[k] }},
		{steady.DecorrelatedJitter, func(_ int, previous float64) (float64, float64) { return base, 3 * max(previous, base) }},
		{steady.NoJitter, func(k int, _ float64) (float64, float64) { return ceilings[k], ceilings[k] }},
	} {
		t.Run(tc.jitter.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told retries
				p := pipeline(t, newRetry(t, steady.RetryConfig{
					MaxAttempts: len(ceilings) + 1, BaseDelay: base * ms, MaxDelay: limit * ms, NoBudget: true,
					Jitter: tc.jitter, Rand: rand.New(rand.NewPCG(1, 2)).Float64, Hooks: told.hooks(),
				}))
				for range calls {
					_, _ = p.Do(t.Context(), returns(0, errBoom))
				}
				delays := told.delays()
				require.Len(t, delays, calls*len(ceilings))
				us := make([][]float64, len(ceilings))
				capped, expected, variance := 0, 0.0, 0.0
				previous := 0.0
				for i, d := range delays {
					k, delay := i%len(ceilings), float64(d)/float64(ms)
					if k == 0 {
						previous = 0
					}
					low, high := tc.uniform(k, previous)
					previous = delay
					if low == high {
						require.Equal(t, low, delay)
						continue
					}
					below := min(1, (limit-low)/(high-low)) // the probability that the cap leaves the delay alone
					expected += 1 - below
					variance += below * (1 - below)
					if delay == limit {
						capped++
						continue
					}
					us[k] = append(us[k], (delay-low)/(high-low)/below)
				}
				for k, u := range us {
					if len(u) > 0 {
						assert.Less(t, kolmogorovSmirnov(u)*math.Sqrt(float64(len(u))), 1.95, "after attempt %d: by chance once in a thousand", k+1)
					}
				}
				assert.InDelta(t, expected, capped, 4*math.Sqrt(variance), "delays at the cap")
				if tc.jitter == steady.DecorrelatedJitter {
					assert.Greater(t, capped, calls/2)
				}
			})
		})
	}
}

// kolmogorovSmirnov returns how far the distribution of the numbers is from the uniform one on [0, 1].
func kolmogorovSmirnov(u []float64) (d float64) {
	slices.Sort(u)
	n := float64(len(u))
	for i, x := range u {
		d = max(d, x-float64(i)/n, float64(i+1)/n-x)
	}
	return d
}

func TestRetryDelaysAtTheCapAreStillSpread(t *testing.T) { // R1
	synctest.Test(t, func(t *testing.T) {
		var told retries
		r := newRetry(t, steady.RetryConfig{MaxAttempts: 100, BaseDelay: time.Second, MaxDelay: time.Second, NoBudget: true, Hooks: told.hooks()})
		_, _ = pipeline(t, r).Do(t.Context(), returns(0, errBoom))
		require.Len(t, told.all, 99)
		atTheCap, different := 0, make(map[time.Duration]bool)
		for _, d := range told.delays() {
			assert.LessOrEqual(t, d, time.Second)
			different[d] = true
			if d > 990*ms {
				atTheCap++
			}
		}
		assert.Greater(t, len(different), 90)
		assert.Less(t, atTheCap, 20)
	})
}

func TestRetryWaitsLongerWhenThrottled(t *testing.T) {
	for _, tc := range []struct{ configured, first time.Duration }{{0, time.Second}, {300 * ms, 300 * ms}} {
		synctest.Test(t, func(t *testing.T) {
			var told retries
			r := newRetry(t, steady.RetryConfig{
				BaseDelay: 100 * ms, ThrottledDelay: tc.configured, MaxAttempts: 4, Jitter: steady.NoJitter, Hooks: told.hooks(),
			})
			throttled := steady.Mark(errBoom, steady.Throttled)
			fn := &script{errs: []error{throttled, throttled, errBoom, nil}}
			_, err := pipeline(t, r).Do(t.Context(), fn.next)
			require.NoError(t, err)
			assert.Equal(t, []time.Duration{tc.first, 2 * tc.first, 400 * ms}, told.delays())
			assert.Equal(t, steady.Throttled, told.all[0].Outcome)
		})
	}
}

func TestRetryComesBackNoSoonerThanAskedAndNotTogether(t *testing.T) { // R4
	marked := steady.MarkRetryAfter(errBoom, steady.Throttled, time.Minute)
	for _, tc := range []struct {
		name string
		cfg  steady.RetryConfig
		want []time.Duration
	}{
		{"its own delay on top", steady.RetryConfig{BaseDelay: 100 * ms, Jitter: steady.NoJitter, ThrottledDelay: time.Second}, []time.Duration{61 * time.Second, 62 * time.Second}},
		{"not capped by MaxDelay", steady.RetryConfig{BaseDelay: ms, MaxDelay: 10 * ms, Jitter: steady.NoJitter}, []time.Duration{60_010 * ms, 60_010 * ms}},
		{"jittered", steady.RetryConfig{ThrottledDelay: time.Second, Rand: fixed(0.25)}, []time.Duration{60_250 * ms, 60_500 * ms}},
		{"even without a delay of its own", steady.RetryConfig{NoDelay: true}, []time.Duration{time.Minute, time.Minute}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told retries
				tc.cfg.Hooks = told.hooks()
				_, err := pipeline(t, newRetry(t, tc.cfg)).Do(t.Context(), returns(0, marked))
				requireGaveUp(t, err, steady.ErrRetriesExhausted)
				assert.Equal(t, tc.want, told.delays())
			})
		})
	}
}

func TestRetryAsksThePipelineWhenToComeBack(t *testing.T) { // R4
	synctest.Test(t, func(t *testing.T) {
		var told retries
		p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
			Policies: []steady.Policy{newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 4, Hooks: told.hooks()})},
			RetryAfter: func(v int, err error) time.Duration {
				assert.Equal(t, errBoom, err)
				return time.Duration(v-2) * time.Second
			},
		}))
		fn := &script{errs: []error{errBoom}}
		_, err := p.Do(t.Context(), fn.next)
		requireGaveUp(t, err, steady.ErrRetriesExhausted)
		assert.Equal(t, []time.Duration{0, 0, time.Second}, told.delays(), "a negative wish is none")
	})
}

func TestRetryDoesNotWaitForWhatTheDeadlineWouldCutOff(t *testing.T) { // R2
	for _, tc := range []struct {
		name string
		left time.Duration
		runs int
	}{
		{"the delay ends at the deadline", time.Second, 1},
		{"it ends after it", time.Second - 1, 1},
		{"it ends before", time.Second + 1, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told retries
				r := newRetry(t, steady.RetryConfig{BaseDelay: time.Second, Jitter: steady.NoJitter, Hooks: told.hooks()})
				ctx, cancel := context.WithTimeout(t.Context(), tc.left)
				defer cancel()
				fn := &script{errs: []error{errBoom}}
				began := time.Now()
				_, err := pipeline(t, r).Do(ctx, fn.next)
				gaveUp := requireGaveUp(t, err, steady.ErrRetryDeadline)
				assert.Equal(t, errBoom, gaveUp.Last)
				assert.Equal(t, tc.runs, gaveUp.Attempts)
				assert.Equal(t, tc.runs, fn.runs)
				assert.Equal(t, time.Duration(tc.runs-1)*time.Second, time.Since(began))
				assert.Len(t, told.all, tc.runs-1)
				assert.Equal(t, uint64(1), r.Stats().DeadlineDenied)
				budget := r.Config().Budget.Stats()
				assert.EqualValues(t, budget.Burst-tc.runs+1, budget.Tokens)
			})
		})
	}
}

func TestRetryKnowsTheDeadlineOfATimeoutAroundOnTheFakeClock(t *testing.T) { // R2, T4
	mock := clock.NewMock()
	timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second, Clock: mock}))
	r := newRetry(t, steady.RetryConfig{BaseDelay: time.Second, Jitter: steady.NoJitter})
	_, err := pipeline(t, timeout, r).Do(t.Context(), returns(0, errBoom))
	requireGaveUp(t, err, steady.ErrRetryDeadline)
	assert.ErrorIs(t, err, errBoom)
	assert.NotErrorIs(t, err, steady.ErrTimeout, "the limit was not reached")
}

func TestRetryRetryAfterBeyondTheDeadlineEndsTheCallAtOnce(t *testing.T) { // R2, R4
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := pipeline(t, newRetry(t, steady.RetryConfig{})).
			Do(ctx, returns(0, steady.MarkRetryAfter(errBoom, steady.Throttled, math.MaxInt64)))
		requireGaveUp(t, err, steady.ErrRetryDeadline)
		assert.Zero(t, time.Since(began))
	})
}

func TestRetryCancelledInADelayReturnsAtOnceWithBothErrors(t *testing.T) { // R3, O7
	synctest.Test(t, func(t *testing.T) {
		r := newRetry(t, steady.RetryConfig{BaseDelay: time.Minute, MaxDelay: time.Minute, Jitter: steady.NoJitter})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("the cause")) })
		fn := &script{errs: []error{errBoom}}
		began := time.Now()
		_, err := pipeline(t, r).Do(ctx, fn.next)
		assert.Equal(t, time.Second, time.Since(began))
		assert.Equal(t, &steady.RetryError{Attempts: 1, Elapsed: time.Second, Reason: context.Canceled, Last: errBoom}, err)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, errBoom)
		assert.Equal(t, 1, fn.runs)
		assert.Zero(t, r.Stats().Retries)
	})
}

func TestRetryTimerAndCancelTogetherStartNoAttempt(t *testing.T) { // R3
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			mock := clock.NewMock()
			r := newRetry(t, steady.RetryConfig{BaseDelay: time.Second, Jitter: steady.NoJitter, Clock: mock})
			p := pipeline(t, r)
			ctx, cancel := context.WithCancel(t.Context())
			fn := &script{errs: []error{errBoom}}
			var err error
			go func() { _, err = p.Do(ctx, fn.next) }()
			synctest.Wait()
			cancel()
			mock.Add(time.Second)
			synctest.Wait()
			require.Equal(t, 1, fn.runs)
			requireGaveUp(t, err, context.Canceled)
		})
	}
}

func TestRetryCancelledBeforeADelayOfZeroStartsNoAttempt(t *testing.T) { // R3
	ctx, cancel := context.WithCancel(t.Context())
	r := newRetry(t, steady.RetryConfig{NoDelay: true, Hooks: &steady.Hooks{
		OnRetry: func(context.Context, steady.RetryDelay) { cancel() },
	}})
	fn := &script{errs: []error{errBoom}}
	_, err := pipeline(t, r).Do(ctx, fn.next)
	requireGaveUp(t, err, context.Canceled)
	assert.ErrorIs(t, err, errBoom)
	assert.Equal(t, 1, fn.runs)
}

func TestRetryErrorOfACallerWhoCancelledIsTheFunctionsOwn(t *testing.T) { // O2
	ctx, cancel := context.WithCancel(t.Context())
	_, err := pipeline(t, newRetry(t, steady.RetryConfig{NoDelay: true})).Do(ctx, func(context.Context) (int, error) {
		cancel()
		return 0, errBoom
	})
	assert.Equal(t, errBoom, err)
}

func TestRetryDoesNotRetryWhatAnInnerPolicyRejected(t *testing.T) { // R7
	b, _ := newBreaker(t, steady.BreakerConfig{})
	b.ForceOpen("test")
	full := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
	acquire(t, full)
	for _, tc := range []struct {
		inner  steady.Policy
		reason error
	}{{b, steady.ErrBreakerOpen}, {full, steady.ErrBulkheadFull}} {
		r := newRetry(t, steady.RetryConfig{})
		_, err := pipeline(t, r, tc.inner).Do(t.Context(), returns(0, nil))
		require.ErrorIs(t, err, tc.reason)
		_, untouched := err.(*steady.RejectedError) //nolint:errorlint // not even wrapped
		assert.True(t, untouched)
		assert.Zero(t, r.Stats().Retries)
	}
}

func TestRetryRejectedAfterAnAttemptThatFailedTellsBoth(t *testing.T) { // R7, O7
	synctest.Test(t, func(t *testing.T) {
		b := wallBreaker(steady.BreakerConfig{WindowSize: 2})
		fn := &script{errs: []error{errBoom}}
		_, err := pipeline(t, newRetry(t, steady.RetryConfig{MaxAttempts: 5}), b).Do(t.Context(), fn.next)
		gaveUp := requireGaveUp(t, err, steady.ErrBreakerOpen)
		assert.Equal(t, errBoom, gaveUp.Last)
		assert.Equal(t, 2, gaveUp.Attempts)
		assert.Equal(t, 2, fn.runs)
		assert.True(t, steady.IsRejected(err))
	})
}

func TestRetryRejectedWaitsForTheBreaker(t *testing.T) { // R7
	synctest.Test(t, func(t *testing.T) {
		var told retries
		b := wallBreaker(steady.BreakerConfig{WindowSize: 1, HalfOpenProbes: 1, OpenDuration: 10 * time.Second})
		r := newRetry(t, steady.RetryConfig{BaseDelay: 100 * ms, Jitter: steady.NoJitter, RetryRejected: true, Hooks: told.hooks()})
		fn := &script{errs: []error{errBoom, nil}}
		v, err := pipeline(t, r, b).Do(t.Context(), fn.next)
		require.NoError(t, err)
		assert.Equal(t, 2, v)
		assert.Equal(t, []time.Duration{100 * ms, 9900*ms + 200*ms}, told.delays(), "what was left of the period, and the delay")
		assert.Equal(t, steady.Ignored, told.all[1].Outcome)
		assert.True(t, steady.IsRejected(told.all[1].Err))
	})
}

func TestRetryRejectedAtItsLastAttemptTellsAllThreeErrors(t *testing.T) { // O7
	b, _ := newBreaker(t, steady.BreakerConfig{WindowSize: 1})
	r := newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 2, RetryRejected: true, Clock: b.Config().Clock})
	_, err := pipeline(t, r, b).Do(t.Context(), returns(0, errBoom))
	gaveUp := requireGaveUp(t, err, steady.ErrRetriesExhausted)
	assert.ErrorIs(t, gaveUp.Reason, steady.ErrBreakerOpen)
	assert.Equal(t, errBoom, gaveUp.Last)
	assert.Equal(t, 1, gaveUp.Attempts)
}

func TestRetryRejectedByABulkheadUntilItGivesUp(t *testing.T) { // R7
	synctest.Test(t, func(t *testing.T) {
		full := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1})
		acquire(t, full)
		r := newRetry(t, steady.RetryConfig{BaseDelay: 100 * ms, Jitter: steady.NoJitter, RetryRejected: true})
		began := time.Now()
		_, err := pipeline(t, r, full).Do(t.Context(), returns(0, nil))
		gaveUp := requireGaveUp(t, err, steady.ErrRetriesExhausted)
		assert.ErrorIs(t, gaveUp.Last, steady.ErrBulkheadFull)
		assert.Zero(t, gaveUp.Attempts, "the function never ran")
		assert.Equal(t, 300*ms, time.Since(began))
		assert.Equal(t, uint64(3), full.Stats().Rejected)
	})
}

func TestRetryIsNotEndedByAnAttemptsOwnTimeout(t *testing.T) { // R8
	synctest.Test(t, func(t *testing.T) {
		attempt := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "attempt", Limit: time.Second}))
		r := newRetry(t, steady.RetryConfig{NoDelay: true})
		runs := 0
		v, err := pipeline(t, r, attempt).Do(t.Context(), func(ctx context.Context) (int, error) {
			runs++
			require.NoError(t, ctx.Err(), "each attempt has a fresh context")
			deadline, _ := ctx.Deadline()
			require.Equal(t, time.Second, time.Until(deadline))
			if runs == 3 {
				return 3, nil
			}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		require.NoError(t, err)
		assert.Equal(t, 3, v)
		assert.Equal(t, uint64(2), attempt.Stats().Expired)
	})
}

func TestRetryTakesATimeoutBeforeTheFunctionForUnsent(t *testing.T) { // R8
	synctest.Test(t, func(t *testing.T) {
		attempt := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "attempt", Limit: time.Second}))
		queue := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Hour})
		slot := acquire(t, queue)
		time.AfterFunc(2500*ms, slot.Release)
		r := newRetry(t, steady.RetryConfig{NoDelay: true})
		v, err := pipeline(t, r, attempt, queue).Do(t.Context(), returns(7, nil))
		require.NoError(t, err)
		assert.Equal(t, 7, v)
		assert.Equal(t, uint64(2), r.Stats().Retries)

		acquire(t, queue)
		_, err = pipeline(t, r, attempt, queue).Do(t.Context(), returns(7, nil))
		gaveUp := requireGaveUp(t, err, steady.ErrRetriesExhausted)
		assert.Zero(t, gaveUp.Attempts)
		requireTimeout(t, gaveUp.Last, "attempt")
	})
}

func TestRetryIsEndedByTheContextItWasGiven(t *testing.T) { // R8, O7
	synctest.Test(t, func(t *testing.T) {
		total := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "total", Limit: time.Second}))
		fn := &script{errs: []error{errBoom}}
		_, err := pipeline(t, total, newRetry(t, steady.RetryConfig{NoDelay: true, MaxAttempts: 100, NoBudget: true})).
			Do(t.Context(), func(ctx context.Context) (int, error) {
				time.Sleep(300 * ms)
				return fn.next(ctx)
			})
		timeout := requireTimeout(t, err, "total")
		gaveUp := requireGaveUp(t, timeout.Err, context.DeadlineExceeded)
		assert.Equal(t, 4, gaveUp.Attempts)
		assert.ErrorIs(t, err, errBoom)
		assert.Equal(t, 4, fn.runs)
	})
}

// choosy returns a pipeline that takes every value below 100 for a failing one.
func choosy(t *testing.T, r *steady.Retry, onDiscard func(int)) *steady.Pipeline[int] {
	t.Helper()
	p, err := steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{r},
		Classify: func(v int, err error) steady.Outcome {
			if err == nil && v < 100 {
				return steady.Transient
			}
			return 0
		},
		Discard: onDiscard,
	})
	require.NoError(t, err)
	return p
}

func TestRetryGivesBackAFailingValueWhenNothingIsLeftToTry(t *testing.T) { // O5
	empty := steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Burst: 1}))
	for _, tc := range []struct {
		name    string
		cfg     steady.RetryConfig
		want    int
		discard []int
	}{
		{"after MaxAttempts", steady.RetryConfig{NoDelay: true}, 3, []int{1, 2}},
		{"with the budget empty", steady.RetryConfig{NoDelay: true, Budget: empty}, 2, []int{1}},
		{"with no time left", steady.RetryConfig{BaseDelay: time.Hour, MaxDelay: time.Hour, Jitter: steady.NoJitter}, 1, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var discarded []int
			p := choosy(t, newRetry(t, tc.cfg), func(v int) { discarded = append(discarded, v) })
			fn := &script{errs: []error{nil}}
			v, err := p.DoOr(ctx, fn.next, func(context.Context, error) (int, error) {
				t.Error("the fallback is not asked")
				return 0, nil
			})
			require.NoError(t, err)
			assert.Equal(t, tc.want, v)
			assert.Equal(t, tc.discard, discarded)
		})
	}
}

func TestRetryDiscardsAFailingValueBeforeTheDelay(t *testing.T) { // O5
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := newRetry(t, steady.RetryConfig{BaseDelay: time.Minute, MaxDelay: time.Minute, Jitter: steady.NoJitter})
		discarded := 0
		p := choosy(t, r, func(v int) {
			discarded++
			assert.Equal(t, 1, v)
			assert.Zero(t, time.Since(began))
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		fn := &script{errs: []error{nil}}
		v, err := p.Do(ctx, fn.next)
		assert.Equal(t, &steady.RetryError{Attempts: 1, Elapsed: time.Second, Reason: context.Canceled}, err)
		assert.Equal(t, 1, discarded)
		assert.Zero(t, v)
	})
}

func TestRetryErrorAfterAFailingValueIsKept(t *testing.T) { // O5, O7
	p := choosy(t, newRetry(t, steady.RetryConfig{NoDelay: true}), nil)
	fn := &script{errs: []error{nil, errBoom}}
	_, err := p.Do(t.Context(), fn.next)
	assert.Equal(t, errBoom, requireGaveUp(t, err, steady.ErrRetriesExhausted).Last)
}

func TestRetryInsideAnotherCountsItsOwnAttempts(t *testing.T) { // O7
	outer := newRetry(t, steady.RetryConfig{Name: "outer", NoDelay: true, MaxAttempts: 3, NoBudget: true})
	inner := newRetry(t, steady.RetryConfig{Name: "inner", NoDelay: true, MaxAttempts: 2, NoBudget: true})
	_, err := pipeline(t, outer, inner).Do(t.Context(), returns(0, errBoom))
	got := requireGaveUp(t, err, steady.ErrRetriesExhausted)
	assert.Equal(t, "outer", got.Policy)
	assert.Equal(t, 6, got.Attempts)
	last := requireGaveUp(t, got.Last, steady.ErrRetriesExhausted)
	assert.Equal(t, "inner", last.Policy)
	assert.Equal(t, 2, last.Attempts)
	assert.Equal(t, errBoom, last.Last)
}

func TestRetryIsSharedByManyCallsAtOnce(t *testing.T) { // R6
	synctest.Test(t, func(t *testing.T) {
		const calls = 200
		r := newRetry(t, steady.RetryConfig{MaxAttempts: 5, Jitter: steady.DecorrelatedJitter, Rand: fixed(0.5), NoBudget: true})
		numbers := pipeline(t, r)
		words := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{r}}))
		var wg sync.WaitGroup
		var runs atomic.Int64
		for i := range calls {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 7 * ms)
				began := time.Now()
				own := 0
				fn := func() error {
					runs.Add(1)
					if own++; own <= i%5 {
						return errBoom
					}
					return nil
				}
				var err error
				if i%2 == 0 {
					_, err = numbers.Do(t.Context(), func(context.Context) (int, error) { return 0, fn() })
				} else {
					err = words.Run(t.Context(), func(context.Context) error { return fn() })
				}
				assert.NoError(t, err)
				assert.Equal(t, i%5+1, own)
				want := []time.Duration{0, 200 * ms, 550 * ms, 1125 * ms, 2037500 * time.Microsecond}
				assert.Equal(t, want[i%5], time.Since(began), "the delays of one call do not depend on another")
			})
		}
		wg.Wait()
		assert.Equal(t, steady.RetryStats{
			Calls: calls, Retries: uint64(runs.Load()) - calls, SucceededAfterRetry: calls * 4 / 5,
		}, r.Stats())
	})
}

func TestRetryCancelledInADelayMakesNoFurtherAttempt(t *testing.T) { // R3
	synctest.Test(t, func(t *testing.T) {
		r := newRetry(t, steady.RetryConfig{BaseDelay: time.Second, Jitter: steady.NoJitter})
		attempts := 0
		inside := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
			attempts++
			return next(ctx)
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(time.Second/2, cancel).Stop()
		_, err := pipeline(t, r, inside).Do(ctx, returns(0, errBoom))
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 1, attempts)
		assert.Zero(t, r.Stats().Retries)
	})
}
