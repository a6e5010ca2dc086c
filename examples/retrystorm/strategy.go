package main

import (
	"time"

	"github.com/steady-go/steady"
)

// strategy is what a client does about an attempt that failed.
type strategy struct {
	name     string
	policies func(*scenario) []steady.Policy // of one instance
}

var strategies = []strategy{
	{"no retry", func(sc *scenario) []steady.Policy {
		return []steady.Policy{timeout(sc)}
	}},
	{"immediate retries", func(sc *scenario) []steady.Policy {
		return []steady.Policy{retry(sc, steady.RetryConfig{NoDelay: true, NoBudget: true}), timeout(sc)}
	}},
	{"exponential, no jitter", func(sc *scenario) []steady.Policy {
		return []steady.Policy{retry(sc, steady.RetryConfig{Jitter: steady.NoJitter, NoBudget: true}), timeout(sc)}
	}},
	{"full jitter", func(sc *scenario) []steady.Policy {
		return []steady.Policy{retry(sc, steady.RetryConfig{NoBudget: true}), timeout(sc)}
	}},
	{"jitter, budget, breaker", func(sc *scenario) []steady.Policy {
		return []steady.Policy{retry(sc, steady.RetryConfig{}), timeout(sc), breaker(sc)}
	}},
}

// retry makes a Retry with the delays that are the default, in model time.
func retry(sc *scenario, cfg steady.RetryConfig) *steady.Retry {
	cfg.MaxAttempts = sc.attempts
	if !cfg.NoDelay {
		cfg.BaseDelay = sc.real(100 * time.Millisecond)
		cfg.MaxDelay = sc.real(30 * time.Second)
	}
	return steady.Must(steady.NewRetry(cfg))
}

func timeout(sc *scenario) *steady.Timeout {
	return steady.Must(steady.NewTimeout(steady.TimeoutConfig{Name: "attempt", Limit: sc.real(sc.timeout)}))
}

func breaker(sc *scenario) *steady.Breaker {
	return steady.Must(steady.NewBreaker(steady.BreakerConfig{
		Name:          "server",
		SlowThreshold: sc.real(sc.timeout / 2),
		OpenDuration:  sc.real(2 * time.Second),
	}))
}
