package steadydebug_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadydebug"
)

const slowThreshold = 500 * time.Millisecond

var errFailed = errors.New("failed")

// snapshot is what the tests read of one.
type snapshot struct {
	Schema       int
	Title        string
	At           time.Time
	Sequence     uint64
	Dependencies []dependency
	Transitions  []transition
}

type dependency struct {
	ID      uint64
	Name    string
	Breaker *struct {
		Name, State, Why string
		Since, OpenUntil *time.Time
		HooksJoined      bool
		Shadow           bool
		Calls, Slow      int
		InFlight         int
		Overdue          int
		Rejected         uint64
		Headroom         float64
	}
	Bulkhead *struct{ Limit, InFlight, Waiting, MaxQueue int }
	Retry    *struct{ Calls, Retries uint64 }
	Budget   *struct {
		Tokens float64
		Burst  int
	}
	Timeouts *struct{ Expired uint64 }
	Latest   counts
	History  struct{ Answered, Slow, Failed, Rejected []uint32 }
	Config   [][2]string
}

type counts struct{ Answered, Slow, Failed, Rejected uint32 }

type transition struct {
	Sequence                       uint64
	Breaker, From, To, Reason, Why string
	At                             time.Time
}

// newHandler returns a handler that is closed with the test.
func newHandler(t *testing.T, cfg steadydebug.HandlerConfig) *steadydebug.Handler {
	t.Helper()
	h, err := steadydebug.NewHandler(cfg)
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return h
}

// newDependency returns one with a breaker that five slow or failed calls open for exactly ten seconds.
func newDependency(t *testing.T, name string, hooks *steady.Hooks) *steady.Dependency {
	t.Helper()
	d, err := steady.NewDependency(steady.DependencyConfig{
		Name:     name,
		Timeout:  8 * time.Second,
		Retry:    steady.RetryConfig{NoDelay: true},
		Breaker:  steady.BreakerConfig{SlowThreshold: slowThreshold, WindowSize: 10, MinCalls: 5, NoOpenJitter: true},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 10},
		Hooks:    hooks,
	})
	require.NoError(t, err)
	return d
}

func newBreaker(t *testing.T, name string, hooks *steady.Hooks) *steady.Breaker {
	t.Helper()
	b, err := steady.NewBreaker(steady.BreakerConfig{Name: name, SlowThreshold: slowThreshold, NoOpenJitter: true, Hooks: hooks})
	require.NoError(t, err)
	return b
}

// pipeline returns calls that are not retried.
func pipeline(t *testing.T, d *steady.Dependency) *steady.Pipeline[struct{}] {
	t.Helper()
	p, err := steady.NewPipelineFor(d, steady.WriteNonIdempotent, steady.PipelineConfig[struct{}]{})
	require.NoError(t, err)
	return p
}

// call makes calls, one after the other, that take so long and end so.
func call(p *steady.Pipeline[struct{}], n int, takes time.Duration, end error) {
	for range n {
		_ = p.Run(context.Background(), func(context.Context) error {
			time.Sleep(takes)
			return end
		})
	}
}

// nextReading lets a second of the bubble pass, and the handler read.
func nextReading() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

// read returns the handler's last reading.
func read(t *testing.T, h http.Handler) snapshot {
	t.Helper()
	w := get(h, "/?format=json")
	require.Equal(t, http.StatusOK, w.Code)
	var s snapshot
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
	return s
}
