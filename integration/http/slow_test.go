package http_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/integration/internal/harness"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// journal is a base transport that notes when the call of each attempt began, and when it was sent.
type journal struct {
	http.RoundTripper
	mu   sync.Mutex
	sent []sent
}

type sent struct{ began, at time.Time }

func (j *journal) RoundTrip(req *http.Request) (*http.Response, error) {
	j.mu.Lock()
	j.sent = append(j.sent, sent{req.Context().Value(begunKey{}).(time.Time), time.Now()})
	j.mu.Unlock()
	return j.RoundTripper.RoundTrip(req)
}

type begunKey struct{}

// transitions collects what a breaker tells.
type transitions struct {
	mu  sync.Mutex
	all []steady.Transition
}

func (ts *transitions) add(t steady.Transition) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.all = append(ts.all, t)
}

func (ts *transitions) list() []steady.Transition {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return append([]steady.Transition(nil), ts.all...)
}

func TestADependencyThatTurnsSlowAndRecovers(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) { slowAndBack(t, p) })
	}
}

// slowAndBack makes 100 calls a second of a server that answers in 80 ms, then in 3 s, then in 80 ms.
func slowAndBack(t *testing.T, p protocol) {
	w := newWorld(t, p, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	var ts transitions
	log := &journal{RoundTripper: w.base}
	tr := w.transport(steadyhttp.Config{Base: log, Dependency: steady.DependencyConfig{
		Name:     "server",
		Timeout:  2500 * time.Millisecond,
		NoRetry:  true, // so that a call is admitted where it begins
		Breaker:  steady.BreakerConfig{SlowThreshold: time.Second, OpenDuration: 300 * time.Millisecond},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 40},
		Hooks:    &steady.Hooks{OnTransition: ts.add},
	}})
	breaker := tr.Dependency("").Breaker()
	latency := func(d time.Duration) {
		w.proxy.Heal()
		w.proxy.Add(harness.Toxic{Type: "latency", Attributes: map[string]any{"latency": d.Milliseconds()}})
	}

	latency(80 * time.Millisecond)
	stop, loaded := make(chan bool), make(chan bool)
	go func() {
		defer close(loaded)
		var callers sync.WaitGroup
		defer callers.Wait()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				callers.Go(func() {
					ctx := context.WithValue(t.Context(), begunKey{}, time.Now())
					_, _ = w.call(ctx, tr, http.MethodGet, w.url, "")
				})
			}
		}
	}()
	until := func(what string, happened func() bool) time.Duration {
		t.Helper()
		start := time.Now()
		require.Eventually(t, happened, patience, time.Millisecond, what)
		return time.Since(start)
	}
	answered := func(n int64) func() bool {
		from := w.ledger.Answered.Load()
		return func() bool { return w.ledger.Answered.Load() >= from+n }
	}
	until("healthy", answered(40))
	until("closed", func() bool { return breaker.State() == steady.StateClosed })
	slowAt := time.Now()
	latency(3 * time.Second)
	until("open", func() bool { return breaker.State() != steady.StateClosed })
	until("a probe that takes too long", func() bool {
		return slices.ContainsFunc(ts.list(), func(tn steady.Transition) bool {
			return tn.From == steady.StateHalfOpen && tn.To == steady.StateOpen && tn.At.After(slowAt)
		})
	})
	latency(80 * time.Millisecond)
	back := until("closed", func() bool { return breaker.State() == steady.StateClosed })
	until("healthy again", answered(40))
	close(stop)
	<-loaded

	all := ts.list()
	i := slices.IndexFunc(all, func(tn steady.Transition) bool { return tn.To == steady.StateOpen && tn.At.After(slowAt) })
	require.GreaterOrEqual(t, i, 0)
	opened := all[i]
	assert.Equal(t, steady.ReasonSlowRate, opened.Reason, opened.String())
	assertNothingAdmittedWhileOpen(t, log, all)
	assert.Positive(t, w.ledger.Rejected.Load())
	w.close("slow and back, "+p.name, tr, "opened %v after the slowdown (threshold 1s, answers 3s), closed %v after the recovery",
		opened.At.Sub(slowAt).Round(time.Millisecond), back.Round(time.Millisecond))
}

// assertNothingAdmittedWhileOpen checks the log of calls: no call that began after the breaker had opened, by its own
// account of when that was, was sent before the open period ended.
func assertNothingAdmittedWhileOpen(t *testing.T, log *journal, all []steady.Transition) {
	t.Helper()
	var checked atomic.Int64
	for _, tn := range all {
		if tn.To != steady.StateOpen {
			continue
		}
		for _, s := range log.sent {
			if s.began.After(tn.At) && s.at.Before(tn.At.Add(tn.OpenFor)) {
				assert.Fail(t, "admitted while open", "%v after %v", s.began.Sub(tn.At), tn)
			}
			checked.Add(1)
		}
	}
	assert.Positive(t, checked.Load())
}
