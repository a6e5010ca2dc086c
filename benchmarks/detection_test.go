package benchmarks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/assert"

	"github.com/steady-go/steady"
)

// The dependency: a catalogue behind a pool of connections, called at a steady rate whether it answers or
// not. It answers in fast, but slowly for some time, with a success all the same.
const (
	rate        = 400 // calls a second: 32 in flight when all is well
	connections = 50
	fast        = 80 * time.Millisecond
	slowly      = 8 * time.Second
	slowFrom    = time.Second
	end         = 60 * time.Second
)

// How long that lasts. When a client is well again depends on where in its open period the dependency is.
var outages = []time.Duration{9 * time.Second, 10400 * time.Millisecond, 11800 * time.Millisecond, 13200 * time.Millisecond}

// What all clients have in common where they can: what is slow, 10 of the last 20 calls as the reason to
// open, the open period, the probes, the calls in flight.
const (
	slowThreshold = 500 * time.Millisecond
	patience      = 2 * time.Second
	maxInFlight   = 40
	openDuration  = 5 * time.Second
	probes        = 3
)

// TestDetection lets the dependency slow down under one client after the other, in simulated time, and
// prints what happened as a table:
//
//	go test -run TestDetection -v .
func TestDetection(t *testing.T) {
	const never = 0
	rows := []struct {
		name   string
		client func(opened func()) client
		from   time.Duration // when it is to open, after the first slow call began
		by     time.Duration
	}{
		{"steady, bulkhead 40", steadyClient(0), slowThreshold, slowThreshold + 50*time.Millisecond},
		{"steady, bulkhead 40, timeout 2 s", steadyClient(patience), slowThreshold, slowThreshold + 50*time.Millisecond},

		{"gobreaker", gobreakerClient(gobreakerOptions{}), never, never},
		{"gobreaker, slow answers fail", gobreakerClient(gobreakerOptions{slow: true}), slowly, slowly + time.Second},
		{"gobreaker, timeout 2 s", gobreakerClient(gobreakerOptions{slow: true, timeout: patience}), patience, patience + time.Second},
		{"gobreaker, semaphore 40, timeout 2 s", gobreakerClient(gobreakerOptions{slow: true, timeout: patience, limit: true}), patience, patience + time.Second},
		{"gobreaker, semaphore 40, timeout 500 ms", gobreakerClient(gobreakerOptions{slow: true, timeout: slowThreshold, limit: true}), slowThreshold, slowThreshold + 50*time.Millisecond},

		{"failsafe-go, slow answers fail", failsafeClient(failsafeOptions{}), slowly, slowly + time.Second},
		{"failsafe-go, timeout 2 s", failsafeClient(failsafeOptions{timeout: patience}), patience, patience + time.Second},
		{"failsafe-go, bulkhead 40, timeout 2 s", failsafeClient(failsafeOptions{timeout: patience, limit: true}), patience, patience + time.Second},
		{"failsafe-go, adaptive limiter 1 to 40, timeout 2 s", failsafeClient(failsafeOptions{timeout: patience, adaptive: true}), patience, patience + time.Second},
		{"failsafe-go, bulkhead 40, timeout 500 ms", failsafeClient(failsafeOptions{timeout: slowThreshold, limit: true}), slowThreshold, slowThreshold + 50*time.Millisecond},
		{"failsafe-go, bulkhead 40 and a full one fails, timeout 2 s", failsafeClient(failsafeOptions{timeout: patience, limit: true, fullFails: true}), 0, slowThreshold},
	}
	lines := make([]string, len(rows))
	t.Run("clients", func(t *testing.T) {
		for i, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				r := incidents(t, row.client)
				healthy := noIncident(t, row.client)
				opened, stuck := "never", "–"
				if row.by == never {
					assert.Negative(t, r.opened)
				} else {
					assert.GreaterOrEqual(t, r.opened, row.from)
					assert.LessOrEqual(t, r.opened, row.by)
					opened, stuck = r.opened.Round(time.Millisecond).String(), fmt.Sprint(r.stuck)
				}
				n := len(outages)
				lines[i] = fmt.Sprintf("| %s | %s | %s | %d | %d | %v | %d |", row.name, opened, stuck,
					r.lost/n, r.waited/n, (r.wellAgain / time.Duration(n)).Round(100*time.Millisecond), healthy.lost)
			})
		}
	})
	fmt.Printf(`
%d calls/s to a dependency over %d connections. It takes %v, then %v for %v to %v (%d runs), then %v again; it never fails.

| client | opens after | stuck then | lost | of these, kept waiting | well again after | lost without an incident |
|---|---|---|---|---|---|---|
%s

opens after: from the start of the first slow call until the breaker opens.
stuck then: calls in the dependency, or waiting for a connection, at that moment.
lost: calls that got no answer (an error, a rejection), or got it after more than %v; mean of the runs.
of these, kept waiting: those that were told so only after %v or more.
well again after: from the dependency's recovery to the last call that was lost; mean of the runs.
lost without an incident: of %d calls in 10 s in which the dependency is well, one call in 200 takes 1 s, and 60 more come at once.

All: open for %v, %d probes; the breaker is outside the limit, which is outside the timeout (steady's is outermost).
steady: 10 slow or failed calls of the last 20 open it.
gobreaker: 10 failures in a row, or half of a rolling 10 s, open it; a full semaphore does not count. "Slow answers fail": those of %v or more, too.
failsafe-go: 10 failures of the last 20 open it; answers of %v or more are failures; a full bulkhead or limiter does not count, but for the last row, where it does (the default).
`, rate, connections, fast, slowly, outages[0], outages[len(outages)-1], len(outages), fast,
		strings.Join(lines, "\n"), patience, slowThreshold, 10*rate+60, openDuration, probes, slowThreshold, slowThreshold)
}

