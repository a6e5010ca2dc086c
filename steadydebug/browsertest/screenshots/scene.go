package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadydebug"
)

// incident is when, in the scenes, the trouble begins that the pictures show.
const incident = 135 * time.Second

const slowThreshold = 250 * time.Millisecond

var errUnavailable = errors.New("503")

// dependency is a made-up one.
type dependency struct {
	name     string
	rate     int           // calls a second
	from, to time.Duration // an answer takes
	troubles []trouble
	calls    *steady.Pipeline[struct{}]
}

// trouble is a time in which a dependency is not well: its answers take longer, or it fails.
type trouble struct {
	begin, end time.Duration
	takes      time.Duration
	err        error
}

// shopDependencies are few, and have had an incident before the one that is shown.
func shopDependencies() []*dependency {
	const ms = time.Millisecond
	return []*dependency{
		{name: "catalog", rate: 120, from: 25 * ms, to: 80 * ms, troubles: []trouble{{incident, time.Hour, 1500 * ms, nil}}},
		{name: "payments", rate: 30, from: 50 * ms, to: 110 * ms, troubles: []trouble{{75 * time.Second, 83 * time.Second, 20 * ms, errUnavailable}}},
		{name: "stock", rate: 45, from: 70 * ms, to: 215 * ms},
		{name: "search", rate: 60, from: 10 * ms, to: 60 * ms},
	}
}

// shardDependencies are a hundred.
func shardDependencies() []*dependency {
	const ms = time.Millisecond
	var all []*dependency
	for i := range 100 {
		d := &dependency{name: fmt.Sprintf("orders-shard-%02d", i), rate: 4 + i%5, from: 10 * ms, to: time.Duration(40+i%7*12) * ms}
		switch i {
		case 17:
			d.troubles = []trouble{{incident - 8*time.Second, time.Hour, 1200 * ms, nil}}
		case 42:
			d.troubles = []trouble{{incident - 20*time.Second, time.Hour, 5 * ms, errUnavailable}}
		case 63:
			d.to = 230 * ms
		case 71:
			d.troubles = []trouble{{incident - 30*time.Second, time.Hour, 100 * ms, errUnavailable}}
		}
		all = append(all, d)
	}
	return all
}

// scene is dependencies, those who call them, and the page that shows them.
type scene struct {
	page         *steadydebug.Handler
	dependencies []*dependency
}

func newScene(title string, dependencies []*dependency) (*scene, error) {
	page, err := steadydebug.NewHandler(steadydebug.HandlerConfig{Title: title})
	if err != nil {
		return nil, err
	}
	for _, d := range dependencies {
		s, err := steady.NewDependency(steady.DependencyConfig{
			Name:     d.name,
			Timeout:  2 * time.Second,
			Breaker:  steady.BreakerConfig{SlowThreshold: slowThreshold},
			Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20, MaxWait: 50 * time.Millisecond},
			Hooks:    page.Hooks(),
		})
		if err != nil {
			return nil, err
		}
		if err := page.Add(s); err != nil {
			return nil, err
		}
		if d.calls, err = steady.NewPipelineFor(s, steady.ReadIdempotent, steady.PipelineConfig[struct{}]{}); err != nil {
			return nil, err
		}
	}
	return &scene{page, dependencies}, nil
}

// run calls everybody until ctx ends.
func (s *scene) run(ctx context.Context) {
	began := time.Now()
	var load sync.WaitGroup
	defer load.Wait()
	for _, d := range s.dependencies {
		load.Go(func() { d.load(ctx, began) })
	}
}

func (d *dependency) load(ctx context.Context, began time.Time) {
	ticker := time.NewTicker(time.Second / time.Duration(d.rate))
	defer ticker.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		select {
		case <-ticker.C:
			calls.Go(func() {
				_ = d.calls.Run(ctx, func(ctx context.Context) error { return d.answer(ctx, time.Since(began)) })
			})
		case <-ctx.Done():
			return
		}
	}
}

func (d *dependency) answer(ctx context.Context, at time.Duration) error {
	takes, err := d.from+rand.N(d.to-d.from), error(nil)
	for _, t := range d.troubles {
		if at >= t.begin && at < t.end {
			takes, err = t.takes, t.err
		}
	}
	select {
	case <-time.After(takes):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
