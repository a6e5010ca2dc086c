package steady_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// retrying returns a pipeline with a Retry, and where the delays that it decides on are noted.
func retrying(t testing.TB, cfg steady.RetryConfig, inside ...steady.Policy) (*steady.Pipeline[int], *[]time.Duration) {
	t.Helper()
	delays := new([]time.Duration)
	cfg.Hooks = steady.JoinHooks(cfg.Hooks, &steady.Hooks{
		OnRetry: func(_ context.Context, r steady.RetryDelay) { *delays = append(*delays, r.Delay) },
	})
	r, err := steady.NewRetry(cfg)
	require.NoError(t, err)
	return pipeline(t, append([]steady.Policy{r}, inside...)...), delays
}

// requireOneShape shows that a call ended with the one shape that giving up has: a RetryError that matches the
// reason and the function's last error.
func requireOneShape(t testing.TB, err, reason error, attempts int) {
	t.Helper()
	var gaveUp *steady.RetryError
	require.ErrorAs(t, err, &gaveUp)
	require.ErrorIs(t, err, reason)
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, attempts, gaveUp.Attempts)
	require.ErrorIs(t, gaveUp.Last, errBoom)
	require.ErrorIs(t, gaveUp.Reason, reason)
}

// backoff#139: the cap came before the jitter, but the wrong way round: 1.5 s with a cap of 1 s.
//
// retry-go#30, #159; openai-go#489; azure-sdk#23441; latte#208: shifts overflowed; delays were negative, or
// the loop panicked.
//
// retryablehttp-go#563: the first retry panicked on Intn(0).
func TestDelaysStayBetweenNothingAndTheCapAtEveryAttempt(t *testing.T) {
	most := func() float64 { return 1 - 1e-16 }
	least := func() float64 { return 0 }
	for _, jitter := range []steady.Jitter{steady.FullJitter, steady.EqualJitter, steady.DecorrelatedJitter, steady.NoJitter} {
		for _, bounds := range [][2]time.Duration{{1, 1}, {100 * time.Millisecond, time.Second}, {3, 7}, {time.Hour, 10_000 * time.Hour}} {
			for _, random := range []func() float64{most, least, nil} {
				t.Run(fmt.Sprint(jitter, bounds), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p, delays := retrying(t, steady.RetryConfig{
							MaxAttempts: 100, BaseDelay: bounds[0], MaxDelay: bounds[1], Jitter: jitter, Rand: random, NoBudget: true,
						})
						_, err := p.Do(t.Context(), returns(0, errBoom))
						requireOneShape(t, err, steady.ErrRetriesExhausted, 100)
						require.Len(t, *delays, 99)
						for i, d := range *delays {
							require.GreaterOrEqual(t, d, time.Duration(0), "attempt %d", i+1)
							require.LessOrEqual(t, d, bounds[1], "attempt %d", i+1)
							if jitter == steady.NoJitter && i >= 14 {
								require.Equal(t, bounds[1], d, "attempt %d", i+1)
							}
						}
					})
				})
			}
		}
	}
}

// tenacity#710: a base of 0 jumped to the cap at attempt 1025.
func TestNoDelayIsNoDelayToTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p, delays := retrying(t, steady.RetryConfig{MaxAttempts: 100, NoDelay: true, NoBudget: true})
		_, err := p.Do(t.Context(), returns(0, errBoom))
		requireOneShape(t, err, steady.ErrRetriesExhausted, 100)
		assert.Equal(t, make([]time.Duration, 99), *delays)
		assert.Zero(t, time.Since(began))
	})
}

