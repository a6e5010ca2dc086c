package steady_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/steady-go/steady"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// within runs fn under a Timeout of a minute.
func within(t *testing.T, ctx context.Context, c steady.Clock, fn func(ctx context.Context)) error {
	t.Helper()
	limit := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "t", Limit: time.Minute, Clock: c}))
	return pipeline(t, limit).Run(ctx, func(ctx context.Context) error {
		fn(ctx)
		return context.Cause(ctx)
	})
}

func TestAFunctionThatAsksForTheDeadlineOnlyTakesNoTimer(t *testing.T) { // T4
	counted := &timerClock{Mock: clock.NewMock()}
	limit := steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Minute, Clock: counted}))
	require.NoError(t, pipeline(t, limit).Run(t.Context(), func(ctx context.Context) error {
		at, ok := ctx.Deadline()
		assert.True(t, ok)
		assert.True(t, at.Equal(counted.Now().Add(time.Minute)), at)
		assert.NoError(t, ctx.Err())
		assert.Nil(t, ctx.Value("key"))
		return nil
	}))
	assert.Empty(t, counted.armed)
}

func TestTheContextEndsAtItsLimitWhateverWasAskedOfIt(t *testing.T) { // T1
	asks := map[string]func(ctx context.Context){
		"nothing":          func(context.Context) {},
		"Err":              func(ctx context.Context) { _ = ctx.Err() },
		"Done":             func(ctx context.Context) { ctx.Done() },
		"Value":            func(ctx context.Context) { ctx.Value(new(int)) },
		"String":           func(ctx context.Context) { _ = fmt.Sprint(ctx) },
		"of a child, Done": func(ctx context.Context) { context.WithValue(ctx, new(int), 1).Done() },
	}
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			mock := clock.NewMock()
			err := within(t, t.Context(), mock, func(ctx context.Context) {
				ask(ctx)
				mock.Add(time.Minute - 1)
				assert.NoError(t, ctx.Err())
				mock.Add(1)
				assert.Equal(t, context.DeadlineExceeded, ctx.Err())
				assert.Equal(t, context.DeadlineExceeded, context.Cause(ctx))
				<-ctx.Done()
			})
			require.ErrorIs(t, err, steady.ErrTimeout)

			synctest.Test(t, func(t *testing.T) {
				err := within(t, t.Context(), nil, func(ctx context.Context) {
					ask(ctx)
					time.Sleep(time.Minute - 1)
					assert.NoError(t, ctx.Err())
					time.Sleep(time.Nanosecond)
					synctest.Wait() // the timer, where there is one
					assert.Equal(t, context.DeadlineExceeded, ctx.Err())
					assert.Equal(t, context.DeadlineExceeded, context.Cause(ctx))
					<-ctx.Done()
				})
				require.ErrorIs(t, err, steady.ErrTimeout)
			})
		})
	}
}

func TestTheContextFollowsItsParentAndKeepsTheCause(t *testing.T) { // T1
	errLeft := errors.New("left")
	for _, c := range []steady.Clock{nil, clock.NewMock()} {
		for _, done := range []bool{false, true} {
			parent, cancel := context.WithCancelCause(t.Context())
			_ = within(t, parent, c, func(ctx context.Context) {
				if done {
					ctx.Done()
				}
				child, stop := context.WithCancel(context.WithValue(ctx, new(int), 1))
				defer stop()
				cancel(errLeft)
				assert.Equal(t, context.Canceled, ctx.Err())
				assert.Equal(t, errLeft, context.Cause(ctx))
				<-ctx.Done()
				<-child.Done()
				assert.Equal(t, errLeft, context.Cause(child))
			})
		}
	}
}

func TestTheContextTellsAnEarlierDeadlineOfItsParent(t *testing.T) { // T1
	sooner := time.Now().Add(time.Second)
	parent, cancel := context.WithDeadline(t.Context(), sooner)
	defer cancel()
	require.NoError(t, within(t, parent, nil, func(ctx context.Context) {
		at, ok := ctx.Deadline()
		assert.True(t, ok)
		assert.Equal(t, sooner, at)
	}))
}

func TestAContextThatOutlivesItsCallHasEnded(t *testing.T) { // T4
	for _, c := range []steady.Clock{nil, clock.NewMock()} {
		for _, done := range []bool{false, true} {
			var kept context.Context
			require.NoError(t, within(t, t.Context(), c, func(ctx context.Context) {
				kept = ctx
				if done {
					ctx.Done()
				}
			}))
			assert.Equal(t, context.Canceled, kept.Err())
			<-kept.Done()
		}
	}
}

// The context package watches a parent that it does not know from a goroutine.
func TestContextsMadeOfTheContextTakeNoGoroutine(t *testing.T) { // T1
	for _, c := range []steady.Clock{nil, clock.NewMock()} {
		require.NoError(t, within(t, t.Context(), c, func(ctx context.Context) {
			before := runtime.NumGoroutine()
			for range 100 {
				child, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				defer context.AfterFunc(child, func() {})()
			}
			assert.Less(t, runtime.NumGoroutine(), before+50)
		}))
	}
}

