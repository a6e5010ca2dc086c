package steady

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// LogHooks returns Hooks that write to logger, nil meaning slog.Default(): an opened breaker as an error, a
// half-open one, retries and timeouts as warnings, a closed breaker as information, and rejections as a
// warning, at most one line a second for each policy, with the number of those since the line before that were
// left out. Attempts and completed calls are not logged. What a breaker in Shadow only would have done is a warning
// at most, and its message begins with "shadow". The messages are constant; what differs is in the attributes, which
// have the names of those of the metrics that package steadyotel makes, where it has them.
func LogHooks(logger *slog.Logger) *Hooks {
	if logger == nil {
		logger = slog.Default()
	}
	l := &logHooks{logger: logger, last: make(map[rejector]*logged)}
	return &Hooks{
		OnTransition: l.transition,
		OnReject:     l.reject,
		OnRetry:      l.retry,
		OnTimeout:    l.timeout,
	}
}

type logHooks struct {
	logger *slog.Logger

	mu   sync.Mutex
	last map[rejector]*logged
}

// rejector is a policy that rejects. The breaker and the bulkhead of a Dependency have the same name.
type rejector struct {
	policy string
	reason error
	shadow bool
}

// logged is what became of a policy's rejections since the last line about them.
type logged struct {
	at         time.Time
	suppressed int
}

const logInterval = time.Second

func (l *logHooks) transition(t Transition) {
	level, message := slog.LevelInfo, "breaker closed"
	switch t.To {
	case StateOpen, StateForcedOpen:
		level, message = slog.LevelError, "breaker opened"
	case StateHalfOpen:
		level, message = slog.LevelWarn, "breaker half-open"
	}
	if t.onlyWatched() {
		level, message = min(level, slog.LevelWarn), "shadow "+message
	}
	attrs := []slog.Attr{
		slog.String("steady.breaker.name", t.Breaker),
		slog.String("steady.breaker.from", t.From.String()),
		slog.String("steady.breaker.to", t.To.String()),
		slog.String("steady.breaker.reason", t.Reason.String()),
		slog.String("detail", t.why()),
		slog.Time("at", t.At),
		slog.Int("calls", t.Window.Calls),
		slog.Int("failed", t.Window.Failures),
		slog.Int("slow", t.Window.Slow),
		slog.Int("in_flight", t.Window.InFlight),
		slog.Int("overdue", t.Window.Overdue),
	}
	if t.To == StateOpen {
		attrs = append(attrs, slog.Duration("open_for", t.OpenFor))
	}
	l.logger.LogAttrs(context.Background(), level, message, attrs...)
}

func (l *logHooks) reject(ctx context.Context, r Rejection) {
	suppressed, due := l.due(rejector{r.Policy, r.Err.Reason, r.Shadow}, time.Now())
	if !due {
		return
	}
	name, kind := "steady.breaker.name", "breaker_open"
	if errors.Is(r.Err.Reason, ErrBulkheadFull) {
		name, kind = "steady.bulkhead.name", "bulkhead_full"
	}
	attrs := []slog.Attr{
		slog.String(name, r.Policy),
		slog.String("error.type", kind),
		slog.Int("suppressed", suppressed),
	}
	if after := r.Err.RetryAfter(); after > 0 {
		attrs = append(attrs, slog.Duration("retry_after", after))
	}
	message := "call rejected"
	if r.Shadow {
		message = "shadow call rejected"
	}
	l.logger.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
}

// due reports whether a rejection is to be logged, and how many by the same policy were not since the last
// one.
func (l *logHooks) due(by rejector, now time.Time) (suppressed int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last[by]
	if last == nil {
		l.last[by] = &logged{at: now}
		return 0, true
	}
	if now.Sub(last.at) < logInterval {
		last.suppressed++
		return 0, false
	}
	suppressed = last.suppressed
	*last = logged{at: now}
	return suppressed, true
}

func (l *logHooks) retry(ctx context.Context, r RetryDelay) {
	attrs := []slog.Attr{
		slog.String("steady.retry.name", r.Policy),
		slog.Int("attempt", r.Attempt),
		slog.Duration("delay", r.Delay),
		slog.String("steady.outcome", r.Outcome.String()),
	}
	if r.Err != nil {
		attrs = append(attrs, slog.String("error", r.Err.Error()))
	}
	l.logger.LogAttrs(ctx, slog.LevelWarn, "call is retried", attrs...)
}

func (l *logHooks) timeout(ctx context.Context, e Expiry) {
	l.logger.LogAttrs(ctx, slog.LevelWarn, "call timed out",
		slog.String("steady.timeout.name", e.Policy),
		slog.Duration("limit", e.Limit),
		slog.Bool("abandoned", e.Abandoned),
	)
}
