package steady

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// DependencyConfig configures a [Dependency].
type DependencyConfig struct {
	// Name is what errors, hooks and logs call the dependency, and each of its parts that has no name of its
	// own; the Timeout of an attempt is Name.attempt. Required.
	Name string
	// Timeout bounds the whole operation, retries and waits included. Required, unless NoTimeout.
	Timeout time.Duration
	// AttemptTimeout bounds each attempt. 0 means that an attempt has no limit of its own.
	AttemptTimeout time.Duration
	// Retry, Breaker and Bulkhead configure the parts. Zero fields have the defaults given there;
	// Breaker.SlowThreshold and Bulkhead.MaxConcurrent are required.
	Retry    RetryConfig
	Breaker  BreakerConfig
	Bulkhead BulkheadConfig
	// NoTimeout, NoRetry, NoBreaker and NoBulkhead leave parts out. NoTimeout is about Timeout alone. What
	// is configured of a part that is left out does not matter.
	NoTimeout, NoRetry, NoBreaker, NoBulkhead bool
	// Classify says what an error means, in every pipeline of this dependency whose own Classify does not
	// say. nil, or a result of 0, leaves it to the function Classify.
	Classify func(err error) Outcome
	// Hooks and Clock are for every part, and every pipeline, that has none of its own.
	Hooks *Hooks
	Clock Clock
}

// Dependency is one thing that can fail on its own: a database, a service, one shard of it. It has one
// breaker, one bulkhead and one retry budget, shared by all pipelines that call it. [NewPipelineFor] makes
// these. A Dependency may be used by any number of goroutines.
type Dependency struct {
	cfg      DependencyConfig
	total    *Timeout
	attempt  *Timeout
	retry    *Retry
	careful  *Retry
	breaker  *Breaker
	bulkhead *Bulkhead
}

// Intent says what a call does to the dependency, and so what may be repeated.
type Intent uint8

const (
	// ReadIdempotent reads. It is retried.
	ReadIdempotent Intent = iota
	// WriteIdempotent writes what may be written twice: an upsert, a call with an idempotency key. It is
	// retried.
	WriteIdempotent
	// WriteNonIdempotent must not be done twice. It is retried only where it cannot have been done at all:
	// after Unsent and Throttled outcomes, and after rejections if RetryConfig.RetryRejected is set.
	WriteNonIdempotent
)

// String returns the intent's name in lower case, words joined by underscores.
func (i Intent) String() string {
	switch i {
	case ReadIdempotent:
		return "read_idempotent"
	case WriteIdempotent:
		return "write_idempotent"
	case WriteNonIdempotent:
		return "write_non_idempotent"
	default:
		return "intent " + strconv.Itoa(int(i))
	}
}

