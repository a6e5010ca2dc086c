package steady_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

var errBoom = errors.New("boom")

// newBreaker returns a breaker on a mock clock, without jitter, with the other fields as given.
func newBreaker(t testing.TB, cfg steady.BreakerConfig) (*steady.Breaker, *clock.Mock) {
	t.Helper()
	mock := clock.NewMock()
	cfg.Clock = mock
	if cfg.SlowThreshold == 0 && !cfg.NoSlowCalls {
		cfg.SlowThreshold = 500 * time.Millisecond
	}
	if cfg.Rand == nil && cfg.OpenJitter == 0 {
		cfg.NoOpenJitter = true
	}
	b, err := steady.NewBreaker(cfg)
	require.NoError(t, err)
	return b, mock
}

func newBulkhead(t testing.TB, cfg steady.BulkheadConfig) *steady.Bulkhead {
	t.Helper()
	b, err := steady.NewBulkhead(cfg)
	require.NoError(t, err)
	return b
}

func newRetry(t testing.TB, cfg steady.RetryConfig) *steady.Retry {
	t.Helper()
	r, err := steady.NewRetry(cfg)
	require.NoError(t, err)
	return r
}

func newTimeout(t testing.TB, cfg steady.TimeoutConfig) *steady.Timeout {
	t.Helper()
	timeout, err := steady.NewTimeout(cfg)
	require.NoError(t, err)
	return timeout
}

// allow asks for a permit that must be given.
func allow(t testing.TB, b *steady.Breaker) steady.Permit {
	t.Helper()
	p, err := b.Allow()
	require.NoError(t, err)
	return p
}

// call makes n calls through the two-step form, each taking d of the mock clock.
func call(t testing.TB, b *steady.Breaker, mock *clock.Mock, n int, d time.Duration, o steady.Outcome) {
	t.Helper()
	for range n {
		p := allow(t, b)
		if d > 0 {
			mock.Add(d)
		}
		p.Done(o)
	}
}

// pipeline returns a pipeline through the policies.
func pipeline(t testing.TB, policies ...steady.Policy) *steady.Pipeline[int] {
	t.Helper()
	p, err := steady.NewPipeline(steady.PipelineConfig[int]{Policies: policies})
	require.NoError(t, err)
	return p
}

// returns makes a function that returns just that.
func returns(v int, err error) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return v, err }
}

// transitions collects what a breaker's hook is told.
type transitions struct {
	mu  sync.Mutex
	all []steady.Transition
}

func (ts *transitions) hooks() *steady.Hooks {
	return &steady.Hooks{OnTransition: func(t steady.Transition) {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		ts.all = append(ts.all, t)
	}}
}

func (ts *transitions) list() []steady.Transition {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return append([]steady.Transition(nil), ts.all...)
}

// reasons lists why, in order.
func (ts *transitions) reasons() []steady.Reason {
	var rs []steady.Reason
	for _, t := range ts.list() {
		rs = append(rs, t.Reason)
	}
	return rs
}
