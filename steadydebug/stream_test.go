package steadydebug_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadydebug"
)

// pipeServer is an http.Server inside a bubble: its connections are net.Pipes, which have no buffer, so that a
// client that does not read is noticed by the first byte.
type pipeServer struct {
	*http.Server
	conns  chan net.Conn
	closed chan struct{}
}

func startPipeServer(t *testing.T, h http.Handler) *pipeServer {
	t.Helper()
	s := &pipeServer{Server: &http.Server{Handler: h}, conns: make(chan net.Conn), closed: make(chan struct{})}
	go func() { _ = s.Serve(s) }()
	t.Cleanup(func() { _ = s.Server.Close() })
	return s
}

func (s *pipeServer) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *pipeServer) Addr() net.Addr { return &net.UnixAddr{} }

func (s *pipeServer) Close() error {
	close(s.closed)
	return nil
}

// client is one that has asked for the stream, and has got the header of the answer.
type client struct {
	net.Conn
	r *bufio.Reader
}

func (s *pipeServer) stream(t *testing.T) *client {
	t.Helper()
	c := &client{Conn: s.ask(t)}
	c.r = bufio.NewReaderSize(c, 16)
	for {
		line, err := c.r.ReadString('\n')
		require.NoError(t, err)
		if line == "\r\n" {
			return c
		}
	}
}

// ask asks for the stream.
func (s *pipeServer) ask(t *testing.T) net.Conn {
	t.Helper()
	near, far := net.Pipe()
	s.conns <- far
	t.Cleanup(func() { _ = near.Close() })
	_, err := near.Write([]byte("GET /?format=events HTTP/1.0\r\n\r\n"))
	require.NoError(t, err)
	return near
}

// event reads one.
func (c *client) event(t *testing.T) (name string, data []byte) {
	t.Helper()
	for {
		line, err := c.r.ReadString('\n')
		require.NoError(t, err)
		if n, ok := strings.CutPrefix(line, "event: "); ok {
			name = strings.TrimSpace(n)
		} else if d, ok := strings.CutPrefix(line, "data: "); ok {
			return name, []byte(d)
		}
	}
}

func TestAClientThatFollowsTheStreamKnowsWhatASnapshotTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{Breakers: []*steady.Breaker{newBreaker(t, "idle", nil)}})
		d := newDependency(t, "catalog", h.Hooks())
		require.NoError(t, h.Add(d))
		nextReading()
		c := startPipeServer(t, h).stream(t)
		var mine map[string]any // the snapshot as the client has it
		events := map[string]int{}
		changed := 0
		calls := pipeline(t, d)
		for second := range 40 {
			switch second {
			case 3:
				go call(calls, 9, 100*time.Millisecond, nil)
			case 8:
				go call(calls, 5, 700*time.Millisecond, errFailed)
			case 30:
				go call(calls, 3, 0, nil)
			case 25:
				require.NoError(t, h.AddBreaker(newBreaker(t, "late", nil)))
			case 35:
				require.NoError(t, d.Bulkhead().SetMaxConcurrent(12))
			}
			name, data := c.event(t)
			events[name]++
			if name == "snapshot" {
				mine = decode(t, data)
			} else {
				changed += follow(mine, decode(t, data))
			}
			require.Equal(t, decode(t, get(h, "/?format=json").Body.Bytes()), mine, "second %d", second)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		assert.Equal(t, 3, events["snapshot"], "the first, one for the new breaker, and one for the new limit")
		assert.Equal(t, 37, events["update"])
		assert.Less(t, changed, 30, "what has not changed is left out")
	})
}

func decode(t *testing.T, data []byte) (v map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(data, &v))
	return v
}

// follow brings a snapshot up to date, as the documentation says it. It returns how many dependencies the
// update tells of.
func follow(snapshot, update map[string]any) int {
	snapshot["at"], snapshot["sequence"] = update["at"], update["sequence"]
	snapshot["transitions"] = append(update["transitions"].([]any), snapshot["transitions"].([]any)...)
	changed := map[any]map[string]any{}
	for _, d := range update["dependencies"].([]any) {
		d := d.(map[string]any)
		changed[d["id"]] = d
	}
	for _, d := range snapshot["dependencies"].([]any) {
		d := d.(map[string]any)
		for field, value := range changed[d["id"]] {
			d[field] = value
		}
		for outcome, count := range d["latest"].(map[string]any) {
			history := d["history"].(map[string]any)
			column := history[outcome].([]any)
			if len(column) > 0 || count != 0.0 {
				history[outcome] = append(column, count)
			}
		}
	}
	return len(changed)
}

