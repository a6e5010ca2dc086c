package steadyhttp_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The types, flags and error codes of RFC 9113, sections 6 and 7, that the tests need.
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway = 0, 1, 3, 4, 7

	flagEndStream, flagAck, flagEndHeaders = 1, 1, 4

	internalError, refusedStream = 2, 7
)

// frames is one connection of a server of HTTP/2, without TLS, that does what a well-behaved one cannot be asked to do.
type frames struct{ net.Conn }

func (c frames) write(kind, flags byte, stream uint32, payload ...byte) {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = binary.BigEndian.AppendUint32(append(b, flags), stream)
	_, _ = c.Write(append(b, payload...))
}

// answer sends the header of a 200 and the beginning of its body, and ends that if it is all.
func (c frames) answer(stream uint32, content string, all bool) {
	c.write(frameHeaders, flagEndHeaders, stream, 0x88) // what HPACK has for it
	c.data(stream, content, all)
}

func (c frames) data(stream uint32, content string, last bool) {
	var flags byte
	if last {
		flags = flagEndStream
	}
	c.write(frameData, flags, stream, []byte(content)...)
}

func (c frames) reset(stream uint32, code byte) { c.write(frameReset, 0, stream, 0, 0, 0, code) }

// goAway says that no stream above the last one was looked at, and that this is no error.
func (c frames) goAway(last uint32) {
	c.write(frameGoAway, 0, 0, append(binary.BigEndian.AppendUint32(nil, last), 0, 0, 0, 0)...)
}

// serveFrames starts a server, and returns its URL, a base transport for it, and the bodies of the requests that it got.
// It is told what to do with each of them, the first of which has the number 1, when all of it has come.
func serveFrames(t *testing.T, handle func(c frames, stream uint32, number int)) (url string, b *http.Transport, bodies func() []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		got   []string
		conns []net.Conn
	)
	received := func(body string) int {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, body)
		return len(got)
	}
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			wg.Go(func() {
				c := frames{conn}
				c.readRequests(func(stream uint32, body string) { handle(c, stream, received(body)) })
			})
		}
	})
	b = steady.Must(steadyhttp.NewBaseTransport(steadyhttp.Timeouts{}))
	b.Proxy, b.Protocols = nil, new(http.Protocols)
	b.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(func() {
		_ = l.Close()
		b.CloseIdleConnections()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return "http://" + l.Addr().String(), b, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

// readRequests reads frames until the connection ends.
func (c frames) readRequests(whole func(stream uint32, body string)) {
	if _, err := io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	c.write(frameSettings, 0, 0)
	bodies := map[uint32]string{}
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head)>>8)
		if _, err := io.ReadFull(c, payload); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch kind {
		case frameSettings:
			if flags&flagAck == 0 {
				c.write(frameSettings, flagAck, 0)
			}
		case frameData, frameHeaders:
			if kind == frameData {
				bodies[stream] += string(payload)
			}
			if flags&flagEndStream != 0 {
				whole(stream, bodies[stream])
			}
		}
	}
}

// What an HTTP/2 server says that it did not do is done again by net/http, with the whole body; what it may have done is
// not.
func TestWhatAnHTTP2ServerDidNotDoIsSentWholeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		refuse func(c frames, stream uint32)
		undone bool
	}{
		"the stream is refused":         {func(c frames, stream uint32) { c.reset(stream, refusedStream) }, true},
		"the server goes away":          {func(c frames, _ uint32) { c.goAway(0) }, true},
		"the server goes away and ends": {func(c frames, _ uint32) { c.goAway(0); _ = c.Close() }, true},
		"the stream fails":              {func(c frames, stream uint32) { c.reset(stream, internalError) }, false},
	} {
		post := func(t *testing.T, body io.Reader) ([]string, error) {
			url, b, received := serveFrames(t, func(s frames, stream uint32, number int) {
				if number == 1 {
					c.refuse(s, stream)
					return
				}
				s.answer(stream, "done", true)
			})
			tr := newTransport(t, steadyhttp.Config{Base: b})
			resp, err := tr.RoundTrip(request(t, http.MethodPost, url, body))
			if err == nil {
				_ = resp.Body.Close()
			}
			assertFree(t, tr)
			return received(), err
		}
		t.Run(name, func(t *testing.T) {
			bodies, err := post(t, strings.NewReader("order"))
			if c.undone {
				require.NoError(t, err)
				assert.Equal(t, []string{"order", "order"}, bodies)
			} else {
				require.Error(t, err)
				assert.Equal(t, []string{"order"}, bodies)
			}
		})
		t.Run(name+", without GetBody", func(t *testing.T) {
			bodies, err := post(t, onlyReader{strings.NewReader("order")})
			require.Error(t, err)
			assert.Equal(t, []string{"order"}, bodies)
		})
	}
}

func TestAnHTTP2BodyThatDiesHalfWayIsOneFailure(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(c frames, stream uint32)
		want int
	}{
		"refused late": {func(c frames, stream uint32) { c.reset(stream, refusedStream) }, 1},
		"failed":       {func(c frames, stream uint32) { c.reset(stream, internalError) }, 1},
		"gone":         {func(c frames, stream uint32) { c.goAway(stream); _ = c.Close() }, 1},
		"going, but it ends well": {func(c frames, stream uint32) {
			c.goAway(stream)
			c.data(stream, "half", true)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			url, b, received := serveFrames(t, func(s frames, stream uint32, _ int) {
				s.answer(stream, "half", false)
				c.end(s, stream)
			})
			tr := newTransport(t, steadyhttp.Config{Base: b})
			content, err := io.ReadAll(open(t, tr, request(t, http.MethodGet, url, nil)))
			assert.Equal(t, c.want == 0, err == nil, "%v", err)
			assert.Equal(t, strings.Repeat("half", 2-c.want), string(content))
			assert.Equal(t, c.want, failures(tr))
			assert.Len(t, received(), 1)
			assertFree(t, tr)
		})
	}
}
