package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadydebug"
)

// slowThreshold is from when on the shop calls an answer slow, whoever it comes from.
const slowThreshold = 200 * time.Millisecond

// shop calls its dependencies, and has a page on which they can be seen.
type shop struct {
	page      *steadydebug.Handler
	transport *http.Transport
	suppliers []*supplier
}

// supplier is one dependency: the server and the way to it.
type supplier struct {
	name    string
	rate    int // calls a second
	backend *backend
	client  *http.Client
	calls   *steady.Pipeline[struct{}]
}

func openShop() (*shop, error) {
	page, err := steadydebug.NewHandler(steadydebug.HandlerConfig{Title: "shop"})
	if err != nil {
		return nil, err
	}
	s := &shop{page: page, transport: &http.Transport{MaxIdleConnsPerHost: 40}}
	for _, d := range []struct {
		name     string
		rate     int
		from, to time.Duration // an answer takes
	}{
		{"catalogue", 80, 20 * time.Millisecond, 60 * time.Millisecond},
		{"payments", 25, 40 * time.Millisecond, 90 * time.Millisecond},
		{"search", 50, 10 * time.Millisecond, 50 * time.Millisecond},
		{"stock", 30, 60 * time.Millisecond, 180 * time.Millisecond},
		{"mail", 4, 5 * time.Millisecond, 10 * time.Millisecond},
	} {
		usual := func() time.Duration { return d.from + rand.N(d.to-d.from) }
		if err := s.add(d.name, d.rate, usual); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// add starts a backend, makes a dependency for it, and shows that on the page.
func (s *shop) add(name string, rate int, usual func() time.Duration) error {
	dependency, err := steady.NewDependency(steady.DependencyConfig{
		Name:     name,
		Timeout:  2 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: slowThreshold, OpenDuration: 3 * time.Second},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20, MaxWait: 50 * time.Millisecond},
		Hooks:    s.page.Hooks(), // of transitions, for their reasons
	})
	if err != nil {
		return err
	}
	if err := s.page.Add(dependency); err != nil {
		return err
	}
	calls, err := steady.NewPipelineFor(dependency, steady.ReadIdempotent, steady.PipelineConfig[struct{}]{})
	if err != nil {
		return err
	}
	backend, err := startBackend(usual)
	if err != nil {
		return err
	}
	s.suppliers = append(s.suppliers, &supplier{
		name: name, rate: rate, backend: backend, client: &http.Client{Transport: s.transport}, calls: calls,
	})
	return nil
}

func (s *shop) close() {
	s.page.Close()
	s.transport.CloseIdleConnections()
	for _, supplier := range s.suppliers {
		supplier.backend.close()
	}
}

// call makes one call. What becomes of it is for the page to show.
func (s *supplier) call(ctx context.Context) {
	_ = s.calls.Run(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.backend.url, nil)
		if err != nil {
			return err
		}
		res, err := s.client.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answered %s", s.name, res.Status)
		}
		return nil
	})
}