func TestAClientFollowsThroughAPanicOfAHook(t *testing.T) {
	usual := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	defer slog.SetDefault(usual)
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, "bad", &steady.Hooks{OnTransition: func(steady.Transition) { panic("a hook") }})
		h := newHandler(t, steadydebug.HandlerConfig{Breakers: []*steady.Breaker{b}})
		nextReading()
		c := startPipeServer(t, h).stream(t)
		var mine map[string]any
		for second := range 5 {
			name, data := c.event(t)
			if name == "snapshot" {
				mine = decode(t, data)
			} else {
				follow(mine, decode(t, data))
			}
			require.Equal(t, decode(t, get(h, "/?format=json").Body.Bytes()), mine, "second %d", second)
			synctest.Wait()
			if second == 0 {
				for range 3 {
					steady.Must(b.Allow()).Done(steady.Success)
				}
				time.Sleep(700 * time.Millisecond)
				for range 10 { // overdue by the reading after the next, which panics
					steady.Must(b.Allow())
				}
				time.Sleep(300 * time.Millisecond)
				continue
			}
			time.Sleep(time.Second)
		}
	})
}

func TestAskingForTheHeadOfAStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{})
		w := httptest.NewRecorder() // takes a body whatever the method, as an http.ResponseWriter may
		ended := make(chan struct{})
		go func() {
			h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/?format=events", nil))
			close(ended)
		}()
		nextReading()
		select {
		case <-ended:
		default:
			t.Error("the request's goroutine is still there")
		}
		assert.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
		assert.Empty(t, w.Body.String())
	})
}

func TestASlowClientMissesReadingsAndHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{Breakers: thousand(t)})
		server := startPipeServer(t, h)
		nextReading()
		quick, slow := server.stream(t), server.stream(t)
		synctest.Wait() // the slow one's first event is stuck
		for second := range 9 {
			name, data := quick.event(t)
			if second > 0 {
				assert.Equal(t, "update", name)
			}
			assert.Equal(t, float64(2+second), decode(t, data)["sequence"], "every reading, at its time")
			nextReading()
		}
		name, data := slow.event(t)
		assert.Equal(t, "snapshot", name)
		assert.Equal(t, 2.0, decode(t, data)["sequence"], "what was stuck")
		name, data = slow.event(t)
		assert.Equal(t, "snapshot", name, "an update would not do")
		assert.Equal(t, 11.0, decode(t, data)["sequence"], "the latest, not the next")
	})
}

func TestAClientThatDoesNotReadIsDropped(t *testing.T) {
	for name, ask := range map[string]func(*pipeServer, *testing.T){
		"not even the header": func(s *pipeServer, t *testing.T) { s.ask(t) },
		"an event":            func(s *pipeServer, t *testing.T) { s.stream(t) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handled := make(chan time.Time, 1)
				h := newHandler(t, steadydebug.HandlerConfig{Breakers: thousand(t)})
				began := time.Now()
				ask(startPipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					h.ServeHTTP(w, r)
					handled <- time.Now()
				})), t)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Len(t, handled, 1, "its goroutine ends")
				assert.Equal(t, 10*time.Second, (<-handled).Sub(began))
			})
		})
	}
}

func TestAClientThatIsGoneLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{Breakers: thousand(t)})
		ctx, leave := context.WithCancel(context.Background())
		handled := make(chan struct{})
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?format=events", nil).WithContext(ctx))
			close(handled)
		}()
		nextReading()
		leave()
		synctest.Wait()
		select {
		case <-handled:
		default:
			t.Fatal("the request's goroutine is still there")
		}
		nextReading()
	})
}

func TestCloseEndsStreamsSoThatAServerCanShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{})
		server := startPipeServer(t, h)
		server.RegisterOnShutdown(h.Close)
		c := server.stream(t)
		c.event(t)
		ended := make(chan error)
		go func() { ended <- server.Shutdown(context.Background()) }()
		for {
			if _, err := c.r.ReadByte(); err != nil {
				break
			}
		}
		require.NoError(t, <-ended)
	})
}

func TestAServersOwnWriteTimeoutDoesNotEndTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{})
		server := startPipeServer(t, h)
		server.WriteTimeout = 5 * time.Second
		c := server.stream(t)
		for range 30 {
			c.event(t)
		}
	})
}

func TestAResponseWriterThatCannotFlushIsToldSo(t *testing.T) {
	h := newHandler(t, steadydebug.HandlerConfig{})
	w := httptest.NewRecorder()
	h.ServeHTTP(struct{ http.ResponseWriter }{w}, newRequest("/?format=events"))
	assert.Equal(t, http.StatusNotImplemented, w.Code)
	assert.Contains(t, w.Body.String(), "Unwrap")
}

func TestStreamsAreNotCollectedOnTheirWay(t *testing.T) {
	h := newHandler(t, steadydebug.HandlerConfig{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newRequest("/?format=events").WithContext(ctx))
	assert.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	assert.Equal(t, "no", w.Header().Get("X-Accel-Buffering"))
	assert.True(t, w.Flushed)
	assert.Equal(t, bytes.Count(w.Body.Bytes(), []byte("event: ")), bytes.Count(w.Body.Bytes(), []byte("\n\n")), "whole events")
}

func newRequest(target string) *http.Request {
	return httptest.NewRequest(http.MethodGet, target, nil)
}

// discard is an http.ResponseWriter that keeps nothing.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
