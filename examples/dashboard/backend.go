package main

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// mood is how a backend answers.
type mood int32

const (
	well    mood = iota
	slow         // later than a slow call, sooner than the timeout
	failing      // at once, with 503
	hanging      // not at all
)

func (m mood) String() string {
	return [...]string{"is well", "is slow", "fails", "hangs"}[m]
}

// backend is a server on loopback.
type backend struct {
	url    string
	mood   atomic.Int32
	usual  func() time.Duration // how long an answer takes when all is well
	server *http.Server
}

func startBackend(usual func() time.Duration) (*backend, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &backend{url: "http://" + listener.Addr().String(), usual: usual}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = b.server.Serve(listener) }() // until close
	return b, nil
}

func (b *backend) close() { _ = b.server.Close() }

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	takes, status := b.usual(), http.StatusOK
	switch mood(b.mood.Load()) {
	case slow:
		takes = 3 * slowThreshold
	case failing:
		status = http.StatusServiceUnavailable
	case hanging:
		takes = time.Hour
	}
	select {
	case <-time.After(takes):
		w.WriteHeader(status)
	case <-r.Context().Done(): // the client has hung up
	}
}
