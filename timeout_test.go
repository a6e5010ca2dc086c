package steady_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// untilDone waits for the end of its context, and returns its error.
func untilDone(ctx context.Context) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func TestTimeoutGivesTheFunctionADeadlineAndNamesItselfInTheError(t *testing.T) { // T1
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var told []steady.Expiry
		timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{
			Name:  "catalog",
			Limit: 2 * time.Second,
			Hooks: &steady.Hooks{OnTimeout: func(ctx context.Context, e steady.Expiry) {
				assert.Equal(t, "caller", ctx.Value(key{}))
				assert.NoError(t, ctx.Err(), "it gets the context around the Timeout")
				told = append(told, e)
			}},
		}))
		began := time.Now()
		_, err := pipeline(t, timeout).Do(context.WithValue(t.Context(), key{}, "caller"), func(ctx context.Context) (int, error) {
			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.Equal(t, began.Add(2*time.Second), deadline)
			assert.Equal(t, "caller", ctx.Value(key{}))
			<-ctx.Done()
			assert.Equal(t, context.DeadlineExceeded, ctx.Err())
			return 0, fmt.Errorf("query: %w", ctx.Err())
		})
		assert.Equal(t, 2*time.Second, time.Since(began))
		got := requireTimeout(t, err, "catalog")
		assert.Equal(t, 2*time.Second, got.Limit)
		assert.True(t, got.Timeout())
		assert.ErrorIs(t, err, steady.ErrTimeout)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualError(t, err, `steady: timeout "catalog" of 2s: query: context deadline exceeded`)
		assert.EqualError(t, errors.Unwrap(err), "query: context deadline exceeded")
		assert.Equal(t, []steady.Expiry{{Policy: "catalog", Limit: 2 * time.Second}}, told)
		assert.Equal(t, steady.TimeoutStats{Name: "catalog", Expired: 1}, timeout.Stats())
	})
}

func TestTimeoutNestedNamesTheOneThatFired(t *testing.T) { // T1
	for _, tc := range []struct {
		outer, inner time.Duration
		fired        string
	}{
		{time.Second, time.Minute, "outer"},
		{time.Minute, time.Second, "inner"},
	} {
		t.Run(tc.fired, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outer, inner := newTimeout(t, steady.TimeoutConfig{Name: "outer", Limit: tc.outer}), newTimeout(t, steady.TimeoutConfig{Name: "inner", Limit: tc.inner})
				_, err := pipeline(t, outer, inner).Do(t.Context(), func(ctx context.Context) (int, error) {
					deadline, _ := ctx.Deadline()
					assert.Equal(t, time.Second, time.Until(deadline), "the sooner one")
					return untilDone(ctx)
				})
				requireTimeout(t, err, tc.fired)
				assert.Equal(t, uint64(1), outer.Stats().Expired+inner.Stats().Expired)
			})
		})
	}
}

func TestTimeoutTakesAnErrorForItsOwnOnlyIfItIs(t *testing.T) { // T2
	own := fmt.Errorf("query: %w", context.DeadlineExceeded)
	for _, tc := range []struct {
		name  string
		after time.Duration // the limit is a second
		err   error
		is    bool
	}{
		{"the deadline's error, at the limit", time.Second, own, true},
		{"and later", time.Minute, own, true},
		{"a connection's, which had the deadline", time.Second, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		{"a cancellation, for what was derived from the context", time.Second, fmt.Errorf("read: %w", context.Canceled), true},
		{"marked", time.Second, steady.Mark(own, steady.Permanent), true},
		{"another error that raced with the limit", time.Second, errBoom, false},
		{"and one much later", time.Minute, errBoom, false},
		{"a shorter deadline of the function's own", 999 * ms, own, false},
		{"a shorter one of its connection", 999 * ms, os.ErrDeadlineExceeded, false},
		{"a cancellation of the function's own", 999 * ms, context.Canceled, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timeout := newTimeout(t, steady.TimeoutConfig{Name: "limit", Limit: time.Second})
				_, err := pipeline(t, timeout).Do(t.Context(), sleeps(tc.after, 0, tc.err))
				if tc.is {
					assert.Equal(t, tc.err, requireTimeout(t, err, "limit").Err)
					assert.Equal(t, uint64(1), timeout.Stats().Expired)
				} else {
					assert.Equal(t, tc.err, err, "as it is")
					assert.Zero(t, timeout.Stats().Expired)
				}
			})
		})
	}
}

