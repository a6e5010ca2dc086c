package steady

import (
	"math"
	"sync/atomic"
)

// RetryBudgetConfig configures a [RetryBudget].
type RetryBudgetConfig struct {
	// Ratio is how many tokens a success adds: about the share of extra load that retries may cause.
	// In [0.001, 1]; 0 means 0.15.
	Ratio float64
	// Burst is how many tokens there are at most, and at the start. In [1, 1000000]; 0 means 10.
	Burst int
}

// RetryBudget bounds the load that retries add. A success adds Ratio tokens, a retry takes one when it is
// decided, and with none left nothing is retried: when a dependency fails, there are few successes, and so
// few retries. A Retry has a budget of its own; sharing one bounds the retries of several pipelines
// together. It may be used by any number of goroutines.
//
// The defaults come from a simulation, which is kept as a test: a server of 100 calls/s with a queue, clients
// that wait 1 s and make up to 3 retries, and ten seconds in which the server does 5 calls/s. Without a
// budget no call is answered three minutes later, at 50, 70, 80 and 90 calls/s offered alike: every call
// costs more than three attempts. With a Ratio of 0.15 and a Burst of 10, all calls are answered from 173 s
// after the failure's beginning at the latest (90/s; 80 s at 50/s), in ten of ten runs. While a tenth of the
// calls fail, 99.9 % succeed by retrying; and no constant rate of failures adds more than 15 % of load (the
// most, 14.6 %, is at a rate of 14 %). Ratios from 0.115 to 0.18 meet the test's criteria too; at 0.11
// retries are too few when a tenth fails, and at 0.25 they add more than 20 % of load.
type RetryBudget struct {
	cfg    RetryBudgetConfig
	ratio  int64 // in units, as are the tokens
	burst  int64
	tokens atomic.Int64
	denied atomic.Uint64
}

// tokenUnits is how many units make a token. Whole numbers keep ten successes at a Ratio of 0.1 worth
// exactly one retry, which sums of floats do not.
const tokenUnits = 1e9

// RetryBudgetStats is a reading of a RetryBudget.
type RetryBudgetStats struct {
	Tokens float64 // there now
	Burst  int     // there at most
	Ratio  float64 // added per success
	Denied uint64  // retries refused since construction
}

// NewRetryBudget returns a full budget, or an error that names every field out of range.
func NewRetryBudget(cfg RetryBudgetConfig) (*RetryBudget, error) {
	f := faults{config: "RetryBudgetConfig"}
	setDefault(&cfg.Ratio, 0.15)
	setDefault(&cfg.Burst, 10)
	f.require(cfg.Ratio >= 0.001 && cfg.Ratio <= 1, "Ratio", "must be in [0.001, 1]", cfg.Ratio, percentHint(cfg.Ratio))
	f.require(cfg.Burst >= 1 && cfg.Burst <= 1e6, "Burst", "must be in [1, 1000000]", cfg.Burst, "0 means the default")
	if err := f.err(); err != nil {
		return nil, err
	}
	b := &RetryBudget{
		cfg:   cfg,
		ratio: int64(math.Round(cfg.Ratio * tokenUnits)),
		burst: int64(cfg.Burst) * tokenUnits,
	}
	b.tokens.Store(b.burst)
	return b, nil
}

// Config returns the effective configuration.
func (b *RetryBudget) Config() RetryBudgetConfig { return b.cfg }

// Stats returns a reading.
func (b *RetryBudget) Stats() RetryBudgetStats {
	return RetryBudgetStats{
		Tokens: float64(b.tokens.Load()) / tokenUnits,
		Burst:  b.cfg.Burst,
		Ratio:  b.cfg.Ratio,
		Denied: b.denied.Load(),
	}
}

// deposit adds what a success earns.
func (b *RetryBudget) deposit() { b.add(b.ratio) }

// refund gives back the token of a retry that did not happen.
func (b *RetryBudget) refund() { b.add(tokenUnits) }

func (b *RetryBudget) add(units int64) {
	for {
		have := b.tokens.Load()
		if have == b.burst || b.tokens.CompareAndSwap(have, min(have+units, b.burst)) {
			return
		}
	}
}

// withdraw takes a token, and reports false when there is none.
func (b *RetryBudget) withdraw() bool {
	for {
		have := b.tokens.Load()
		if have < tokenUnits {
			b.denied.Add(1)
			return false
		}
		if b.tokens.CompareAndSwap(have, have-tokenUnits) {
			return true
		}
	}
}
