package steadyhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/steady-go/steady"
)

// call is one logical call: a request, and the attempts that are made of it.
type call struct {
	t      *Transport
	req    *http.Request // the caller's
	host   *host
	intent steady.Intent
	key    string // the Idempotency-Key that was made for it, if any

	began    time.Time // on the dependency's clock
	attempts int
	sent     bool           // the caller's body is the base transport's to close
	kept     *http.Response // a response that was to be retried, whole in memory, until another attempt is made
}

// enter finds the call its host and its intent.
func (c *call) enter() error {
	var wantsKey bool
	c.intent, wantsKey = intentOf(c.req)
	if wantsKey && c.t.cfg.IdempotencyKey != nil {
		if c.key = c.t.cfg.IdempotencyKey(); c.key != "" {
			c.intent = steady.WriteIdempotent
		}
	}
	if c.host = c.t.one; c.host != nil {
		return nil
	}
	h, err := c.t.hosts.enter(hostName(c.req.URL))
	c.host = h
	return err
}

// leave ends the call, whose response's body has ended or never came.
func (c *call) leave() {
	if c.t.hosts != nil {
		c.t.hosts.leave(c.host)
	}
}

// run makes the attempts.
func (c *call) run() (*http.Response, error) {
	delivered := false
	defer func() {
		if !delivered {
			c.leave()
		}
	}()
	c.began = c.host.now()
	x, release, err := c.host.pipeline(c.intent, c.replayable()).Hold(c.req.Context(), c.attempt)
	if err != nil {
		if c.kept != nil && c.req.Context().Err() == nil {
			return c.kept, nil // nothing was sent after it: it is the answer
		}
		return nil, err
	}
	delivered = true
	return x.deliver(release), nil
}

// replayable reports whether the body can be had more than once.
func (c *call) replayable() bool {
	return c.req.Body == nil || c.req.Body == http.NoBody || c.req.GetBody != nil
}

// closeUnsent closes the body of a request that no attempt was made of.
func (c *call) closeUnsent() {
	if !c.sent && c.req.Body != nil {
		_ = c.req.Body.Close()
	}
}

// attempt is one run of the base transport.
func (c *call) attempt(ctx context.Context) (*exchange, error) {
	c.attempts++
	x := &exchange{call: c, limits: ctx}
	ctx, x.cancel = context.WithCancel(ctx)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { x.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { x.connected.Store(true) },
	})
	returned := false
	defer func() {
		if !returned || x.resp == nil {
			x.cancel()
		}
	}()
	req, err := c.request(ctx, x)
	if err != nil {
		x.local = true
		returned = true
		return x, err
	}
	c.kept = nil
	defer func() {
		if !returned && req.Body != nil { // the base transport panicked
			_ = req.Body.Close()
		}
	}()
	resp, err := c.t.base.RoundTrip(req)
	returned = true
	switch {
	case err != nil:
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close()
		}
		x.local = c.blameless(ctx, x)
		return x, err
	case resp == nil:
		return x, fmt.Errorf("steadyhttp: the base transport %T returned neither a response nor an error", c.t.base)
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	resp.Request = c.req
	x.resp = resp
	return x, nil
}

// request returns the request of an attempt: the base transport may change it, the caller may not see that.
func (c *call) request(ctx context.Context, x *exchange) (*http.Request, error) {
	if c.cancelled() {
		return nil, errors.New("steadyhttp: the request's Cancel was closed")
	}
	req := c.req.Clone(ctx)
	req.Trailer = c.req.Trailer // is filled in while the body is read, by the caller
	if c.key != "" {
		req.Header.Set(keyHeader, c.key)
	}
	if c.req.Body == nil || c.req.Body == http.NoBody {
		c.sent = true
		return req, nil
	}
	if c.req.GetBody != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := c.req.GetBody()
			if err != nil {
				return nil, err
			}
			if body == nil {
				return nil, errors.New("it returned no body")
			}
			return x.send(body), nil
		}
	}
	if c.sent {
		body, err := req.GetBody()
		if err != nil {
			return nil, fmt.Errorf("steadyhttp: the request's GetBody, for attempt %d: %w", c.attempts, err)
		}
		req.Body = body
		return req, nil
	}
	c.sent = true
	req.Body = x.send(c.req.Body)
	return req, nil
}

// cancelled reports whether the caller has closed the request's deprecated Cancel. An http.Client with a Timeout closes
// it at the deadline that it also gives to the context, which is no cancellation.
func (c *call) cancelled() bool {
	select {
	case <-c.req.Cancel: //nolint:staticcheck // deprecated, not gone
		deadline, ok := c.req.Context().Deadline()
		return !ok || time.Now().Before(deadline)
	default:
		return false
	}
}

// blameless reports whether the dependency has nothing to do with an attempt's error: there is something wrong with the
// caller's body, the caller is gone, or net/http took the request for invalid, and so did not even ask for a connection.
func (c *call) blameless(ctx context.Context, x *exchange) bool {
	if x.blamed.Load() || c.cancelled() {
		return true
	}
	_, std := c.t.base.(*http.Transport)
	return std && !x.asked.Load() && ctx.Err() == nil
}
