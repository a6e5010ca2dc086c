package steady

import (
	"context"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lockWatch is a clock that looks at each reading whether the breaker's lock is held.
type lockWatch struct {
	clock.Clock
	b    *Breaker
	held []string
}

func (w *lockWatch) look(who string) {
	if w.b == nil {
		return
	}
	if w.b.mu.TryLock() {
		w.b.mu.Unlock()
	} else {
		w.held = append(w.held, who)
	}
}

func (w *lockWatch) Now() time.Time {
	w.look("clock")
	return w.Clock.Now()
}

func TestNeitherTheClockNorTheCallersCodeRunsUnderTheLock(t *testing.T) { // B13, B10, B2
	mock := clock.NewMock()
	w := &lockWatch{Clock: mock}
	w.b = Must(NewBreaker(BreakerConfig{
		MinCalls: 1, SlowThreshold: time.Second, HalfOpenProbes: 1, Clock: w,
		Rand: func() float64 { w.look("Rand"); return 0 },
		Hooks: &Hooks{
			OnTransition: func(Transition) { w.look("OnTransition") },
			OnReject:     func(context.Context, Rejection) { w.look("OnReject") },
		},
	}))
	p := Must(NewPipeline(PipelineConfig[int]{Policies: []Policy{w.b}}))
	end := func(err error) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return 0, err }
	}
	for range 2 {
		permit := Must(w.b.Allow())
		mock.Add(time.Second)
		assert.Equal(t, StateOpen, w.b.State()) // the call has become slow
		permit.Done(Success)
		_, err := w.b.Allow()
		require.ErrorIs(t, err, ErrBreakerOpen)
		mock.Add(time.Minute)
		_, _ = p.Do(t.Context(), end(context.DeadlineExceeded)) // a probe that fails
		w.b.Stats()
		mock.Add(time.Minute)
		_, release, err := p.Hold(t.Context(), end(nil))
		require.NoError(t, err)
		release(context.DeadlineExceeded)
		w.b.ForceOpen("")
		_, err = p.Do(t.Context(), end(nil))
		require.ErrorIs(t, err, ErrBreakerOpen)
		w.b.ForceClosed("")
		w.b.Reset("")
	}
	assert.Empty(t, w.held)
}

func TestAnOpenRejectionTakesNoLock(t *testing.T) { // B3
	b := Must(NewBreaker(BreakerConfig{MinCalls: 1, NoSlowCalls: true, OpenDuration: time.Hour}))
	Must(b.Allow()).Done(Transient)
	b.mu.Lock()
	rejected := make(chan error, 1)
	go func() {
		_, err := b.Allow()
		rejected <- err
	}()
	select {
	case err := <-rejected:
		b.mu.Unlock()
		assert.ErrorIs(t, err, ErrBreakerOpen)
	case <-time.After(10 * time.Second):
		b.mu.Unlock()
		t.Error("it waits for the lock")
		<-rejected
	}
}

func TestCallsInFlightStandInTheOrderInWhichTheyBecomeSlow(t *testing.T) { // B7
	for _, starts := range [][]instant{{1, 2, 3}, {3, 2, 1}, {2, 3, 1}, {2, 1, 3}, {1, 1, 0}} {
		var q dueQueue
		for _, at := range starts { // another goroutine may read the clock later, and come first
			q.add(new(due), new(ticket), at)
		}
		last := instant(0)
		for q.first != nil {
			assert.GreaterOrEqual(t, q.first.at, last, "%v", starts)
			last = q.first.at
			q.remove(q.first)
		}
		assert.Nil(t, q.last)
	}
}