// r4j and Polly (seen): clamping after the jitter removed it: 97 % of the delays were the cap itself.
func TestDelaysAtTheCapAreSpreadLikeAllOthers(t *testing.T) {
	for jitter, least := range map[steady.Jitter]time.Duration{steady.FullJitter: 0, steady.EqualJitter: 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p, delays := retrying(t, steady.RetryConfig{
				MaxAttempts: 100, MaxDelay: time.Second, Jitter: jitter, NoBudget: true,
				Rand: rand.New(rand.NewPCG(1, 2)).Float64,
			})
			for range 20 {
				_, err := p.Do(t.Context(), returns(0, errBoom))
				require.ErrorIs(t, err, errBoom)
			}
			var quarters [4]int
			atCap := 0
			for i, d := range *delays {
				if i%99 < 4 { // not at the cap yet
					continue
				}
				require.GreaterOrEqual(t, d, least)
				if d == time.Second {
					atCap++
					continue
				}
				quarters[(d-least)*4/(time.Second-least)]++
			}
			assert.Zero(t, atCap)
			for q, n := range quarters {
				assert.InDelta(t, 20*95/4, n, 60, "quarter %d", q)
			}
		})
	}
}

// go-retryablehttp#272, temporal#4403: the client slept for five minutes towards a deadline that it could not
// meet. backoff#53, #64, #113: a look-ahead returned the operation's error while the context was alive, and
// nobody could tell why.
func TestADeadlineThatCannotBeMetEndsTheCallAtOnceAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		began := time.Now()
		p, delays := retrying(t, steady.RetryConfig{MaxAttempts: 5, NoDelay: true})
		_, err := p.Do(ctx, returns(0, steady.MarkRetryAfter(errBoom, steady.Transient, 5*time.Minute)))
		requireOneShape(t, err, steady.ErrRetryDeadline, 1)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "it has not passed")
		assert.NoError(t, ctx.Err())
		assert.Zero(t, time.Since(began))
		assert.Empty(t, *delays)

		_, err = p.Do(ctx, returns(0, steady.MarkRetryAfter(errBoom, steady.Transient, 2*time.Minute)))
		requireOneShape(t, err, steady.ErrRetryDeadline, 3)
		assert.Equal(t, 4*time.Minute, time.Since(began), "two that can be met are waited for")
	})
}

// retry-go#51, gax-go#158, backoff#83, #181, Polly#2375: a cancel during the sleep lost the error of the API.
func TestACancelDuringTheDelayKeepsTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		p, _ := retrying(t, steady.RetryConfig{BaseDelay: 20 * time.Second, Jitter: steady.NoJitter})
		_, err := p.Do(ctx, returns(0, errBoom))
		requireOneShape(t, err, context.Canceled, 1)
		assert.Equal(t, time.Second, time.Since(began), "at once")
	})
}

// kanister#2543, backoff#194: when the timer and the cancel came together, one more attempt ran.
func TestATimerAndACancelTogetherStartNoAttempt(t *testing.T) {
	for range 30 { // a select would choose either
		ctx, cancel := context.WithCancel(t.Context())
		budget := steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{}))
		p, _ := retrying(t, steady.RetryConfig{Budget: budget, Clock: &coincidence{Mock: clock.NewMock(), then: cancel}})
		_, err := p.Do(ctx, returns(0, errBoom))
		requireOneShape(t, err, context.Canceled, 1)
		assert.Equal(t, 10.0, budget.Stats().Tokens, "the retry did not run, and costs nothing")
	}
}

// backoff#140: an error that was marked as permanent and wrapped once more was not recognised.
func TestAMarkedErrorIsRecognisedHoweverItIsWrapped(t *testing.T) {
	marked := steady.Mark(errBoom, steady.Permanent)
	for _, err := range []error{
		marked,
		fmt.Errorf("query: %w", marked),
		fmt.Errorf("order 7: %w", fmt.Errorf("query: %w", marked)),
		errors.Join(errors.New("close"), marked),
	} {
		runs := 0
		p, _ := retrying(t, steady.RetryConfig{NoDelay: true})
		_, got := p.Do(t.Context(), func(context.Context) (int, error) {
			runs++
			return 0, err
		})
		assert.Equal(t, 1, runs)
		assert.Equal(t, err, got, "untouched")
		assert.Equal(t, steady.Permanent, steady.Classify(err))
	}
}

