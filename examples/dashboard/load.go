package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// acts are what happens in turn, over and over: the mood of one supplier, all others being well.
var acts = []struct {
	supplier int
	mood     mood
}{
	{0, well}, {0, slow}, {0, well}, {1, failing}, {1, well}, {2, hanging}, {2, well},
}

// run calls everybody, and lets the acts go by, until ctx ends.
func (s *shop) run(ctx context.Context, act time.Duration, out io.Writer) {
	var callers sync.WaitGroup
	for _, supplier := range s.suppliers {
		callers.Go(func() { supplier.load(ctx) })
	}
	ticker := time.NewTicker(act)
	defer ticker.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		a := acts[i%len(acts)]
		supplier := s.suppliers[a.supplier]
		supplier.backend.mood.Store(int32(a.mood))
		_, _ = fmt.Fprintf(out, "%s  %s %v\n", time.Now().Format(time.TimeOnly), supplier.name, a.mood)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	callers.Wait()
}

// load calls the supplier at its rate, however long the answers take, as customers do.
func (s *supplier) load(ctx context.Context) {
	ticker := time.NewTicker(time.Second / time.Duration(s.rate))
	defer ticker.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		select {
		case <-ticker.C:
			calls.Go(func() { s.call(ctx) })
		case <-ctx.Done():
			return
		}
	}
}
