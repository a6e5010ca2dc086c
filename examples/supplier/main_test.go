package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

func TestTheBooksAreInOrderAfterFaultsHangAndRecovery(t *testing.T) {
	var out strings.Builder
	o, err := show{rough: 2 * time.Second, hang: 3 * time.Second, well: 2 * time.Second, shoppers: 16, seed: 1}.run(&out)
	t.Log(out.String())
	require.NoError(t, err, "no reservation applied twice, no order received twice, no error but the shop's own")

	assert.Positive(t, o.shop.results[result{"order", "ok"}])
	assert.Positive(t, o.shop.results[result{"stock", "not found"}])
	assert.Positive(t, o.supplier.Breaker().Stats().Transitions, "a supplier that hangs opens the breaker")
	assert.Zero(t, o.supplier.Breaker().Stats().InFlight)
	assert.Zero(t, o.supplier.Bulkhead().Stats().InFlight)
	for _, heading := range []string{"TIMEOUT", "RETRY", "RETRY BUDGET", "BREAKER", "BULKHEAD", "in order:"} {
		assert.Contains(t, out.String(), heading)
	}
}

func TestTheBooksShowWhatIsNotInOrder(t *testing.T) {
	s := newShop(nil)
	assert.NoError(t, books{}.check(s))
	assert.ErrorContains(t, books{keys: 2, baskets: 1}.check(s), "2 idempotency keys for 1 baskets")
	assert.ErrorContains(t, books{mostApplied: 2}.check(s), "applied 2 times")
	assert.ErrorContains(t, books{moved: 2, reserved: 1}.check(s), "left the stock")
	assert.ErrorContains(t, books{mostReceived: 2}.check(s), "received 2 times")
	assert.ErrorContains(t, books{delivered: 1}.check(s), "1 orders were delivered")
	s.note("stock", errors.New("EOF"))
	assert.ErrorContains(t, books{}.check(s), "EOF")
}

func TestTheSupplierAppliesAKeyOnceAndDeliversEveryOrder(t *testing.T) {
	server, err := startSupplier(1)
	require.NoError(t, err)
	defer server.close()
	server.mood.Store(int32(well))
	c, err := NewClient(server.url, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer c.Close()

	var first, second Reservation
	request := reservationRequest{Basket: "basket", SKU: "bolt", Quantity: 2}
	require.NoError(t, c.exchange(t.Context(), http.MethodPost, "/reservations", "key", request, &first))
	require.NoError(t, c.exchange(t.Context(), http.MethodPost, "/reservations", "key", request, &second))
	assert.Equal(t, first, second, "a repetition is answered like the first")
	for range 2 {
		require.NoError(t, c.exchange(t.Context(), http.MethodPost, "/orders", "", orderRequest{"basket", first.ID}, new(Confirmation)))
	}

	b := server.audit([]string{"basket"})
	assert.Equal(t, books{
		baskets: 1, keys: 1, received: 2, applied: 1, mostApplied: 1, moved: 2, reserved: 2,
		orders: 1, mostReceived: 2, delivered: 2, doubtful: 2,
	}, b)
	assert.ErrorContains(t, b.check(newShop(nil)), "received 2 times")
}

// script stands in for the network: each attempt gets the next step, the last one again and again.
type script struct {
	steps []step
	keys  []string // of the attempts
}

type step func(*http.Request) (*http.Response, error)

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	next := s.steps[min(len(s.keys), len(s.steps)-1)]
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	return next(r)
}

func status(code int) step {
	return func(r *http.Request) (*http.Response, error) {
		body := io.NopCloser(strings.NewReader(`{"Quantity": 3, "ID": "R1", "Number": 7}`))
		return &http.Response{StatusCode: code, Body: body, Request: r}, nil
	}
}

func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func refuses(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
}

func breaks(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
}

// play makes each of the three calls with a client of its own, and returns the errors and the attempts.
func play(t *testing.T, steps ...step) (errs map[string]error, attempts map[string][]string) {
	t.Helper()
	ctx := t.Context()
	errs, attempts = make(map[string]error), make(map[string][]string)
	for name, call := range map[string]func(*Client) error{
		"stock":   func(c *Client) error { _, err := c.Stock(ctx, "bolt"); return err },
		"reserve": func(c *Client) error { _, err := c.Reserve(ctx, "basket", "bolt", 1); return err },
		"order":   func(c *Client) error { _, err := c.Order(ctx, "basket", Reservation{ID: "R1"}); return err },
	} {
		s := &script{steps: steps}
		errs[name] = call(scripted(t, s))
		attempts[name] = s.keys
	}
	return errs, attempts
}

