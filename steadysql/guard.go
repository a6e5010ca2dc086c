package steadysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/steady-go/steady"
)

// guard is what the connections of one connector have in common: the policies.
type guard struct {
	dependency *steady.Dependency
	first      func(error) steady.Outcome // the Dependency's Classify; may be nil
	limit      *steady.Timeout            // nil where there is none
	pipelines  [3]*pipeline               // by mode
	bad        atomic.Uint32              // ErrBadConn in a row, where database/sql tries again
}

// pipeline is one whose functions may say themselves what their end means: a value other than 0 is the outcome.
type pipeline = steady.Pipeline[steady.Outcome]

// call is a call of the driver.
type call = func(ctx context.Context) (steady.Outcome, error)

// mode says which policies a call goes through.
type mode uint8

const (
	asks    mode = iota // all of them
	watched             // Timeout and Breaker: what is inside a transaction, while the breaker is closed
	bounded             // the Timeout alone
)

func newGuard(d *steady.Dependency) (*guard, error) {
	g := &guard{dependency: d, first: d.Config().Classify, limit: d.AttemptTimeout()}
	if g.limit == nil {
		g.limit = d.Timeout()
	}
	var policies []steady.Policy
	if g.limit != nil {
		policies = append(policies, g.limit)
	}
	var errs [3]error
	g.pipelines[bounded], errs[bounded] = g.pipeline(policies)
	if b := d.Breaker(); b != nil {
		policies = append(policies, b)
	}
	g.pipelines[watched], errs[watched] = g.pipeline(policies)
	if b := d.Bulkhead(); b != nil {
		policies = append(policies, b)
	}
	g.pipelines[asks], errs[asks] = g.pipeline(policies)
	return g, errors.Join(errs[:]...)
}

func (g *guard) pipeline(policies []steady.Policy) (*pipeline, error) {
	cfg := g.dependency.Config()
	return steady.NewPipeline(steady.PipelineConfig[steady.Outcome]{
		Name:     cfg.Name,
		Policies: policies,
		Classify: g.classify,
		Hooks:    cfg.Hooks,
		Clock:    cfg.Clock,
	})
}

// classify says what the end of a call means.
func (g *guard) classify(o steady.Outcome, err error) steady.Outcome {
	if o != 0 || err == nil {
		return o
	}
	if g.first != nil {
		if o := g.first(err); o != 0 {
			return o
		}
	}
	return Classify(err)
}

// hold makes a call through the policies of the mode. What it took stays until release, which must be called, also after
// an error.
func (g *guard) hold(ctx context.Context, m mode, f call) (release func(error), err error) {
	if m == asks {
		if err := g.refuse(ctx); err != nil {
			return func(error) {}, err
		}
	}
	ran := false
	_, release, err = g.pipelines[m].Hold(ctx, func(ctx context.Context) (steady.Outcome, error) {
		ran = true
		return f(ctx)
	})
	if m == watched && !ran && steady.IsRejected(err) { // the breaker has opened since it was looked at
		return g.hold(ctx, bounded, f)
	}
	return release, err
}

// rejects reports whether a call would be rejected now, without asking for it.
func (g *guard) rejects() bool {
	if b := g.dependency.Breaker(); b != nil {
		switch b.State() {
		case steady.StateOpen, steady.StateForcedOpen:
			return true
		}
	}
	if b := g.dependency.Bulkhead(); b != nil {
		stats := b.Stats()
		return stats.InFlight >= stats.MaxConcurrent
	}
	return false
}

// inside returns the mode for what belongs to a transaction, which has been let in: nothing may reject it any more, but a
// closed breaker is to hear of it.
func (g *guard) inside() mode {
	b := g.dependency.Breaker()
	if b == nil {
		return bounded
	}
	switch b.State() {
	case steady.StateClosed, steady.StateForcedClosed:
		return watched
	default:
		return bounded // it would be rejected, or take a probe from a call that can be
	}
}

// refuse returns an error for a call that InTx makes within a pipeline with the same policies: it would need two permits
// and two slots for one transaction, and with all slots taken by others like it, none would get its second.
func (g *guard) refuse(ctx context.Context) error {
	policies, _ := ctx.Value(inTxKey{}).([]steady.Policy)
	for _, policy := range policies {
		shared := false
		switch policy := policy.(type) {
		case *steady.Breaker:
			shared = policy == g.dependency.Breaker()
		case *steady.Bulkhead:
			shared = policy == g.dependency.Bulkhead()
		}
		if shared {
			return steady.Mark(fmt.Errorf("steadysql: InTx was given a pipeline of the Dependency %q that its DB is wrapped with: "+
				"every transaction would need two slots; give it a pipeline without policies, or a DB that is not wrapped",
				g.dependency.Name()), steady.Ignored)
		}
	}
	return nil
}

// trial says what database/sql does after an ErrBadConn.
type trial uint8

const (
	tried trial = iota // it tries again, twice, and the connection was new
	stale              // likewise, and the connection was from the pool
	final              // nothing: the caller gets it
)

// ended returns what the end of a call that was not a connect means, and the error to return.
func (g *guard) ended(ctx context.Context, err error, t trial) (steady.Outcome, error) {
	switch {
	case err == driver.ErrSkip: //nolint:errorlint // as database/sql has it: nothing was done, a statement will be prepared
		return steady.Ignored, err
	case !errors.Is(err, driver.ErrBadConn):
		if t != final && g.bad.Load() != 0 {
			g.bad.Store(0)
		}
		return 0, withCause(ctx, err)
	case t == stale, t == tried && !g.lastTry():
		return steady.Ignored, err
	default:
		return 0, err
	}
}

// connected is ended for a connect: whatever went wrong, no statement was sent.
func (g *guard) connected(ctx context.Context, err error) (steady.Outcome, error) {
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, driver.ErrBadConn):
		if g.lastTry() {
			return steady.Unsent, err
		}
		return steady.Ignored, err
	}
	err = withCause(ctx, err)
	o := g.classify(0, err)
	if o == steady.Transient {
		o = steady.Unsent
	}
	return o, steady.Mark(err, o)
}

// lastTry counts an ErrBadConn after which database/sql tries again, and reports whether it has done so as often as it
// does: twice, and then once more with a new connection.
func (g *guard) lastTry() bool { return g.bad.Add(1)%3 == 0 }
