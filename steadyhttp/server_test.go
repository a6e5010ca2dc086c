package steadyhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAServerThatIsFullSaysSo(t *testing.T) {
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 2}))
	limit := steady.Must(steadyhttp.Middleware(bulkhead, steadyhttp.MiddlewareConfig{RetryAfter: 2500 * time.Millisecond}))
	inside, leave := make(chan bool), make(chan bool)
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside <- true; <-leave }))
	overEachProtocol(t, h, func(t *testing.T, url string, base *http.Transport) {
		client := &http.Client{Transport: base}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				resp, err := client.Get(url)
				if assert.NoError(t, err) {
					defer func() { _ = resp.Body.Close() }()
					assert.Equal(t, http.StatusOK, resp.StatusCode)
				}
			})
			<-inside
		}
		turnedAway := do(t, client.Do, request(t, http.MethodGet, url, nil))
		assert.Equal(t, "Service Unavailable\n", turnedAway.content)
		assert.Equal(t, http.StatusServiceUnavailable, turnedAway.status)
		assert.Equal(t, "3", turnedAway.header.Get("Retry-After"))
		leave <- true
		leave <- true
		wg.Wait()
		require.Eventually(t, func() bool { return bulkhead.Stats().InFlight == 0 }, time.Minute, time.Millisecond)
	})
}

func TestAClientThatGoesAwayLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Hour}))
		slot := steady.Must(bulkhead.Acquire(t.Context()))
		limit := steady.Must(steadyhttp.Middleware(bulkhead, steadyhttp.MiddlewareConfig{}))
		ctx, cancel := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		req := request(t, http.MethodGet, "/", nil).WithContext(ctx)
		done := make(chan bool)
		go func() {
			defer close(done)
			limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("served") })).
				ServeHTTP(w, req)
		}()
		synctest.Wait()
		require.Equal(t, 1, bulkhead.Stats().Waiting)
		start := time.Now()
		cancel()
		<-done
		assert.Zero(t, time.Since(start), "of the bubble's time")
		assert.Zero(t, bulkhead.Stats().Waiting)
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		slot.Release()
		assert.Zero(t, bulkhead.Stats().InFlight)
	})
}

// What a handler can do with its ResponseWriter it can do behind the middleware: flush, hijack, set deadlines.
func TestAHandlerGetsTheResponseWriterAsItIs(t *testing.T) {
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))
	limit := steady.Must(steadyhttp.Middleware(bulkhead, steadyhttp.MiddlewareConfig{}))
	given := httptest.NewRecorder()
	var got http.ResponseWriter
	limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { got = w })).
		ServeHTTP(given, request(t, http.MethodGet, "/", nil))
	assert.Same(t, given, got)
}

func TestAHandlerThatPanicsGivesItsSlotBack(t *testing.T) {
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))
	limit := steady.Must(steadyhttp.Middleware(bulkhead, steadyhttp.MiddlewareConfig{}))
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(errBoom) }))
	for range 3 {
		assert.PanicsWithValue(t, errBoom, func() { h.ServeHTTP(httptest.NewRecorder(), request(t, http.MethodGet, "/", nil)) })
		assert.Zero(t, bulkhead.Stats().InFlight)
	}
}

func TestAMiddlewareNeedsABulkhead(t *testing.T) {
	limit, err := steadyhttp.Middleware(nil, steadyhttp.MiddlewareConfig{RetryAfter: -1})
	assert.Nil(t, limit)
	require.ErrorContains(t, err, "needs a Bulkhead")
	require.ErrorContains(t, err, "RetryAfter must not be negative, got -1ns")
}

func TestARejectionBecomesAnAnswer(t *testing.T) {
	mock := clock.NewMock()
	b := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		NoSlowCalls: true, WindowSize: 1, OpenDuration: 10 * time.Second, NoOpenJitter: true, Clock: mock,
	}))
	steady.Must(b.Allow()).Done(steady.Transient)
	_, open := b.Allow()
	mock.Add(1500 * time.Millisecond)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"an open breaker":        {open, "9"},
		"wrapped":                {fmt.Errorf("prices: %w", open), "9"},
		"after attempts":         {&steady.RetryError{Reason: open, Last: errBoom}, "9"},
		"a full bulkhead":        {&steady.RejectedError{Reason: steady.ErrBulkheadFull}, "1"},
		"another error":          {errBoom, ""},
		"nothing":                {nil, ""},
		"the sentinel by itself": {steady.ErrBreakerOpen, ""},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("X-Request-Id", "7")
		assert.Equal(t, c.want != "", steadyhttp.Unavailable(w, c.err), name)
		assert.Equal(t, c.want, w.Header().Get("Retry-After"), name)
		if c.want == "" {
			assert.Equal(t, http.StatusOK, w.Code, name)
			assert.Empty(t, w.Body.String(), name)
			continue
		}
		assert.Equal(t, http.StatusServiceUnavailable, w.Code, name)
		assert.Equal(t, "7", w.Header().Get("X-Request-Id"), name)
	}
}

func TestAClientIsToldToWaitForASecondAtLeast(t *testing.T) {
	for given, want := range map[time.Duration]string{
		0: "1", time.Nanosecond: "1", time.Second: "1", time.Second + 1: "2", 1<<63 - 1: "9223372037",
	} {
		bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1}))
		_ = steady.Must(bulkhead.Acquire(t.Context()))
		limit := steady.Must(steadyhttp.Middleware(bulkhead, steadyhttp.MiddlewareConfig{RetryAfter: given}))
		w := httptest.NewRecorder()
		limit(http.NotFoundHandler()).ServeHTTP(w, request(t, http.MethodGet, "/", nil))
		assert.Equal(t, want, w.Header().Get("Retry-After"), "%v", given)
	}
}
