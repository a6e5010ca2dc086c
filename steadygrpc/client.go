package steadygrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/steady-go/steady"
)

// ClientConfig configures the client interceptors. One value may serve both.
type ClientConfig struct {
	// Dependency has the policies that calls go through. All interceptors made for it share its breaker, its
	// bulkhead and its retry budget. Its Clock should be the system's: deadlines that are sent to a server are real
	// time. Required.
	Dependency *steady.Dependency
	// Intent says what calls of a method ("/package.Service/Method") do, and so what may be repeated; WithIntent
	// says it for one call. nil, and a result that is none of the constants, means steady.WriteNonIdempotent.
	Intent func(fullMethod string) steady.Intent
	// LongLived says which streams may live on after the Dependency's Timeout and AttemptTimeout: these are left out,
	// and only the caller's context bounds such a stream, from its opening on. When the context ends it, deadline
	// included, that is as it should be: no failure, and no error in OnDone. nil means none: the timeouts bound a stream
	// as a whole.
	LongLived func(fullMethod string) bool
}

// WithIntent returns a CallOption that gives one call an intent, whatever ClientConfig.Intent says of its method.
func WithIntent(intent steady.Intent) grpc.CallOption { return intentOption{intent: intent} }

type intentOption struct {
	grpc.EmptyCallOption
	intent steady.Intent
}

func (cfg *ClientConfig) check() error {
	if cfg.Dependency == nil {
		return errors.New("steadygrpc: ClientConfig.Dependency is required, got nil (make one with steady.NewDependency)")
	}
	return nil
}

// intent says what a call does.
func (cfg *ClientConfig) intent(method string, opts []grpc.CallOption) steady.Intent {
	intent, given := steady.WriteNonIdempotent, false
	for _, opt := range opts {
		if o, ok := opt.(intentOption); ok {
			intent, given = o.intent, true
		}
	}
	if !given && cfg.Intent != nil {
		intent = cfg.Intent(method)
	}
	return min(intent, steady.WriteNonIdempotent) // which is the last, and the safe one
}

// attempt is the value in a pipeline: it says more of an attempt's end than the error does.
type attempt interface {
	unsent(err error) bool
	discard()
}

// pipelines are a Dependency's, by intent.
type pipelines[T attempt] [steady.WriteNonIdempotent + 1]*steady.Pipeline[T]

func newPipelines[T attempt](d *steady.Dependency, bounded bool) (ps pipelines[T], err error) {
	cfg := d.Config()
	for intent := range ps {
		ps[intent], err = steady.NewPipeline(steady.PipelineConfig[T]{
			Name:       cfg.Name,
			Policies:   policies(d, steady.Intent(intent), bounded),
			Classify:   func(v T, err error) steady.Outcome { return classify(cfg.Classify, v, err) },
			RetryAfter: func(_ T, err error) time.Duration { return RetryAfter(err) },
			Discard:    T.discard,
			Hooks:      cfg.Hooks,
			Clock:      cfg.Clock,
		})
		if err != nil {
			return ps, err
		}
	}
	return ps, nil
}

// policies returns those of the Dependency, without its timeouts unless bounded.
func policies(d *steady.Dependency, intent steady.Intent, bounded bool) []steady.Policy {
	all := d.Policies(intent)
	if bounded {
		return all
	}
	var kept []steady.Policy
	for _, policy := range all {
		if _, ok := policy.(*steady.Timeout); !ok {
			kept = append(kept, policy)
		}
	}
	return kept
}

// classify asks the Dependency first.
func classify(first func(error) steady.Outcome, a attempt, err error) steady.Outcome {
	if err == nil {
		return steady.Success
	}
	if first != nil {
		if o := first(err); o != 0 {
			return o
		}
	}
	if o := Classify(err); o != steady.Transient || !a.unsent(err) {
		return o
	}
	return steady.Unsent
}

// NewUnaryClientInterceptor returns an interceptor that takes unary calls through the Dependency, or an error that
// names what is wrong with cfg. It goes outside of interceptors that are to run once an attempt, and inside of those
// that are to run once a call. It may be used by any number of connections at once: they are then one Dependency.
func NewUnaryClientInterceptor(cfg ClientConfig) (grpc.UnaryClientInterceptor, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	ps, err := newPipelines[*rpc](cfg.Dependency, true)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		_, err := ps[cfg.intent(method, opts)].Do(ctx, func(ctx context.Context) (*rpc, error) {
			r := new(rpc)
			err := invoker(ctx, method, req, reply, cc, r.watch(opts)...)
			return r, causedBy(ctx, err)
		})
		return withStatus(err)
	}, nil
}

func (r *rpc) discard() {} // a reply holds nothing
