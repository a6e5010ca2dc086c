// Package benchmarks compares steady with other libraries, side by side in one run.
//
//	go test -bench . -benchmem
//
// Sub-benchmarks are named case/mode/lib, so that benchstat -col /lib pairs them. All call the same function,
// and have a window of the same size where they have one.
package benchmarks

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v5"
	eabreaker "github.com/eapache/go-resiliency/breaker"
	"github.com/eapache/go-resiliency/deadline"
	"github.com/eapache/go-resiliency/retrier"
	easemaphore "github.com/eapache/go-resiliency/semaphore"
	"github.com/failsafe-go/failsafe-go"
	fsbulkhead "github.com/failsafe-go/failsafe-go/bulkhead"
	fsbreaker "github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	fstimeout "github.com/failsafe-go/failsafe-go/timeout"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"

	"github.com/steady-go/steady"
)

var (
	ctx     = context.Background()
	errBoom = errors.New("boom")
)

// The function that everybody calls, in the shapes that the libraries want.
func work(context.Context) (int, error)        { return 1, nil }
func workAlone() (int, error)                  { return 1, nil }
func waits(ctx context.Context) (int, error)   { ctx.Done(); return 1, nil }
func workNoValue() error                       { return nil }
func workNoValueContext(context.Context) error { return nil }

// contender makes, for each run, the call of one library.
type contender struct {
	lib  string
	make func() func()
}

// compare runs the contenders sequentially, and on all cores.
func compare(b *testing.B, contenders ...contender) {
	for _, c := range contenders {
		b.Run("mode=sequential/lib="+c.lib, func(b *testing.B) {
			call := c.make()
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
	onAllCores(b, 1, contenders...)
}

// onAllCores runs the contenders on all cores, in so many goroutines on each.
func onAllCores(b *testing.B, each int, contenders ...contender) {
	for _, c := range contenders {
		b.Run("mode=parallel/lib="+c.lib, func(b *testing.B) {
			call := c.make()
			b.ReportAllocs()
			b.SetParallelism(each)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call()
				}
			})
		})
	}
}

func breaker() *steady.Breaker {
	return steady.Must(steady.NewBreaker(steady.BreakerConfig{SlowThreshold: time.Hour, OpenDuration: time.Hour}))
}

func bulkhead(n int) *steady.Bulkhead {
	return steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: n}))
}

func retryPolicy() *steady.Retry {
	return steady.Must(steady.NewRetry(steady.RetryConfig{NoDelay: true, NoBudget: true}))
}

func timeout() *steady.Timeout {
	return steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second}))
}

func pipeline(policies ...steady.Policy) *steady.Pipeline[int] {
	return steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Policies: policies}))
}

// through calls fn through the policies.
func through(fn func(context.Context) (int, error), policies ...steady.Policy) func() {
	p := pipeline(policies...)
	return func() { _, _ = p.Do(ctx, fn) }
}

func goBreaker() *gobreaker.CircuitBreaker[int] {
	return gobreaker.NewCircuitBreaker[int](gobreaker.Settings{
		Timeout:     time.Hour,
		MaxRequests: 3,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.Requests >= 10 && 2*c.TotalFailures >= c.Requests },
	})
}

func failsafeBreaker() fsbreaker.CircuitBreaker[int] {
	return fsbreaker.NewBuilder[int]().WithFailureThresholdRatio(10, 20).WithDelay(time.Hour).WithSuccessThreshold(3).Build()
}

func failsafeThree() []failsafe.Policy[int] {
	return []failsafe.Policy[int]{
		retrypolicy.NewBuilder[int]().WithMaxAttempts(3).Build(),
		failsafeBreaker(),
		fsbulkhead.New[int](64),
	}
}

func throughFailsafe(fn func() (int, error), policies ...failsafe.Policy[int]) func() {
	e := failsafe.With(policies...)
	return func() { _, _ = e.Get(fn) }
}

func BenchmarkBare(b *testing.B) {
	compare(b,
		contender{"none", func() func() { return func() { _, _ = work(ctx) } }},
		contender{"steady", func() func() { return through(work) }},
	)
}

