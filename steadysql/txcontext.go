package steadysql

import (
	"context"
	"sync/atomic"
	"time"
)

// txContext is the context of a transaction. A driver may keep it from BEGIN until COMMIT or ROLLBACK, so it must outlive
// the context of BEGIN; and a ROLLBACK must go through when the caller's context has ended, so it does not end with that.
// It has the caller's values, and while a step is being taken, that step's deadline and end.
type txContext struct {
	context.Context
	cancel context.CancelCauseFunc
	step   atomic.Pointer[context.Context]
}

func newTxContext(ctx context.Context) *txContext {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	return &txContext{Context: inner, cancel: cancel}
}

// during makes the end of ctx that of t, until stop is called. That reports whether ctx had not ended.
func (t *txContext) during(ctx context.Context) (stop func() bool) {
	t.step.Store(&ctx)
	undo := context.AfterFunc(ctx, func() { t.cancel(ctx.Err()) })
	return func() bool {
		t.step.Store(nil)
		return undo()
	}
}

func (t *txContext) Deadline() (time.Time, bool) {
	if step := t.step.Load(); step != nil {
		return (*step).Deadline()
	}
	return time.Time{}, false
}

func (t *txContext) Err() error {
	err := t.Context.Err()
	if err != nil && context.Cause(t.Context) == context.DeadlineExceeded { //nolint:errorlint // what during gives it
		return context.DeadlineExceeded
	}
	return err
}
