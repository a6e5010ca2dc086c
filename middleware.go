package steady

import (
	"context"
	"errors"
	"sync"
)

// Middleware is a policy of the caller's own: it calls next with a context, zero times or more, one call
// after the other, and returns what is to be the answer. When it does not call next, nothing ran, and the
// breakers around it hear Ignored. A call of next while another one runs, or after the Middleware has
// returned, does nothing and returns an error; a Middleware that returns while next is running on another
// goroutine is held back until that has returned.
//
// Each call of a Middleware costs an allocation.
type Middleware func(ctx context.Context, next func(context.Context) error) error

var errNextMisused = errors.New("steady: a Middleware may call next only before it returns, and one call at a time")

func (m Middleware) absent() bool { return m == nil }

func (m Middleware) stage(p *plan, next handler) handler {
	p.repeats = true
	return &middlewareStage{m: m, next: next}
}

type middlewareStage struct {
	m    Middleware
	next handler
}

func (s *middlewareStage) handle(ctx context.Context, c *call) error {
	n := &nextCalls{stage: s, c: c}
	defer n.end()
	c.fresh = false
	return s.m(ctx, n.call)
}

// nextCalls are the calls of next by one call of a Middleware.
type nextCalls struct {
	stage   *middlewareStage
	c       *call
	running sync.WaitGroup // the one call of next; waited for as a testing/synctest bubble understands

	mu          sync.Mutex
	busy, ended bool
	again       bool
}

func (n *nextCalls) call(ctx context.Context) error {
	if !n.enter() {
		return errNextMisused
	}
	defer n.leave()
	if n.again {
		n.c.owner.drop()
		n.c.begin()
	}
	n.again = true
	n.c.fresh = false
	defer func() { n.c.fresh = false }()
	return n.stage.next.handle(ctx, n.c)
}

func (n *nextCalls) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy || n.ended {
		return false
	}
	n.busy = true
	n.running.Add(1)
	return true
}

func (n *nextCalls) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy = false
	n.running.Done()
}

func (n *nextCalls) end() {
	n.mu.Lock()
	n.ended = true
	n.mu.Unlock()
	n.running.Wait()
}
