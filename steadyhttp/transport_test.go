package steadyhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAClientGetsItsAnswersOverOneConnection(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
		_, _ = io.WriteString(w, " by "+r.Method)
	})
	overEachProtocol(t, h, func(t *testing.T, url string, base *http.Transport) {
		made := connections(base)
		tr := newTransport(t, steadyhttp.Config{Base: base})
		client := &http.Client{Transport: tr}
		for range 5 {
			resp := do(t, client.Do, request(t, http.MethodPost, url, strings.NewReader("hello")))
			assert.Equal(t, "hello by POST", resp.content)
		}
		assert.EqualValues(t, 1, made.Load())
		assertFree(t, tr)
		assert.Equal(t, 5, tr.Dependency("").Breaker().Stats().Calls)
	})
}

func TestARequestIsNotModified(t *testing.T) {
	tr := newTransport(t, steadyhttp.Config{
		IdempotencyKey: func() string { return "k" },
		Base: base(func(req *http.Request) (*http.Response, error) {
			consume(req)
			req.Header.Set("X-Base", "was here")
			req.URL.Path = "/elsewhere"
			req.Host = "elsewhere"
			return response(503, ""), nil
		}),
	})
	req := request(t, http.MethodPost, "http://api.test/orders", strings.NewReader("order"))
	req.Header.Set("X-Caller", "v")
	before := req.Clone(req.Context())
	body, getBody := req.Body, req.GetBody
	resp := do(t, tr.RoundTrip, req)

	assert.Equal(t, body, req.Body)
	assert.NotNil(t, getBody)
	before.Body, before.GetBody = req.Body, nil
	after := *req
	after.GetBody = nil
	assert.Equal(t, before.Header, after.Header)
	assert.Equal(t, before.URL, after.URL)
	assert.Equal(t, before.Host, after.Host)
	assert.Equal(t, before.ContentLength, after.ContentLength)
	assert.Same(t, req, resp.request, "the response is that to the caller's request")
}

func TestABodyIsClosedOnEveryPath(t *testing.T) {
	open := dependency()
	open.Breaker.MinCalls, open.Breaker.WindowSize = 1, 1
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	perHost := func(string) steady.DependencyConfig { return steady.DependencyConfig{} }
	panics := base(func(*http.Request) (*http.Response, error) { panic(errBoom) })
	for name, c := range map[string]struct {
		cfg     steadyhttp.Config
		prepare func(*steadyhttp.Transport)
		change  func(*http.Request) *http.Request
	}{
		"answered":  {cfg: steadyhttp.Config{Base: always(200, "ok")}},
		"retried":   {cfg: steadyhttp.Config{Base: always(503, "")}},
		"throttled": {cfg: steadyhttp.Config{Base: always(429, "")}},
		"the breaker is open": {
			cfg:     steadyhttp.Config{Base: always(200, "")},
			prepare: func(tr *steadyhttp.Transport) { tr.Dependency("").Breaker().ForceOpen("test") },
		},
		"the bulkhead is full": {
			cfg: steadyhttp.Config{Base: always(200, "")},
			prepare: func(tr *steadyhttp.Transport) {
				for range 50 {
					_ = steady.Must(tr.Dependency("").Bulkhead().Acquire(context.Background()))
				}
			},
		},
		"the context is done": {
			cfg:    steadyhttp.Config{Base: always(200, "")},
			change: func(req *http.Request) *http.Request { return req.WithContext(cancelled) },
		},
		"there is no URL": {
			cfg:    steadyhttp.Config{Base: always(200, "")},
			change: func(req *http.Request) *http.Request { req.URL = nil; return req },
		},
		"there is no header": {
			cfg:    steadyhttp.Config{Base: always(200, "")},
			change: func(req *http.Request) *http.Request { req.Header = nil; return req },
		},
		"there is no host": {
			cfg:    steadyhttp.Config{Base: always(200, ""), PerHost: perHost},
			change: func(req *http.Request) *http.Request { req.URL.Host = ""; return req },
		},
		"the host's config is wrong": {cfg: steadyhttp.Config{Base: always(200, ""), PerHost: perHost}},
		"PerHost panics": {cfg: steadyhttp.Config{
			Base: always(200, ""), PerHost: func(string) steady.DependencyConfig { panic(errBoom) },
		}},
		"IdempotencyKey panics":      {cfg: steadyhttp.Config{Base: always(200, ""), IdempotencyKey: func() string { panic(errBoom) }}},
		"the base transport panics":  {cfg: steadyhttp.Config{Base: panics}},
		"net/http refuses it":        {change: func(req *http.Request) *http.Request { req.Header.Set("bad header", "x"); return req }},
		"net/http does not know how": {change: func(req *http.Request) *http.Request { req.URL.Scheme = "gopher"; return req }},
		"nobody listens":             {change: func(req *http.Request) *http.Request { req.URL.Host = "127.0.0.1:1"; return req }},
		"Cancel is closed": {
			cfg: steadyhttp.Config{Base: always(200, "")},
			change: func(req *http.Request) *http.Request {
				c := make(chan struct{})
				close(c)
				req.Cancel = c //nolint:staticcheck // deprecated, not gone
				return req
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t, c.cfg)
			if c.prepare != nil {
				c.prepare(tr)
			}
			for _, replayable := range []bool{true, false} {
				body := &sendable{Reader: strings.NewReader("body")}
				req := request(t, http.MethodPut, "http://api.test/", body)
				if name == "IdempotencyKey panics" {
					req.Method = http.MethodPost
				}
				var again []*sendable
				if replayable {
					req.GetBody = func() (io.ReadCloser, error) {
						again = append(again, &sendable{Reader: strings.NewReader("body")})
						return again[len(again)-1], nil
					}
				}
				if c.change != nil {
					req = c.change(req)
				}
				func() {
					defer func() { _ = recover() }()
					if resp, err := tr.RoundTrip(req); err == nil {
						_ = resp.Body.Close()
					}
				}()
				for _, b := range append(again, body) {
					assert.Positive(t, b.closed.Load(), "closed")
					assert.False(t, b.readAfterClose.Load(), "read after it was closed")
				}
			}
		})
	}
}

