package steadydebug

import (
	"fmt"
	"testing"
	"time"

	"github.com/steady-go/steady"
)

// watched returns a handler of 1 000 dependencies that have all been called, with two full minutes of history. Nothing but
// the benchmark makes it read.
func watched(b *testing.B) *Handler {
	h := steady.Must(NewHandler(HandlerConfig{}))
	h.Close()
	for i := range 1000 {
		d := steady.Must(steady.NewDependency(steady.DependencyConfig{
			Name:     fmt.Sprintf("dependency-%03d", i),
			Timeout:  2 * time.Second,
			Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
			Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
			Hooks:    h.Hooks(),
		}))
		if err := h.Add(d); err != nil {
			b.Fatal(err)
		}
	}
	for range historySize + 1 {
		callEach(h)
		h.look()
	}
	return h
}

// callEach calls every dependency as often as its place says, so that every reading differs.
func callEach(h *Handler) {
	for i, s := range h.fixed {
		for range i%10 + int(h.seq)%3 {
			steady.Must(s.breaker.Allow()).Done(steady.Success)
		}
	}
}

// BenchmarkReading is what a second costs when nobody watches.
func BenchmarkReading(b *testing.B) {
	h := watched(b)
	b.ReportAllocs()
	for b.Loop() {
		h.look()
	}
}

// BenchmarkSnapshot is the first event of a stream, or a poll.
func BenchmarkSnapshot(b *testing.B) {
	h := watched(b)
	b.ReportAllocs()
	for b.Loop() {
		h.encoded.snapshot = nil
		h.snapshot()
	}
	b.ReportMetric(float64(len(h.snapshot())), "bytes")
}

// BenchmarkUpdate is each further event, when every dependency has changed.
func BenchmarkUpdate(b *testing.B) {
	h := watched(b)
	update := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.encodeUpdate())
	}
	update()
	bytes := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		callEach(h)
		h.look()
		b.StartTimer()
		bytes = update()
	}
	b.ReportMetric(float64(bytes), "bytes")
}

// BenchmarkQuietUpdate is each further event, when nothing has changed.
func BenchmarkQuietUpdate(b *testing.B) {
	h := watched(b)
	h.look()
	bytes := 0
	b.ReportAllocs()
	for b.Loop() {
		h.look()
		h.mu.Lock()
		bytes = len(h.encodeUpdate())
		h.mu.Unlock()
	}
	b.ReportMetric(float64(bytes), "bytes")
}
