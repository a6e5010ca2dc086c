package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// scenario is all that a run depends on. Its durations are model time.
type scenario struct {
	speed float64 // how many seconds of the model pass in a real one
	seed  uint64

	// The clients: each thinks, calls, waits for the answer, and thinks again.
	clients   int
	instances int           // of the service they use; each has policies of its own
	think     time.Duration // on average
	timeout   time.Duration // of an attempt
	attempts  int           // of a call, where it is retried

	// The server.
	workers  int
	service  time.Duration // of a request
	queue    int           // requests that may wait; others are answered 503
	faults   float64       // the share of requests that fail, in good times too
	slowdown float64       // how many times longer a request takes while the server fails

	calm, failing, after time.Duration // the acts
}

func flags() *scenario {
	sc := new(scenario)
	flag.Float64Var(&sc.speed, "speed", 5, "seconds of the model in a real second")
	flag.Uint64Var(&sc.seed, "seed", 1, "of think times and faults")
	flag.IntVar(&sc.clients, "clients", 100, "concurrent clients")
	flag.IntVar(&sc.instances, "instances", 4, "instances of the service, each with policies of its own")
	flag.DurationVar(&sc.think, "think", 2900*time.Millisecond, "mean time between a client's calls")
	flag.DurationVar(&sc.timeout, "timeout", time.Second, "limit of an attempt")
	flag.IntVar(&sc.attempts, "attempts", 4, "attempts of a call, the first included, where it is retried")
	flag.IntVar(&sc.workers, "workers", 5, "workers of the server")
	flag.DurationVar(&sc.service, "service", 100*time.Millisecond, "time a worker needs for a request")
	flag.IntVar(&sc.queue, "queue", 120, "requests that may wait for a worker")
	flag.Float64Var(&sc.faults, "faults", 0.03, "share of requests that fail, in good times too")
	flag.Float64Var(&sc.slowdown, "slowdown", 20, "how many times longer a request takes while the server fails")
	flag.DurationVar(&sc.calm, "calm", 10*time.Second, "time before the failure, in whole seconds")
	flag.DurationVar(&sc.failing, "failing", 10*time.Second, "time the server fails, in whole seconds")
	flag.DurationVar(&sc.after, "after", 30*time.Second, "time after the failure, in whole seconds")
	flag.Parse()
	if err := sc.check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return sc
}

func (sc *scenario) check() error {
	switch {
	case sc.speed <= 0 || sc.service <= 0 || sc.timeout <= 0 || sc.slowdown < 1:
		return errors.New("-speed, -service and -timeout must be positive, and -slowdown at least 1")
	case sc.clients < 1 || sc.instances < 1 || sc.workers < 1 || sc.queue < 0:
		return errors.New("-clients, -instances and -workers must be at least 1, and -queue not negative")
	case sc.calm < time.Second || sc.failing < time.Second || sc.after < steadySeconds*time.Second:
		return fmt.Errorf("-calm and -failing must be at least 1s, and -after at least %ds", steadySeconds)
	}
	return nil
}

// capacity is how many requests a second the server can answer when it is well.
func (sc *scenario) capacity() float64 { return float64(sc.workers) / sc.service.Seconds() }

// seconds are how many there are before the failure, before its end, and in all.
func (sc *scenario) seconds() (fails, well, end int) {
	return int(sc.calm / time.Second), int((sc.calm + sc.failing) / time.Second), int((sc.calm + sc.failing + sc.after) / time.Second)
}

// real returns how long a duration of the model really takes.
func (sc *scenario) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / sc.speed)
}

// model is the reverse of real.
func (sc *scenario) model(d time.Duration) time.Duration {
	return time.Duration(float64(d) * sc.speed)
}
