package steadyhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// streaming is a base transport whose responses have that body, and hands out the contexts of the attempts.
func streaming(body io.Reader) (base, *context.Context) {
	ctx := new(context.Context)
	return func(req *http.Request) (*http.Response, error) {
		*ctx = req.Context()
		resp := response(200, "")
		resp.Body, resp.ContentLength = io.NopCloser(body), -1
		return resp, nil
	}, ctx
}

func TestTheSlotAndTheContextLiveUntilTheBodyEnds(t *testing.T) {
	for name, end := range map[string]func(io.ReadCloser){
		"closed":       func(b io.ReadCloser) { _ = b.Close() },
		"read":         func(b io.ReadCloser) { _, _ = io.Copy(io.Discard, b) },
		"both":         func(b io.ReadCloser) { _, _ = io.Copy(io.Discard, b); _ = b.Close() },
		"closed often": func(b io.ReadCloser) { _ = b.Close(); _ = b.Close(); _, _ = b.Read(make([]byte, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			b, ctx := streaming(strings.NewReader("content"))
			done := 0
			tr := newTransport(t, steadyhttp.Config{Base: b, Dependency: dependency(func(cfg *steady.DependencyConfig) {
				cfg.Hooks = &steady.Hooks{OnDone: func(context.Context, steady.Completion) { done++ }}
			})})
			one, other := open(t, tr, get(t)), open(t, tr, get(t))
			require.Equal(t, 2, inUse(tr))
			_, err := one.Read(make([]byte, 3))
			require.NoError(t, err)
			require.NoError(t, (*ctx).Err())
			require.Equal(t, 2, inUse(tr))
			require.Zero(t, done)

			end(one)
			assert.Equal(t, 1, inUse(tr), "the other one's")
			assert.Equal(t, 1, done)
			end(other)
			require.Error(t, (*ctx).Err())
			assertFree(t, tr)
			assert.Zero(t, failures(tr))
			assert.Equal(t, 2, done)
		})
	}
}

func TestResponsesWithoutABodyHoldNothing(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		case "/head":
			w.Header().Set("Content-Length", "5")
		}
	})
	overEachProtocol(t, h, func(t *testing.T, url string, b *http.Transport) {
		tr := newTransport(t, steadyhttp.Config{Base: b})
		for path, method := range map[string]string{"/204": "GET", "/304": "GET", "/head": "HEAD"} {
			body := open(t, tr, request(t, method, url+path, nil))
			assert.Zero(t, inUse(tr), "%s, before its body is closed", path)
			content, err := io.ReadAll(body)
			require.NoError(t, err)
			assert.Empty(t, content)
			require.NoError(t, body.Close())
		}
	})
	for name, answer := range map[string]*http.Response{
		"NoBody":             {StatusCode: 200, Body: http.NoBody},
		"a 204 with content": {StatusCode: 204, Body: io.NopCloser(strings.NewReader("never mind"))},
		"a 304 with content": {StatusCode: 304, Body: io.NopCloser(strings.NewReader("never mind"))},
	} {
		tr := newTransport(t, steadyhttp.Config{Base: base(func(*http.Request) (*http.Response, error) { return answer, nil })})
		body := open(t, tr, get(t))
		assert.Zero(t, inUse(tr), name)
		content, err := io.ReadAll(body)
		require.NoError(t, err)
		assert.Empty(t, content, name)
	}
}

func TestABodyThatDiesHalfWayIsOneFailure(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			w.Header().Set("Content-Length", "1000")
		}
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	overEachProtocol(t, h, func(t *testing.T, url string, b *http.Transport) {
		tr := newTransport(t, steadyhttp.Config{Base: b})
		for i, path := range []string{"/chunked", "/short"} {
			body := open(t, tr, request(t, http.MethodGet, url+path, nil))
			content, err := io.ReadAll(body)
			assert.Equal(t, "half", string(content))
			require.Error(t, err)
			assert.Zero(t, inUse(tr))
			assert.Equal(t, i+1, failures(tr))

			_, err = body.Read(make([]byte, 1))
			require.Error(t, err)
			_ = body.Close()
			assert.Equal(t, []int{i + 1, i + 1}, []int{failures(tr), tr.Dependency("").Breaker().Stats().Calls}, "once")
		}
		assertFree(t, tr)
	})
}