func TestAResponseIsAResponseWhateverItsStatus(t *testing.T) {
	for _, status := range []int{200, 302, 400, 404, 408, 429, 500, 501, 503, 505, 599} {
		tr := newTransport(t, steadyhttp.Config{Base: always(status, "why")})
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			resp := do(t, tr.RoundTrip, request(t, method, "http://api.test/", nil))
			assert.Equal(t, "why", resp.content)
			assert.Equal(t, status, resp.status)
		}
		assertFree(t, tr)
	}
}

func TestTheLastResponseComesBackUnreadAndOpen(t *testing.T) {
	var all []*receivable
	tr := newTransport(t, steadyhttp.Config{Base: base(func(*http.Request) (*http.Response, error) {
		b := &receivable{Reader: strings.NewReader("try later")}
		all = append(all, b)
		resp := response(503, "")
		resp.Body, resp.ContentLength = b, -1
		return resp, nil
	})})
	body := open(t, tr, get(t))
	require.Len(t, all, 3)
	assert.EqualValues(t, 1, all[0].closed.Load())
	assert.EqualValues(t, 1, all[1].closed.Load())
	assert.Zero(t, all[2].closed.Load())
	assert.Equal(t, 1, inUse(tr), "it holds its slot")
	content, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, "try later", string(content))
	require.NoError(t, body.Close())
	assert.EqualValues(t, 1, all[2].closed.Load())
	assertFree(t, tr)
}

func TestErrorsAreFoundThroughAnHTTPClient(t *testing.T) {
	tr := newTransport(t, steadyhttp.Config{Base: base(func(*http.Request) (*http.Response, error) { return nil, errBoom })})
	client := &http.Client{Transport: tr}
	err := fail(t, client.Do, get(t))
	require.ErrorIs(t, err, errBoom)
	require.ErrorIs(t, err, steady.ErrRetriesExhausted)

	tr.Dependency("").Breaker().ForceOpen("test")
	err = fail(t, client.Do, get(t))
	var wrapped *url.Error
	require.ErrorAs(t, err, &wrapped)
	require.ErrorIs(t, err, steady.ErrBreakerOpen)
	assert.True(t, steady.IsRejected(err))

	cause := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	err = fail(t, tr.RoundTrip, get(t).WithContext(ctx))
	assert.Equal(t, context.Canceled, err, "the context's error, as it is")
}