func TestTheContextMayBeSharedByManyGoroutines(t *testing.T) { // T1
	for range 50 {
		var users sync.WaitGroup
		require.NoError(t, within(t, t.Context(), nil, func(ctx context.Context) {
			for range 4 {
				users.Go(func() { <-ctx.Done() })
				users.Go(func() {
					for ctx.Err() == nil {
						runtime.Gosched()
					}
				})
				users.Go(func() {
					child, cancel := context.WithCancel(ctx)
					defer cancel()
					<-child.Done()
				})
			}
		})) // which cancels it
		users.Wait()
	}
}

func TestAnOuterLimitOnAnotherClockIsSeen(t *testing.T) { // T1
	synctest.Test(t, func(t *testing.T) {
		outer := newTimeout(t, steady.TimeoutConfig{Name: "outer", Limit: time.Second})
		inner := newTimeout(t, steady.TimeoutConfig{Name: "inner", Limit: time.Hour, Clock: clock.NewMock()})
		err := pipeline(t, outer).Run(t.Context(), func(ctx context.Context) error {
			return pipeline(t, inner).Run(ctx, func(ctx context.Context) error {
				for range 10 {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					time.Sleep(time.Second)
				}
				return errors.New("the context has never ended")
			})
		})
		require.ErrorIs(t, err, steady.ErrTimeout)
	})
}

func TestAnOuterLimitOnAnotherClockKeepsTheFunctionFromBeingCalled(t *testing.T) { // O1
	synctest.Test(t, func(t *testing.T) {
		outer := newTimeout(t, steady.TimeoutConfig{Limit: time.Second})
		wait := steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
			time.Sleep(2 * time.Second)
			return next(ctx)
		})
		onMock := newBulkhead(t, steady.BulkheadConfig{MaxConcurrent: 1, Clock: clock.NewMock()})
		ran := false
		err := pipeline(t, outer).Run(t.Context(), func(ctx context.Context) error {
			return pipeline(t, wait, onMock).Run(ctx, func(context.Context) error { ran = true; return nil })
		})
		require.ErrorIs(t, err, steady.ErrTimeout)
		assert.False(t, ran)
	})
}

func TestTheDeadlineIsTheSameEachTime(t *testing.T) { // T1
	require.NoError(t, within(t, t.Context(), nil, func(ctx context.Context) {
		first, _ := ctx.Deadline()
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		for range 1000 {
			again, _ := ctx.Deadline()
			require.Equal(t, first, again)
		}
		again, _ := child.Deadline()
		assert.Equal(t, first, again)
	}))
}

func TestDoneIsClosedWhenTheParentHasEnded(t *testing.T) { // T1
	for _, c := range []steady.Clock{nil, clock.NewMock()} {
		parent, cancel := context.WithCancel(t.Context())
		_ = within(t, parent, c, func(ctx context.Context) {
			cancel()
			select {
			case <-ctx.Done():
			default:
				t.Errorf("open on %T", c)
			}
		})
	}
}

func TestAContextFirstAskedAfterItsCallIsCanceled(t *testing.T) { // T4
	synctest.Test(t, func(t *testing.T) {
		var kept context.Context
		parent, cancel := context.WithCancelCause(t.Context())
		require.NoError(t, within(t, parent, nil, func(ctx context.Context) { kept = ctx }))
		cancel(errors.New("later"))
		time.Sleep(2 * time.Minute)
		assert.Equal(t, context.Canceled, kept.Err())
		assert.Equal(t, context.Canceled, context.Cause(kept))
	})
}

func TestErrAndCauseAgreeWhenBothTheLimitAndTheParentHaveEnded(t *testing.T) { // T1
	for _, asked := range []bool{false, true} {
		mock := clock.NewMock()
		parent, cancel := context.WithCancelCause(t.Context())
		_ = within(t, parent, mock, func(ctx context.Context) {
			mock.Add(2 * time.Minute)
			err, cause := context.Canceled, errBoom
			if asked {
				err, cause = context.DeadlineExceeded, context.DeadlineExceeded
				require.Equal(t, err, ctx.Err())
			}
			cancel(errBoom)
			assert.Equal(t, err, ctx.Err())
			assert.Equal(t, cause, context.Cause(ctx))
		})
	}
}

// nosyClock does something the next time that somebody asks for the time.
type nosyClock struct {
	*clock.Mock
	next func()
}

func (c *nosyClock) Now() time.Time {
	if next := c.next; next != nil {
		c.next = nil
		next()
	}
	return c.Mock.Now()
}

func TestTheContextAsksTheClockWithoutALock(t *testing.T) { // T4
	nosy := &nosyClock{Mock: clock.NewMock()}
	require.NoError(t, within(t, t.Context(), nosy, func(ctx context.Context) {
		nosy.next = func() { ctx.Deadline() }
		ctx.Deadline()
	}))
	require.NoError(t, within(t, t.Context(), nosy, func(ctx context.Context) {
		nosy.next = func() { ctx.Done() }
		ctx.Done()
		assert.Nil(t, nosy.next, "it was asked")
	}))
}
