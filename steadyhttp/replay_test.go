package steadyhttp_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// received answers with status 503, and with 200 from the given attempt on, and remembers what it got.
type received struct {
	mu     sync.Mutex
	good   int // the attempt that is answered with 200; 0 for none
	bodies []string
	keys   []string
}

func (r *received) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	b, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, string(b))
	r.keys = append(r.keys, req.Header.Get("Idempotency-Key"))
	if r.good == 0 || len(r.bodies) < r.good {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (r *received) take() (bodies, keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bodies, keys = r.bodies, r.keys
	r.bodies, r.keys = nil, nil
	return bodies, keys
}

func TestEachAttemptSendsTheWholeBody(t *testing.T) {
	r := new(received)
	overEachProtocol(t, r, func(t *testing.T, url string, base *http.Transport) {
		tr := newTransport(t, steadyhttp.Config{Base: base})
		content := strings.Repeat("0123456789", 20_000)
		do(t, tr.RoundTrip, request(t, http.MethodPut, url, strings.NewReader(content)))
		bodies, _ := r.take()
		require.Len(t, bodies, 3)
		for _, b := range bodies {
			assert.Len(t, b, len(content))
			assert.Equal(t, crc32.ChecksumIEEE([]byte(content)), crc32.ChecksumIEEE([]byte(b)))
		}
		assertFree(t, tr)
	})
}

func TestABodyThatCannotBeHadAgainIsSentOnce(t *testing.T) {
	r := new(received)
	file, err := os.CreateTemp(t.TempDir(), "body")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	_, err = file.WriteString("not me")
	require.NoError(t, err)
	overEachProtocol(t, r, func(t *testing.T, url string, base *http.Transport) {
		tr := newTransport(t, steadyhttp.Config{Base: base, Dependency: dependency(func(cfg *steady.DependencyConfig) { cfg.NoBreaker = true })})
		for _, intent := range []steady.Intent{steady.ReadIdempotent, steady.WriteIdempotent, steady.WriteNonIdempotent} {
			req := request(t, http.MethodPut, url, onlyReader{strings.NewReader("once")})
			resp := do(t, tr.RoundTrip, req.WithContext(steadyhttp.WithIntent(t.Context(), intent)))
			assert.Equal(t, http.StatusServiceUnavailable, resp.status)
			bodies, _ := r.take()
			assert.Equal(t, []string{"once"}, bodies)
		}
		// One that could be sought back may be shared: with another call, at the same moment.
		_, err := file.Seek(4, io.SeekStart)
		require.NoError(t, err)
		do(t, tr.RoundTrip, request(t, http.MethodPut, url, io.NopCloser(file)))
		bodies, _ := r.take()
		assert.Equal(t, []string{"me"}, bodies)
	})
}

func TestARequestWithoutABodyIsRepeatable(t *testing.T) {
	for name, body := range map[string]io.Reader{"nil": nil, "NoBody": http.NoBody, "empty": bytes.NewReader(nil)} {
		cfg, seen := observed()
		tr := newTransport(t, steadyhttp.Config{Base: always(503, ""), Dependency: cfg})
		req := request(t, http.MethodPut, "http://api.test/", body)
		if name == "NoBody" {
			req.GetBody = nil
		}
		do(t, tr.RoundTrip, req)
		assert.Len(t, seen.outcomes(), 3, name)
	}
}

// ContentLength 0 with a body means that the length is not known.
func TestABodyOfUnknownLengthIsNotTakenForNone(t *testing.T) {
	cfg, seen := observed()
	tr := newTransport(t, steadyhttp.Config{Base: always(503, ""), Dependency: cfg})
	req := request(t, http.MethodPut, "http://api.test/", onlyReader{strings.NewReader("x")})
	require.Zero(t, req.ContentLength)
	do(t, tr.RoundTrip, req)
	assert.Len(t, seen.outcomes(), 1)
}

func TestTheMethodAndTheKeySayWhatMayBeRepeated(t *testing.T) {
	for _, c := range []struct {
		method, key string
		intent      *steady.Intent
		attempts    int
	}{
		{"", "", nil, 3},
		{"GET", "", nil, 3},
		{"HEAD", "", nil, 3},
		{"OPTIONS", "", nil, 3},
		{"TRACE", "", nil, 3},
		{"PUT", "", nil, 3},
		{"DELETE", "", nil, 3},
		{"POST", "", nil, 1},
		{"PATCH", "", nil, 1},
		{"CONNECT", "", nil, 1},
		{"PROPFIND", "", nil, 1},
		{"get", "", nil, 1},
		{"POST", "k", nil, 3},
		{"PATCH", "k", nil, 3},
		{"POST", "", ptr(steady.ReadIdempotent), 3},
		{"POST", "", ptr(steady.WriteIdempotent), 3},
		{"GET", "", ptr(steady.WriteNonIdempotent), 1},
		{"POST", "k", ptr(steady.WriteNonIdempotent), 1},
		{"GET", "", ptr(steady.Intent(99)), 1},
	} {
		cfg, seen := observed()
		tr := newTransport(t, steadyhttp.Config{Base: always(503, ""), Dependency: cfg})
		req := get(t)
		req.Method = c.method
		if c.key != "" {
			req.Header.Set("Idempotency-Key", c.key)
		}
		if c.intent != nil {
			req = req.WithContext(steadyhttp.WithIntent(t.Context(), *c.intent))
		}
		do(t, tr.RoundTrip, req)
		assert.Len(t, seen.outcomes(), c.attempts, "%+v", c)
	}
}

func ptr[V any](v V) *V { return &v }

func TestAKeyIsMadeOnceACallAndSentWithEachAttempt(t *testing.T) {
	r := new(received)
	made := 0
	overEachProtocol(t, r, func(t *testing.T, url string, base *http.Transport) {
		made = 0
		tr := newTransport(t, steadyhttp.Config{
			Base: base, Dependency: dependency(func(cfg *steady.DependencyConfig) { cfg.NoBreaker = true }),
			IdempotencyKey: func() string { made++; return fmt.Sprint("made ", made) },
		})
		do := func(method, key string, ctx context.Context) []string {
			req := request(t, method, url, strings.NewReader("x")).WithContext(ctx)
			if key != "" {
				req.Header.Set("Idempotency-Key", key)
			}
			do(t, tr.RoundTrip, req)
			assert.Equal(t, key, req.Header.Get("Idempotency-Key"), "the caller's request is as it was")
			_, keys := r.take()
			return keys
		}
		assert.Equal(t, []string{"made 1", "made 1", "made 1"}, do("POST", "", t.Context()))
		assert.Equal(t, []string{"made 2", "made 2", "made 2"}, do("PATCH", "", t.Context()))
		assert.Equal(t, []string{"own", "own", "own"}, do("POST", "own", t.Context()))
		assert.Equal(t, []string{"", "", ""}, do("PUT", "", t.Context()))
		assert.Equal(t, []string{""}, do("POST", "", steadyhttp.WithIntent(t.Context(), steady.WriteNonIdempotent)))
		assert.Equal(t, 2, made)
	})
	cfg, seen := observed()
	tr := newTransport(t, steadyhttp.Config{
		Base: always(503, ""), Dependency: cfg, IdempotencyKey: func() string { return "" },
	})
	do(t, tr.RoundTrip, request(t, "POST", "http://api.test/", nil))
	assert.Len(t, seen.outcomes(), 1, "an empty key is none")
}

func TestTrailersOfARequestReachTheServerWithTheAttemptThatCounts(t *testing.T) {
	var mu sync.Mutex
	var sums []string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		sums = append(sums, r.Trailer.Get("X-Sum"))
		if len(sums) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	overEachProtocol(t, h, func(t *testing.T, url string, base *http.Transport) {
		sums = nil
		tr := newTransport(t, steadyhttp.Config{Base: base})
		req := request(t, http.MethodPut, url, nil)
		req.Trailer = http.Header{"X-Sum": nil}
		n := 0
		body := func() (io.ReadCloser, error) {
			n++
			sum := fmt.Sprint("sum ", n)
			return io.NopCloser(io.MultiReader(strings.NewReader("data"), readerFunc(func([]byte) (int, error) {
				req.Trailer.Set("X-Sum", sum) // where the caller can know it
				return 0, io.EOF
			}))), nil
		}
		req.Body, _ = body()
		req.GetBody, req.ContentLength = body, -1
		resp := do(t, tr.RoundTrip, req)
		assert.Equal(t, http.StatusOK, resp.status)
		assert.Equal(t, []string{"sum 1", "sum 2", "sum 3"}, sums)
	})
}

func TestTheServerMayRefuseABodyBeforeItIsSent(t *testing.T) {
	var got atomic.Int32
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable) // without a 100 Continue: the body stays where it is
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	overEachProtocol(t, h, func(t *testing.T, url string, base *http.Transport) {
		base.ExpectContinueTimeout = time.Minute
		tr := newTransport(t, steadyhttp.Config{Base: base})
		req := request(t, http.MethodPut, url, strings.NewReader("data"))
		req.Header.Set("Expect", "100-continue")
		resp := do(t, tr.RoundTrip, req)
		assert.Equal(t, "data", resp.content)
		assertFree(t, tr)
	})
}