func TestALateFailureThatDecidesOpensTheBreaker(t *testing.T) {
	b, _ := streaming(failing())
	tr := newTransport(t, steadyhttp.Config{Base: b, Dependency: dependency(func(cfg *steady.DependencyConfig) {
		cfg.Breaker.WindowSize, cfg.Breaker.MinCalls = 1, 1
	})})
	body := open(t, tr, get(t))
	require.Equal(t, steady.StateClosed, tr.Dependency("").Breaker().State())
	_, err := io.Copy(io.Discard, body)
	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, steady.StateOpen, tr.Dependency("").Breaker().State())
}

func TestTheCallersOwnEndOfABodyIsNoFailure(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // or the body might be read to a good end
	})
	overEachProtocol(t, h, func(t *testing.T, url string, b *http.Transport) {
		tr := newTransport(t, steadyhttp.Config{Base: b})
		half := func(ctx context.Context) io.ReadCloser {
			body := open(t, tr, request(t, http.MethodGet, url, nil).WithContext(ctx))
			_, err := io.ReadFull(body, make([]byte, 4))
			require.NoError(t, err)
			return body
		}
		t.Run("closed early", func(t *testing.T) {
			require.NoError(t, half(t.Context()).Close())
		})
		t.Run("closed while a Read waits", func(t *testing.T) {
			body := half(t.Context())
			waiting := make(chan error)
			go func() {
				waiting <- nil
				_, err := body.Read(make([]byte, 1))
				waiting <- err
			}()
			<-waiting
			require.NoError(t, body.Close())
			require.Error(t, <-waiting)
		})
		t.Run("cancelled", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			body := half(ctx)
			cancel()
			_, err := io.Copy(io.Discard, body)
			require.ErrorIs(t, err, context.Canceled)
			_ = body.Close()
		})
		assertFree(t, tr)
		assert.Zero(t, failures(tr))
	})
}

// The body of a request that waits fails when it is closed; the Read may be first to say so.
func TestAReadThatACloseHasFailedIsNoFailure(t *testing.T) {
	closed := make(chan struct{})
	tr := newTransport(t, steadyhttp.Config{Base: base(func(*http.Request) (*http.Response, error) {
		resp := response(200, "")
		resp.ContentLength = -1
		resp.Body = &slowToClose{closing: make(chan struct{}), failed: closed}
		return resp, nil
	})})
	body := open(t, tr, get(t))
	go func() {
		_, err := body.Read(make([]byte, 1))
		assert.ErrorIs(t, err, errBoom)
		close(closed)
	}()
	require.NoError(t, body.Close())
	assert.Zero(t, failures(tr))
}

// slowToClose fails a waiting Read as soon as it is being closed, and has closed when that Read has returned.
type slowToClose struct{ closing, failed chan struct{} }

func (b *slowToClose) Read([]byte) (int, error) { <-b.closing; return 0, errBoom }
func (b *slowToClose) Close() error             { close(b.closing); <-b.failed; return nil }

func TestTheDeadlinesKeepRunningWhileABodyIsRead(t *testing.T) {
	const attempt, total, callers = 40 * time.Second, 50 * time.Second, 20 * time.Second
	for name, c := range map[string]struct {
		change func(*steady.DependencyConfig)
		tries  int           // the last of which is answered
		caller time.Duration // how long the caller waits
		want   time.Duration
		policy string
	}{
		"the attempt's": {func(d *steady.DependencyConfig) { d.AttemptTimeout, d.Timeout = attempt, total }, 1, time.Hour, attempt, "api.attempt"},
		"the attempt's alone": {func(d *steady.DependencyConfig) {
			d.AttemptTimeout, d.Timeout, d.NoTimeout = attempt, 0, true
		}, 1, time.Hour, attempt, "api.attempt"},
		"the call's":       {func(d *steady.DependencyConfig) { d.Timeout = total }, 1, time.Hour, total, "api"},
		"the call's first": {func(d *steady.DependencyConfig) { d.AttemptTimeout, d.Timeout = attempt, total }, 2, time.Hour, total, "api"},
		"the caller's":     {func(d *steady.DependencyConfig) { d.AttemptTimeout, d.Timeout = attempt, total }, 1, callers, callers, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				tr := newTransport(t, steadyhttp.Config{
					Base: base(func(req *http.Request) (*http.Response, error) {
						if tries++; tries < c.tries {
							time.Sleep(attempt / 2)
							return nil, errBoom
						}
						resp := response(200, "")
						resp.Body, resp.ContentLength = io.NopCloser(blocked(req.Context())), -1
						return resp, nil
					}),
					Dependency: dependency(c.change),
				})
				ctx, cancel := context.WithTimeout(t.Context(), c.caller)
				defer cancel()
				start := time.Now()
				body := open(t, tr, get(t).WithContext(ctx))
				for range 2 { // however often it is read
					_, err := io.Copy(io.Discard, body)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					assert.Equal(t, c.want, time.Since(start))
					var timeout *steady.TimeoutError
					if errors.As(err, &timeout) != (c.policy != "") {
						t.Fatalf("the error of %q is %v", c.policy, err)
					}
					if timeout != nil {
						assert.Equal(t, c.policy, timeout.Policy)
						assert.Equal(t, c.want, timeout.Limit)
					}
				}
				assert.Equal(t, c.tries, failures(tr))
				assertFree(t, tr)
			})
		})
	}
}

func TestABodysOwnErrorIsNotTheDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(t, steadyhttp.Config{Base: base(func(req *http.Request) (*http.Response, error) {
			resp := response(200, "")
			resp.ContentLength = -1
			resp.Body = io.NopCloser(readerFunc(func([]byte) (int, error) {
				<-req.Context().Done()
				return 0, errBoom
			}))
			return resp, nil
		})})
		_, err := io.Copy(io.Discard, open(t, tr, get(t)))
		assert.Equal(t, errBoom, err)
	})
}

func TestReadIdleIsTheTimeThatAReadWaits(t *testing.T) {
	stream := func(t *testing.T, chunks ...time.Duration) (io.ReadCloser, *steadyhttp.Transport) {
		tr := newTransport(t, steadyhttp.Config{
			Timeouts: steadyhttp.Timeouts{ReadIdle: 5 * time.Second},
			Base: base(func(req *http.Request) (*http.Response, error) {
				resp := response(200, "")
				resp.ContentLength = -1
				resp.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
					if len(chunks) == 0 {
						return 0, io.EOF
					}
					select {
					case <-time.After(chunks[0]):
						chunks = chunks[1:]
						return copy(p, "chunk"), nil
					case <-req.Context().Done():
						return 0, req.Context().Err()
					}
				}))
				return resp, nil
			}),
		})
		return open(t, tr, get(t)), tr
	}
	t.Run("a steady stream is not cut off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			body, tr := stream(t, 4*time.Second, 4*time.Second, 4*time.Second)
			b, err := io.ReadAll(body)
			require.NoError(t, err)
			assert.Len(t, b, 15)
			assert.Zero(t, failures(tr))
		})
	})
	t.Run("nor is a slow reader's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			body, tr := stream(t, time.Second, time.Second)
			for range 2 {
				time.Sleep(10 * time.Second)
				_, err := body.Read(make([]byte, 10))
				require.NoError(t, err)
			}
			time.Sleep(10 * time.Second)
			_, err := body.Read(make([]byte, 10))
			require.ErrorIs(t, err, io.EOF)
			assert.Zero(t, failures(tr))
		})
	})
	t.Run("one that stalls is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			body, tr := stream(t, time.Second, time.Hour)
			start := time.Now()
			b, err := io.ReadAll(body)
			assert.Equal(t, "chunk", string(b))
			assert.Equal(t, 6*time.Second, time.Since(start))
			var timeout *steady.TimeoutError
			require.ErrorAs(t, err, &timeout)
			assert.Equal(t, "api.read-idle", timeout.Policy)
			assert.Equal(t, 5*time.Second, timeout.Limit)
			require.NotErrorIs(t, err, context.Canceled, "the caller has not cancelled")
			assert.Equal(t, 1, failures(tr))
			assertFree(t, tr)
			_, err = body.Read(make([]byte, 1))
			require.ErrorAs(t, err, &timeout)
			require.NoError(t, body.Close())
			assert.Equal(t, 1, failures(tr))
		})
	})
	t.Run("nothing is left when a body is closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			body, tr := stream(t, time.Second, time.Hour)
			_, err := body.Read(make([]byte, 10))
			require.NoError(t, err)
			require.NoError(t, body.Close())
			time.Sleep(time.Minute)
			assert.Zero(t, failures(tr))
			assertFree(t, tr)
		})
	})
}

