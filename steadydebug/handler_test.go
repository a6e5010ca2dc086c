package steadydebug_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadydebug"
)

func TestTheHandlerWorksWhereverItIsMounted(t *testing.T) {
	h := newHandler(t, steadydebug.HandlerConfig{})
	mux := http.NewServeMux()
	mux.Handle("/debug/steady", h)
	mux.Handle("/a/b/", h)
	mux.Handle("/stripped/", http.StripPrefix("/stripped/", h))
	mux.Handle("/strip", http.StripPrefix("/strip", h))
	mux.Handle("/{$}", h)
	for _, at := range []string{"/debug/steady", "/a/b/", "/stripped/", "/strip", "/"} {
		w := get(mux, at)
		assert.Equal(t, http.StatusOK, w.Code, at)
		assert.Contains(t, w.Body.String(), "<!doctype html>", at)
		assert.Contains(t, w.Body.String(), `EventSource("?format=events")`, "the page asks for its own address: %s", at)

		w = get(mux, at+"?format=json")
		assert.Equal(t, http.StatusOK, w.Code, at)
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"), at)

		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		w = httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, at+"?format=events", nil).WithContext(ctx))
		assert.Equal(t, http.StatusOK, w.Code, at)
		assert.True(t, strings.HasPrefix(w.Body.String(), "event: snapshot\n"), at)
	}
}

func TestTheHandlerAnswersGetAndHeadAlone(t *testing.T) {
	h := newHandler(t, steadydebug.HandlerConfig{})
	server := httptest.NewServer(h)
	defer server.Close()
	for _, format := range []string{"", "?format=json", "?format=events"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, "/"+format, nil))
			assert.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
			assert.Equal(t, "GET, HEAD", w.Header().Get("Allow"), method)
		}
		res, err := http.Head(server.URL + "/" + format)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, http.StatusOK, res.StatusCode, "HEAD of %q ends", format)
		assert.Empty(t, body)
	}
	assert.Equal(t, http.StatusBadRequest, get(h, "/?format=xml").Code)
}

func TestEveryAnswerHasStrictHeaders(t *testing.T) {
	h := newHandler(t, steadydebug.HandlerConfig{})
	for _, target := range []string{"/", "/?format=json", "/?format=xml"} {
		header := get(h, target).Header()
		assert.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
		assert.Equal(t, "no-store", header.Get("Cache-Control"))
		assert.Empty(t, header.Get("Access-Control-Allow-Origin"))
		policy := header.Get("Content-Security-Policy")
		for _, directive := range []string{
			"default-src 'none'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
			"require-trusted-types-for 'script'", "trusted-types 'none'",
		} {
			assert.Contains(t, strings.Split(policy, "; "), directive)
		}
		assert.NotContains(t, policy, "unsafe")
	}
}

func TestAConfigThatCannotBeShownIsRefusedWithAllItsFaults(t *testing.T) {
	catalog := newDependency(t, "catalog", nil)
	_, err := steadydebug.NewHandler(steadydebug.HandlerConfig{
		Dependencies: []*steady.Dependency{catalog, nil, newDependency(t, "catalog", nil)},
		Breakers:     []*steady.Breaker{nil, catalog.Breaker()},
	})
	require.Error(t, err)
	for _, fault := range []string{
		"steadydebug: HandlerConfig.Dependencies[1] must not be nil",
		`steadydebug: HandlerConfig.Dependencies[2]: the name "catalog" is taken`,
		"steadydebug: HandlerConfig.Breakers[0] must not be nil",
		`steadydebug: HandlerConfig.Breakers[1]: the name "catalog" is taken`,
	} {
		assert.ErrorContains(t, err, fault)
	}
}

func TestAddShowsAllOfItsDependenciesOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{Dependencies: []*steady.Dependency{newDependency(t, "catalog", nil)}})
		err := h.Add(newDependency(t, "payments", nil), newDependency(t, "catalog", nil), nil)
		assert.ErrorContains(t, err, `Add[1]: the name "catalog" is taken`)
		assert.ErrorContains(t, err, "Add[2] must not be nil")
		named := steady.Must(steady.NewDependency(steady.DependencyConfig{
			Name: "orders", NoTimeout: true, NoBulkhead: true, NoRetry: true,
			Breaker: steady.BreakerConfig{Name: "catalog", SlowThreshold: slowThreshold},
		}))
		assert.ErrorContains(t, h.Add(named), "is taken", "transitions have the breaker's name")
		nextReading()
		require.Len(t, read(t, h).Dependencies, 1)

		require.NoError(t, h.Add(newDependency(t, "payments", nil)))
		require.NoError(t, h.AddBreaker(newBreaker(t, "queue", nil)))
		require.Error(t, h.AddBreaker(newBreaker(t, "queue", nil)))
		nextReading()
		var names []string
		for _, d := range read(t, h).Dependencies {
			names = append(names, d.Name)
		}
		assert.Equal(t, []string{"catalog", "payments", "queue"}, names)
	})
}

func TestDynamicDependenciesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newDependency(t, "a", nil), newDependency(t, "b", nil)
		var now atomic.Pointer[[]*steady.Dependency]
		now.Store(new([]*steady.Dependency))
		h := newHandler(t, steadydebug.HandlerConfig{
			Dependencies: []*steady.Dependency{newDependency(t, "fixed", nil)},
			Dynamic:      func() []*steady.Dependency { return *now.Load() },
		})
		ids := func(want ...*steady.Dependency) map[string]uint64 {
			now.Store(&want)
			nextReading()
			ids := make(map[string]uint64)
			for _, d := range read(t, h).Dependencies {
				require.NotContains(t, ids, d.Name)
				ids[d.Name] = d.ID
			}
			return ids
		}
		synctest.Wait()
		assert.Equal(t, map[string]uint64{"fixed": 1}, ids())
		assert.Equal(t, map[string]uint64{"fixed": 1, "a": 2, "b": 3}, ids(a, b))
		assert.Equal(t, map[string]uint64{"fixed": 1, "b": 3}, ids(nil, b, b), "nil and repetitions do no harm")
		assert.Equal(t, map[string]uint64{"fixed": 1, "a": 4, "b": 3}, ids(b, a), "one that is back is a new one")
	})
}

func TestAPanicOfDynamicLeavesWhatItHadReturned(t *testing.T) {
	usual := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	defer slog.SetDefault(usual)
	synctest.Test(t, func(t *testing.T) {
		passing := []*steady.Dependency{newDependency(t, "a", nil)}
		var broken atomic.Bool
		h := newHandler(t, steadydebug.HandlerConfig{Dynamic: func() []*steady.Dependency {
			if broken.Load() {
				panic("a func")
			}
			return passing
		}})
		call(pipeline(t, passing[0]), 3, 0, nil)
		nextReading()
		call(pipeline(t, passing[0]), 3, 0, nil)
		nextReading()
		before := read(t, h)
		require.Len(t, before.Dependencies, 1)
		broken.Store(true)
		nextReading()
		after := read(t, h)
		require.Len(t, after.Dependencies, 1, "it has not gone")
		assert.Equal(t, before.Dependencies[0].ID, after.Dependencies[0].ID)
		assert.Contains(t, after.Dependencies[0].History.Answered, uint32(3), "nor is its history lost")
	})
}

func TestAPanicOfTheCallersDoesNotEndTheReading(t *testing.T) {
	var log bytes.Buffer
	usual := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(usual)
	synctest.Test(t, func(t *testing.T) {
		bad := newBreaker(t, "bad", &steady.Hooks{OnTransition: func(steady.Transition) { panic("a hook") }})
		h := newHandler(t, steadydebug.HandlerConfig{
			Breakers: []*steady.Breaker{bad, newBreaker(t, "good", nil)},
			Dynamic:  func() []*steady.Dependency { panic("a func") },
		})
		for range 10 { // permits that are never done: the handler is the first to see that they are overdue
			steady.Must(bad.Allow())
		}
		nextReading()
		nextReading()
		s := read(t, h)
		assert.Equal(t, uint64(3), s.Sequence)
		assert.Equal(t, "open", s.Dependencies[0].Breaker.State, "the reading after the panic")
		assert.Equal(t, "good", s.Dependencies[1].Name)
	})
	assert.Contains(t, log.String(), `dependency=bad panic="a hook"`)
	assert.Contains(t, log.String(), `panic="a func"`)
}

func TestAClosedHandlerAnswersWithUnavailable(t *testing.T) {
	h := newHandler(t, steadydebug.HandlerConfig{})
	h.Close()
	h.Close()
	for _, target := range []string{"/", "/?format=json", "/?format=events"} {
		assert.Equal(t, http.StatusServiceUnavailable, get(h, target).Code)
	}
}

func TestAHookMayCloseTheHandlerThatCalledIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *steadydebug.Handler
		b := newBreaker(t, "b", &steady.Hooks{OnTransition: func(steady.Transition) { h.Close() }})
		h = newHandler(t, steadydebug.HandlerConfig{Breakers: []*steady.Breaker{b}})
		for range 10 {
			steady.Must(b.Allow())
		}
		nextReading()
		assert.Equal(t, http.StatusServiceUnavailable, get(h, "/").Code)
	})
}

func TestThousandBreakersAreReadByOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		h := newHandler(t, steadydebug.HandlerConfig{Breakers: thousand(t)})
		nextReading()
		assert.Len(t, read(t, h).Dependencies, 1000)
		assert.LessOrEqual(t, runtime.NumGoroutine(), before+1)
	})
}

func TestThePageListensToTransitionsAlone(t *testing.T) {
	hooks := newHandler(t, steadydebug.HandlerConfig{}).Hooks()
	assert.NotNil(t, hooks.OnTransition)
	hooks.OnTransition = nil
	assert.Equal(t, steady.Hooks{}, *hooks, "everything else would be on the path of each call")
}

func thousand(tb testing.TB) []*steady.Breaker {
	tb.Helper()
	breakers := make([]*steady.Breaker, 1000)
	for i := range breakers {
		b, err := steady.NewBreaker(steady.BreakerConfig{Name: fmt.Sprintf("dependency-%03d", i), SlowThreshold: time.Second})
		require.NoError(tb, err)
		breakers[i] = b
	}
	return breakers
}
