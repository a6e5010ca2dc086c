package steady

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// BulkheadConfig configures a [Bulkhead].
type BulkheadConfig struct {
	// Name is what errors, hooks and logs call the bulkhead.
	Name string
	// MaxConcurrent is how many calls may be inside. Required, at least 1. By Little's law the calls in
	// flight are their rate times their duration; the limit belongs above that and below the connection
	// pool.
	MaxConcurrent int
	// MaxWait is how long a call waits for a slot. 0 means not at all.
	MaxWait time.Duration
	// MaxQueue is how many calls may wait. Only with MaxWait; 0 then means MaxConcurrent.
	MaxQueue int
	// Hooks are told of rejections and waits.
	Hooks *Hooks
	// Clock is what MaxWait is measured on; nil means the pipeline's, and for Acquire the system clock.
	Clock Clock
}

// Bulkhead bounds the calls in flight: never more than MaxConcurrent are inside. What finds no slot is
// rejected with a *RejectedError, at once or, with MaxWait, after waiting in a queue, first come, first
// served. A slot belongs to the work, not to the wait: it is held until the function has returned.
//
// Most callers put a Bulkhead into a [Pipeline]; [Bulkhead.Acquire] is for those that cannot. It may be
// shared by any number of goroutines and pipelines.
type Bulkhead struct {
	cfg    BulkheadConfig
	hooks  *Hooks
	full   *RejectedError
	max    atomic.Int64 // written under mu
	reject atomic.Uint64

	// free is twice the number of free slots (negative after a shrink), plus 1 while callers wait. In one
	// word, so that taking a slot past a waiter, or giving one back behind its back, is impossible.
	free atomic.Int64

	mu          sync.Mutex
	first, last *waiter // in the order of their arrival; while there are any, no slot is free
	waiting     int
}

const (
	waitersBit = 1
	slot       = 2
)

// waiter is a caller in the queue. Its fields are guarded by the bulkhead's lock.
type waiter struct {
	granted    chan struct{} // closed when it was given a slot
	queued     bool
	prev, next *waiter
}

// BulkheadStats is a reading of a Bulkhead.
type BulkheadStats struct {
	Name          string
	MaxConcurrent int
	InFlight      int // slots held
	Waiting       int
	MaxQueue      int
	Rejected      uint64 // since construction
}

// NewBulkhead returns an empty bulkhead, or an error that names every field that is out of range.
func NewBulkhead(cfg BulkheadConfig) (*Bulkhead, error) {
	return newBulkhead(cfg, "BulkheadConfig")
}

func newBulkhead(cfg BulkheadConfig, label string) (*Bulkhead, error) {
	if err := cfg.complete(label); err != nil {
		return nil, err
	}
	b := &Bulkhead{
		cfg:   cfg,
		hooks: hooksOf(cfg.Hooks),
		full:  &RejectedError{Policy: cfg.Name, Reason: ErrBulkheadFull},
	}
	b.max.Store(int64(cfg.MaxConcurrent))
	b.free.Store(int64(cfg.MaxConcurrent) * slot)
	return b, nil
}

func (cfg *BulkheadConfig) complete(label string) error {
	f := faults{config: label}
	f.require(inRange(cfg.MaxConcurrent), "MaxConcurrent", "is required and must be in [1, 1<<30]", cfg.MaxConcurrent,
		"rate × duration of the calls, and fewer than the connection pool")
	f.duration("MaxWait", cfg.MaxWait, "0 rejects at once")
	f.require(cfg.MaxQueue >= 0, "MaxQueue", "must not be negative", cfg.MaxQueue, "0 means MaxConcurrent")
	if cfg.MaxWait == 0 {
		f.refuse(cfg.MaxQueue > 0, "MaxQueue is %d without MaxWait: nobody waits; set MaxWait or leave it out", cfg.MaxQueue)
	} else {
		setDefault(&cfg.MaxQueue, cfg.MaxConcurrent)
	}
	return f.err()
}

// inRange reports whether n can be a number of slots, on 32-bit machines too.
func inRange(n int) bool { return n >= 1 && n <= 1<<30 }

// Name returns the configured name.
func (b *Bulkhead) Name() string { return b.cfg.Name }

// Config returns the effective configuration, with MaxConcurrent as it was last set.
func (b *Bulkhead) Config() BulkheadConfig {
	cfg := b.cfg
	cfg.MaxConcurrent = int(b.max.Load())
	return cfg
}

// Stats returns a reading.
func (b *Bulkhead) Stats() BulkheadStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	limit := b.max.Load()
	return BulkheadStats{
		Name:          b.cfg.Name,
		MaxConcurrent: int(limit),
		InFlight:      int(limit - b.free.Load()>>1),
		Waiting:       b.waiting,
		MaxQueue:      b.cfg.MaxQueue,
		Rejected:      b.reject.Load(),
	}
}

// Slot is a place inside a Bulkhead. The zero value is one that was released.
type Slot struct {
	b        *Bulkhead
	released *atomic.Bool
}

// Acquire takes a slot, waiting for one as configured, for callers that cannot use a Pipeline. It returns
// ctx's error when ctx is done, even if a slot is free, or a *RejectedError.
func (b *Bulkhead) Acquire(ctx context.Context) (Slot, error) {
	if err := ctx.Err(); err != nil {
		return Slot{}, err
	}
	if !b.take() {
		if err := b.wait(ctx, newTimekeeper(b.cfg.Clock)); err != nil {
			return Slot{}, err
		}
	}
	return Slot{b: b, released: new(atomic.Bool)}, nil
}