func TestTheConnectionIsUsedAgainBetweenAttempts(t *testing.T) {
	for size, want := range map[int]int32{0: 1, 1000: 1, 64 << 10: 1, 65<<10 + 1: 3} {
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write(make([]byte, size))
		})
		s, b := protocols[0].start(t, h)
		made := connections(b)
		tr := newTransport(t, steadyhttp.Config{Base: b})
		resp := do(t, tr.RoundTrip, request(t, http.MethodGet, s.URL, nil))
		assert.Len(t, resp.content, size)
		assert.Equal(t, want, made.Load(), "connections for three attempts with %d bytes each", size)
	}
}

func TestNoMoreThan64KiBAreReadBetweenAttempts(t *testing.T) {
	var n atomic.Int64
	tr := newTransport(t, steadyhttp.Config{Base: base(func(*http.Request) (*http.Response, error) {
		n.Store(0)
		resp := response(503, "")
		resp.ContentLength = -1
		resp.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
			n.Add(int64(len(p)))
			return len(p), nil
		}))
		return resp, nil
	}), Dependency: dependency(func(cfg *steady.DependencyConfig) {
		cfg.Hooks = &steady.Hooks{OnRetry: func(context.Context, steady.RetryDelay) { assert.EqualValues(t, 64<<10, n.Load()) }}
	})})
	body := open(t, tr, get(t))
	assert.Zero(t, n.Load(), "of the last one nothing")
	require.NoError(t, body.Close())
}

