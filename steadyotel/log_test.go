package steadyotel_test

import "strings"

// shortened returns the log from the given time on, with "…" in place of what comes more than twice between two
// lines about a breaker's state.
func shortened(log, from string) string {
	var b strings.Builder
	seen := make(map[string]int)
	omitting := false
	for line := range strings.Lines(log) {
		if line < "time="+from {
			continue
		}
		_, rest, _ := strings.Cut(line, `msg="`)
		message, _, _ := strings.Cut(rest, `"`)
		if strings.HasPrefix(message, "breaker ") {
			clear(seen)
		}
		if seen[message]++; seen[message] <= 2 {
			b.WriteString(line)
			omitting = false
		} else if !omitting {
			b.WriteString("…\n")
			omitting = true
		}
	}
	return b.String()
}