func BenchmarkBreakerClosed(b *testing.B) {
	compare(b,
		contender{"steady", func() func() { return through(work, breaker()) }},
		contender{"gobreaker", func() func() { g := goBreaker(); return func() { _, _ = g.Execute(workAlone) } }},
		contender{"failsafe", func() func() { return throughFailsafe(workAlone, failsafeBreaker()) }},
		contender{"eapache", func() func() { e := eabreaker.New(10, 3, time.Hour); return func() { _ = e.Run(workNoValue) } }},
	)
}

// every returns a function that fails at every n-th call, whoever makes it.
func every(n int64) func() error {
	var i atomic.Int64
	return func() error {
		if i.Add(1)%n == 0 {
			return errBoom
		}
		return nil
	}
}

func BenchmarkBreakerAFifthFails(b *testing.B) {
	compare(b,
		contender{"steady", func() func() {
			err := every(5)
			return through(func(context.Context) (int, error) { return 1, err() }, breaker())
		}},
		contender{"gobreaker", func() func() {
			g, err := goBreaker(), every(5)
			return func() { _, _ = g.Execute(func() (int, error) { return 1, err() }) }
		}},
		contender{"failsafe", func() func() {
			err := every(5)
			return throughFailsafe(func() (int, error) { return 1, err() }, failsafeBreaker())
		}},
		contender{"eapache", func() func() {
			e, err := eabreaker.New(10, 3, time.Hour), every(5)
			return func() { _ = e.Run(err) }
		}},
	)
}

func openBreaker() *steady.Breaker {
	b := breaker()
	for range 10 {
		p, _ := b.Allow()
		p.Done(steady.Transient)
	}
	return b
}

func openGoBreaker() *gobreaker.CircuitBreaker[int] {
	g := goBreaker()
	for range 10 {
		_, _ = g.Execute(func() (int, error) { return 0, errBoom })
	}
	return g
}

func openFailsafe() fsbreaker.CircuitBreaker[int] {
	b := failsafeBreaker()
	b.Open()
	return b
}

func BenchmarkBreakerOpen(b *testing.B) {
	compare(b,
		contender{"steady", func() func() { return through(work, openBreaker()) }},
		contender{"steady-under-retry", func() func() { return through(work, retryPolicy(), openBreaker()) }},
		contender{"gobreaker", func() func() { g := openGoBreaker(); return func() { _, _ = g.Execute(workAlone) } }},
		contender{"failsafe", func() func() { return throughFailsafe(workAlone, openFailsafe()) }},
		contender{"eapache", func() func() {
			e := eabreaker.New(10, 3, time.Hour)
			for range 10 {
				_ = e.Run(func() error { return errBoom })
			}
			return func() { _ = e.Run(workNoValue) }
		}},
	)
}

// A half-open breaker that never closes: the function's error counts for nothing, where there is such a thing, and the
// others want more successes than they get.
func BenchmarkBreakerHalfOpen(b *testing.B) {
	const never = 1 << 24
	asks := func() (int, error) { return 0, errBoom }
	compare(b,
		contender{"steady", func() func() {
			br := steady.Must(steady.NewBreaker(steady.BreakerConfig{
				NoSlowCalls: true, OpenDuration: 1, NoOpenJitter: true, HalfOpenProbes: 1000, ProbeTimeout: time.Hour,
			}))
			for range 10 {
				p, _ := br.Allow()
				p.Done(steady.Transient)
			}
			time.Sleep(time.Millisecond)
			p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{
				Policies: []steady.Policy{br},
				Classify: func(int, error) steady.Outcome { return steady.Ignored },
			}))
			return func() { _, _ = p.Do(ctx, func(context.Context) (int, error) { return 0, errBoom }) }
		}},
		contender{"gobreaker", func() func() {
			armed := true
			g := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{
				Timeout: 1, MaxRequests: never,
				ReadyToTrip: func(c gobreaker.Counts) bool { return c.Requests >= 10 },
				IsExcluded:  func(error) bool { return !armed },
			})
			for range 10 {
				_, _ = g.Execute(asks)
			}
			armed = false
			time.Sleep(time.Millisecond)
			return func() { _, _ = g.Execute(asks) }
		}},
		contender{"failsafe-success", func() func() {
			half := fsbreaker.NewBuilder[int]().WithDelay(1).WithSuccessThreshold(never).Build()
			half.HalfOpen()
			return throughFailsafe(workAlone, half)
		}},
		contender{"eapache-success", func() func() {
			e := eabreaker.New(10, never, 1)
			for range 10 {
				_ = e.Run(func() error { return errBoom })
			}
			time.Sleep(time.Millisecond)
			return func() { _ = e.Run(workNoValue) }
		}},
	)
}

