package steadydebug_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadydebug"
)

var update = flag.Bool("update", false, "write the golden file anew")

// The golden file is the schema: whoever reads snapshots relies on it. A new field is a new line in it; a line
// that goes or changes is a new Schema.
func TestTheSnapshotIsTheOneInTheGoldenFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{Title: "checkout"})
		d := newDependency(t, "catalog", h.Hooks())
		require.NoError(t, h.Add(d))
		require.NoError(t, h.AddBreaker(newBreaker(t, "alone", h.Hooks())))
		bare := steady.DependencyConfig{Name: "bare", NoTimeout: true, NoBreaker: true, NoRetry: true, NoBulkhead: true}
		require.NoError(t, h.Add(steady.Must(steady.NewDependency(bare))))
		nextReading()
		calls := pipeline(t, d)
		call(calls, 3, 10*time.Millisecond, nil)
		call(calls, 1, 10*time.Millisecond, errFailed)
		call(calls, 4, 600*time.Millisecond, nil)
		call(calls, 2, 0, nil) // rejected
		nextReading()

		var got bytes.Buffer
		require.NoError(t, json.Indent(&got, get(h, "/?format=json").Body.Bytes(), "", "  "))
		got.WriteByte('\n')
		const golden = "testdata/snapshot.json"
		if *update {
			require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		assert.Equal(t, string(want), got.String())
	})
}

func TestNamesAndWordsStayTextInJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "</script><img src=x onerror=alert(1)>\n\ndata: \u2028"
		h := newHandler(t, steadydebug.HandlerConfig{Title: name})
		b := newBreaker(t, name, h.Hooks())
		require.NoError(t, h.AddBreaker(b))
		b.ForceOpen(name)
		nextReading()
		w := get(h, "/?format=json")
		assert.NotContains(t, w.Body.String(), "<")
		assert.NotContains(t, w.Body.String(), "\n", "no event can be cut in two")
		s := read(t, h)
		assert.Equal(t, name, s.Title)
		assert.Equal(t, name, s.Dependencies[0].Name)
		assert.Equal(t, "manual: "+name, s.Dependencies[0].Breaker.Why)
		assert.Equal(t, name, s.Transitions[0].Breaker)
	})
}

func TestTheConfigurationShownIsTheEffectiveOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := steady.Must(steady.NewDependency(steady.DependencyConfig{
			Name:           "payments",
			Timeout:        2 * time.Second,
			AttemptTimeout: time.Second,
			Retry: steady.RetryConfig{
				Budget:        steady.Must(steady.NewRetryBudget(steady.RetryBudgetConfig{Ratio: 0.25, Burst: 7})),
				RetryRejected: true, Rand: func() float64 { return 0 },
			},
			Breaker:  steady.BreakerConfig{SlowThreshold: slowThreshold, WindowAge: time.Minute, Shadow: true, Rand: func() float64 { return 0 }},
			Bulkhead: steady.BulkheadConfig{MaxConcurrent: 10, MaxWait: 20 * time.Millisecond},
			Classify: steady.Classify,
			Hooks:    steady.LogHooks(nil),
		}))
		h := newHandler(t, steadydebug.HandlerConfig{Dependencies: []*steady.Dependency{d}})
		nextReading()
		assert.Equal(t, [][2]string{
			{"Timeout", "2s"},
			{"AttemptTimeout", "1s"},
			{"Breaker.SlowThreshold", "500ms"},
			{"Breaker.SlowRate", "0.5"},
			{"Breaker.FailureRate", "0.5"},
			{"Breaker.WindowSize", "20"},
			{"Breaker.WindowAge", "1m0s"},
			{"Breaker.MinCalls", "10"},
			{"Breaker.OpenDuration", "10s"},
			{"Breaker.MaxOpenDuration", "10s"},
			{"Breaker.OpenJitter", "0.2"},
			{"Breaker.HalfOpenProbes", "3"},
			{"Breaker.ProbeTimeout", "10s"},
			{"Breaker.Shadow", "true"},
			{"Bulkhead.MaxConcurrent", "10"},
			{"Bulkhead.MaxWait", "20ms"},
			{"Bulkhead.MaxQueue", "10"},
			{"Retry.MaxAttempts", "3"},
			{"Retry.BaseDelay", "100ms"},
			{"Retry.MaxDelay", "30s"},
			{"Retry.ThrottledDelay", "1s"},
			{"Retry.Jitter", "full"},
			{"Retry.Budget.Ratio", "0.25"},
			{"Retry.Budget.Burst", "7"},
			{"Retry.RetryRejected", "true"},
		}, read(t, h).Dependencies[0].Config, "and nothing of hooks, functions and clocks")

		require.NoError(t, d.Bulkhead().SetMaxConcurrent(12))
		nextReading()
		s := read(t, h)
		assert.Contains(t, s.Dependencies[0].Config, [2]string{"Bulkhead.MaxConcurrent", "12"})
		assert.Equal(t, 12, s.Dependencies[0].Bulkhead.Limit)
	})
}

func TestTheConfigurationOfPartsThatAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := steady.Must(steady.NewDependency(steady.DependencyConfig{
			Name: "d", NoTimeout: true, NoBulkhead: true,
			Retry:   steady.RetryConfig{NoDelay: true, NoBudget: true},
			Breaker: steady.BreakerConfig{NoSlowCalls: true, NoOpenJitter: true},
		}))
		h := newHandler(t, steadydebug.HandlerConfig{Dependencies: []*steady.Dependency{d}})
		nextReading()
		got := read(t, h).Dependencies[0]
		assert.Subset(t, got.Config, [][2]string{
			{"Breaker.NoSlowCalls", "true"}, {"Breaker.OpenJitter", "0"}, {"Retry.NoDelay", "true"}, {"Retry.NoBudget", "true"},
		})
		assert.Nil(t, got.Bulkhead)
		assert.Nil(t, got.Budget)
		assert.Nil(t, got.Timeouts)
		assert.NotNil(t, got.Retry)
	})
}

func TestTheCountsOfEachSecondAreKeptForTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, "catalog", nil)
		h := newHandler(t, steadydebug.HandlerConfig{Breakers: []*steady.Breaker{b}})
		synctest.Wait()
		end := func(n int, takes time.Duration, o steady.Outcome) {
			for range n {
				permit := steady.Must(b.Allow())
				time.Sleep(takes)
				permit.Done(o)
			}
		}
		end(9, 0, steady.Success)
		end(1, 0, steady.Throttled)
		end(1, 0, steady.Ignored)
		end(1, 0, steady.Transient)
		end(1, 0, steady.Permanent)
		end(1, 0, steady.Unsent)
		end(1, 600*time.Millisecond, steady.Success)
		time.Sleep(400 * time.Millisecond)
		synctest.Wait()
		first := counts{Answered: 11, Slow: 1, Failed: 3}
		got := read(t, h).Dependencies[0]
		assert.Equal(t, first, got.Latest)

		b.ForceOpen("a test")
		for range 4 {
			_, err := b.Allow()
			assert.Error(t, err)
		}
		nextReading()
		got = read(t, h).Dependencies[0]
		assert.Equal(t, counts{Rejected: 4}, got.Latest)
		assert.Equal(t, []uint32{11, 0}, got.History.Answered)
		assert.Equal(t, []uint32{1, 0}, got.History.Slow)
		assert.Equal(t, []uint32{3, 0}, got.History.Failed)
		assert.Equal(t, []uint32{4}, got.History.Rejected, "without leading zeros")

		time.Sleep(118 * time.Second)
		synctest.Wait()
		got = read(t, h).Dependencies[0]
		assert.Len(t, got.History.Answered, 120)
		assert.Len(t, got.History.Rejected, 119)
		nextReading()
		got = read(t, h).Dependencies[0]
		assert.Empty(t, got.History.Answered)
		assert.Len(t, got.History.Rejected, 120)
		nextReading()
		assert.Empty(t, read(t, h).Dependencies[0].History.Rejected)
	})
}

func TestRejectionsOfTheBulkheadAreCountedTooAndThoseOfAShadowAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := steady.Must(steady.NewDependency(steady.DependencyConfig{
			Name: "d", NoTimeout: true, NoRetry: true,
			Breaker:  steady.BreakerConfig{SlowThreshold: slowThreshold, Shadow: true, WindowSize: 1, HalfOpenProbes: 1},
			Bulkhead: steady.BulkheadConfig{MaxConcurrent: 1},
		}))
		h := newHandler(t, steadydebug.HandlerConfig{Dependencies: []*steady.Dependency{d}})
		calls := pipeline(t, d)
		nextReading()
		call(calls, 1, 0, errFailed)
		call(calls, 5, 0, nil) // pass, though the breaker is open
		slot := steady.Must(d.Bulkhead().Acquire(t.Context()))
		call(calls, 2, 0, nil)
		slot.Release()
		nextReading()
		got := read(t, h).Dependencies[0]
		assert.True(t, got.Breaker.Shadow)
		assert.Equal(t, "open", got.Breaker.State)
		assert.Positive(t, got.Breaker.Rejected, "what it would have rejected")
		assert.Equal(t, uint32(2), got.Latest.Rejected)
	})
}

// Whether somebody polls or streams, the reading is encoded once.
func TestASnapshotIsEncodedOnceForAReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, steadydebug.HandlerConfig{Breakers: thousand(t)})
		nextReading()
		get(h, "/?format=json")
		allocs := testing.AllocsPerRun(10, func() {
			h.ServeHTTP(discard{}, newRequest("/?format=json"))
		})
		assert.Less(t, allocs, 100.0, "of a request, not of a thousand breakers")
	})
}

func TestTheDocumentationNamesEveryFieldOfTheSnapshot(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	golden, err := os.Open("testdata/snapshot.json")
	require.NoError(t, err)
	defer func() { _ = golden.Close() }()
	decoder := json.NewDecoder(golden)
	var inObject []bool // for each level, and whether a key is next
	key := false
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case json.Delim:
			if token == '{' || token == '[' {
				inObject = append(inObject, token == '{')
			} else {
				inObject = inObject[:len(inObject)-1]
			}
			key = len(inObject) > 0 && inObject[len(inObject)-1]
		case string:
			if key {
				assert.Contains(t, string(doc), token, "a field of the snapshot")
			}
			key = !key && len(inObject) > 0 && inObject[len(inObject)-1]
		default:
			key = len(inObject) > 0 && inObject[len(inObject)-1]
		}
	}
}
