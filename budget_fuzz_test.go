package steady_test

import (
	"context"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
)

// FuzzBudget runs random calls through a Retry, and counts the tokens of its budget in fractions, which
// neither round nor overflow.
//
// A seed is named after the rule that a budget breaks which differs on it.
func FuzzBudget(f *testing.F) {
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) < 3 || len(program) > 2000 {
			t.Skip("a ratio and a burst, and no more calls than find something")
		}
		thousandths, burst := 1+(int(program[0])<<8|int(program[1]))%1000, 1+int(program[2])%4
		x := newBudgetDuel(t, thousandths, burst)
		for _, b := range program[3:] {
			x.call(int(b))
		}
	})
}

// budgetDuel is a budget and what is to be in it.
type budgetDuel struct {
	t      *testing.T
	budget *steady.RetryBudget
	p      *steady.Pipeline[int]
	cancel func()             // when a retry is announced
	skip   func(run int) bool // whether this attempt does not reach the function

	tokens, ratio, burst *big.Rat
	denied               uint64
}

const budgetAttempts = 4

func newBudgetDuel(t *testing.T, thousandths, burst int) *budgetDuel {
	x := &budgetDuel{
		t:      t,
		budget: newBudget(t, float64(thousandths)/1000, burst),
		tokens: big.NewRat(int64(burst), 1),
		ratio:  big.NewRat(int64(thousandths), 1000),
		burst:  big.NewRat(int64(burst), 1),
	}
	retry := newRetry(t, steady.RetryConfig{
		NoDelay: true, Budget: x.budget, MaxAttempts: budgetAttempts,
		Hooks: &steady.Hooks{OnRetry: func(context.Context, steady.RetryDelay) { x.cancel() }},
	})
	n := 0
	x.p = pipeline(t,
		steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
			n = 0
			return next(ctx)
		}),
		retry,
		steady.Middleware(func(ctx context.Context, next func(context.Context) error) error {
			if n++; x.skip(n) {
				return errBoom
			}
			return next(ctx)
		}),
	)
	return x
}

func (x *budgetDuel) add(tokens *big.Rat) {
	if x.tokens.Add(x.tokens, tokens); x.tokens.Cmp(x.burst) > 0 {
		x.tokens.Set(x.burst)
	}
}

// What one byte of a program says of a call: how often it fails before it succeeds (3: once more than is
// tried), and what else.
const (
	budgetCancelled = 4 << iota // when its first retry is announced
	budgetSkipped               // the second attempt does not reach the function
	budgetIgnored               // in place of the success
)

func (x *budgetDuel) call(how int) {
	failures := how % 4
	if failures == 3 {
		failures = budgetAttempts
	}
	ctx, cancel := context.WithCancel(x.t.Context())
	defer cancel()
	x.cancel = func() {
		if how&budgetCancelled != 0 {
			cancel()
		}
	}
	x.skip = func(n int) bool { return how&budgetSkipped != 0 && n == 2 }
	end := error(nil)
	if how&budgetIgnored != 0 {
		end = steady.Mark(errBoom, steady.Ignored)
	}
	runs := 0
	_, _ = x.p.Do(ctx, func(context.Context) (int, error) {
		if runs++; runs <= failures {
			return 0, errBoom
		}
		return 0, end
	})
	require.Equal(x.t, x.runs(failures, how), runs)
	tokens, _ := x.tokens.Float64()
	require.Equal(x.t, tokens, x.budget.Stats().Tokens)
	require.Equal(x.t, x.denied, x.budget.Stats().Denied)
}

// runs does to the model what a call is to do, and returns how often the function is run.
func (x *budgetDuel) runs(failures, how int) int {
	one := big.NewRat(1, 1)
	for n := 1; ; n++ {
		if n > failures {
			if how&budgetIgnored == 0 {
				x.add(x.ratio)
			}
			return n
		}
		if n == budgetAttempts {
			return n
		}
		if x.tokens.Cmp(one) < 0 {
			x.denied++
			return n
		}
		if how&(budgetCancelled|budgetSkipped) != 0 {
			return n // the token is given back
		}
		x.tokens.Sub(x.tokens, one)
	}
}
