package steadyhttp_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
)

// The shortest right client: made once, and shared.
func Example() {
	catalog := &http.Client{Transport: steady.Must(steadyhttp.NewTransport(steadyhttp.Config{
		Dependency: steady.DependencyConfig{
			Name:     "catalog",
			Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
			Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
		},
		Timeouts: steadyhttp.Timeouts{Connect: 200 * time.Millisecond, Attempt: time.Second, Total: 2 * time.Second},
	}))} // no Client.Timeout: Total is that

	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "42.00")
	}))
	defer server.Close()
	defer catalog.CloseIdleConnections()

	resp, err := catalog.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close() // it holds its slot in the bulkhead until then
	price, err := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(price), err, "after", asked, "attempts")
	// Output: 200 42.00 <nil> after 2 attempts
}

// Each host that a webhook is sent to can fail on its own.
func ExampleNewTransport_perHost() {
	tr := steady.Must(steadyhttp.NewTransport(steadyhttp.Config{
		PerHost: func(string) steady.DependencyConfig {
			return steady.DependencyConfig{
				Breaker:  steady.BreakerConfig{SlowThreshold: 2 * time.Second},
				Bulkhead: steady.BulkheadConfig{MaxConcurrent: 5},
			}
		},
		MaxHosts: 10_000,
		Timeouts: steadyhttp.Timeouts{Total: 10 * time.Second},
	}))
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	defer tr.CloseIdleConnections()

	resp, err := (&http.Client{Transport: tr}).Post(server.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	fmt.Println(resp.StatusCode, tr.Dependency(host).Breaker().State())
	// Output: 200 closed
}

// When the breaker is open, a handler that needs the dependency passes that on.
func ExampleUnavailable() {
	client := &http.Client{Transport: steady.Must(steadyhttp.NewTransport(steadyhttp.Config{
		Dependency: steady.DependencyConfig{
			Name:     "catalog",
			Timeout:  2 * time.Second,
			Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
			Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
		},
	}))}
	client.Transport.(*steadyhttp.Transport).Dependency("").Breaker().ForceOpen("maintenance")

	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		resp, err := client.Get("http://catalog.internal/prices")
		if steadyhttp.Unavailable(w, err) {
			return
		}
		if err != nil {
			http.Error(w, "no prices", http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		_, _ = io.Copy(w, resp.Body)
	})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code, w.Header().Get("Retry-After"))
	// Output: 503 1
}

// A server that lets in what it can do, and no more.
func ExampleMiddleware() {
	bulkhead := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 100, MaxWait: 50 * time.Millisecond}))
	limit := steady.Must(steadyhttp.Middleware(bulkhead, steadyhttp.MiddlewareConfig{RetryAfter: 2 * time.Second}))
	server := httptest.NewServer(limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "in flight: ", bulkhead.Stats().InFlight)
	})))
	defer server.Close()

	resp, err := server.Client().Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	fmt.Println(string(answer))
	// Output: in flight: 1
}

// With keys, orders can be repeated: the server knows one that it has got before.
func ExampleConfig() {
	orders := map[string]string{} // by key
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		order, _ := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		if _, known := orders[key]; !known {
			orders[key] = string(order)
			panic(http.ErrAbortHandler) // it is done, but nobody hears of it
		}
	}))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)

	tr := steady.Must(steadyhttp.NewTransport(steadyhttp.Config{
		Dependency: steady.DependencyConfig{
			Name:     "orders",
			Timeout:  2 * time.Second,
			Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
			Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
		},
		IdempotencyKey: rand.Text,
	}))
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}

	resp, err := client.Post(server.URL, "text/plain", strings.NewReader("two books"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "and", len(orders), "order")
	// Output: 200 and 1 order
}

// A base transport with a pool that the bulkhead cannot empty.
func ExampleNewBaseTransport() {
	base := steady.Must(steadyhttp.NewBaseTransport(steadyhttp.Timeouts{
		Connect:        200 * time.Millisecond,
		TLSHandshake:   500 * time.Millisecond,
		ResponseHeader: time.Second,
	}))
	base.MaxConnsPerHost = 20
	_, err := steadyhttp.NewTransport(steadyhttp.Config{
		Base: base,
		Dependency: steady.DependencyConfig{
			Name:     "catalog",
			Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
			Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
		},
		Timeouts: steadyhttp.Timeouts{ReadIdle: 500 * time.Millisecond, Attempt: time.Second, Total: 2 * time.Second},
	})
	fmt.Println(err)
	// Output: steadyhttp: Bulkhead.MaxConcurrent (20) of dependency "catalog" must be less than the base transport's MaxConnsPerHost (20): calls that it let through would wait for connections; lower MaxConcurrent, or raise MaxConnsPerHost or leave it out
}

// A search is a POST that only reads.
func ExampleWithIntent() {
	ctx := steadyhttp.WithIntent(context.Background(), steady.ReadIdempotent)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://catalog.internal/search", strings.NewReader(`{"q":"books"}`))
	fmt.Println(req.Method, err)
	// Output: POST <nil>
}

// A classification for a service that says "not found" while it is starting.
func ExampleClassify() {
	classify := func(resp *http.Response, err error) steady.Outcome {
		if err == nil && resp.StatusCode == http.StatusNotFound && resp.Header.Get("X-Starting") != "" {
			return steady.Transient
		}
		return 0 // the default
	}
	starting := &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"X-Starting": {"yes"}}}
	fmt.Println(classify(starting, nil), steadyhttp.Classify(starting, nil))
	// Output: transient success
}
