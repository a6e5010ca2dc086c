package benchmarks

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/steady-go/steady"
)

// The cost of a record does not depend on the size of the window.
func BenchmarkWindowSize(b *testing.B) {
	for _, size := range []int{20, 1000, 1 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			br := steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: time.Hour, WindowSize: size}))
			call := through(work, br)
			for range 2 * size { // warm
				call()
			}
			for b.Loop() {
				call()
			}
		})
	}
}

// Nor does the cost of a call depend on how many are in flight.
func BenchmarkInFlight(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("calls=%d", n), func(b *testing.B) {
			br := breaker()
			for range n - 1 {
				_, _ = br.Allow()
			}
			call := through(work, br)
			for b.Loop() {
				call()
			}
		})
	}
}

// BenchmarkCores is a closed breaker that as many goroutines share as there are cores.
func BenchmarkCores(b *testing.B) {
	for _, cores := range []int{1, 2} {
		b.Run(fmt.Sprintf("cores=%d", cores), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
			onAllCores(b, 1,
				contender{"steady", func() func() { return through(work, breaker()) }},
				contender{"gobreaker", func() func() { g := goBreaker(); return func() { _, _ = g.Execute(workAlone) } }},
			)
		})
	}
}

// BenchmarkMemory reports the bytes of a breaker, before its first call and after calls at once.
func BenchmarkMemory(b *testing.B) {
	for _, used := range []bool{false, true} {
		b.Run(fmt.Sprintf("used=%v", used), func(b *testing.B) {
			const n = 100_000
			var breakers []*steady.Breaker
			goroutines := runtime.NumGoroutine()
			for b.Loop() {
				breakers = make([]*steady.Breaker, n)
				before := heap()
				for i := range breakers {
					breakers[i] = steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: time.Second, WindowAge: time.Minute}))
					if used {
						callAtOnce(breakers[i], 24) // which leaves as much behind as any number
					}
				}
				b.ReportMetric(float64(heap()-before)/n, "B/breaker")
			}
			b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
			runtime.KeepAlive(breakers)
		})
	}
}

func callAtOnce(br *steady.Breaker, n int) {
	var permits []steady.Permit
	for range n {
		permits = append(permits, steady.Must(br.Allow()))
	}
	for _, p := range permits {
		p.Done(steady.Success)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
