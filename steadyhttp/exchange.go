package steadyhttp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/steady-go/steady"
)

// What is read of a response before another attempt, so that its connection can be used again.
const (
	drainBytes = 64 << 10
	drainTime  = 50 * time.Millisecond
)

// exchange is one attempt: what is known of it, and its response if there is one.
type exchange struct {
	call   *call
	resp   *http.Response
	cancel context.CancelFunc // ends the attempt's context

	asked, connected atomic.Bool // net/http asked for a connection; it got one
	unreadable       atomic.Bool // the caller's body could not be read
	local            bool        // the error is not the dependency's
}

// classify says what the attempt means, at its end, or when its body has failed.
func (x *exchange) classify(err error) steady.Outcome {
	if x.local {
		return steady.Ignored
	}
	if classify := x.call.t.cfg.Classify; classify != nil {
		if o := classify(x.resp, err); o != 0 {
			return o
		}
	}
	if classify := x.call.host.classify; classify != nil && err != nil {
		if o := classify(err); o != 0 {
			return o
		}
	}
	o := Classify(x.resp, err)
	switch {
	case x.resp != nil || !x.asked.Load():
		return o
	case o == steady.Unsent && x.connected.Load(): // net/http had sent it over another connection before
		return steady.Transient
	case o == steady.Transient && !x.connected.Load():
		return steady.Unsent
	default:
		return o
	}
}

func (x *exchange) retryAfter(err error) time.Duration {
	if err != nil {
		return 0
	}
	return retryAfter(x.resp, x.call.host.now())
}

// discard is what becomes of a response that is to be retried. One that was read to its end is kept, in case that no
// other attempt is made.
func (x *exchange) discard() {
	defer x.cancel()
	body := x.resp.Body
	defer func() { _ = body.Close() }()
	if x.resp.ContentLength > drainBytes {
		return
	}
	timer := x.call.host.afterFunc(drainTime, x.cancel)
	defer timer.Stop()
	var content bytes.Buffer
	n, err := io.CopyN(&content, body, drainBytes)
	if err == io.EOF || err == nil && n == x.resp.ContentLength { //nolint:errorlint // as io.CopyN has it
		x.resp.Body = io.NopCloser(&content)
		x.call.kept = x.resp
	}
}

// deliver hands the response out. What the attempt holds is released when its body has ended.
func (x *exchange) deliver(release func(error)) *http.Response {
	end := func(err error) {
		defer x.call.leave()
		defer x.cancel()
		release(err)
	}
	resp := x.resp
	if bodyless(x.call.req.Method, resp) {
		_ = resp.Body.Close()
		resp.Body = http.NoBody
		end(nil)
		return resp
	}
	b := &body{inner: resp.Body, end: end}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		b.watch(x)
	}
	resp.Body = b
	if w, ok := b.inner.(io.Writer); ok { // the connection after a 101
		resp.Body = struct {
			*body
			io.Writer
		}{b, w}
	}
	return resp
}

// bodyless reports whether a response has nothing to read.
func bodyless(method string, resp *http.Response) bool {
	return method == http.MethodHead || resp.Body == http.NoBody ||
		resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified
}
