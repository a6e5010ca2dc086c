// Slowcatalog shows what a dependency that answers 200 in eight seconds does to the service that calls it.
//
//	go run ./examples/slowcatalog
//
// A price catalogue answers in 80 ms, then for some seconds in 8 s, then in 80 ms again. It never returns
// an error. A checkout service with 50 connections to it has 400 customers a second, who do not stay away
// because others are still waiting. All this happens twice at the same time, with the same code, over real
// HTTP on loopback: once with a breaker that counts errors only, and once with the pipeline that this
// library is for. Every number printed was measured in that run.
//
// The catalogue is slow for less than the 10 s that the first side's timeout allows. When it stays slow for
// longer (-slow 20s), customers in the queue for a connection run into that timeout: errors at last, which
// open that breaker too, once thousands of customers have waited for them.
//
// Where to look: checkout.go is what a service would write, catalogue.go is the dependency, side.go counts
// what the customers saw, and report.go prints it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// scenario is what happens in a run.
type scenario struct {
	healthy, slow, recovery time.Duration // how long each phase lasts
	fastAnswer, slowAnswer  time.Duration // how long the catalogue takes
	rate                    int           // customers a second
	openFor                 time.Duration // OpenDuration of both breakers
}

func main() {
	var s scenario
	flag.DurationVar(&s.healthy, "healthy", 5*time.Second, "how long the catalogue is healthy at first")
	flag.DurationVar(&s.slow, "slow", 7*time.Second, "how long it is slow then")
	flag.DurationVar(&s.recovery, "recover", 20*time.Second, "how long customers go on arriving when it is healthy again")
	flag.DurationVar(&s.fastAnswer, "fast-answer", 80*time.Millisecond, "how long the catalogue takes to answer while healthy")
	flag.DurationVar(&s.slowAnswer, "slow-answer", 8*time.Second, "how long it takes while slow")
	flag.IntVar(&s.rate, "rate", 400, "customers a second, on each side")
	flag.DurationVar(&s.openFor, "open", 10*time.Second, "how long an open breaker waits before it probes (its OpenDuration; up to a fifth more is added at random)")
	flag.Usage = func() { usage(flag.CommandLine) }
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "slowcatalog: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := s.check(); err != nil {
		fmt.Fprintln(os.Stderr, "slowcatalog:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	_, err := run(ctx, s, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "slowcatalog:", err)
		os.Exit(1)
	}
}

func usage(flags *flag.FlagSet) {
	out := flags.Output()
	_, _ = fmt.Fprint(out, `Slowcatalog puts a checkout service in front of a price catalogue that turns slow without ever
returning an error, twice at the same time: with a breaker that counts errors only, and with
steady's pipeline. It prints a line a second and ends with a table.

	go run ./examples/slowcatalog [flags]

`)
	flags.PrintDefaults()
	_, _ = fmt.Fprint(out, `
Worth trying:
	-healthy 1s -slow 3s -recover 3s	a quick look
	-slow 20s                       	slow for longer than the errors-only side's timeout of 10s, so that
	                                	the customers in the queue for a connection give it errors to count
	-open 2s                        	early probes, which find the catalogue slow still
`)
}

func (s scenario) check() error {
	var errs []error
	require := func(ok bool, flag, must string) {
		if !ok {
			errs = append(errs, fmt.Errorf("-%s must be %s", flag, must))
		}
	}
	require(s.healthy >= 0, "healthy", "0 or more")
	require(s.slow >= 0, "slow", "0 or more")
	require(s.recovery >= 0, "recover", "0 or more")
	require(s.fastAnswer > 0, "fast-answer", "more than 0")
	require(s.slowAnswer > 0, "slow-answer", "more than 0")
	require(s.rate >= 1 && s.rate <= 5000, "rate", "between 1 and 5000")
	require(s.openFor > 0, "open", "more than 0")
	return errors.Join(errs...)
}

// run plays the scenario on both sides, prints it to out, and returns what became of each side. It returns
// when the last customer has left, which is early if ctx is cancelled.
func run(ctx context.Context, s scenario, out io.Writer) (results []result, err error) {
	screen := &screen{out: out}
	var sides []*side
	defer func() {
		for _, one := range sides {
			err = errors.Join(err, one.close())
		}
	}()
	for _, dependency := range []newDependency{errorsOnly, slowCallsToo} {
		one, err := newSide(dependency, s.openFor, screen.transition)
		if err != nil {
			return nil, err
		}
		sides = append(sides, one)
		if err := one.checkout.fill(ctx); err != nil {
			return nil, err
		}
	}

	screen.introduce(sides, s.rate)
	stop := screen.follow(sides)
	healthyAgain := s.play(ctx, sides, screen)
	if ctx.Err() != nil {
		screen.say("interrupted")
	}
	screen.say("no more customers; those who are still waiting get their answers")
	for _, one := range sides {
		one.customers.Wait()
	}
	stop()

	screen.stats(sides)
	for _, one := range sides {
		results = append(results, one.result(healthyAgain))
	}
	screen.table(results)
	return results, nil
}

// play takes both sides through the three phases. It returns when the catalogues became healthy again, the
// zero time if ctx was cancelled before.
func (s scenario) play(ctx context.Context, sides []*side, screen *screen) (healthyAgain time.Time) {
	phase := func(d, answer time.Duration, slow bool) (began time.Time) {
		for _, one := range sides {
			one.catalogue.answerIn(answer, slow)
		}
		began = time.Now()
		arrivals(ctx, s.rate, d, func(n int, due time.Time) {
			for _, one := range sides {
				one.serve(ctx, due, n%products)
			}
		})
		return began
	}

	screen.say("the catalogue answers in %v", s.fastAnswer)
	phase(s.healthy, s.fastAnswer, false)
	if s.slow > 0 && ctx.Err() == nil {
		screen.say("the catalogue answers in %v, and still with 200", s.slowAnswer)
		phase(s.slow, s.slowAnswer, true)
		screen.stats(sides)
	}
	if ctx.Err() != nil {
		return time.Time{}
	}
	screen.say("the catalogue answers in %v again", s.fastAnswer)
	return phase(s.recovery, s.fastAnswer, false)
}

// arrivals calls arrive at a steady rate for the given time. It is an open loop: when a call is due depends on
// no other, and those that the scheduler makes late are made up for at once.
func arrivals(ctx context.Context, rate int, d time.Duration, arrive func(n int, due time.Time)) {
	start := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		after := time.Duration(n) * time.Second / time.Duration(rate)
		if after >= d {
			time.Sleep(time.Until(start.Add(d)))
			return
		}
		due := start.Add(after)
		time.Sleep(time.Until(due))
		arrive(n, due)
	}
}
