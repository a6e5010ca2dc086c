package steadyotel

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/steady-go/steady"
)

// subjectOf returns how a policy is read, nil for a Middleware, or an error that goes on from its name or place.
func subjectOf(policy steady.Policy) (*subject, error) {
	switch p := policy.(type) {
	case steady.Middleware:
		return nil, nil
	case *steady.Breaker:
		if p != nil {
			return ofBreaker(p)
		}
	case *steady.Bulkhead:
		if p != nil {
			return ofBulkhead(p)
		}
	case *steady.Timeout:
		if p != nil {
			return ofTimeout(p)
		}
	case *steady.Retry:
		if p != nil {
			return ofRetry(p)
		}
	}
	return nil, errors.New("must not be nil: leave it out")
}

func named(kind, name string) error {
	if name == "" {
		return fmt.Errorf("is a %s without a Name: metrics tell policies apart by it", kind)
	}
	return nil
}

func hooked(kind, name string, hooks *steady.Hooks) error {
	if hooks == nil {
		return fmt.Errorf("is the %s %q without Hooks, which count what it does: give it those of Observer.Hooks", kind, name)
	}
	return nil
}

func ofBreaker(b *steady.Breaker) (*subject, error) {
	cfg := b.Config()
	if err := errors.Join(named("breaker", cfg.Name), hooked("breaker", cfg.Name, cfg.Hooks)); err != nil {
		return nil, err
	}
	return &subject{
		id: id{"breaker", cfg.Name}, is: b,
		read:  newBreakerReader(b).read,
		begin: func(o *Observer) { o.breakers.begin(cfg.Name, !cfg.NoSlowCalls) },
	}, nil
}

func ofBulkhead(b *steady.Bulkhead) (*subject, error) {
	cfg := b.Config()
	if err := errors.Join(named("bulkhead", cfg.Name), hooked("bulkhead", cfg.Name, cfg.Hooks)); err != nil {
		return nil, err
	}
	name := with(bulkheadName.String(cfg.Name))
	return &subject{
		id: id{"bulkhead", cfg.Name}, is: b,
		read: func(to metric.Observer, in *readings) {
			s := b.Stats()
			to.ObserveInt64(in.usage, int64(s.InFlight), name)
			to.ObserveInt64(in.limit, int64(s.MaxConcurrent), name)
			to.ObserveInt64(in.queueUsage, int64(s.Waiting), name)
			to.ObserveInt64(in.queueLimit, int64(s.MaxQueue), name)
		},
		begin: func(o *Observer) { o.limits.begin(cfg.Name, cfg.MaxWait > 0) },
	}, nil
}

func ofTimeout(t *steady.Timeout) (*subject, error) {
	if err := named("timeout", t.Name()); err != nil {
		return nil, err
	}
	name := with(timeoutName.String(t.Name()))
	return &subject{
		id: id{"timeout", t.Name()}, is: t,
		read: func(to metric.Observer, in *readings) {
			s := t.Stats()
			to.ObserveInt64(in.expirations, int64(s.Expired), name)
			to.ObserveInt64(in.abandoned, int64(s.Abandoned), name)
		},
	}, nil
}

// ofRetry reads the budget, by which Retries of the same name are told apart too: a Dependency has one for each kind
// of intent.
func ofRetry(r *steady.Retry) (*subject, error) {
	if err := named("retry", r.Name()); err != nil {
		return nil, err
	}
	name, budget := with(retryName.String(r.Name())), r.Config().Budget
	return &subject{
		id: id{"retry", r.Name()}, is: budget,
		read: func(to metric.Observer, in *readings) {
			if budget == nil {
				return
			}
			s := budget.Stats()
			to.ObserveFloat64(in.budgetUtilization, 1-s.Tokens/float64(s.Burst), name)
		},
	}, nil
}