func TestAResponseThatStallsIsNotWaitedForBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		tr := newTransport(t, steadyhttp.Config{Base: base(func(req *http.Request) (*http.Response, error) {
			resp := response(503, "")
			resp.ContentLength = -1
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("some"), blocked(req.Context())))
			return resp, nil
		})})
		body := open(t, tr, get(t))
		assert.Equal(t, 100*time.Millisecond, time.Since(start), "of the bubble's time: 50ms between two attempts")
		require.NoError(t, body.Close())
	})
}

func TestAResponseThatWasToBeRetriedIsTheAnswerWhenNothingWasSentAfterIt(t *testing.T) {
	opens := func(cfg *steady.DependencyConfig) {
		cfg.Breaker.WindowSize, cfg.Breaker.MinCalls = 1, 1
	}
	t.Run("the breaker opens", func(t *testing.T) {
		s, b := protocols[0].start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "back at noon")
		}))
		tr := newTransport(t, steadyhttp.Config{Base: b, Dependency: dependency(opens)})
		resp := do(t, tr.RoundTrip, request(t, http.MethodGet, s.URL, nil))
		assert.Equal(t, "back at noon", resp.content)
		assert.Equal(t, http.StatusServiceUnavailable, resp.status)
		assertFree(t, tr)
		err := fail(t, tr.RoundTrip, request(t, http.MethodGet, s.URL, nil))
		require.ErrorIs(t, err, steady.ErrBreakerOpen)
	})
	t.Run("however much it says that it could have held", func(t *testing.T) {
		tr := newTransport(t, steadyhttp.Config{
			Base: base(func(*http.Request) (*http.Response, error) {
				resp := response(http.StatusServiceUnavailable, "")
				resp.ContentLength, resp.Body = 1<<20, http.NoBody
				return resp, nil
			}),
			Dependency: dependency(func(cfg *steady.DependencyConfig) { cfg.Breaker.WindowSize, cfg.Breaker.MinCalls = 1, 1 }),
		})
		got := do(t, tr.RoundTrip, request(t, http.MethodHead, "http://api.test/", nil))
		assert.Equal(t, http.StatusServiceUnavailable, got.status)
	})
	t.Run("the body cannot be had again", func(t *testing.T) {
		tr := newTransport(t, steadyhttp.Config{Base: always(503, "sorry")})
		req := request(t, http.MethodPut, "http://api.test/", strings.NewReader("x"))
		req.GetBody = func() (io.ReadCloser, error) { return nil, errBoom }
		resp := do(t, tr.RoundTrip, req)
		assert.Equal(t, "sorry", resp.content)
		assertFree(t, tr)
		assert.Equal(t, 1, tr.Dependency("").Breaker().Stats().Calls, "the caller's mistake is not counted")
	})
	t.Run("but not of one that could not be read to its end", func(t *testing.T) {
		b := &receivable{Reader: failing()}
		tr := newTransport(t, steadyhttp.Config{Dependency: dependency(opens), Base: base(func(*http.Request) (*http.Response, error) {
			resp := response(503, "")
			resp.Body, resp.ContentLength = b, -1
			return resp, nil
		})})
		err := fail(t, tr.RoundTrip, get(t))
		require.ErrorIs(t, err, steady.ErrBreakerOpen)
		assert.EqualValues(t, 1, b.closed.Load())
		assertFree(t, tr)
	})
	t.Run("nor for a caller who has gone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tr := newTransport(t, steadyhttp.Config{Base: always(503, "sorry"), Dependency: dependency(func(cfg *steady.DependencyConfig) {
			cfg.Hooks = &steady.Hooks{OnRetry: func(context.Context, steady.RetryDelay) { cancel() }}
		})})
		err := fail(t, tr.RoundTrip, get(t).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		assertFree(t, tr)
	})
	t.Run("nor of one that another attempt followed", func(t *testing.T) {
		n := 0
		tr := newTransport(t, steadyhttp.Config{Base: base(func(*http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return response(503, "sorry"), nil
			}
			return nil, errBoom
		})})
		err := fail(t, tr.RoundTrip, get(t))
		require.ErrorIs(t, err, errBoom)
		require.ErrorIs(t, err, steady.ErrRetriesExhausted)
	})
}