func TestReadIdleOverEachProtocol(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // or the body might be read to a good end
	})
	overEachProtocol(t, h, func(t *testing.T, url string, b *http.Transport) {
		tr := newTransport(t, steadyhttp.Config{Base: b, Timeouts: steadyhttp.Timeouts{ReadIdle: 20 * time.Millisecond}})
		body := open(t, tr, request(t, http.MethodGet, url, nil))
		defer func() { _ = body.Close() }()
		_, err := io.ReadAll(body)
		require.ErrorIs(t, err, steady.ErrTimeout)
		assert.Equal(t, 1, failures(tr))
		assertFree(t, tr)
	})
}

func TestAnUpgradedConnectionCanBeWrittenAndHoldsItsSlot(t *testing.T) {
	s, b := protocols[0].start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, line)
		}
	}))
	tr := newTransport(t, steadyhttp.Config{Base: b, Timeouts: steadyhttp.Timeouts{ReadIdle: time.Millisecond}})
	req := request(t, http.MethodGet, s.URL, nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	require.True(t, ok)
	lines := bufio.NewReader(conn)
	for i := range 3 {
		_, err := fmt.Fprintln(conn, "line", i)
		require.NoError(t, err)
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintln("line", i), line)
	}
	assert.Equal(t, 1, inUse(tr))
	require.NoError(t, conn.Close())
	assertFree(t, tr)
	assert.Zero(t, failures(tr))
}

func TestReadIdleDoesNotRunOnAnUpgradedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(t, steadyhttp.Config{
			Timeouts: steadyhttp.Timeouts{ReadIdle: 5 * time.Second},
			Base: base(func(req *http.Request) (*http.Response, error) {
				resp := response(http.StatusSwitchingProtocols, "")
				resp.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
					select {
					case <-time.After(40 * time.Second):
						return copy(p, "ping"), nil
					case <-req.Context().Done():
						return 0, req.Context().Err()
					}
				}))
				return resp, nil
			}),
		})
		body := open(t, tr, get(t))
		_, err := io.ReadFull(body, make([]byte, 4))
		require.NoError(t, err)
		require.NoError(t, body.Close())
	})
}

// A base transport may use its context until a body is closed: to read what is left, and keep the connection.
func TestABodyIsClosedBeforeItsContextEnds(t *testing.T) {
	var closed []error
	tr := newTransport(t, steadyhttp.Config{Base: base(func(req *http.Request) (*http.Response, error) {
		resp := response(503, "x")
		resp.Body = closerFunc(func() error {
			closed = append(closed, req.Context().Err())
			return nil
		})
		return resp, nil
	})})
	require.NoError(t, open(t, tr, get(t)).Close())
	assert.Equal(t, []error{nil, nil, nil}, closed)
}

// closerFunc is an empty body.
type closerFunc func() error

func (closerFunc) Read([]byte) (int, error) { return 0, io.EOF }
func (f closerFunc) Close() error           { return f() }

func TestNoOtherBodyCanBeWritten(t *testing.T) {
	body := open(t, newTransport(t, steadyhttp.Config{Base: always(200, "x")}), get(t))
	_, writable := body.(io.Writer)
	assert.False(t, writable)
	require.NoError(t, body.Close())
}

func TestTrailersOfAResponseAreThereAfterTheBody(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set(http.TrailerPrefix+"X-Sum", "42") // not announced
	})
	overEachProtocol(t, h, func(t *testing.T, url string, b *http.Transport) {
		tr := newTransport(t, steadyhttp.Config{Base: b})
		resp, err := tr.RoundTrip(request(t, http.MethodGet, url, nil))
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		content, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "data", string(content))
		assert.Equal(t, "42", resp.Trailer.Get("X-Sum"))
	})
}

func TestABodyThatIsReadToItsEndGivesBackItsConnection(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
	})
	overEachProtocol(t, h, func(t *testing.T, url string, b *http.Transport) {
		made := connections(b)
		tr := newTransport(t, steadyhttp.Config{Base: b, Timeouts: steadyhttp.Timeouts{ReadIdle: time.Minute}})
		for range 5 {
			content, err := io.ReadAll(open(t, tr, request(t, http.MethodGet, url, nil)))
			require.NoError(t, err)
			assert.Len(t, content, 100_000)
		}
		assert.EqualValues(t, 1, made.Load())
	})
}
