package steadyhttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
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
	limits context.Context    // has the deadlines of the attempt and of the call
	cancel context.CancelFunc // ends the attempt's context, which is a child of that

	asked, connected atomic.Bool // net/http asked for a connection; it got one
	blamed           atomic.Bool // the caller's body could not be read, or has another length than announced
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
	if x.resp.ContentLength > drainBytes && !bodyless(x.call.req.Method, x.resp) {
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
		defer end(nil) // whatever the Close does
		_ = resp.Body.Close()
		resp.Body = http.NoBody
		return resp
	}
	b := &body{x: x, inner: resp.Body, end: end}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		b.watch()
	}
	resp.Body = b
	if w, ok := b.inner.(io.Writer); ok {
		resp.Body = upgraded{b, w}
	}
	return resp
}

// bodyless reports whether a response has nothing to read.
func bodyless(method string, resp *http.Response) bool {
	return method == http.MethodHead || resp.Body == http.NoBody ||
		resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified
}

// late says which Timeout it was whose deadline has failed the reading of a body: the error by itself only says that one
// has passed.
func (x *exchange) late(err error) error {
	passed := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)
	if !passed || !errors.Is(x.limits.Err(), context.DeadlineExceeded) || x.call.req.Context().Err() != nil {
		return err
	}
	timeout, attempt := x.call.host.dependency.Timeout(), x.call.host.dependency.AttemptTimeout()
	at, _ := x.limits.Deadline()
	if timeout == nil || attempt != nil && at.Before(x.call.began.Add(timeout.Config().Limit)) {
		timeout = attempt
	}
	return &steady.TimeoutError{Policy: timeout.Name(), Limit: timeout.Config().Limit, Err: err}
}
