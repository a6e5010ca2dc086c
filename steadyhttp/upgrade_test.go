package steadyhttp_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client behind a reverse proxy ends what it has to say, and then hears the answer: the proxy must be able to pass
// that end on.
func TestAReverseProxyCanEndOneSideOfAnUpgradedConnection(t *testing.T) {
	backend, b := protocols[0].start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		all, _ := io.ReadAll(rw)
		_, _ = conn.Write(all)
	}))
	tr := newTransport(t, steadyhttp.Config{Base: b})
	target, err := url.Parse(backend.URL)
	require.NoError(t, err)
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: tr,
	})
	t.Cleanup(front.Close)

	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: echo\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	_, err = fmt.Fprint(conn, "hello")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(answer))
	require.Eventually(t, func() bool { return inUse(tr) == 0 }, 30*time.Second, time.Millisecond)
}

func TestAConnectionThatCannotEndOneSideSaysSo(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _ = there.Close() }()
	tr := newTransport(t, steadyhttp.Config{Base: base(func(*http.Request) (*http.Response, error) {
		resp := response(http.StatusSwitchingProtocols, "")
		resp.Body = here
		return resp, nil
	})})
	body := open(t, tr, get(t))
	err := body.(interface{ CloseWrite() error }).CloseWrite()
	require.ErrorIs(t, err, http.ErrNotSupported)
	assert.Equal(t, 1, inUse(tr))
	require.NoError(t, body.Close())
	assertFree(t, tr)
}
