package steadyhttp

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/steady-go/steady"
)

// body is a response's body that tells, once, how it ended: read to its end or closed, or failed.
type body struct {
	x     *exchange
	inner io.ReadCloser
	end   func(err error)

	ended, closed atomic.Bool
	idle          *idleness // nil where no limit is set
}

// watch limits the time that a Read may wait.
func (b *body) watch() {
	if limit := b.x.call.t.cfg.Timeouts.ReadIdle; limit > 0 {
		b.idle = &idleness{x: b.x, limit: limit}
	}
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.read(p)
	switch {
	case err == nil:
	case err == io.EOF || b.closed.Load(): //nolint:errorlint // as io.Reader has it
		b.finish(nil)
	default:
		err = b.x.late(err)
		b.finish(err)
	}
	return n, err
}

func (b *body) read(p []byte) (int, error) {
	if b.idle == nil {
		return b.inner.Read(p)
	}
	b.idle.begin()
	n, err := b.inner.Read(p)
	return n, b.idle.stop(err)
}

// Close closes the body of the base transport first: with its context gone, that would give up the connection.
func (b *body) Close() error {
	b.closed.Store(true)
	defer b.finish(nil)
	return b.inner.Close()
}

func (b *body) finish(err error) {
	if !b.ended.Swap(true) {
		b.end(err)
	}
}

// upgraded is the body of a 101 response: the connection.
type upgraded struct {
	*body
	io.Writer
}

// CloseWrite ends what is sent, where the connection can do that: with it httputil.ReverseProxy passes on that one side has
// nothing more to say.
func (u upgraded) CloseWrite() error {
	if w, ok := u.inner.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return fmt.Errorf("steadyhttp: CloseWrite: %w", http.ErrNotSupported)
}

// idleness ends an attempt of whose body a Read has waited for too long.
type idleness struct {
	x       *exchange
	limit   time.Duration
	timer   timer
	expired atomic.Bool
}

func (i *idleness) begin() {
	if i.timer == nil {
		i.timer = i.x.call.host.afterFunc(i.limit, i.expire)
		return
	}
	i.timer.Reset(i.limit)
}

func (i *idleness) expire() {
	i.expired.Store(true)
	i.x.cancel()
}

// stop ends the wait of a Read, and says when it was the limit that failed it.
func (i *idleness) stop(err error) error {
	i.timer.Stop()
	if err == nil || err == io.EOF || !i.expired.Load() { //nolint:errorlint // as io.Reader has it
		return err
	}
	return &steady.TimeoutError{Policy: i.x.call.host.dependency.Name() + ".read-idle", Limit: i.limit}
}
