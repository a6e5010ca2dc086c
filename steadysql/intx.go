package steadysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/steady-go/steady"
)

// TxOptions are the options of [InTx].
type TxOptions struct {
	// Isolation and ReadOnly are those of sql.TxOptions.
	Isolation sql.IsolationLevel
	ReadOnly  bool
	// MaxRuns is how often the transaction is run in all when it fails to serialize or deadlocks. In [1, 100]; 0 means 10.
	MaxRuns int
}

// CommitError says that nobody knows whether a transaction was committed: the COMMIT was sent, and no answer came that
// says so or the contrary. It is never repeated. The caller has to look, by an id that the transaction wrote say.
type CommitError struct {
	Err error // what Commit returned
}

func (e *CommitError) Error() string {
	if e == nil || e.Err == nil {
		return "steadysql: the transaction may have been committed, or not"
	}
	return "steadysql: the transaction may have been committed, or not: " + e.Err.Error()
}

// Unwrap returns Err.
func (e *CommitError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// InTx runs fn in a transaction of db and commits it, the whole in one call of the pipeline, and returns what fn returned.
// When fn returns an error or panics, or its context ends, the transaction is rolled back, with a context that is still
// good, and 10 seconds for it. fn must use the context it is given, and the tx, but neither commit nor roll back, and
// return the errors of its statements: PostgreSQL commits nothing after one, unless it went back to a savepoint.
//
// When the database gives up on the transaction because of others, with a serialization failure (40001) or a deadlock
// (40P01), in a statement or in the commit, the whole transaction is run again, MaxRuns times in all, each a call of the
// pipeline, with random delays between them of up to 10 ms that double, up to 500 ms at most. So fn must be a function that
// can be run again: what it does outside of the transaction is not undone. The breaker counts such an end as a success.
// When the runs are used up, a *steady.RetryError wraps the database's error; the limit of everything is ctx.
//
// When the commit fails, and the error does not say that the database has rolled back, its fate is unknown: the error is,
// or wraps, a *CommitError, and the transaction is not run again, whatever the pipeline's intent. An error without a
// CommitError means that nothing was committed. Apart from that the pipeline's Retry runs the transaction again as its
// intent has it; errors are marked as [Mark] has it.
//
// On a DB that is wrapped (see [Wrap]), the pipeline must not be of the same Dependency, or the transaction would need two
// slots: InTx then returns an error. Give it a pipeline without policies there. A Timeout with Abandon is refused as well: what
// it leaves running could still commit.
func InTx[T any](
	ctx context.Context,
	db *sql.DB,
	p *steady.Pipeline[T],
	opts TxOptions,
	fn func(ctx context.Context, tx *sql.Tx) (T, error),
) (T, error) {
	var zero T
	if db == nil || p == nil || fn == nil {
		return zero, misused("InTx", "a db, a pipeline and a function")
	}
	if opts.MaxRuns < 0 || opts.MaxRuns > 100 {
		return zero, fmt.Errorf("steadysql: TxOptions.MaxRuns must be in [1, 100], got %d (0 means 10)", opts.MaxRuns)
	}
	if opts.MaxRuns == 0 {
		opts.MaxRuns = 10
	}
	cfg := p.Config()
	for _, policy := range cfg.Policies {
		if limit, ok := policy.(*steady.Timeout); ok && limit.Config().Abandon {
			return zero, fmt.Errorf("steadysql: InTx was given a pipeline with the abandoning Timeout %q: a run that nobody waits "+
				"for could still commit, beside the next one; use a Timeout without Abandon", limit.Name())
		}
	}
	runs, err := repeat[T](cfg, opts.MaxRuns)
	if err != nil {
		return zero, err
	}
	t := &transaction[T]{
		db:       db,
		opts:     sql.TxOptions{Isolation: opts.Isolation, ReadOnly: opts.ReadOnly},
		policies: cfg.Policies,
		fn:       fn,
	}
	return runs.Do(ctx, func(ctx context.Context) (T, error) { return p.Do(ctx, t.run) })
}

// repeat returns the pipeline around the caller's, which repeats conflicts.
func repeat[T any](cfg steady.PipelineConfig[T], runs int) (*steady.Pipeline[T], error) {
	retry, err := steady.NewRetry(steady.RetryConfig{
		Name:        cfg.Name,
		MaxAttempts: runs,
		BaseDelay:   10 * time.Millisecond,
		MaxDelay:    500 * time.Millisecond,
		NoBudget:    true, // a conflict is no failure of the database's, so there is nothing to spare it
	})
	if err != nil {
		return nil, err
	}
	return steady.NewPipeline(steady.PipelineConfig[T]{
		Name:     cfg.Name,
		Policies: []steady.Policy{retry},
		Clock:    cfg.Clock,
		Classify: func(_ T, err error) steady.Outcome {
			var inner *steady.RetryError // of an InTx in the function, which has had its runs
			if err != nil && conflicted(err) && !errors.As(err, &inner) {
				return steady.Transient
			}
			return steady.Success // of no consequence: there is no breaker here
		},
	})
}

// transaction is one call of InTx.
type transaction[T any] struct {
	db       *sql.DB
	opts     sql.TxOptions
	policies []steady.Policy
	fn       func(ctx context.Context, tx *sql.Tx) (T, error)
	unknown  error // the fate of a run that was committed, or not
}

// inTxKey is under which a context has the policies of the pipeline that InTx runs in, for a wrapped connector to know.
type inTxKey struct{}

// run is one run of the transaction.
func (t *transaction[T]) run(ctx context.Context) (v T, err error) {
	var zero T
	if t.unknown != nil { // whatever the pipeline made of it
		return zero, t.unknown
	}
	txCtx := newTxContext(context.WithValue(ctx, inTxKey{}, t.policies))
	defer txCtx.cancel(nil)

	stop := txCtx.during(ctx)
	tx, err := t.db.BeginTx(txCtx, &t.opts)
	stop()
	if err != nil {
		return zero, Mark(ctx, err)
	}
	over := false
	defer func() {
		if !over { // also when fn panics, or ends the goroutine
			rollback(ctx, txCtx, tx)
		}
	}()
	v, err = t.fn(ctx, tx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return zero, Mark(ctx, err)
	}

	over = true
	stop = txCtx.during(ctx)
	err = tx.Commit()
	stop()
	if err == nil {
		return v, nil
	}
	if !rolledBack(err) {
		t.unknown = steady.Mark(&CommitError{Err: withCause(ctx, err)}, steady.Permanent)
		return zero, t.unknown
	}
	return zero, Mark(ctx, err)
}

// rollback ends a transaction whose context may have ended. Its error is nobody's business: a database rolls back what it
// can no longer be told to.
func rollback(ctx context.Context, txCtx *txContext, tx *sql.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	defer txCtx.during(ctx)()
	_ = tx.Rollback()
}
