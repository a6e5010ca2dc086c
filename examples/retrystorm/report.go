package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// report prints what is going on, and what it came to.
type report struct {
	sc *scenario
	w  io.Writer
}

func (r *report) printf(format string, args ...any) { _, _ = fmt.Fprintf(r.w, format, args...) }

const margin = 25 // where the plots begin

func (r *report) title() {
	fails, well, end := r.sc.seconds()
	r.printf("%d clients, a server that can do %.0f requests/s. One character a second (%.2g s each in real time).\n",
		r.sc.clients, r.sc.capacity(), 1/r.sc.speed)
	r.printf("Rows: requests that arrived, calls that were answered; ▄ is the server's capacity, █ twice that and more.\n")
	r.printf("! marks overload: more requests than capacity, or a queue that was never empty in that second.\n\n")
	act := func(name string, seconds int) string {
		s := "|" + name + " " + strings.Repeat("-", max(seconds, 0))
		return s[:min(len(s), seconds)]
	}
	r.printf("%*s%s%s%s\n", margin, "", act("calm", fails), act("failing", well-fails), act("well again", end-well))
}

func (r *report) begin(st strategy) { r.printf("%-*s", margin, st.name) }

// second prints the arrivals of a second as they are known.
func (r *report) second(s second) { r.printf("%s", r.block(s.arrivals)) }

func (r *report) end(res result) {
	var answered, overloaded strings.Builder
	for _, s := range res.seconds {
		answered.WriteString(r.block(s.answered))
		overloaded.WriteString(map[bool]string{true: "!", false: " "}[s.overloaded(r.sc)])
	}
	r.printf("\n%*s%s\n%*s%s\n\n", margin, "answered ", answered.String(), margin, "overloaded ", overloaded.String())
}

// block returns the character for so many in a second.
func (r *report) block(n int) string {
	blocks := []string{"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}
	quarters := 4 * float64(n) / r.sc.capacity()
	level := int(quarters)
	if float64(level) < quarters {
		level++
	}
	return blocks[min(level, len(blocks)-1)]
}

func (r *report) table(results []result) {
	w := tabwriter.NewWriter(r.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "\tcalls\tfailed\trequests\twork\tseconds\tfirst\tfull\t")
	_, _ = fmt.Fprintln(w, "\tanswered\twhile calm\tper call\twasted\toverloaded\tanswer\trecovery\t")
	for _, res := range results {
		m := res.measure(r.sc)
		_, _ = fmt.Fprintf(w, "%s\t%d\t%.1f%%\t%.2f\t%.0f%%\t%d\t%s\t%s\t\n", res.strategy.name, m.answered, 100*m.failedCalm, m.perCall,
			100*m.wasted, m.overloaded, r.after("%.1fs", res.first.Seconds()), r.after("%.0fs", float64(m.recovery)))
	}
	_ = w.Flush()
	r.printf(`
requests per call    that arrive at the server; less than 1 where a breaker kept calls away from it
work wasted          requests that the server worked on when the client had given up
first answer         from the end of the failure to the first call that is answered
full recovery        from there to the first %d s in a row without overload and with %.0f%% of the answers of calm times
`, steadySeconds, 100*steadyShare)
}

// after returns a time from the end of the failure, which may not have come within the run.
func (r *report) after(format string, seconds float64) string {
	if seconds < 0 {
		return fmt.Sprintf("not in %v", r.sc.after)
	}
	return fmt.Sprintf(format, seconds)
}
