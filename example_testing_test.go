package steady_test

import (
	"context"
	"fmt"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/steady-go/steady"
)

// A test of what happens around a breaker, without waiting: the clock moves by hand. The dependency is a
// function that takes as much of the clock's time as the test wants.
func ExampleBreaker_mockClock() {
	mock := clock.NewMock()
	breaker := steady.Must(steady.NewBreaker(steady.BreakerConfig{
		SlowThreshold: 500 * time.Millisecond,
		OpenDuration:  10 * time.Second,
		NoOpenJitter:  true, // exact periods
		Clock:         mock,
	}))
	pipeline := steady.Must(steady.NewPipeline(steady.PipelineConfig[string]{Policies: []steady.Policy{breaker}}))
	ask := func(takes time.Duration) error {
		return pipeline.Run(context.Background(), func(context.Context) error {
			mock.Add(takes)
			return nil
		})
	}

	for range 10 {
		_ = ask(800 * time.Millisecond)
	}
	fmt.Println("after ten slow answers:", breaker.State())
	fmt.Println("rejected:", steady.IsRejected(ask(0)))

	mock.Add(10 * time.Second)
	fmt.Println("after the open period:", breaker.State())
	for range 3 {
		_ = ask(80 * time.Millisecond)
	}
	fmt.Println("after three fast probes:", breaker.State())
	// Output:
	// after ten slow answers: open
	// rejected: true
	// after the open period: half-open
	// after three fast probes: closed
}