// backoff#144: one path out of the loop lost what the others wrapped.
func TestGivingUpHasOneShapeOnEveryPath(t *testing.T) {
	fails := returns(0, fmt.Errorf("query: %w", steady.Mark(errBoom, steady.Transient)))
	synctest.Test(t, func(t *testing.T) {
		p, _ := retrying(t, steady.RetryConfig{NoDelay: true})
		_, err := p.Do(t.Context(), fails)
		requireOneShape(t, err, steady.ErrRetriesExhausted, 3)

		p, _ = retrying(t, steady.RetryConfig{NoDelay: true, Budget: steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Burst: 1}))})
		_, err = p.Do(t.Context(), fails)
		requireOneShape(t, err, steady.ErrRetryBudget, 2)

		p, _ = retrying(t, steady.RetryConfig{BaseDelay: time.Minute, MaxDelay: time.Hour, Jitter: steady.NoJitter})
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		_, err = p.Do(ctx, fails)
		requireOneShape(t, err, steady.ErrRetryDeadline, 2)
		cancel()

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(90*time.Second, cancel)
		_, err = p.Do(ctx, fails)
		requireOneShape(t, err, context.Canceled, 2)

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		_, err = p.Do(ctx, after(2*time.Second, 0, errBoom))
		requireOneShape(t, err, context.DeadlineExceeded, 1)
		cancel()

		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{MinCalls: 2, NoSlowCalls: true}))
		p, _ = retrying(t, steady.RetryConfig{NoDelay: true}, b)
		_, err = p.Do(t.Context(), fails)
		requireOneShape(t, err, steady.ErrBreakerOpen, 2)
	})
}

// refusal is an error type of a user's, whose nil can be asked for its text.
type refusal struct{}

func (r *refusal) Error() string { return "refused" }

// backoff v7.0.1 (seen): a typed nil inside errors.As panicked.
func TestATypedNilIsAnErrorLikeAnyOther(t *testing.T) {
	for _, typedNil := range []error{
		(*refusal)(nil), (*steady.RejectedError)(nil), (*steady.TimeoutError)(nil), (*steady.RetryError)(nil), (*steady.PanicError)(nil),
	} {
		for _, err := range []error{typedNil, fmt.Errorf("query: %w", typedNil), errors.Join(errBoom, typedNil), steady.Mark(typedNil, steady.Transient)} {
			p, _ := retrying(t, steady.RetryConfig{NoDelay: true})
			_, got := p.Do(t.Context(), returns(0, err))
			assert.ErrorIs(t, got, err)
			assert.NotEmpty(t, got.Error())
			assert.NotPanics(t, func() {
				steady.Classify(err)
				steady.IsRejected(err)
				_ = steady.MarkRetryAfter(err, steady.Throttled, time.Second).Error()
				var rejected *steady.RejectedError
				if errors.As(err, &rejected) {
					rejected.RetryAfter()
				}
			})
		}
	}
}

// retry-go#103: OnRetry was called when no retry followed.
func TestOnRetryIsCalledBeforeRetriesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		empty := steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Burst: 1}))
		for name, c := range map[string]struct {
			cfg     steady.RetryConfig
			err     error
			retries int
		}{
			"success":        {steady.RetryConfig{}, nil, 0},
			"permanent":      {steady.RetryConfig{}, steady.Mark(errBoom, steady.Permanent), 0},
			"one attempt":    {steady.RetryConfig{MaxAttempts: 1}, errBoom, 0},
			"exhausted":      {steady.RetryConfig{}, errBoom, 2},
			"budget":         {steady.RetryConfig{Budget: empty}, errBoom, 1},
			"deadline":       {steady.RetryConfig{}, steady.MarkRetryAfter(errBoom, steady.Transient, 2*time.Hour), 0},
			"a zero of luck": {steady.RetryConfig{Rand: func() float64 { return 0 }}, errBoom, 2},
		} {
			runs := 0
			p, delays := retrying(t, c.cfg)
			_, err := p.Do(hour, func(context.Context) (int, error) {
				runs++
				return 0, c.err
			})
			require.ErrorIs(t, err, c.err, name)
			assert.Len(t, *delays, c.retries, name)
			assert.Equal(t, c.retries+1, runs, name)
		}
	})
}