// Release gives the slot back. Only the first Release of a slot, and of its copies, counts.
func (s Slot) Release() {
	if s.b != nil && !s.released.Swap(true) {
		s.b.release()
	}
}

// SetMaxConcurrent changes the limit, in [1, 1<<30], without blocking. A higher one lets waiting calls in;
// a lower one takes effect as calls finish.
func (b *Bulkhead) SetMaxConcurrent(n int) error {
	f := faults{config: fmt.Sprintf("bulkhead %q", b.cfg.Name)}
	f.require(inRange(n), "SetMaxConcurrent", "must be in [1, 1<<30]", n, "to admit nothing, ForceOpen a Breaker")
	if err := f.err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	more := int64(n) - b.max.Swap(int64(n))
	b.free.Add(more * slot)
	b.grant()
	return nil
}

// take takes a free slot that nobody waits for.
func (b *Bulkhead) take() bool {
	for {
		free := b.free.Load()
		if free < slot || free&waitersBit != 0 {
			return false
		}
		if b.free.CompareAndSwap(free, free-slot) {
			return true
		}
	}
}

// release gives a slot back, to the first waiter if there is one.
func (b *Bulkhead) release() {
	for {
		free := b.free.Load()
		if free&waitersBit != 0 {
			break
		}
		if b.free.CompareAndSwap(free, free+slot) {
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free.Add(slot)
	b.grant()
}

// grant hands free slots to waiters. b.mu must be held.
func (b *Bulkhead) grant() {
	for b.first != nil && b.free.Load() >= slot {
		w := b.first
		b.free.Add(-slot) // first: without the last waiter's bit it could be taken
		b.dequeue(w)
		close(w.granted)
	}
}

// wait takes a slot when none was free, waiting for it as configured.
func (b *Bulkhead) wait(ctx context.Context, time timekeeper) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, ok := b.enqueue()
	if !ok {
		return b.rejected(ctx, false)
	}
	if w == nil {
		return nil
	}
	var began instant
	if b.hooks.OnWait != nil {
		began = time.now()
	}
	timer := time.timer(b.cfg.MaxWait)
	defer timer.Stop()
	select {
	case <-w.granted:
	case <-ctx.Done():
	case <-timer.C:
	}
	granted := b.giveUp(w)
	err := ctx.Err()
	if granted && err != nil { // a done context beats a slot
		b.release()
	}
	if b.hooks.OnWait != nil {
		b.waited(ctx, Wait{Policy: b.cfg.Name, Duration: time.now().since(began), Admitted: granted && err == nil})
	}
	if granted || err != nil {
		return err
	}
	return b.rejected(ctx, true)
}

// waited tells the hook. When that panics, the slot goes back.
func (b *Bulkhead) waited(ctx context.Context, w Wait) {
	told := false
	defer func() {
		if !told && w.Admitted {
			b.release()
		}
	}()
	b.hooks.OnWait(ctx, w)
	told = true
}

// enqueue joins the queue, or reports false when there is no room in it. It returns no waiter when a slot
// has become free meanwhile, and was taken.
func (b *Bulkhead) enqueue() (*waiter, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.waiting == 0 {
		free := b.free.Load()
		if free < slot {
			if b.cfg.MaxWait == 0 {
				return nil, false
			}
			if b.free.CompareAndSwap(free, free|waitersBit) {
				break
			}
		} else if b.free.CompareAndSwap(free, free-slot) {
			return nil, true
		}
	}
	if b.waiting >= b.cfg.MaxQueue {
		return nil, false
	}
	w := &waiter{granted: make(chan struct{}), queued: true, prev: b.last}
	if b.last == nil {
		b.first = w
	} else {
		b.last.next = w
	}
	b.last = w
	b.waiting++
	return w, true
}

// giveUp leaves the queue. It reports whether the waiter has been granted a slot before.
func (b *Bulkhead) giveUp(w *waiter) (granted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.queued {
		return true
	}
	b.dequeue(w)
	return false
}

// dequeue takes a waiter out of the queue. b.mu must be held.
func (b *Bulkhead) dequeue(w *waiter) {
	if w.prev == nil {
		b.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		b.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	b.waiting--
	if b.waiting == 0 {
		b.free.Add(-waitersBit)
	}
}

// rejected counts a rejection and tells the hook.
func (b *Bulkhead) rejected(ctx context.Context, waited bool) error {
	b.reject.Add(1)
	if b.hooks.OnReject != nil {
		b.hooks.OnReject(ctx, Rejection{Policy: b.cfg.Name, Err: b.full, Waited: waited})
	}
	return b.full
}

func (b *Bulkhead) absent() bool { return b == nil }

func (b *Bulkhead) stage(p *plan, next handler) handler {
	return &bulkheadStage{b: b, time: p.time, next: next}
}

// bulkheadStage is a Bulkhead in a pipeline.
type bulkheadStage struct {
	b    *Bulkhead
	time timekeeper
	next handler
}

func (s *bulkheadStage) handle(ctx context.Context, c *call) error {
	if !s.b.take() {
		if err := s.b.wait(ctx, s.time); err != nil {
			c.end(cut)
			if errors.Is(err, ErrBulkheadFull) {
				c.end(rejected)
				c.rejection = s.b.full
			}
			return err
		}
		c.fresh = false
	}
	defer c.leave(keepsake{bulkhead: s.b})
	return s.next.handle(ctx, c)
}
