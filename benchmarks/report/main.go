// Report measures what steady promises of its speed, side by side with other libraries, and prints a table in
// Markdown, each row against its target.
//
//	go run ./report            # in the benchmarks module; a few minutes
//
// It runs every benchmark once a round, in rounds that follow each other, and takes the ratios within each
// round, so that a machine that is busy for a while is busy for both sides. A target is missed when the whole
// spread of the rounds lies above it.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// row is a promise: one benchmark's result over another's, or against a number.
type row struct {
	what   string
	of     string // a benchmark
	over   string // another one; "" compares with nothing
	unit   string
	target float64
}

var rows = []row{
	{"Breaker in a Pipeline, closed, success ÷ gobreaker", "BreakerClosed/mode=sequential/lib=steady", "BreakerClosed/mode=sequential/lib=gobreaker", "ns/op", 0.8},
	{"the same, on all cores", "BreakerClosed/mode=parallel/lib=steady", "BreakerClosed/mode=parallel/lib=gobreaker", "ns/op", 0.85},
	{"open rejection ÷ gobreaker", "BreakerOpen/mode=sequential/lib=steady", "BreakerOpen/mode=sequential/lib=gobreaker", "ns/op", 0.6},
	{"open rejection under Retry ÷ gobreaker", "BreakerOpen/mode=sequential/lib=steady-under-retry", "BreakerOpen/mode=sequential/lib=gobreaker", "ns/op", 0.6},
	{"Retry+Breaker+Bulkhead ÷ failsafe-go's three", "Three/mode=sequential/lib=steady", "Three/mode=sequential/lib=failsafe", "ns/op", 0.18},
	{"the standard chain with its Timeout ÷ failsafe-go's", "Chain/mode=sequential/lib=steady", "Chain/mode=sequential/lib=failsafe", "ns/op", 0.4},
	{"the same, on all cores", "Chain/mode=parallel/lib=steady", "Chain/mode=parallel/lib=failsafe", "ns/op", 0.4},
	{"a record at WindowSize 1<<20 ÷ at 20", "WindowSize/size=1048576", "WindowSize/size=20", "ns/op", 1.3},
	{"a call with 10 000 in flight ÷ with 1", "InFlight/calls=10000", "InFlight/calls=1", "ns/op", 1.3},
	{"allocations: Breaker", "BreakerClosed/mode=sequential/lib=steady", "", "allocs/op", 0},
	{"allocations: open rejection", "BreakerOpen/mode=sequential/lib=steady", "", "allocs/op", 0},
	{"allocations: open rejection under Retry", "BreakerOpen/mode=sequential/lib=steady-under-retry", "", "allocs/op", 0},
	{"allocations: Retry+Breaker+Bulkhead", "Three/mode=sequential/lib=steady", "", "allocs/op", 0},
	{"allocations: the chain (context.WithTimeout has 4)", "Chain/mode=sequential/lib=steady", "", "allocs/op", 5},
	{"bytes of a Breaker before its first call", "Memory/used=false", "", "B/breaker", 512},
	{"bytes of a Breaker in use, WindowSize 20, WindowAge set", "Memory/used=true", "", "B/breaker", 4096},
	{"goroutines of 100 000 Breakers", "Memory/used=true", "", "goroutines", 0},
}

func main() {
	rounds := flag.Int("rounds", 15, "how often every benchmark runs")
	benchtime := flag.String("benchtime", "100ms", "how long each time")
	flag.Parse()
	if err := measure(*rounds, *benchtime); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func measure(rounds int, benchtime string) error {
	dir, err := os.MkdirTemp("", "steady-report-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "benchmarks.test")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, "github.com/steady-go/steady/benchmarks").CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	var results []map[string]map[string]float64
	for i := range rounds {
		fmt.Fprintf(os.Stderr, "\rround %d of %d", i+1, rounds)
		result, err := round(binary, benchtime)
		if err != nil {
			return err
		}
		results = append(results, result)
	}
	fmt.Fprintln(os.Stderr)
	return table(results)
}

// round runs the benchmarks that the rows name, and returns their results by name and unit.
func round(binary, benchtime string) (map[string]map[string]float64, error) {
	var names []string
	for _, r := range rows {
		for _, name := range []string{r.of, r.over} {
			if name, _, _ := strings.Cut(name, "/"); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	bench := "^Benchmark(" + strings.Join(names, "|") + ")$"
	out, err := exec.Command(binary, "-test.run=NONE", "-test.bench="+bench, "-test.benchtime="+benchtime).Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return parse(out), nil
}

var cores = regexp.MustCompile(`-\d+$`)

// parse reads lines such as "BenchmarkX/lib=y-2  1000  12.3 ns/op  0 B/op".
func parse(out []byte) map[string]map[string]float64 {
	results := make(map[string]map[string]float64)
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := cores.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		results[name] = make(map[string]float64)
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				results[name][fields[i+1]] = v
			}
		}
	}
	return results
}

func table(results []map[string]map[string]float64) error {
	fmt.Println("| what | target | median | spread | |")
	fmt.Println("|---|---|---|---|---|")
	for _, r := range rows {
		var values []float64
		for _, result := range results {
			value, ok := result[r.of][r.unit]
			if !ok {
				return fmt.Errorf("no %s of %s was measured", r.unit, r.of)
			}
			if r.over != "" {
				base, ok := result[r.over][r.unit]
				if !ok {
					return fmt.Errorf("no %s of %s was measured", r.unit, r.over)
				}
				value /= base
			}
			values = append(values, value)
		}
		slices.Sort(values)
		low, median, high := values[0], values[len(values)/2], values[len(values)-1]
		verdict := "met"
		switch {
		case low > r.target:
			verdict = "**missed**"
		case median > r.target:
			verdict = "within the spread"
		}
		fmt.Printf("| %s | ≤ %s | %s | %s … %s | %s |\n", r.what, number(r.target), number(median), number(low), number(high), verdict)
	}
	return nil
}

func number(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