// NewDependency returns a Dependency, or an error that names every field that is out of range and every
// contradiction between them: AttemptTimeout above Timeout; SlowThreshold not below both, for no answer could
// then be slow and still arrive; HalfOpenProbes above MaxConcurrent; WindowAge below 2·AttemptTimeout; MaxWait
// or BaseDelay not below Timeout; a part's own Clock. What is merely doubtful is accepted.
func NewDependency(cfg DependencyConfig) (*Dependency, error) {
	label := fmt.Sprintf("dependency %q: DependencyConfig", cfg.Name)
	errs := cfg.complete(label)
	d := &Dependency{cfg: cfg}
	part := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	var err error
	if !cfg.NoTimeout && cfg.Timeout > 0 {
		d.total, err = NewTimeout(TimeoutConfig{Name: cfg.Name, Limit: cfg.Timeout, Hooks: cfg.Hooks, Clock: cfg.Clock})
		part(err)
	}
	if cfg.AttemptTimeout > 0 {
		d.attempt, err = NewTimeout(TimeoutConfig{Name: cfg.Name + ".attempt", Limit: cfg.AttemptTimeout, Hooks: cfg.Hooks, Clock: cfg.Clock})
		part(err)
	}
	if !cfg.NoRetry {
		d.retry, err = newRetry(cfg.Retry, label+".Retry")
		part(err)
	}
	if !cfg.NoBreaker {
		d.breaker, err = newBreaker(cfg.Breaker, label+".Breaker")
		part(err)
	}
	if !cfg.NoBulkhead {
		d.bulkhead, err = newBulkhead(cfg.Bulkhead, label+".Bulkhead")
		part(err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if d.retry != nil {
		d.cfg.Retry = d.retry.Config()
		d.careful = d.retry.careful()
	}
	if d.breaker != nil {
		d.cfg.Breaker = d.breaker.Config()
	}
	if d.bulkhead != nil {
		d.cfg.Bulkhead = d.bulkhead.Config()
	}
	return d, nil
}

// complete hands the dependency's name, hooks and clock on to the parts, and checks the numbers against
// each other. What is wrong within one part is left to that part.
func (cfg *DependencyConfig) complete(label string) []error {
	f := faults{config: label}
	f.require(cfg.Name != "", "Name", "is required", strconv.Quote(cfg.Name), "errors, logs and metrics tell dependencies apart by it")
	if cfg.NoTimeout {
		f.refuse(cfg.Timeout != 0, "Timeout is %v with NoTimeout set: leave one of them out", cfg.Timeout)
	} else {
		f.require(cfg.Timeout > 0, "Timeout", "is required and must be positive", cfg.Timeout, "the longest a caller should wait; or set NoTimeout")
	}
	f.duration("AttemptTimeout", cfg.AttemptTimeout, "0 means that an attempt has no limit of its own")
	cfg.handDown(&f)
	if cfg.Timeout > 0 {
		f.refuse(cfg.AttemptTimeout > cfg.Timeout, "AttemptTimeout (%v) exceeds Timeout (%v): lower it, or leave it out", cfg.AttemptTimeout, cfg.Timeout)
	}
	if !cfg.NoBreaker {
		cfg.checkBreaker(&f)
	}
	if !cfg.NoBulkhead && cfg.Timeout > 0 {
		f.refuse(cfg.Bulkhead.MaxWait >= cfg.Timeout, "Bulkhead.MaxWait (%v) must be less than Timeout (%v): "+
			"a call that waits so long has no time left; lower MaxWait", cfg.Bulkhead.MaxWait, cfg.Timeout)
	}
	if !cfg.NoRetry && !cfg.Retry.NoDelay && cfg.Timeout > 0 {
		base := cfg.Retry.BaseDelay
		setDefault(&base, 100*time.Millisecond)
		f.refuse(base >= cfg.Timeout, "Retry.BaseDelay (%v) must be less than Timeout (%v): no retry would ever have time; lower it, or set NoRetry", base, cfg.Timeout)
	}
	return f.errs
}

// checkBreaker checks the breaker against the timeouts and the bulkhead.
func (cfg *DependencyConfig) checkBreaker(f *faults) {
	slow := cfg.Breaker.SlowThreshold
	const why = "an answer that slow could never arrive; raise the timeout or lower SlowThreshold"
	f.refuse(cfg.AttemptTimeout > 0 && slow >= cfg.AttemptTimeout,
		"Breaker.SlowThreshold (%v) must be less than AttemptTimeout (%v): %s", slow, cfg.AttemptTimeout, why)
	f.refuse(cfg.Timeout > 0 && slow >= cfg.Timeout,
		"Breaker.SlowThreshold (%v) must be less than Timeout (%v): %s", slow, cfg.Timeout, why)
	f.refuse(cfg.Breaker.WindowAge > 0 && cfg.Breaker.WindowAge-cfg.AttemptTimeout < cfg.AttemptTimeout,
		"Breaker.WindowAge (%v) must be at least 2·AttemptTimeout (%v): outcomes would age out before they decide; raise WindowAge",
		cfg.Breaker.WindowAge, saturated(2*float64(cfg.AttemptTimeout)))
	if !cfg.NoBulkhead && cfg.Bulkhead.MaxConcurrent > 0 {
		probes := cfg.Breaker.HalfOpenProbes
		setDefault(&probes, 3)
		f.refuse(probes > cfg.Bulkhead.MaxConcurrent, "Breaker.HalfOpenProbes (%d) exceeds Bulkhead.MaxConcurrent (%d): "+
			"the probes could not run together; lower HalfOpenProbes", probes, cfg.Bulkhead.MaxConcurrent)
	}
}

// handDown fills in what the parts leave to the dependency.
func (cfg *DependencyConfig) handDown(f *faults) {
	type common struct {
		part  string
		out   bool
		name  *string
		hooks **Hooks
		clock *Clock
	}
	for _, c := range []common{
		{"Retry", cfg.NoRetry, &cfg.Retry.Name, &cfg.Retry.Hooks, &cfg.Retry.Clock},
		{"Breaker", cfg.NoBreaker, &cfg.Breaker.Name, &cfg.Breaker.Hooks, &cfg.Breaker.Clock},
		{"Bulkhead", cfg.NoBulkhead, &cfg.Bulkhead.Name, &cfg.Bulkhead.Hooks, &cfg.Bulkhead.Clock},
	} {
		f.refuse(!c.out && *c.clock != nil && !sameClock(*c.clock, cfg.Clock),
			"%s.Clock is not the Dependency's Clock: leave it out", c.part)
		setDefault(c.name, cfg.Name)
		setDefault(c.hooks, cfg.Hooks)
		if *c.clock == nil {
			*c.clock = cfg.Clock
		}
	}
}

// Name returns the configured name.
func (d *Dependency) Name() string { return d.cfg.Name }

// Config returns the effective configuration, defaults filled in.
func (d *Dependency) Config() DependencyConfig { return d.cfg }

// Breaker returns the breaker, nil when it was left out.
func (d *Dependency) Breaker() *Breaker { return d.breaker }

// Bulkhead returns the bulkhead, nil when it was left out.
func (d *Dependency) Bulkhead() *Bulkhead { return d.bulkhead }

// Retry returns the retry, nil when it was left out. Its Stats include those of every intent.
func (d *Dependency) Retry() *Retry { return d.retry }

// Budget returns the retry budget, nil when there is none.
func (d *Dependency) Budget() *RetryBudget {
	if d.retry == nil {
		return nil
	}
	return d.retry.cfg.Budget
}

// Timeout returns the Timeout of the whole operation, nil when it was left out.
func (d *Dependency) Timeout() *Timeout { return d.total }

// AttemptTimeout returns the Timeout of each attempt, nil when there is none.
func (d *Dependency) AttemptTimeout() *Timeout { return d.attempt }

// Policies returns the parts in the standard order for the intent: Timeout, Retry, Timeout of the attempt,
// Breaker, Bulkhead, without those that were left out.
func (d *Dependency) Policies(intent Intent) []Policy {
	var policies []Policy
	if d.total != nil {
		policies = append(policies, d.total)
	}
	switch {
	case d.retry == nil:
	case intent == ReadIdempotent || intent == WriteIdempotent:
		policies = append(policies, d.retry)
	default:
		policies = append(policies, d.careful)
	}
	if d.attempt != nil {
		policies = append(policies, d.attempt)
	}
	if d.breaker != nil {
		policies = append(policies, d.breaker)
	}
	if d.bulkhead != nil {
		policies = append(policies, d.bulkhead)
	}
	return policies
}

// NewPipelineFor returns a pipeline with the dependency's policies for the intent. cfg must be without
// Policies; its Name, Hooks, Clock and Classify are the dependency's unless it has its own.
func NewPipelineFor[T any](d *Dependency, intent Intent, cfg PipelineConfig[T]) (*Pipeline[T], error) {
	if err := checkPipelineFor(d, intent, len(cfg.Policies)); err != nil {
		return nil, err
	}
	setDefault(&cfg.Name, d.cfg.Name)
	setDefault(&cfg.Hooks, d.cfg.Hooks)
	if cfg.Clock == nil {
		cfg.Clock = d.cfg.Clock
	}
	cfg.Policies = d.Policies(intent)
	p, err := NewPipeline(cfg)
	if err != nil {
		return nil, err
	}
	p.classifyErr = d.cfg.Classify
	return p, nil
}

func checkPipelineFor(d *Dependency, intent Intent, policies int) error {
	f := faults{config: "NewPipelineFor"}
	f.require(d != nil, "Dependency", "is required", nil, "make one with NewDependency")
	f.require(intent <= WriteNonIdempotent, "Intent", "must be ReadIdempotent, WriteIdempotent or WriteNonIdempotent", uint8(intent), "WriteNonIdempotent is the safe one")
	f.require(policies == 0, "PipelineConfig.Policies", "must be empty", strconv.Itoa(policies)+" of them", "the Dependency has them; for others use NewPipeline")
	return f.err()
}
