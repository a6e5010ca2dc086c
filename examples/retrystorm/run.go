package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steady-go/steady"
)

// second is what happened in one second of the model.
type second struct {
	arrivals int // of requests at the server
	backlog  int // the queue was never shorter
	answered int // calls that ended well
	failed   int // calls that did not
}

// result is what a run has measured.
type result struct {
	strategy strategy
	seconds  []second
	first    time.Duration // from the end of the failure to the first call answered; negative if none was
	served   int           // requests that the server has worked on
	wasted   int           // of those, how many nobody was waiting for
}

// run takes a server and its clients through calm, failure and recovery, and tells each of every second.
func run(sc *scenario, st strategy, each func(second)) (result, error) {
	s, err := startServer(sc)
	if err != nil {
		return result{}, err
	}
	defer s.stop()
	transport := &http.Transport{MaxIdleConnsPerHost: sc.clients}
	defer transport.CloseIdleConnections()

	l := &load{sc: sc, http: &http.Client{Transport: transport}, url: s.url, began: time.Now()}
	stop := l.start(st)
	res := result{strategy: st, first: -1}
	fails, well, end := sc.seconds()
	for i := range end {
		s.failing.Store(i >= fails && i < well)
		if i == well {
			l.well.Store(int64(time.Since(l.began)))
		}
		time.Sleep(time.Until(l.began.Add(sc.real(time.Duration(i+1) * time.Second))))
		var now second
		now.arrivals, now.backlog = s.read()
		now.answered, now.failed = int(l.answered.Swap(0)), int(l.failed.Swap(0))
		res.seconds = append(res.seconds, now)
		each(now)
	}
	stop()
	if first := l.first.Load(); first > 0 {
		res.first = sc.model(time.Duration(first - l.well.Load()))
	}
	res.served, res.wasted = int(s.served.Load()), int(s.wasted.Load())
	return res, nil
}

// load is the clients.
type load struct {
	sc    *scenario
	http  *http.Client
	url   string
	began time.Time

	answered, failed atomic.Int64 // calls, since they were last read
	well             atomic.Int64 // when the failure ended, in nanoseconds after began; 0 before that
	first            atomic.Int64 // when a call was first answered after that; 0 before
}

// start sets the clients to work, and returns what ends them.
func (l *load) start(st strategy) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for i := range l.sc.instances {
		p := steady.Must(steady.NewPipeline(steady.PipelineConfig[struct{}]{Policies: st.policies(l.sc)}))
		for id := i; id < l.sc.clients; id += l.sc.instances {
			clients.Go(func() { l.client(ctx, id, p) })
		}
	}
	return func() {
		cancel()
		clients.Wait()
	}
}

// client is the life of one client.
func (l *load) client(ctx context.Context, id int, p *steady.Pipeline[struct{}]) {
	rng := rand.New(rand.NewPCG(l.sc.seed, 1000+uint64(id)))
	for {
		think := l.sc.real(time.Duration(rng.ExpFloat64() * float64(l.sc.think)))
		select {
		case <-time.After(think):
		case <-ctx.Done():
			return
		}
		err := p.Run(ctx, l.get)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.failed.Add(1)
		default:
			l.answered.Add(1)
			if l.well.Load() > 0 {
				l.first.CompareAndSwap(0, int64(time.Since(l.began)))
			}
		}
	}
}

// get is one attempt.
func (l *load) get(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url, nil)
	if err != nil {
		return err
	}
	res, err := l.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered %s", res.Status)
	}
	return nil
}