func TestWhatTheCallerDidWrongIsNoFailure(t *testing.T) {
	t.Run("a body that cannot be read", func(t *testing.T) {
		h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		overEachProtocol(t, h, func(t *testing.T, url string, base *http.Transport) {
			cfg, seen := observed()
			tr := newTransport(t, steadyhttp.Config{Base: base, Dependency: cfg})
			req := request(t, http.MethodPut, url, failing())
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(failing()), nil }
			err := fail(t, tr.RoundTrip, req)
			require.ErrorIs(t, err, errBoom)
			assert.Equal(t, []steady.Outcome{steady.Ignored}, seen.outcomes())
			assertFree(t, tr)
		})
	})
	t.Run("but one that was closed while it was read, for the network had failed, is", func(t *testing.T) {
		cfg, seen := observed()
		tr := newTransport(t, steadyhttp.Config{Dependency: cfg, Base: base(func(req *http.Request) (*http.Response, error) {
			reading := make(chan error)
			go func() {
				_, err := req.Body.Read(make([]byte, 1))
				reading <- err
			}()
			_ = req.Body.Close()
			require.Error(t, <-reading)
			return nil, errBoom
		})})
		pipe, w := io.Pipe()
		defer func() { _ = w.Close() }()
		require.ErrorIs(t, fail(t, tr.RoundTrip, request(t, http.MethodPut, "http://api.test/", pipe)), errBoom)
		assert.Equal(t, []steady.Outcome{steady.Transient}, seen.outcomes())
	})
	for name, spoil := range map[string]func(*http.Request){
		"a header that is none": func(req *http.Request) { req.Header.Set("bad header", "x") },
		"a method that is none": func(req *http.Request) { req.Method = "BAD METHOD" },
		"a scheme without host": func(req *http.Request) { req.URL.Host = "" },
		"an unknown scheme":     func(req *http.Request) { req.URL.Scheme = "gopher" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg, seen := observed()
			tr := newTransport(t, steadyhttp.Config{Dependency: cfg})
			req := request(t, http.MethodPut, "http://127.0.0.1:1/", strings.NewReader("x"))
			spoil(req)
			err := fail(t, tr.RoundTrip, req)
			require.Error(t, err)
			assert.Equal(t, []steady.Outcome{steady.Ignored}, seen.outcomes())
		})
	}
}