func BenchmarkBulkheadFree(b *testing.B) {
	compare(b,
		contender{"steady", func() func() { return through(work, bulkhead(64)) }},
		contender{"failsafe", func() func() { return throughFailsafe(workAlone, fsbulkhead.New[int](64)) }},
		contender{"semaphore", func() func() {
			s := semaphore.NewWeighted(64)
			return func() {
				if s.Acquire(ctx, 1) == nil {
					_, _ = work(ctx)
					s.Release(1)
				}
			}
		}},
		contender{"eapache", func() func() {
			s := easemaphore.New(64, time.Second)
			return func() {
				if s.Acquire() == nil {
					_, _ = work(ctx)
					s.Release()
				}
			}
		}},
	)
}

// One slot, which the others wait for: whoever has it lets them run.
func BenchmarkBulkheadContended(b *testing.B) {
	const each = 4
	yields := func() (int, error) { runtime.Gosched(); return 1, nil }
	onAllCores(b, each,
		contender{"steady", func() func() {
			waiting := steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1, MaxWait: time.Minute, MaxQueue: 1000}))
			return through(func(context.Context) (int, error) { return yields() }, waiting)
		}},
		contender{"failsafe", func() func() {
			return throughFailsafe(yields, fsbulkhead.NewBuilder[int](1).WithMaxWaitTime(time.Minute).Build())
		}},
		contender{"semaphore", func() func() {
			s := semaphore.NewWeighted(1)
			return func() {
				if s.Acquire(ctx, 1) == nil {
					_, _ = yields()
					s.Release(1)
				}
			}
		}},
		contender{"eapache", func() func() {
			s := easemaphore.New(1, time.Minute)
			return func() {
				if s.Acquire() == nil {
					_, _ = yields()
					s.Release()
				}
			}
		}},
	)
}

func BenchmarkBulkheadFull(b *testing.B) {
	compare(b,
		contender{"steady", func() func() {
			full := bulkhead(1)
			_, _ = full.Acquire(ctx)
			return through(work, full)
		}},
		contender{"failsafe", func() func() {
			full := fsbulkhead.New[int](1)
			full.TryAcquirePermit()
			return throughFailsafe(workAlone, full)
		}},
		contender{"semaphore", func() func() {
			s := semaphore.NewWeighted(1)
			s.TryAcquire(1)
			return func() { s.TryAcquire(1) }
		}},
	)
}

func BenchmarkRetryFirstTry(b *testing.B) {
	compare(b,
		contender{"steady", func() func() { return through(work, steady.Must(steady.NewRetry(steady.RetryConfig{}))) }},
		contender{"failsafe", func() func() { return throughFailsafe(workAlone, retrypolicy.NewWithDefaults[int]()) }},
		contender{"backoff", func() func() {
			return func() { _, _ = backoff.Retry(ctx, workAlone, backoff.WithMaxTries(3)) }
		}},
		contender{"retry-go", func() func() {
			r := []retry.Option{retry.Attempts(3), retry.Context(ctx)}
			return func() { _, _ = retry.DoWithData(workAlone, r...) }
		}},
		contender{"eapache", func() func() {
			r := retrier.New(retrier.ConstantBackoff(2, time.Millisecond), nil)
			return func() { _ = r.RunCtx(ctx, workNoValueContext) }
		}},
	)
}

