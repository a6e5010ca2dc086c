package steadyotel_test

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// timeSeries writes what was scraped over time in the notation of Prometheus' own tests: one line for each time
// series, "_" where it was not there, "stale" where it no longer was, and "v+0xn" for a value that was seen n more times.
func timeSeries(t *testing.T, scrapes []string) string {
	values := make(map[string][]float64)
	for i, text := range scrapes {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
			if !ok || strings.Count(name, `"`)%2 != 0 {
				t.Fatalf("a label with a space in it: %s", line)
			}
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			if values[name] == nil {
				values[name] = make([]float64, 0, len(scrapes))
			}
			for len(values[name]) < i {
				values[name] = append(values[name], math.NaN())
			}
			values[name] = append(values[name], v)
		}
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	var b strings.Builder
	fmt.Fprintf(&b, "load %v\n", scrapeEvery)
	for _, name := range names {
		series := values[name]
		for len(series) < len(scrapes) {
			series = append(series, math.NaN())
		}
		fmt.Fprintf(&b, "  %s", name)
		for i := 0; i < len(series); {
			same := i + 1
			for same < len(series) && (series[same] == series[i] || math.IsNaN(series[same]) && math.IsNaN(series[i])) {
				same++
			}
			if i > 0 && math.IsNaN(series[i]) {
				b.WriteString(" stale") // which Prometheus notes when a series is no longer there
				i++
			}
			if i < same {
				b.WriteByte(' ')
				b.WriteString(points(series[i], same-i))
			}
			i = same
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// points writes n times the same value.
func points(v float64, n int) string {
	switch {
	case math.IsNaN(v) && n == 1:
		return "_"
	case math.IsNaN(v):
		return fmt.Sprintf("_x%d", n)
	case n == 1:
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return fmt.Sprintf("%s+0x%d", strconv.FormatFloat(v, 'g', -1, 64), n-1)
	}
}
