package steady

import "context"

// gate is a shortcut for calls that an open breaker will reject: before a record is taken, a retry begun or a
// context made. There is one where nothing stands outside the breaker but retries that do not retry
// rejections and timeouts, none of which does anything about a rejection, and nobody hears of completed calls.
type gate struct {
	b       *Breaker // nil where there is no shortcut
	retries []*Retry // outside it
}

func newGate(policies []Policy, hooks *Hooks) gate {
	var g gate
	if hooks.OnDone != nil {
		return g
	}
	for _, policy := range policies {
		switch policy := policy.(type) {
		case *Timeout:
		case *Retry:
			if policy.cfg.RetryRejected {
				return gate{}
			}
			g.retries = append(g.retries, policy)
		case *Breaker:
			if !policy.cfg.Shadow {
				g.b = policy
			}
			return g
		default:
			return gate{}
		}
	}
	return gate{}
}

// reject returns the rejection of a call that would get no further, nil if it has to be seen.
func (g *gate) reject(ctx context.Context) *RejectedError {
	if g.b == nil {
		return nil
	}
	gen := g.b.gen.Load()
	if gen.rejected == nil || ctx.Err() != nil {
		return nil //nolint:nilerr // the way through the pipeline returns it
	}
	if gen.state != StateForcedOpen && (gen.state != StateOpen || g.b.time.now() >= gen.until) {
		return nil
	}
	for _, r := range g.retries {
		r.counts.calls.Add(1)
	}
	g.b.reject(ctx, gen.rejected, false)
	return gen.rejected
}