func TestAnAttemptThatTakesTooLongNamesItsTimeout(t *testing.T) {
	stuck := base(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})
	tr := newTransport(t, steadyhttp.Config{
		Base: stuck,
		Dependency: dependency(func(cfg *steady.DependencyConfig) {
			cfg.Timeout, cfg.NoRetry = 0, true
			cfg.Breaker.SlowThreshold = time.Millisecond
		}),
		Timeouts: steadyhttp.Timeouts{Attempt: 10 * time.Millisecond, Total: time.Minute},
	})
	err := fail(t, tr.RoundTrip, get(t))
	var timeout *steady.TimeoutError
	require.ErrorAs(t, err, &timeout)
	assert.Equal(t, "api.attempt", timeout.Policy)
	assert.Equal(t, 1, failures(tr))
}

func TestABaseTransportThatBreaksItsContractLeaksNothing(t *testing.T) {
	t.Run("neither response nor error", func(t *testing.T) {
		tr := newTransport(t, steadyhttp.Config{Base: base(func(*http.Request) (*http.Response, error) { return nil, nil })})
		err := fail(t, tr.RoundTrip, get(t))
		require.ErrorContains(t, err, "steadyhttp_test.base returned neither a response nor an error")
		assertFree(t, tr)
	})
	t.Run("a response beside the error", func(t *testing.T) {
		b := &receivable{Reader: strings.NewReader("")}
		tr := newTransport(t, steadyhttp.Config{Base: base(func(*http.Request) (*http.Response, error) {
			resp := response(200, "")
			resp.Body = b
			return resp, errBoom
		})})
		err := fail(t, tr.RoundTrip, get(t))
		require.ErrorIs(t, err, errBoom)
		assert.EqualValues(t, 3, b.closed.Load())
		assertFree(t, tr)
	})
	t.Run("no body", func(t *testing.T) {
		tr := newTransport(t, steadyhttp.Config{Base: base(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK}, nil
		})})
		resp := do(t, tr.RoundTrip, get(t))
		assert.Empty(t, resp.content)
		assertFree(t, tr)
	})
	t.Run("a panic in the Close of a body that there should not be", func(t *testing.T) {
		tr := newTransport(t, steadyhttp.Config{Base: base(func(*http.Request) (*http.Response, error) {
			resp := response(http.StatusNoContent, "")
			resp.Body = closerFunc(func() error { panic(errBoom) })
			return resp, nil
		})})
		assert.PanicsWithValue(t, errBoom, func() { _ = fail(t, tr.RoundTrip, get(t)) })
		assertFree(t, tr)
	})
	t.Run("a panic", func(t *testing.T) {
		var ctx context.Context
		tr := newTransport(t, steadyhttp.Config{Base: base(func(req *http.Request) (*http.Response, error) {
			ctx = req.Context()
			panic(errBoom)
		})})
		assert.PanicsWithValue(t, errBoom, func() { _ = fail(t, tr.RoundTrip, get(t)) })
		require.Error(t, ctx.Err())
		assertFree(t, tr)
		assert.Equal(t, 1, failures(tr))
	})
}

