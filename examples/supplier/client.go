package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/steady-go/steady"
)

// Client is the supplier as the shop sees it. It may be used by any number of goroutines. Its errors are
// those of errors.go, or the context's if that was cancelled.
type Client struct {
	url  string
	http *http.Client

	supplier *steady.Dependency
	stock    *steady.Pipeline[int]
	reserve  *steady.Pipeline[Reservation]
	order    *steady.Pipeline[Confirmation]
}

// NewClient returns a client of the supplier at a URL.
func NewClient(url string, log *slog.Logger) (*Client, error) {
	supplier, err := steady.NewDependency(steady.DependencyConfig{
		Name:           "supplier",
		Timeout:        3 * time.Second, // as long as a shopper is willing to wait
		AttemptTimeout: time.Second,
		Breaker: steady.BreakerConfig{
			SlowThreshold: 300 * time.Millisecond, // it usually answers in 30 ms
			OpenDuration:  time.Second,            // short, for the show
		},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 10}, // as many as can outvote the breaker's window of 20
		Hooks:    steady.LogHooks(log),
	})
	if err != nil {
		return nil, err
	}
	c := &Client{
		url:      url,
		http:     &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}}, // no Timeout: steady has it
		supplier: supplier,
	}
	// One dependency, so one breaker, one bulkhead and one retry budget for all three. What differs is what
	// may be repeated.
	var errs [3]error
	c.stock, errs[0] = steady.NewPipelineFor(supplier, steady.ReadIdempotent, steady.PipelineConfig[int]{Name: "stock"})
	c.reserve, errs[1] = steady.NewPipelineFor(supplier, steady.WriteIdempotent, steady.PipelineConfig[Reservation]{Name: "reserve"})
	c.order, errs[2] = steady.NewPipelineFor(supplier, steady.WriteNonIdempotent, steady.PipelineConfig[Confirmation]{Name: "order"})
	return c, errors.Join(errs[:]...)
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Stock returns how many of an article the supplier has.
func (c *Client) Stock(ctx context.Context, sku string) (int, error) {
	n, err := c.stock.Do(ctx, func(ctx context.Context) (int, error) {
		var answer struct{ Quantity int }
		err := c.exchange(ctx, http.MethodGet, "/stock/"+url.PathEscape(sku), "", nil, &answer)
		return answer.Quantity, err
	})
	return n, translate(ctx, err)
}

// Reserve sets some of an article aside for a basket.
func (c *Client) Reserve(ctx context.Context, basket, sku string, quantity int) (Reservation, error) {
	// The key is made here, outside the function that is repeated: every attempt sends the same one, and
	// the supplier knows a repetition when it sees one.
	key := rand.Text()
	r, err := c.reserve.Do(ctx, func(ctx context.Context) (r Reservation, err error) {
		err = c.exchange(ctx, http.MethodPost, "/reservations", key, reservationRequest{basket, sku, quantity}, &r)
		return r, err
	})
	return r, translate(ctx, err)
}

// Order buys a reservation. The supplier delivers whatever it is sent, twice if it is sent twice, so an
// order of which nobody knows whether it arrived comes back as ErrInDoubt, and is not sent again.
func (c *Client) Order(ctx context.Context, reference string, r Reservation) (Confirmation, error) {
	o, err := c.order.Do(ctx, func(ctx context.Context) (o Confirmation, err error) {
		err = c.exchange(ctx, http.MethodPost, "/orders", "", orderRequest{reference, r.ID}, &o)
		return o, err
	})
	return o, translateWrite(ctx, err)
}

// exchange is one attempt: a request, and its answer read into out. It reads and closes the body itself,
// within the attempt's time limit; to hand out a body that is still open, use Pipeline.Hold, and
// PipelineConfig.Discard for those that are not handed out.
func (c *Client) exchange(ctx context.Context, method, path, key string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return sendError(err)
	}
	defer func() {
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 4<<10)) // so that the connection can be used again
		_ = res.Body.Close()
	}()
	if res.StatusCode != http.StatusOK {
		return statusError(res)
	}
	return json.NewDecoder(res.Body).Decode(out)
}

// sendError says what it means that no answer came: nothing is known, unless there was not even a
// connection; then the supplier cannot have seen the request, and even an order may be sent again.
func sendError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return steady.Mark(err, steady.Unsent)
	}
	return err
}

// statusError says what an answer other than 200 means.
func statusError(res *http.Response) error {
	err := answered{res.StatusCode}
	switch {
	case res.StatusCode == http.StatusTooManyRequests: // turned away at the door
		return steady.MarkRetryAfter(err, steady.Throttled, retryAfter(res))
	case res.StatusCode >= 500:
		return steady.MarkRetryAfter(err, steady.Transient, retryAfter(res))
	default: // not found, sold out: a healthy answer, which no breaker should count as a failure
		return steady.Mark(err, steady.Success)
	}
}

// retryAfter returns what the answer says of coming back, 0 if nothing.
func retryAfter(res *http.Response) time.Duration {
	seconds, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// answered is an answer other than 200.
type answered struct{ status int }

func (e answered) Error() string {
	return fmt.Sprintf("the supplier answered %d %s", e.status, http.StatusText(e.status))
}
