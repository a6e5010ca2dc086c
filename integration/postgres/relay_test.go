package postgres_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// relay stands before the proxy and resets connections, which toxiproxy can do too, but it leaks a goroutine for each.
type relay struct {
	listener net.Listener
	upstream string
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[*net.TCPConn]bool // of clients
}

func newRelay(t *testing.T, upstream string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{listener: l, upstream: upstream, conns: make(map[*net.TCPConn]bool)}
	r.serving.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.reset()
		r.serving.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.serving.Go(func() { r.serve(c.(*net.TCPConn)) })
	}
}

func (r *relay) serve(client *net.TCPConn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", r.upstream)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	r.mu.Lock()
	r.conns[client] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, client)
	}()
	r.serving.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
}

// reset sends an RST to every client.
func (r *relay) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
}