// client makes a call through the policies of one library.
type client func(ctx context.Context, fn func(context.Context) error) error

func steadyClient(limit time.Duration) func(func()) client {
	return func(opened func()) client {
		var policies []steady.Policy
		if limit > 0 {
			policies = append(policies, steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: limit})))
		}
		policies = append(policies,
			steady.Must(steady.NewBreaker(steady.BreakerConfig{
				SlowThreshold:  slowThreshold,
				OpenDuration:   openDuration,
				NoOpenJitter:   true,
				HalfOpenProbes: probes,
				Hooks: &steady.Hooks{OnTransition: func(tr steady.Transition) {
					if tr.To == steady.StateOpen {
						opened()
					}
				}},
			})),
			steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: maxInFlight})))
		return steady.Must(steady.NewPipeline(steady.PipelineConfig[struct{}]{Policies: policies})).Run
	}
}

type gobreakerOptions struct {
	slow    bool // an answer that took slowThreshold or longer is a failure
	timeout time.Duration
	limit   bool // a semaphore, inside the breaker, that does not count
}

var errSlow, errFull = errors.New("slow"), errors.New("full")

// gobreakerClient opens at 10 failures in a row, or when half of a rolling ten seconds' calls, at least 10,
// have failed. (It does not count what takes longer than that interval.) It has no timeout and no limit of
// its own; what is usually put beside it stands in for them.
func gobreakerClient(o gobreakerOptions) func(func()) client {
	return func(opened func()) client {
		cb := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
			MaxRequests:  probes,
			Interval:     10 * time.Second,
			BucketPeriod: time.Second,
			Timeout:      openDuration,
			ReadyToTrip: func(n gobreaker.Counts) bool {
				return n.ConsecutiveFailures >= 10 || n.Requests >= 10 && 2*n.TotalFailures >= n.Requests
			},
			IsExcluded: func(err error) bool { return errors.Is(err, errFull) },
			OnStateChange: func(_ string, _, to gobreaker.State) {
				if to == gobreaker.StateOpen {
					opened()
				}
			},
		})
		semaphore := make(chan struct{}, maxInFlight)
		return func(ctx context.Context, fn func(context.Context) error) error {
			_, err := cb.Execute(func() (struct{}, error) {
				if o.limit {
					select {
					case semaphore <- struct{}{}:
						defer func() { <-semaphore }()
					default:
						return struct{}{}, errFull
					}
				}
				if o.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, o.timeout)
					defer cancel()
				}
				began := time.Now()
				err := fn(ctx)
				if err == nil && o.slow && time.Since(began) >= slowThreshold {
					err = errSlow
				}
				return struct{}{}, err
			})
			if errors.Is(err, errSlow) {
				return nil
			}
			return err
		}
	}
}

type failsafeOptions struct {
	timeout   time.Duration
	limit     bool // a bulkhead, inside the breaker
	adaptive  bool // an adaptive limiter instead
	fullFails bool // its rejections are failures, as they are by default
}