func scripted(t *testing.T, s *script) *Client {
	t.Helper()
	c, err := NewClient("http://supplier", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	c.http.Transport = s
	return c
}

func TestTheShopSeesItsOwnErrorsAndEachCallRepeatsOnlyWhatItMay(t *testing.T) {
	for name, tt := range map[string]struct {
		steps         []step
		want          error // nil: the call succeeds
		repeated      int   // attempts of stock and reserve
		repeatedOrder int
		inDoubt       bool // the order
	}{
		"an answer":                    {steps: []step{status(200)}, repeated: 1, repeatedOrder: 1},
		"not found":                    {steps: []step{status(404)}, want: ErrNotFound, repeated: 1, repeatedOrder: 1},
		"sold out":                     {steps: []step{status(409)}, want: ErrSoldOut, repeated: 1, repeatedOrder: 1},
		"500 all the time":             {steps: []step{status(500)}, want: ErrUnavailable, repeated: 3, repeatedOrder: 1, inDoubt: true},
		"503 all the time":             {steps: []step{status(503)}, want: ErrUnavailable, repeated: 3, repeatedOrder: 1, inDoubt: true},
		"a connection that breaks":     {steps: []step{breaks}, want: ErrUnavailable, repeated: 3, repeatedOrder: 1, inDoubt: true},
		"throttled, then an answer":    {steps: []step{status(429), status(200)}, repeated: 2, repeatedOrder: 2},
		"refused, then an answer":      {steps: []step{refuses, status(200)}, repeated: 2, repeatedOrder: 2},
		"refused all the time":         {steps: []step{refuses}, want: ErrUnavailable, repeated: 3, repeatedOrder: 3},
		"hanging":                      {steps: []step{hangs}, want: ErrTimedOut, repeated: 3, repeatedOrder: 1, inDoubt: true},
		"throttled, then not found":    {steps: []step{status(429), status(404)}, want: ErrNotFound, repeated: 2, repeatedOrder: 2},
		"throttled, then hanging":      {steps: []step{status(429), hangs}, want: ErrTimedOut, repeated: 3, repeatedOrder: 2, inDoubt: true},
		"an answer that is not JSON":   {steps: []step{garbled}, want: ErrUnavailable, repeated: 3, repeatedOrder: 1, inDoubt: true},
		"an error, then sold out":      {steps: []step{refuses, status(409)}, want: ErrSoldOut, repeated: 2, repeatedOrder: 2},
		"an unexpected healthy status": {steps: []step{status(418)}, want: ErrUnavailable, repeated: 1, repeatedOrder: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				errs, attempts := play(t, tt.steps...)
				for call, err := range errs {
					if tt.want == nil {
						assert.NoError(t, err, call)
					} else {
						assert.ErrorIs(t, err, tt.want, call)
					}
					var retryError *steady.RetryError
					assert.False(t, errors.As(err, &retryError) || errors.Is(err, steady.ErrTimeout), "%s: steady's errors stay inside", call)
				}
				assert.Len(t, attempts["stock"], tt.repeated)
				assert.Len(t, attempts["reserve"], tt.repeated)
				assert.Len(t, attempts["order"], tt.repeatedOrder)
				assert.Equal(t, tt.inDoubt, errors.Is(errs["order"], ErrInDoubt))

				for _, key := range attempts["reserve"] {
					assert.NotEmpty(t, key)
					assert.Equal(t, attempts["reserve"][0], key, "one key for all attempts of a call")
				}
			})
		})
	}
}

func garbled(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("<html>")), Request: r}, nil
}

func TestTwoReservationsHaveTwoKeys(t *testing.T) {
	s := &script{steps: []step{status(200)}}
	c := scripted(t, s)
	for range 2 {
		_, err := c.Reserve(t.Context(), "basket", "bolt", 1)
		require.NoError(t, err)
	}
	assert.NotEqual(t, s.keys[0], s.keys[1])
}

func TestAnOrderThatTheBreakerRejectsIsNotInDoubt(t *testing.T) {
	s := &script{steps: []step{status(200)}}
	c := scripted(t, s)
	c.supplier.Breaker().ForceOpen("test")
	_, err := c.Order(t.Context(), "basket", Reservation{})
	assert.ErrorIs(t, err, ErrUnavailable)
	assert.NotErrorIs(t, err, ErrInDoubt)
	assert.Empty(t, s.keys, "nothing was sent")
}

func TestAShopThatGivesUpHearsJustThat(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &script{steps: []step{func(r *http.Request) (*http.Response, error) {
		cancel()
		return hangs(r)
	}}}
	_, err := scripted(t, s).Order(ctx, "basket", Reservation{})
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, ErrInDoubt, "the order may have been on its way")
}

func TestRetryAfterIsReadInSeconds(t *testing.T) {
	for header, want := range map[string]time.Duration{"": 0, "2": 2 * time.Second, "-1": 0, "soon": 0, "99999999999": 0} {
		res := &http.Response{Header: http.Header{"Retry-After": {header}}}
		assert.Equal(t, want, retryAfter(res), "%q", header)
	}
}