// A context that does not end stays with its parent, and the caller's may live for long.
func TestTheContextOfEveryAttemptEnds(t *testing.T) {
	for name, outcome := range map[string]func() (*http.Response, error){
		"answered":          func() (*http.Response, error) { return response(200, "x"), nil },
		"without a body":    func() (*http.Response, error) { return response(204, ""), nil },
		"retried":           func() (*http.Response, error) { return response(503, "x"), nil },
		"retried, too long": func() (*http.Response, error) { return response(503, strings.Repeat("x", 100_000)), nil },
		"failed":            func() (*http.Response, error) { return nil, errBoom },
		"neither":           func() (*http.Response, error) { return nil, nil },
		"a panic":           func() (*http.Response, error) { panic(errBoom) },
		"a body that failed": func() (*http.Response, error) {
			resp := response(200, "")
			resp.Body, resp.ContentLength = io.NopCloser(failing()), -1
			return resp, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var all []context.Context
			tr := newTransport(t, steadyhttp.Config{
				Base: base(func(req *http.Request) (*http.Response, error) {
					all = append(all, req.Context())
					return outcome()
				}),
				Dependency: dependency(func(cfg *steady.DependencyConfig) { cfg.Timeout, cfg.NoTimeout = 0, true }),
			})
			func() {
				defer func() { _ = recover() }()
				resp, err := tr.RoundTrip(get(t))
				if err != nil {
					return
				}
				defer func() { _ = resp.Body.Close() }()
				if resp.Body != http.NoBody {
					require.NoError(t, all[len(all)-1].Err(), "not before the body ends")
				}
				_, _ = io.Copy(io.Discard, resp.Body)
			}()
			require.NotEmpty(t, all)
			for _, ctx := range all {
				assert.Error(t, ctx.Err())
			}
		})
	}
}

func TestATransportMayBeSharedByAnyNumberOfGoroutines(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		if r.Header.Get("X-Fail") != "" && len(content)%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(content)
	})
	overEachProtocol(t, h, func(t *testing.T, url string, base *http.Transport) {
		tr := newTransport(t, steadyhttp.Config{Base: base, Dependency: dependency(func(cfg *steady.DependencyConfig) {
			cfg.NoBreaker = true
		})})
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				for j := range 20 {
					content := strings.Repeat("x", i*20+j)
					req := request(t, http.MethodPut, url, strings.NewReader(content))
					req.Header.Set("X-Fail", "odd")
					resp, err := tr.RoundTrip(req)
					if assert.NoError(t, err) {
						got, err := io.ReadAll(resp.Body)
						assert.NoError(t, err)
						assert.NoError(t, resp.Body.Close())
						assert.Equal(t, content, string(got))
					}
				}
			})
		}
		wg.Wait()
		assertFree(t, tr)
	})
}

// An http.Client's Timeout reaches a transport as the deadline of the context, and, at that moment, as a closed Cancel.
func TestAnHTTPClientsTimeoutIsAFailureOfTheDependency(t *testing.T) {
	ran := 0
	for range 20 {
		cfg, seen := observed()
		tr := newTransport(t, steadyhttp.Config{Dependency: cfg, Base: base(func(req *http.Request) (*http.Response, error) {
			select {
			case <-req.Context().Done():
				return nil, req.Context().Err()
			case <-req.Cancel: //nolint:staticcheck // what http.Client uses
				return nil, errBoom
			}
		})})
		client := &http.Client{Transport: tr, Timeout: 5 * time.Millisecond}
		_ = fail(t, client.Do, get(t))
		for _, o := range seen.outcomes() { // none where the time was over before it began
			assert.Equal(t, steady.Transient, o)
			ran++
		}
		assertFree(t, tr)
	}
	assert.Positive(t, ran)
}

func TestARequestWhoseCancelIsClosedIsNobodysFailure(t *testing.T) {
	cfg, seen := observed()
	c := make(chan struct{})
	tr := newTransport(t, steadyhttp.Config{Dependency: cfg, Base: base(func(*http.Request) (*http.Response, error) {
		close(c)
		return nil, errBoom
	})})
	req := get(t)
	req.Cancel = c //nolint:staticcheck // deprecated, not gone
	err := fail(t, tr.RoundTrip, req)
	require.ErrorIs(t, err, errBoom)
	err = fail(t, tr.RoundTrip, req)
	require.ErrorContains(t, err, "Cancel was closed")
	assert.Equal(t, []steady.Outcome{steady.Ignored, steady.Ignored}, seen.outcomes())
}

func TestIdleConnectionsAreClosedThroughTheClient(t *testing.T) {
	s, b := protocols[0].start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	made := connections(b)
	client := &http.Client{Transport: newTransport(t, steadyhttp.Config{Base: b})}
	for want := range int32(2) {
		do(t, client.Do, request(t, http.MethodGet, s.URL, nil))
		assert.Equal(t, want+1, made.Load())
		client.CloseIdleConnections()
	}
	newTransport(t, steadyhttp.Config{Base: always(200, "")}).CloseIdleConnections() // which has none
}