// failsafeClient opens at 10 failures in the last 20. An answer that took slowThreshold or longer is one.
func failsafeClient(o failsafeOptions) func(func()) client {
	return func(opened func()) client {
		policies := []failsafe.Policy[time.Duration]{
			circuitbreaker.NewBuilder[time.Duration]().
				WithFailureThresholdRatio(10, 20).
				WithSuccessThreshold(probes).
				WithDelay(openDuration).
				HandleIf(func(took time.Duration, err error) bool {
					full := errors.Is(err, bulkhead.ErrFull) || errors.Is(err, adaptivelimiter.ErrExceeded)
					return took >= slowThreshold || err != nil && (o.fullFails || !full)
				}).
				OnOpen(func(circuitbreaker.StateChangedEvent) { opened() }).
				Build(),
		}
		if o.limit {
			policies = append(policies, bulkhead.New[time.Duration](maxInFlight))
		}
		if o.adaptive {
			policies = append(policies, adaptivelimiter.NewBuilder[time.Duration]().WithLimits(1, maxInFlight, maxInFlight).Build())
		}
		if o.timeout > 0 {
			policies = append(policies, timeout.New[time.Duration](o.timeout))
		}
		executor := failsafe.With(policies...)
		return func(ctx context.Context, fn func(context.Context) error) error {
			_, err := executor.WithContext(ctx).GetWithExecution(func(e failsafe.Execution[time.Duration]) (time.Duration, error) {
				began := time.Now()
				err := fn(e.Context())
				return time.Since(began), err
			})
			return err
		}
	}
}

// catalogue is the dependency with its pool of connections.
type catalogue struct {
	pool   chan struct{}
	answer func() time.Duration // what a request takes that reaches it now
	inside atomic.Int64
}

func (c *catalogue) call(ctx context.Context) error {
	c.inside.Add(1)
	defer c.inside.Add(-1)
	select {
	case c.pool <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.pool }()
	select {
	case <-time.After(c.answer()):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// result is what became of a run, or of several.
type result struct {
	opened    time.Duration // since the first slow call began; negative if the breaker never opened
	stuck     int64
	lost      int
	waited    int
	lastLost  time.Duration // arrival of the last call that was lost
	wellAgain time.Duration // that, since the dependency was well again
}

// incidents runs the client through each of the dependency's bad times. The way into them is the same.
func incidents(t *testing.T, client func(func()) client) (sum result) {
	for i, outage := range outages {
		slowTo := slowFrom + outage
		r := simulate(t, client, arrivals(end), func(now time.Duration, _ int) time.Duration {
			if now >= slowFrom && now < slowTo {
				return slowly
			}
			return fast
		})
		assert.Less(t, r.lastLost, end-time.Second, "not well again, in the end")
		if i == 0 {
			sum.opened, sum.stuck = r.opened, r.stuck
		}
		sum.lost += r.lost
		sum.waited += r.waited
		sum.wellAgain += max(0, r.lastLost-slowTo)
	}
	return sum
}

// noIncident runs the client through ten ordinary seconds: some calls take longer, and once there are many.
func noIncident(t *testing.T, client func(func()) client) result {
	times := arrivals(10 * time.Second)
	half := len(times) / 2
	burst := make([]time.Duration, 60)
	for i := range burst {
		burst[i] = times[half]
	}
	times = append(times[:half:half], append(burst, times[half:]...)...)
	return simulate(t, client, times, func(_ time.Duration, n int) time.Duration {
		if n%200 == 0 {
			return time.Second
		}
		return fast
	})
}

// arrivals returns when calls come: one in each slot of time, but not to the nanosecond.
func arrivals(end time.Duration) []time.Duration {
	const slot = time.Second / rate
	random := rand.New(rand.NewPCG(1, 1))
	var times []time.Duration
	for at := time.Duration(0); at < end; at += slot {
		times = append(times, at+time.Duration(random.Int64N(int64(slot))))
	}
	return times
}

// simulate makes calls at the given times. The dependency's n-th request takes what answer says.
func simulate(t *testing.T, newClient func(func()) client, times []time.Duration, answer func(now time.Duration, n int) time.Duration) result {
	r := result{opened: -1}
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var (
			mu        sync.Mutex
			requests  int
			firstSlow time.Duration
		)
		cat := &catalogue{pool: make(chan struct{}, connections)}
		cat.answer = func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			requests++
			now := time.Since(begin)
			d := answer(now, requests)
			if d == slowly && firstSlow == 0 {
				firstSlow = now
			}
			return d
		}
		call := newClient(func() {
			mu.Lock()
			defer mu.Unlock()
			if r.opened < 0 {
				r.opened, r.stuck = time.Since(begin)-firstSlow, cat.inside.Load()
			}
		})
		var all sync.WaitGroup
		for _, at := range times {
			time.Sleep(at - time.Since(begin))
			all.Go(func() {
				err := call(t.Context(), cat.call)
				took := time.Since(begin) - at
				mu.Lock()
				defer mu.Unlock()
				if err != nil || took > patience {
					r.lost++
					r.lastLost = max(r.lastLost, at)
					if took >= slowThreshold {
						r.waited++
					}
				}
			})
		}
		all.Wait()
	})
	return r
}
