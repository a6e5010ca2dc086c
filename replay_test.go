package steady_test

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// A trace is what a service made of calls to a dependency, on a clock that is 0 when a network delay was
// injected into that dependency.
type trace []tracedCall

type tracedCall struct {
	start, duration time.Duration
}

// The calls of the OnlineBoutique's front end on 2022-08-22, from the traces that Nezha published.
const (
	currencyTrace    = "nezha-frontend-currency-20220822.csv"
	currencyInjected = 1661146026 // 05:27:06 UTC: from 7 ms to 600 ms
	currencyFrom     = 1661145900 // what was before that is another fault, its CPU kept busy
	cartTrace        = "nezha-frontend-cart-20220822.csv"
	cartInjected     = 1661142423 // 04:27:03 UTC: 250 ms more
)

// Each row is a window and when it opens after the injection, as an independent replay has it: counting a
// call as slow in flight, from the moment it reaches the threshold, and counting it when the answer comes.
var openings = []struct {
	trace            string
	threshold        time.Duration
	window           int
	inFlight, answer string
}{
	{currencyTrace, 300 * time.Millisecond, 20, "4.281", "4.572"},
	{currencyTrace, 300 * time.Millisecond, 50, "5.429", "6.263"},
	{currencyTrace, 300 * time.Millisecond, 100, "7.537", "8.033"},
	{cartTrace, 100 * time.Millisecond, 20, "17.739", "17.895"},
	{cartTrace, 100 * time.Millisecond, 100, "23.156", "23.307"},
	{cartTrace, 200 * time.Millisecond, 50, "19.199", "19.246"},
	{cartTrace, 300 * time.Millisecond, 20, "never", "never"},
	{cartTrace, 300 * time.Millisecond, 50, "never", "never"},
	{cartTrace, 300 * time.Millisecond, 100, "never", "never"},
}

func TestReplayedIncidentsOpenWhenCallsInFlightSaySoWhoeverLooks(t *testing.T) { // B7
	traces := readTraces(t)
	looks := map[string]func(*steady.Breaker){
		"nobody":               nil,
		"State between events": func(b *steady.Breaker) { b.State() },
		"Stats between events": func(b *steady.Breaker) { b.Stats() },
	}
	for _, row := range openings {
		for who, look := range looks {
			opened := traces[row.trace].replay(t, look, steady.BreakerConfig{
				WindowSize:    row.window,
				MinCalls:      row.window,
				SlowThreshold: row.threshold,
			}, func(time.Duration) steady.Outcome { return steady.Success })
			assert.Equal(t, row.inFlight, opened, "%s, %v, window of %d; looks: %s", row.trace, row.threshold, row.window, who)
		}
	}
}

// A breaker that counts failures only, and is told of slow answers as failures, is one that waits for
// answers. It opens later, on every trace.
func TestReplayedIncidentsOpenLaterWhenOnlyAnswersCount(t *testing.T) {
	traces := readTraces(t)
	for _, row := range openings {
		opened := traces[row.trace].replay(t, nil, steady.BreakerConfig{
			WindowSize:  row.window,
			MinCalls:    row.window,
			NoSlowCalls: true,
		}, func(d time.Duration) steady.Outcome {
			if d >= row.threshold {
				return steady.Transient
			}
			return steady.Success
		})
		assert.Equal(t, row.answer, opened, "%s, %v, window of %d", row.trace, row.threshold, row.window)
	}
}

// replay lets a breaker see the trace up to its first opening, whose moment it returns in seconds. Between
// any two events, and a few times while nothing happens, look looks, unless it is nil.
func (calls trace) replay(t *testing.T, look func(*steady.Breaker), cfg steady.BreakerConfig, outcome func(time.Duration) steady.Outcome) string {
	t.Helper()
	clock := new(ticks)
	var log transitions
	cfg.Clock, cfg.Hooks = clock, log.hooks()
	b := steady.Must(steady.NewBreaker(cfg))

	type event struct {
		at   time.Duration
		call int
		ends bool
	}
	events := make([]event, 0, 2*len(calls))
	for i, c := range calls {
		events = append(events, event{c.start, i, false}, event{c.start + c.duration, i, true})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })

	clock.now = events[0].at
	permits := make([]steady.Permit, len(calls))
	for _, e := range events {
		if look != nil {
			for gap := e.at - clock.now; gap > 0; gap = e.at - clock.now {
				look(b)
				clock.now += min(gap, max(gap/4, time.Millisecond))
			}
			look(b)
		}
		clock.now = e.at
		if e.ends {
			permits[e.call].Done(outcome(calls[e.call].duration))
		} else {
			permits[e.call], _ = b.Allow() // if that is rejected, the log says why
		}
		if len(log.list()) > 0 {
			break
		}
	}
	all := log.list()
	if len(all) == 0 {
		return "never"
	}
	require.Equal(t, steady.StateOpen, all[0].To)
	return fmt.Sprintf("%.3f", all[0].At.Sub(ticksStart).Seconds())
}

// readTraces reads the recorded calls, by the name of their file.
func readTraces(t *testing.T) map[string]trace {
	t.Helper()
	folder := os.Getenv("STEADY_TRACES")
	if folder == "" {
		t.Skipf("STEADY_TRACES names no folder with %s and %s (start_unix_ns,duration_us,method of each call). "+
			"They are made from the public traces of 2022-08-22 at https://github.com/IntelligentDDS/Nezha (MIT): "+
			"the front end's calls to its currency and cart services", currencyTrace, cartTrace)
	}
	return map[string]trace{
		currencyTrace: readTrace(t, filepath.Join(folder, currencyTrace), currencyInjected, currencyFrom),
		cartTrace:     readTrace(t, filepath.Join(folder, cartTrace), cartInjected, 0),
	}
}

// readTrace reads the calls that started at the second from, or later.
func readTrace(t *testing.T, file string, injected, from int64) trace {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"start_unix_ns", "duration_us", "method"}, rows[0])
	var calls trace
	for _, row := range rows[1:] {
		start, err := strconv.ParseInt(row[0], 10, 64)
		require.NoError(t, err)
		micros, err := strconv.ParseInt(row[1], 10, 64)
		require.NoError(t, err)
		if start >= from*int64(time.Second) {
			calls = append(calls, tracedCall{
				start:    time.Duration(start - injected*int64(time.Second)),
				duration: time.Duration(micros) * time.Microsecond,
			})
		}
	}
	require.NotEmpty(t, calls)
	return calls
}
