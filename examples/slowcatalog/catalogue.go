package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// catalogue is the dependency: a price catalogue behind a real HTTP server on loopback. It answers every
// request with 200. How long it takes over that changes while the program runs.
type catalogue struct {
	url    string
	server *http.Server
	served chan error // gets what Serve returned

	mu        sync.Mutex
	answer    time.Duration // how long a request that arrives now will take
	slow      bool          // which is longer than it should be
	firstSlow time.Time     // arrival of the first request that was slow
	inside    int           // requests being answered
	most      int           // of these, the most at one time
}

// price is what the catalogue knows of a product, and all that it sends.
type price struct {
	Product int `json:"product"`
	Cents   int `json:"cents"`
}

func openCatalogue() (*catalogue, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &catalogue{url: "http://" + listener.Addr().String(), served: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /prices/{product}", c.servePrice)
	c.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { c.served <- c.server.Serve(listener) }()
	return c, nil
}

// answerIn changes how long the requests take that arrive from now on.
func (c *catalogue) answerIn(d time.Duration, slow bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer, c.slow = d, slow
}

func (c *catalogue) servePrice(w http.ResponseWriter, r *http.Request) {
	answer := c.enter()
	defer c.leave()
	product, err := strconv.Atoi(r.PathValue("product"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	select {
	case <-time.After(answer):
	case <-r.Context().Done(): // the client has hung up
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(price{Product: product, Cents: 999 + product}) // the client sees what went wrong
}

func (c *catalogue) enter() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slow && c.firstSlow.IsZero() {
		c.firstSlow = time.Now()
	}
	c.inside++
	c.most = max(c.most, c.inside)
	return c.answer
}

func (c *catalogue) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside--
}

// seen returns when the first slow request arrived, the zero time if none did, and how many requests were
// here at one time at the most.
func (c *catalogue) seen() (firstSlow time.Time, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.firstSlow, c.most
}

// close ends the server, once the requests that are here have been answered.
func (c *catalogue) close() error {
	err := c.server.Shutdown(context.Background())
	if served := <-c.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