// gax-go#420: every attempt reused a context that was dead.
func TestEveryAttemptHasAContextOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := retrying(t, steady.RetryConfig{NoDelay: true}, bubbleTimeout(t, steady.TimeoutConfig{Limit: time.Second}))
		runs := 0
		v, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
			assert.NoError(t, ctx.Err())
			deadline, _ := ctx.Deadline()
			assert.Equal(t, time.Second, time.Until(deadline))
			if runs++; runs < 3 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 42, nil
		})
		require.NoError(t, err)
		assert.Equal(t, 42, v)
		assert.Equal(t, 3, runs)
	})
}

// go-service#2474: a timeout per attempt of 0 meant "now".
func TestAnAttemptTimeoutOfZeroIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := steady.NewDependency(steady.DependencyConfig{
			Name: "catalog", Timeout: time.Minute, NoRetry: true,
			Breaker: steady.BreakerConfig{SlowThreshold: 30 * time.Second}, Bulkhead: steady.BulkheadConfig{MaxConcurrent: 3},
		})
		require.NoError(t, err)
		p, err := steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[int]{})
		require.NoError(t, err)
		_, err = p.Do(t.Context(), func(ctx context.Context) (int, error) {
			deadline, _ := ctx.Deadline()
			assert.Equal(t, time.Minute, time.Until(deadline), "only the whole operation's")
			time.Sleep(20 * time.Second)
			return 1, ctx.Err()
		})
		require.NoError(t, err)
		assert.Nil(t, d.AttemptTimeout())
	})
}

// heimdall#75, redis-client#228, failsafe-lib#119, failsafe-go (seen: six attempts at once): an open breaker
// was retried against.
func TestAnOpenBreakerIsNotRetriedAgainst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		b := steady.Must(steady.NewBreaker(steady.BreakerConfig{MinCalls: 1, NoSlowCalls: true, NoOpenJitter: true}))
		p, delays := retrying(t, steady.RetryConfig{MaxAttempts: 6}, b)
		openByFailures(t, b)
		_, err := p.Do(t.Context(), mustNotRun(t))
		require.True(t, steady.IsRejected(err))
		assert.EqualValues(t, 1, b.Stats().Rejected)
		assert.Empty(t, *delays)
		assert.Zero(t, time.Since(began))

		p, delays = retrying(t, steady.RetryConfig{MaxAttempts: 6, RetryRejected: true, Jitter: steady.NoJitter}, b)
		_, err = p.Do(t.Context(), returns(1, nil))
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{10*time.Second + 100*time.Millisecond}, *delays, "asked for, it waits out the open period")
	})
}

// envoy#30205: retries that waited in their backoff were not charged, so that a budget of 20 % admitted all
// of a thousand.
func TestARetryIsChargedWhenItIsDecidedNotWhenItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Ratio: 0.2, Burst: 100}))
		retry := steady.Must(steady.NewRetry(steady.RetryConfig{BaseDelay: 10 * time.Second, Jitter: steady.NoJitter, Budget: budget}))
		p := pipeline(t, retry)
		var runs, denied atomic.Int64
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				_, err := p.Do(t.Context(), func(context.Context) (int, error) {
					runs.Add(1)
					return 0, errBoom
				})
				if errors.Is(err, steady.ErrRetryBudget) {
					denied.Add(1)
				}
			})
		}
		synctest.Wait()
		assert.Zero(t, budget.Stats().Tokens)
		assert.EqualValues(t, 900, denied.Load(), "all others wait")
		callers.Wait()
		assert.EqualValues(t, 1100, runs.Load())
	})
}

// finagle#956: two layers deposited into the budget for one request.
func TestACallDepositsOnceThroughTwoRetries(t *testing.T) {
	budget := steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Ratio: 0.25, Burst: 2}))
	retry := func() steady.Policy {
		return steady.Must(steady.NewRetry(steady.RetryConfig{MaxAttempts: 2, NoDelay: true, Budget: budget}))
	}
	p := pipeline(t, retry(), retry())
	_, err := p.Do(t.Context(), returns(0, errBoom))
	require.ErrorIs(t, err, errBoom)
	require.Zero(t, budget.Stats().Tokens)
	for i := range 4 {
		_, err := p.Do(t.Context(), returns(1, nil))
		require.NoError(t, err)
		require.Equal(t, 0.25*float64(i+1), budget.Stats().Tokens)
	}
}
