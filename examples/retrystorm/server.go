package main

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// server answers requests with a fixed number of workers and a bounded queue.
type server struct {
	sc    *scenario
	url   string
	http  http.Server
	queue chan *job

	failing  atomic.Bool
	stopping atomic.Bool
	working  sync.WaitGroup

	arrivals atomic.Int64 // since they were last read
	shortest atomic.Int64 // the shortest that the queue has been since then
	served   atomic.Int64 // requests that a worker has dealt with
	wasted   atomic.Int64 // of those, how many the client had given up on
}

// job is a request in the queue.
type job struct {
	ctx    context.Context // done when the client has hung up
	failed bool
	done   chan struct{}
}

func startServer(sc *scenario) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{sc: sc, url: "http://" + listener.Addr().String(), queue: make(chan *job, sc.queue)}
	s.http.Handler = s
	for i := range sc.workers {
		s.working.Go(func() { s.work(rand.New(rand.NewPCG(sc.seed, uint64(i)))) })
	}
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// stop ends the server, with no more work for what is in the queue.
func (s *server) stop() {
	s.stopping.Store(true)
	_ = s.http.Shutdown(context.Background())
	close(s.queue)
	s.working.Wait()
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.arrivals.Add(1)
	j := &job{ctx: r.Context(), done: make(chan struct{})}
	select {
	case s.queue <- j:
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	<-j.done
	if j.failed {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// work is the life of a worker.
func (s *server) work(rng *rand.Rand) {
	free := time.Now()
	for j := range s.queue {
		s.observe(len(s.queue))
		takes := s.sc.real(s.sc.service)
		if s.failing.Load() {
			takes = time.Duration(float64(takes) * s.sc.slowdown)
		}
		// Under load a job begins when the one before was due to end, or what Sleep sleeps too long would add up.
		if now := time.Now(); free.Before(now.Add(-takes)) {
			free = now
		}
		free = free.Add(takes)
		if s.stopping.Load() {
			close(j.done)
			continue
		}
		time.Sleep(time.Until(free))
		s.served.Add(1)
		if j.ctx.Err() != nil {
			s.wasted.Add(1)
		}
		j.failed = rng.Float64() < s.sc.faults
		close(j.done)
	}
}

// observe notes the length of the queue.
func (s *server) observe(n int) {
	for {
		shortest := s.shortest.Load()
		if int64(n) >= shortest || s.shortest.CompareAndSwap(shortest, int64(n)) {
			return
		}
	}
}

// read returns the arrivals since the last reading, and the shortest that the queue has been.
func (s *server) read() (arrivals, shortest int) {
	n := len(s.queue)
	s.observe(n)
	return int(s.arrivals.Swap(0)), int(s.shortest.Swap(int64(n)))
}