// refused is an address at which nobody listens.
func refused(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return "http://" + l.Addr().String()
}

func TestWhatCannotHaveBeenSeenIsUnsentAndRepeatedWhateverItIs(t *testing.T) {
	post := func(t *testing.T, url string, base http.RoundTripper) []steady.Outcome {
		cfg, seen := observed()
		tr := newTransport(t, steadyhttp.Config{Base: base, Dependency: cfg})
		err := fail(t, tr.RoundTrip, request(t, http.MethodPost, url, strings.NewReader("x")))
		require.Error(t, err)
		assertFree(t, tr)
		return seen.outcomes()
	}
	unsent := []steady.Outcome{steady.Unsent, steady.Unsent, steady.Unsent}
	t.Run("nobody listens", func(t *testing.T) {
		assert.Equal(t, unsent, post(t, refused(t), nil))
	})
	t.Run("a base transport of one's own", func(t *testing.T) {
		dial := &net.OpError{Op: "dial", Err: errBoom}
		assert.Equal(t, unsent, post(t, "http://api.test/", base(func(*http.Request) (*http.Response, error) { return nil, dial })))
	})
	t.Run("no connection was had", func(t *testing.T) {
		b := steady.Must(steadyhttp.NewBaseTransport(steadyhttp.Timeouts{}))
		b.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, errBoom }
		assert.Equal(t, unsent, post(t, "http://api.test/", b))
	})
	t.Run("but an error without more is not", func(t *testing.T) {
		assert.Equal(t, []steady.Outcome{steady.Transient}, post(t, "http://api.test/",
			base(func(*http.Request) (*http.Response, error) { return nil, errBoom })))
	})
	t.Run("nor a dial after an earlier connection that may have carried it", func(t *testing.T) {
		dial := &net.OpError{Op: "dial", Err: errBoom}
		assert.Equal(t, []steady.Outcome{steady.Transient}, post(t, "http://api.test/",
			base(func(req *http.Request) (*http.Response, error) {
				trace := httptrace.ContextClientTrace(req.Context())
				trace.GetConn("api.test:80")
				trace.GotConn(httptrace.GotConnInfo{})
				trace.GetConn("api.test:80")
				return nil, dial
			})))
	})
	t.Run("nor what a connection carried before it broke", func(t *testing.T) {
		h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		})
		overEachProtocol(t, h, func(t *testing.T, url string, base *http.Transport) {
			assert.Equal(t, []steady.Outcome{steady.Transient}, post(t, url, base))
		})
	})
}

func TestThrottledIsRepeatedWhateverItIsAndNoFailure(t *testing.T) {
	cfg, seen := observed()
	tr := newTransport(t, steadyhttp.Config{Base: always(429, ""), Dependency: cfg})
	resp := do(t, tr.RoundTrip, request(t, http.MethodPost, "http://api.test/", strings.NewReader("x")))
	assert.Equal(t, 429, resp.status)
	assert.Equal(t, []steady.Outcome{steady.Throttled, steady.Throttled, steady.Throttled}, seen.outcomes())
	assert.Zero(t, tr.Dependency("").Breaker().Stats().Calls)
}

func TestTheCallersTraceIsStillCalled(t *testing.T) {
	s, b := protocols[0].start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	got := false
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { got = true }})
	do(t, newTransport(t, steadyhttp.Config{Base: b}).RoundTrip, request(t, http.MethodGet, s.URL, nil).WithContext(ctx))
	assert.True(t, got)
}

// net/http repeats a request of its own accord when the server had closed the connection; that has nothing to do with
// the attempts here, and must find a fresh body too.
func TestNetHTTPsOwnRepetitionFindsAFreshBody(t *testing.T) {
	r := &received{good: 1}
	s, b := protocols[0].start(t, r)
	cfg, seen := observed()
	cfg.NoBreaker = true
	tr := newTransport(t, steadyhttp.Config{Base: b, Dependency: cfg})
	for range 10 {
		do(t, tr.RoundTrip, request(t, http.MethodGet, s.URL, strings.NewReader("query")))
		s.CloseClientConnections() // the next request may find a connection that is just being closed
	}
	bodies, _ := r.take()
	for _, body := range bodies {
		assert.Equal(t, "query", body)
	}
	assert.GreaterOrEqual(t, len(seen.outcomes()), 10)
}