func TestTimeoutLeavesTheCallersOwnEndAlone(t *testing.T) { // T2, O2
	for _, tc := range []struct {
		name string
		end  func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		{"cancelled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second/2, cancel)
			return ctx, cancel
		}, context.Canceled},
		{"past its deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second/2)
		}, context.DeadlineExceeded},
	} {
		for _, until := range []time.Duration{0, time.Minute} { // the function returns at once, or past the limit
			t.Run(fmt.Sprintf("%s, returned after %v", tc.name, until), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := tc.end(t.Context())
					defer cancel()
					_, err := pipeline(t, newTimeout(t, steady.TimeoutConfig{Name: "limit", Limit: time.Second})).Do(ctx, func(ctx context.Context) (int, error) {
						<-ctx.Done()
						time.Sleep(until)
						return 0, ctx.Err()
					})
					assert.Equal(t, tc.want, err, "the context's own error, bare")
				})
			})
		}
	}
}

func TestTimeoutKnowsItsDeadlineInAConnectionsError(t *testing.T) { // T2
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Addr().String())
	require.NoError(t, err)
	defer conn.Close()

	p := pipeline(t, newTimeout(t, steady.TimeoutConfig{Name: "limit", Limit: 5 * ms}))
	for range 5 {
		err = p.Run(t.Context(), func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			if err := conn.SetDeadline(deadline); err != nil {
				return err
			}
			_, err := conn.Read(make([]byte, 1)) // of a server that says nothing
			return err
		})
		requireTimeout(t, err, "limit")
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var netErr net.Error
		require.ErrorAs(t, err, &netErr)
		assert.True(t, netErr.Timeout())
	}
}

func TestTimeoutReturnsASuccessThatComesLate(t *testing.T) { // O6, T3
	synctest.Test(t, func(t *testing.T) {
		timeout := newTimeout(t, steady.TimeoutConfig{Name: "limit", Limit: time.Second})
		began := time.Now()
		v, err := pipeline(t, timeout).Do(t.Context(), sleeps(time.Minute, 7, nil))
		require.NoError(t, err)
		assert.Equal(t, 7, v)
		assert.Equal(t, time.Minute, time.Since(began), "without Abandon the call waits")
		assert.Equal(t, steady.TimeoutStats{Name: "limit"}, timeout.Stats())
	})
}

func TestTimeoutEndsAWaitInAQueueInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Hour})
		acquire(t, queue)
		_, err := pipeline(t, newTimeout(t, steady.TimeoutConfig{Name: "limit", Limit: time.Second}), queue).Do(t.Context(), returns(0, nil))
		requireTimeout(t, err, "limit")
		assert.Equal(t, 1, queue.Stats().InFlight)
	})
}

func TestTimeoutReleasesItsContextOnReturn(t *testing.T) { // T4
	for name, clk := range map[string]steady.Clock{"system clock": nil, "fake clock": clock.NewMock()} {
		t.Run(name, func(t *testing.T) {
			p := pipeline(t, steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Hour, Clock: clk})))
			var left context.Context
			_, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
				left = ctx
				return 0, ctx.Err()
			})
			require.NoError(t, err)
			assert.Equal(t, context.Canceled, left.Err())
		})
	}
}

func TestTimeoutStopsItsTimersOnReturn(t *testing.T) { // T4
	mock := clock.NewMock()
	for _, abandon := range []bool{false, true} {
		timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Hour, Abandon: abandon, Clock: mock}))
		p := pipeline(t, timeout)
		for range 10 {
			_, _ = p.Do(t.Context(), returns(0, nil))
			_, _ = p.Do(t.Context(), returns(0, errBoom))
			func() {
				defer func() { _ = recover() }()
				_, _ = p.Do(t.Context(), func(context.Context) (int, error) { panic(errBoom) })
			}()
		}
	}
	before := mock.Now()
	assert.Equal(t, before, mock.WaitForAllTimers(), "there is none to wait for")
}

