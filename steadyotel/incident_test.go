package steadyotel_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyotel"
)

// The incident is a script that runs in simulated time: a catalogue that fails, turns slow, and hangs.
//
//	14:00  answers in 80 ms, 32 calls a second
//	14:02  two of five attempts fail
//	14:04  healthy
//	14:05  answers in 390 ms, two of five in 550 ms, which is slow: the bulkhead is full
//	14:07  hangs
//	14:10  healthy
//	14:13  the end
//
// Every duration is a multiple of 1/512 s, so that sums of them are exact in whatever order they are added, and what
// could race does not happen at the same moment.
const (
	unit          = time.Second / 512
	tick          = 16 * unit
	scrapeEvery   = 15 * time.Second
	slowThreshold = 256 * unit
)

var incidentBegin = time.Date(2026, 5, 13, 14, 0, 0, 0, time.UTC)

func minute(m int) time.Time { return incidentBegin.Add(time.Duration(m) * time.Minute) }

// incident is what there is to look at while the script runs.
type incident struct {
	catalog        *steady.Dependency
	prices, orders *steady.Pipeline[int]
	log            bytes.Buffer
}

// runIncident runs the script, in a bubble, and calls scrape every 15 s.
func runIncident(t *testing.T, provider metric.MeterProvider, scrape func(at time.Time)) *incident {
	time.Sleep(time.Until(incidentBegin))
	in := newIncident(t, provider)
	var calls sync.WaitGroup
	for i := 0; time.Now().Before(minute(13)); i++ {
		calls.Go(func() { in.call(i) })
		if at := time.Since(incidentBegin); at%scrapeEvery == 0 {
			time.Sleep(7 * unit)
			scrape(incidentBegin.Add(at))
			time.Sleep(tick - 7*unit)
			continue
		}
		time.Sleep(tick)
	}
	calls.Wait()
	return in
}

func newIncident(t *testing.T, provider metric.MeterProvider) *incident {
	observer, err := steadyotel.New(provider)
	require.NoError(t, err)
	in := &incident{}
	log := slog.New(slog.NewTextHandler(&in.log, &slog.HandlerOptions{ReplaceAttr: shortTime}))
	half := func() float64 { return 0.5 }
	in.catalog, err = steady.NewDependency(steady.DependencyConfig{
		Name:           "catalog",
		Timeout:        1024 * unit,
		AttemptTimeout: 512 * unit,
		Retry:          steady.RetryConfig{BaseDelay: 50 * unit, Rand: half},
		Breaker:        steady.BreakerConfig{SlowThreshold: slowThreshold, OpenDuration: 30 * time.Second, MaxOpenDuration: time.Minute, Rand: half},
		Bulkhead:       steady.BulkheadConfig{MaxConcurrent: 14, MaxWait: 51 * unit, MaxQueue: 3},
		Hooks:          steady.JoinHooks(steady.LogHooks(log), observer.Hooks()),
	})
	require.NoError(t, err)
	in.prices, err = steady.NewPipelineFor(in.catalog, steady.ReadIdempotent, steady.PipelineConfig[int]{Name: "prices"})
	require.NoError(t, err)
	in.orders, err = steady.NewPipelineFor(in.catalog, steady.WriteNonIdempotent, steady.PipelineConfig[int]{Name: "orders"})
	require.NoError(t, err)
	_, err = steadyotel.RegisterPipeline(observer, in.prices)
	require.NoError(t, err)
	_, err = steadyotel.RegisterPipeline(observer, in.orders)
	require.NoError(t, err)
	return in
}

// shortTime leaves out the date.
func shortTime(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindTime {
		a.Value = slog.StringValue(a.Value.Time().UTC().Format("15:04:05.000"))
	}
	return a
}

// call makes the i-th call: each eighth is an order.
func (in *incident) call(i int) {
	attempt := 0
	ask := func(ctx context.Context) (int, error) {
		attempt++
		return answer(ctx, i, attempt)
	}
	if i%8 == 0 {
		_, _ = in.orders.Do(context.Background(), ask)
	} else {
		_, _ = in.prices.Do(context.Background(), ask)
	}
}

// answer is the catalogue.
func answer(ctx context.Context, call, attempt int) (int, error) {
	now := time.Now()
	within := func(from, to int) bool { return !now.Before(minute(from)) && now.Before(minute(to)) }
	switch {
	case within(2, 4) && (3*call+attempt)%5 < 2:
		time.Sleep(41 * unit)
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	case within(5, 7):
		latency := 200 * unit
		if call*2%5 < 2 {
			latency = 280 * unit
		}
		end := now.Add(latency).Sub(incidentBegin)
		time.Sleep(time.Until(incidentBegin.Add(end + tick - end%tick + 5*unit))) // never at the moment of an arrival
		return call, nil
	case within(7, 10):
		<-ctx.Done()
		return 0, ctx.Err()
	default:
		time.Sleep(41 * unit)
		return call, nil
	}
}
