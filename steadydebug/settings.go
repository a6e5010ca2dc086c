package steadydebug

import (
	"fmt"
	"time"

	"github.com/steady-go/steady"
)

// setting is a field of a configuration: its name and its value, in words.
type setting [2]string

// settings returns the effective configuration of a subject, as of its last reading: the fields named here
// and no others, so that nothing is shown by accident that a later version may add. None of them is a
// function or can hold a secret.
func settings(s *subject) []setting {
	list := []setting{}
	add := func(name string, value any) {
		list = append(list, setting{name, fmt.Sprint(value)})
	}
	if s.timeout != nil {
		add("Timeout", s.timeout.Config().Limit)
		addIf(add, "Timeout.Abandon", s.timeout.Config().Abandon)
	}
	if s.attempt != nil {
		add("AttemptTimeout", s.attempt.Config().Limit)
	}
	if s.breaker != nil {
		breakerSettings(add, s.breaker.Config())
	}
	if s.bulkhead != nil {
		cfg := s.bulkhead.Config()
		cfg.MaxConcurrent = s.now.bulkhead.MaxConcurrent // the rest does not change
		bulkheadSettings(add, cfg)
	}
	if s.retry != nil {
		retrySettings(add, s.retry.Config())
	}
	return list
}

func breakerSettings(add func(string, any), c steady.BreakerConfig) {
	if c.NoSlowCalls {
		add("Breaker.NoSlowCalls", true)
	} else {
		add("Breaker.SlowThreshold", c.SlowThreshold)
		add("Breaker.SlowRate", c.SlowRate)
	}
	add("Breaker.FailureRate", c.FailureRate)
	add("Breaker.WindowSize", c.WindowSize)
	add("Breaker.WindowAge", orNone(c.WindowAge))
	add("Breaker.MinCalls", c.MinCalls)
	add("Breaker.OpenDuration", c.OpenDuration)
	add("Breaker.MaxOpenDuration", c.MaxOpenDuration)
	add("Breaker.OpenJitter", c.OpenJitter)
	add("Breaker.HalfOpenProbes", c.HalfOpenProbes)
	add("Breaker.ProbeTimeout", c.ProbeTimeout)
	addIf(add, "Breaker.Shadow", c.Shadow)
}

func bulkheadSettings(add func(string, any), c steady.BulkheadConfig) {
	add("Bulkhead.MaxConcurrent", c.MaxConcurrent)
	add("Bulkhead.MaxWait", orNone(c.MaxWait))
	if c.MaxWait > 0 {
		add("Bulkhead.MaxQueue", c.MaxQueue)
	}
}

func retrySettings(add func(string, any), c steady.RetryConfig) {
	add("Retry.MaxAttempts", c.MaxAttempts)
	if c.NoDelay {
		add("Retry.NoDelay", true)
	} else {
		add("Retry.BaseDelay", c.BaseDelay)
		add("Retry.MaxDelay", c.MaxDelay)
		add("Retry.ThrottledDelay", c.ThrottledDelay)
		add("Retry.Jitter", c.Jitter)
	}
	if c.Budget != nil {
		add("Retry.Budget.Ratio", c.Budget.Config().Ratio)
		add("Retry.Budget.Burst", c.Budget.Config().Burst)
	} else {
		add("Retry.NoBudget", true)
	}
	addIf(add, "Retry.RetryRejected", c.RetryRejected)
}

// addIf adds a switch that is on.
func addIf(add func(string, any), name string, on bool) {
	if on {
		add(name, on)
	}
}

func orNone(d time.Duration) any {
	if d == 0 {
		return "none"
	}
	return d
}