func BenchmarkRetryOnce(b *testing.B) {
	alternating := func() func() (int, error) {
		err := every(2)
		return func() (int, error) {
			if err() == nil { // the first of each two
				return 0, errBoom
			}
			return 1, nil
		}
	}
	compare(b,
		contender{"steady", func() func() {
			fn := alternating()
			return through(func(context.Context) (int, error) { return fn() }, retryPolicy())
		}},
		contender{"failsafe", func() func() {
			return throughFailsafe(alternating(), retrypolicy.NewWithDefaults[int]())
		}},
		contender{"backoff", func() func() {
			fn := alternating()
			return func() {
				_, _ = backoff.Retry(ctx, fn, backoff.WithMaxTries(3), backoff.WithBackOff(&backoff.ZeroBackOff{}))
			}
		}},
		contender{"retry-go", func() func() {
			fn := alternating()
			return func() { _, _ = retry.DoWithData(fn, retry.Attempts(3), retry.Delay(0), retry.MaxJitter(1)) }
		}},
		contender{"eapache", func() func() {
			fn, r := alternating(), retrier.New(retrier.ConstantBackoff(2, 0), nil)
			return func() {
				_ = r.RunCtx(ctx, func(context.Context) error {
					_, err := fn()
					return err
				})
			}
		}},
	)
}

func BenchmarkTimeout(b *testing.B) {
	compare(b,
		contender{"steady", func() func() { return through(work, timeout()) }},
		contender{"context", func() func() {
			return func() {
				inner, cancel := context.WithTimeout(ctx, time.Second)
				_, _ = work(inner)
				cancel()
			}
		}},
		contender{"steady-asked-for-done", func() func() { return through(waits, timeout()) }},
		contender{"context-asked-for-done", func() func() {
			return func() {
				inner, cancel := context.WithTimeout(ctx, time.Second)
				_, _ = waits(inner)
				cancel()
			}
		}},
		contender{"failsafe", func() func() { return throughFailsafe(workAlone, fstimeout.New[int](time.Second)) }},
		contender{"eapache", func() func() {
			d := deadline.New(time.Second)
			return func() { _ = d.Run(func(<-chan struct{}) error { return nil }) }
		}},
	)
}

func three() []steady.Policy { return []steady.Policy{retryPolicy(), breaker(), bulkhead(64)} }

func BenchmarkThree(b *testing.B) {
	compare(b,
		contender{"steady", func() func() {
			return through(work, steady.Must(steady.NewRetry(steady.RetryConfig{})), breaker(), bulkhead(64))
		}},
		contender{"failsafe", func() func() { return throughFailsafe(workAlone, failsafeThree()...) }},
	)
}

func chain(fn func(context.Context) (int, error)) func() {
	d := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name: "bench", Timeout: time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: time.Second / 2},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 64},
	}))
	p := steady.Must(steady.NewPipelineFor(d, steady.ReadIdempotent, steady.PipelineConfig[int]{}))
	return func() { _, _ = p.Do(ctx, fn) }
}

func failsafeChain() []failsafe.Policy[int] {
	return append([]failsafe.Policy[int]{fstimeout.New[int](time.Second)}, failsafeThree()...)
}

// The standard chain, around a function that does not ask for its context's Done, and one that does.
func BenchmarkChain(b *testing.B) {
	compare(b,
		contender{"steady", func() func() { return chain(work) }},
		contender{"failsafe", func() func() { return throughFailsafe(workAlone, failsafeChain()...) }},
		contender{"steady-asked-for-done", func() func() { return chain(waits) }},
		contender{"failsafe-asked-for-done", func() func() {
			e := failsafe.With(failsafeChain()...)
			fn := func(exec failsafe.Execution[int]) (int, error) { return waits(exec.Context()) }
			return func() { _, _ = e.GetWithExecution(fn) }
		}},
	)
}

func BenchmarkHold(b *testing.B) {
	compare(b, contender{"steady", func() func() {
		p := pipeline(three()...)
		return func() {
			_, release, _ := p.Hold(ctx, work)
			release(nil)
		}
	}})
}
