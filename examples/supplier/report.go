package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/examples/internal/screen"
)

// outcome is what there is to see in the end.
type outcome struct {
	shop     *shop
	supplier *steady.Dependency
	books    books
}

func (o *outcome) print(w *screen.Screen) {
	w.Printf("\n--- what the shoppers met with\n")
	printTable(w, o.results()...)
	w.Printf("\n--- what that reads like, the last of each kind\n")
	printTable(w, o.examples()...)
	w.Printf("\n--- the policies, the outermost first\n")
	for _, rows := range stats(o.supplier) {
		printTable(w, rows...)
		w.Printf("\n")
	}
	w.Printf("--- the supplier's books\n")
	o.printBooks(w)
}

// row is a line of a table.
type row []any

func printTable(w *screen.Screen, rows ...row) {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, r := range rows {
		_, _ = fmt.Fprintln(tw, strings.TrimSuffix(fmt.Sprintf(strings.Repeat("%v\t", len(r)), r...), "\t"))
	}
	_ = tw.Flush()
}

func (o *outcome) results() []row {
	rows := []row{{""}}
	for _, end := range ends {
		rows[0] = append(rows[0], end)
	}
	for _, call := range calls {
		r := row{call}
		for _, end := range ends {
			r = append(r, o.shop.results[result{call, end}])
		}
		rows = append(rows, r)
	}
	return rows
}

func (o *outcome) examples() (rows []row) {
	for _, call := range calls {
		for _, end := range ends {
			if err := o.shop.examples[result{call, end}]; err != nil {
				rows = append(rows, row{call, err})
			}
		}
	}
	return rows
}

// stats returns a table for each policy of the dependency.
func stats(d *steady.Dependency) [][]row {
	var (
		total, attempt = d.Timeout().Stats(), d.AttemptTimeout().Stats()
		retry, budget  = d.Retry().Stats(), d.Budget().Stats()
		breaker        = d.Breaker().Stats()
		bulkhead       = d.Bulkhead().Stats()
		ms             = func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	)
	return [][]row{
		{
			{"TIMEOUT", "limit", "expired"},
			{total.Name, d.Timeout().Config().Limit, total.Expired},
			{attempt.Name, d.AttemptTimeout().Config().Limit, attempt.Expired},
		},
		{
			{"RETRY", "calls", "retries", "succeeded after retry", "attempts exhausted", "denied by budget", "denied by deadline"},
			{retry.Name, retry.Calls, retry.Retries, retry.SucceededAfterRetry, retry.Exhausted, retry.BudgetDenied, retry.DeadlineDenied},
		},
		{
			{"RETRY BUDGET", "tokens", "burst", "per success", "denied"},
			{retry.Name, fmt.Sprintf("%.2f", budget.Tokens), budget.Burst, budget.Ratio, budget.Denied},
		},
		{
			{"BREAKER", "state", "transitions", "rejected", "time open", "p50", "p99", "headroom"},
			{
				breaker.Name, breaker.State, breaker.Transitions, breaker.Rejected, ms(breaker.TimeOpen),
				ms(breaker.LatencyP50), ms(breaker.LatencyP99), fmt.Sprintf("%.1f", breaker.Headroom),
			},
			{"", "in window", "failed", "slow", "in flight", "overdue"},
			{"", breaker.Calls, breaker.Failures, breaker.Slow, breaker.InFlight, breaker.Overdue},
		},
		{
			{"BULKHEAD", "limit", "in flight", "waiting", "rejected"},
			{bulkhead.Name, bulkhead.MaxConcurrent, bulkhead.InFlight, bulkhead.Waiting, bulkhead.Rejected},
		},
	}
}

func (o *outcome) printBooks(w *screen.Screen) {
	b := o.books
	w.Printf("reservations: %d baskets came with %d idempotency keys in %d requests, %d repetitions among them;\n",
		b.baskets, b.keys, b.received, b.received-b.keys)
	w.Printf("              %d were applied, none more than %s: %d articles reserved, %d taken from the stock\n",
		b.applied, times(b.mostApplied), b.reserved, b.moved)
	w.Printf("orders:       %d were received, none more than %s, and %d delivered;\n", b.orders, times(b.mostReceived), b.delivered)
	w.Printf("              the shop is in doubt of %d; had it sent them again, the supplier would have delivered %d of them twice\n",
		len(o.shop.inDoubt), b.doubtful)
	if err := b.check(o.shop); err != nil {
		w.Printf("NOT IN ORDER: %v\n", err)
		return
	}
	w.Printf("in order:     every reservation was applied at most once, no order was received twice\n")
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
