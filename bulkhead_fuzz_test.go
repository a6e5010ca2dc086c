package steady_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// FuzzBulkhead runs random programs on a Bulkhead and on a list of visits that is gone through at every
// step. In a bubble each step is over before the next begins, so who waits, who is inside and who was
// turned away must be the same all along.
//
// A seed is named after the rule that a bulkhead breaks which differs on it.
func FuzzBulkhead(f *testing.F) {
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 200 {
			t.Skip("long programs find nothing that shorter ones do not")
		}
		synctest.Test(t, func(t *testing.T) {
			x := newBulkheadDuel(t, program)
			for len(x.program) > 0 {
				x.step()
				x.compare()
			}
			x.leave()
		})
	})
}

// bulkheadDuel is a bulkhead and what is to be true of it.
type bulkheadDuel struct {
	t       *testing.T
	program []byte
	b       *steady.Bulkhead

	limit, queue int
	wait         time.Duration
	visits       []*visit // in the order of their arrival
	rejected     int
}

// visit is an Acquire, and what is to become of it.
type visit struct {
	*acquired
	cancel  func()
	waiting bool
	inside  bool
	until   time.Time // waits no longer
	wantErr error
}

func newBulkheadDuel(t *testing.T, program []byte) *bulkheadDuel {
	x := &bulkheadDuel{t: t, program: program}
	cfg := steady.BulkheadConfig{MaxConcurrent: 1 + x.below(3), MaxWait: time.Duration(x.below(3)) * 10 * time.Millisecond}
	if queue := x.below(4); cfg.MaxWait > 0 {
		cfg.MaxQueue = queue
	}
	x.b = newBulkhead(t, cfg)
	x.limit, x.wait, x.queue = cfg.MaxConcurrent, cfg.MaxWait, cfg.MaxQueue
	if x.wait > 0 && x.queue == 0 {
		x.queue = x.limit
	}
	return x
}

// below takes a number from the program. After its end there are zeros.
func (x *bulkheadDuel) below(n int) int {
	if len(x.program) == 0 {
		return 0
	}
	b := x.program[0]
	x.program = x.program[1:]
	return int(b) % n
}

func (x *bulkheadDuel) step() {
	switch x.below(8) {
	case 0, 1:
		x.acquire(false)
	case 2:
		x.acquire(true)
	case 3, 4:
		x.release()
	case 5:
		x.cancel()
	case 6:
		x.limit = 1 + x.below(4)
		require.NoError(x.t, x.b.SetMaxConcurrent(x.limit))
	case 7:
		time.Sleep(time.Duration(x.below(16)) * time.Millisecond)
	}
	synctest.Wait()
	x.expire()
	x.grant()
}

func (x *bulkheadDuel) count(is func(*visit) bool) (n int) {
	for _, v := range x.visits {
		if is(v) {
			n++
		}
	}
	return n
}

func (x *bulkheadDuel) inside() int  { return x.count(func(v *visit) bool { return v.inside }) }
func (x *bulkheadDuel) waiting() int { return x.count(func(v *visit) bool { return v.waiting }) }

func (x *bulkheadDuel) acquire(done bool) {
	ctx, cancel := context.WithCancel(x.t.Context())
	v := &visit{cancel: cancel}
	switch {
	case done:
		cancel()
		v.wantErr = context.Canceled
	case x.inside() < x.limit && x.waiting() == 0:
		v.inside = true
	case x.waiting() < x.queue:
		v.waiting, v.until = true, time.Now().Add(x.wait)
	default:
		x.reject(v)
	}
	x.visits = append(x.visits, v)
	v.acquired = acquireLater(ctx, x.b)
}

func (x *bulkheadDuel) reject(v *visit) {
	v.waiting, v.wantErr = false, steady.ErrBulkheadFull
	x.rejected++
}

// pick returns any of the visits, over ones too, or nil when there was none.
func (x *bulkheadDuel) pick() *visit {
	if len(x.visits) == 0 {
		return nil
	}
	return x.visits[x.below(len(x.visits))]
}

// release releases a slot, maybe again, or what is none.
func (x *bulkheadDuel) release() {
	if v := x.pick(); v != nil && v.done {
		v.inside = false
		v.slot.Release()
	}
}

// cancel cancels the context of a waiter, or of one that has no need of it any more.
func (x *bulkheadDuel) cancel() {
	v := x.pick()
	if v == nil {
		return
	}
	if v.waiting {
		v.waiting, v.wantErr = false, context.Canceled
	}
	v.cancel()
}

func (x *bulkheadDuel) expire() {
	for _, v := range x.visits {
		if v.waiting && !time.Now().Before(v.until) {
			x.reject(v)
		}
	}
}

func (x *bulkheadDuel) grant() {
	for x.inside() < x.limit {
		i := slices.IndexFunc(x.visits, func(v *visit) bool { return v.waiting })
		if i < 0 {
			return
		}
		x.visits[i].waiting, x.visits[i].inside = false, true
	}
}

func (x *bulkheadDuel) compare() {
	for i, v := range x.visits {
		require.Equal(x.t, !v.waiting, v.done, "visit %d", i)
		require.ErrorIs(x.t, v.err, v.wantErr, "visit %d", i)
	}
	require.Equal(x.t, steady.BulkheadStats{
		MaxConcurrent: x.limit,
		InFlight:      x.inside(),
		Waiting:       x.waiting(),
		MaxQueue:      x.queue,
		Rejected:      uint64(x.rejected),
	}, x.b.Stats())
}

// leave ends all visits.
func (x *bulkheadDuel) leave() {
	for _, v := range x.visits {
		v.cancel()
	}
	synctest.Wait()
	for _, v := range x.visits {
		require.True(x.t, v.done)
		v.slot.Release()
	}
	require.Zero(x.t, x.b.Stats().InFlight)
}