func TestTimeoutRunsOnTheFakeClock(t *testing.T) { // T4
	mock := clock.NewMock()
	timeout := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "limit", Limit: time.Hour, Clock: mock}))
	_, err := pipeline(t, timeout).Do(t.Context(), func(ctx context.Context) (int, error) {
		deadline, _ := ctx.Deadline()
		assert.Equal(t, mock.Now().Add(time.Hour), deadline)
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		mock.Add(time.Hour - 1)
		assert.NoError(t, ctx.Err())
		mock.Add(1)
		<-derived.Done()
		assert.Equal(t, context.DeadlineExceeded, derived.Err())
		assert.Equal(t, context.DeadlineExceeded, ctx.Err())
		assert.Equal(t, context.DeadlineExceeded, context.Cause(ctx))
		return 0, ctx.Err()
	})
	requireTimeout(t, err, "limit")
}

func TestTimeoutTakesThePipelinesClock(t *testing.T) {
	mock := clock.NewMock()
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
		Policies: []steady.Policy{newTimeout(t, steady.TimeoutConfig{Name: "limit", Limit: time.Hour})},
		Clock:    mock,
	}))
	_, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
		mock.Add(time.Hour)
		return untilDone(ctx)
	})
	requireTimeout(t, err, "limit")
}

func TestTimeoutNestedOnTheFakeClock(t *testing.T) { // T1, T4
	for _, fired := range []string{"outer", "inner"} {
		t.Run(fired, func(t *testing.T) {
			mock := clock.NewMock()
			limits := map[string]time.Duration{"outer": time.Hour, "inner": time.Hour, fired: time.Minute}
			p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
				Policies: []steady.Policy{newTimeout(t, steady.TimeoutConfig{Name: "outer", Limit: limits["outer"]}), newTimeout(t, steady.TimeoutConfig{Name: "inner", Limit: limits["inner"]})},
				Clock:    mock,
			}))
			_, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
				deadline, _ := ctx.Deadline()
				assert.Equal(t, mock.Now().Add(time.Minute), deadline)
				mock.Add(time.Minute)
				return untilDone(ctx)
			})
			requireTimeout(t, err, fired)
		})
	}
}

func TestTimeoutContextKeepsTheCallersCauseAndDeadline(t *testing.T) { // T4
	for name, clk := range map[string]steady.Clock{"system clock": nil, "fake clock": clock.NewMock()} {
		t.Run(name, func(t *testing.T) {
			p := pipeline(t, steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Hour, Clock: clk})))
			ctx, cancel := context.WithCancelCause(t.Context())
			_, err := p.Do(ctx, func(ctx context.Context) (int, error) {
				derived, stop := context.WithCancel(ctx)
				defer stop()
				cancel(errBoom)
				assert.Equal(t, context.Canceled, ctx.Err(), "at once")
				<-ctx.Done()
				<-derived.Done()
				assert.Equal(t, errBoom, context.Cause(ctx))
				assert.Equal(t, errBoom, context.Cause(derived))
				return 0, ctx.Err()
			})
			assert.Equal(t, context.Canceled, err)
		})
	}
}

func TestTimeoutSharedByManyCallsTellsThemApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 100
		timeout := newTimeout(t, steady.TimeoutConfig{Name: "limit", Limit: time.Second})
		p := pipeline(t, timeout)
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * ms)
				d := time.Duration(500+10*i) * ms
				v, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
					select {
					case <-ctx.Done():
						return 0, ctx.Err()
					case <-time.After(d + 1):
						return i, nil
					}
				})
				if d < time.Second {
					assert.NoError(t, err)
					assert.Equal(t, i, v)
				} else {
					assert.ErrorIs(t, err, steady.ErrTimeout)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, steady.TimeoutStats{Name: "limit", Expired: calls / 2}, timeout.Stats())
	})
}

// The fake clock's own contexts have a data race here.
func TestTimeoutContextOnTheFakeClockMayBeUsedByAnyNumberOfGoroutines(t *testing.T) { // T4
	mock := clock.NewMock()
	p := pipeline(t, steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Hour, Clock: mock})))
	_, err := p.Do(t.Context(), func(ctx context.Context) (int, error) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				derived, cancel := context.WithCancel(ctx)
				defer cancel()
				for ctx.Err() == nil {
					_, _ = ctx.Deadline()
				}
				<-derived.Done()
			})
		}
		mock.Add(time.Hour)
		wg.Wait()
		return 0, ctx.Err()
	})
	assert.ErrorIs(t, err, steady.ErrTimeout)
}
