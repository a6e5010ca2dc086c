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

// row is a promise: one benchmark's result, over or minus another's, against a number.
type row struct {
	what   string
	of     string // a benchmark
	over   string // another one, by which it is divided
	minus  string // another one, which is taken off
	unit   string
	target float64 // none if it is negative
}

var rows = []row{
	over("Breaker in a Pipeline, closed, success ÷ gobreaker", "BreakerClosed/mode=sequential/lib=steady", "BreakerClosed/mode=sequential/lib=gobreaker", 0.8),
	over("the same, on all cores", "BreakerClosed/mode=parallel/lib=steady", "BreakerClosed/mode=parallel/lib=gobreaker", 0.85),
	over("open rejection ÷ gobreaker", "BreakerOpen/mode=sequential/lib=steady", "BreakerOpen/mode=sequential/lib=gobreaker", 0.6),
	over("open rejection under Retry ÷ gobreaker", "BreakerOpen/mode=sequential/lib=steady-under-retry", "BreakerOpen/mode=sequential/lib=gobreaker", 0.6),
	over("Retry+Breaker+Bulkhead ÷ failsafe-go's three", "Three/mode=sequential/lib=steady", "Three/mode=sequential/lib=failsafe", 0.18),
	over("the standard chain with its Timeout ÷ failsafe-go's", "Chain/mode=sequential/lib=steady", "Chain/mode=sequential/lib=failsafe", 0.4),
	over("the same, on all cores", "Chain/mode=parallel/lib=steady", "Chain/mode=parallel/lib=failsafe", 0.4),
	over("the same, of a function that asks for its context's Done", "Chain/mode=sequential/lib=steady-asked-for-done", "Chain/mode=sequential/lib=failsafe-asked-for-done", 0.4),
	over("the same, on all cores", "Chain/mode=parallel/lib=steady-asked-for-done", "Chain/mode=parallel/lib=failsafe-asked-for-done", 0.4),
	over("a record at WindowSize 1<<20 ÷ at 20", "WindowSize/size=1048576", "WindowSize/size=20", 1.3),
	over("a call with 10 000 in flight ÷ with 1", "InFlight/calls=10000", "InFlight/calls=1", 1.3),
	over("a call on two cores ÷ on one", "Cores/cores=2/mode=parallel/lib=steady", "Cores/cores=1/mode=parallel/lib=steady", none),
	over("gobreaker's likewise", "Cores/cores=2/mode=parallel/lib=gobreaker", "Cores/cores=1/mode=parallel/lib=gobreaker", none),
	{what: "allocations: Breaker", of: "BreakerClosed/mode=sequential/lib=steady", unit: "allocs/op"},
	{what: "the same, on all cores", of: "BreakerClosed/mode=parallel/lib=steady", unit: "allocs/op"},
	{what: "allocations: open rejection", of: "BreakerOpen/mode=sequential/lib=steady", unit: "allocs/op"},
	{what: "allocations: open rejection under Retry", of: "BreakerOpen/mode=sequential/lib=steady-under-retry", unit: "allocs/op"},
	{what: "allocations: Retry+Breaker+Bulkhead", of: "Three/mode=sequential/lib=steady", unit: "allocs/op"},
	{
		what: "allocations: the chain − context.WithTimeout", of: "Chain/mode=sequential/lib=steady",
		minus: "Timeout/mode=sequential/lib=context", unit: "allocs/op", target: 1,
	},
	{
		what: "the same, of a function that asks for its context's Done", of: "Chain/mode=sequential/lib=steady-asked-for-done",
		minus: "Timeout/mode=sequential/lib=context-asked-for-done", unit: "allocs/op", target: 1,
	},
	{what: "bytes of a Breaker before its first call", of: "Memory/used=false", unit: "B/breaker", target: 512},
	{what: "bytes of a Breaker after 24 calls at once, WindowSize 20, WindowAge set", of: "Memory/used=true", unit: "B/breaker", target: 4096},
	{what: "goroutines of 100 000 Breakers", of: "Memory/used=true", unit: "goroutines"},
}

const none = -1

func over(what, of, over string, target float64) row {
	return row{what: what, of: of, over: over, unit: "ns/op", target: target}
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
		for _, name := range []string{r.of, r.over, r.minus} {
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
			value, err := r.value(result)
			if err != nil {
				return err
			}
			values = append(values, value)
		}
		slices.Sort(values)
		low, median, high := values[0], values[len(values)/2], values[len(values)-1]
		target, verdict := "≤ "+number(r.target), "met"
		switch {
		case r.target < 0:
			target, verdict = "", ""
		case low > r.target:
			verdict = "**missed**"
		case median > r.target:
			verdict = "within the spread"
		}
		fmt.Printf("| %s | %s | %s | %s … %s | %s |\n", r.what, target, number(median), number(low), number(high), verdict)
	}
	return nil
}

// value is the row's in one round.
func (r row) value(result map[string]map[string]float64) (float64, error) {
	var missing error
	of := func(name string) float64 {
		value, ok := result[name][r.unit]
		if !ok {
			missing = fmt.Errorf("no %s of %s was measured", r.unit, name)
		}
		return value
	}
	value := of(r.of)
	if r.over != "" {
		value /= of(r.over)
	}
	if r.minus != "" {
		value -= of(r.minus)
	}
	return value, missing
}

func number(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
