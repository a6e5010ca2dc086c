package steadyotel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/steady-go/steady"
)

// registry is what is read at each collection.
type registry struct {
	mu       sync.Mutex
	subjects map[id]*subject
	sources  []*source
	sourced  map[id]any // what the sources gave at the last collection: what each subject is
}

// subject is a policy whose Stats are read.
type subject struct {
	id
	is         any // the policy, or what tells it from another with the id
	read       func(metric.Observer, *readings)
	begin      func(*Observer) // when it is registered; may be nil
	registered int             // how often
}

// id is what metrics tell policies apart by.
type id struct{ kind, name string }

// source is where dependencies come from that come and go.
type source struct {
	dependencies func() []*steady.Dependency
}

// Register observes breakers, bulkheads, timeouts and retries (of these the budget); a Middleware is left out. What
// is registered twice counts once, and is observed until the last of the functions returned is called; calling one
// again does nothing. The attributes tell policies apart by their names alone: a policy without one, or with that of
// another of its kind that is registered, is an error, as is a breaker or bulkhead without Hooks, which could not be
// counted. After an error nothing is registered.
func (o *Observer) Register(policies ...steady.Policy) (unregister func(), err error) {
	var subjects []*subject
	var errs []error
	for i, policy := range policies {
		s, err := subjectOf(policy)
		if err != nil {
			errs = append(errs, fmt.Errorf("steadyotel: Register: policies[%d] %w", i, err))
		} else if s != nil {
			subjects = append(subjects, s)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := o.registry.add(subjects); err != nil {
		return nil, err
	}
	o.begin(subjects)
	return sync.OnceFunc(func() { o.registry.remove(subjects) }), nil
}

func (o *Observer) begin(subjects []*subject) {
	for _, s := range subjects {
		if s.begin != nil {
			s.begin(o)
		}
	}
}

// RegisterDependency registers all of a dependency's parts.
func (o *Observer) RegisterDependency(d *steady.Dependency) (unregister func(), err error) {
	if d == nil {
		return nil, errors.New("steadyotel: RegisterDependency: the Dependency must not be nil")
	}
	return o.Register(d.Policies(steady.ReadIdempotent)...)
}

// RegisterPipeline registers the policies of a pipeline, and that its calls are those of its breaker, whose transitions
// they can have on their spans; a pipeline that has its breaker's name, as a dependency's have, is known for that without.
// Its policies may be registered already, with other pipelines or a dependency. A pipeline without Hooks, whose calls could
// not be measured, is an error.
func RegisterPipeline[T any](o *Observer, p *steady.Pipeline[T]) (unregister func(), err error) {
	if o == nil || p == nil {
		return nil, errors.New("steadyotel: RegisterPipeline: Observer and Pipeline must not be nil")
	}
	if p.Name() == "" {
		return nil, errors.New("steadyotel: RegisterPipeline: the pipeline has no Name: metrics tell pipelines apart by it")
	}
	cfg := p.Config()
	if cfg.Hooks == nil {
		return nil, fmt.Errorf("steadyotel: RegisterPipeline: the pipeline %q has no Hooks, which measure its calls: give it those of Observer.Hooks", cfg.Name)
	}
	forget, err := o.Register(cfg.Policies...)
	if err != nil {
		return nil, err
	}
	for _, policy := range cfg.Policies {
		if breaker, ok := policy.(*steady.Breaker); ok { // the outermost of several
			forgetName := o.breakers.serve(cfg.Name, breaker.Name())
			return sync.OnceFunc(func() { forget(); forgetName() }), nil
		}
	}
	return forget, nil
}

// RegisterSource observes dependencies that come and go, one for each host say: they are asked for at each
// collection, on its goroutine. One that has the name of another, registered or not, is left out, with an error to the
// OpenTelemetry error handler. Their metrics are those that RegisterDependency gives.
func (o *Observer) RegisterSource(dependencies func() []*steady.Dependency) (unregister func(), err error) {
	if dependencies == nil {
		return nil, errors.New("steadyotel: RegisterSource: the function must not be nil")
	}
	s := &source{dependencies}
	r := &o.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = append(r.sources, s)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sources = slices.DeleteFunc(slices.Clone(r.sources), func(other *source) bool { return other == s }) // a collection may be reading them
	}, nil
}

// add registers all of the subjects or, with an error, none.
func (r *registry) add(subjects []*subject) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	all := maps.Clone(r.subjects)
	for _, s := range subjects {
		errs = append(errs, include(all, s))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.subjects = all
	for _, s := range subjects {
		all[s.id].registered++
	}
	return nil
}

// include adds a subject that is not there yet.
func include(all map[id]*subject, s *subject) error {
	switch same := all[s.id]; {
	case same == nil:
		all[s.id] = s
	case same.is != s.is:
		return fmt.Errorf("steadyotel: another %s with the name %q is registered: metrics tell them apart by it; give each its own", s.kind, s.name)
	}
	return nil
}

func (r *registry) remove(subjects []*subject) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range subjects {
		known := r.subjects[s.id]
		if known.registered--; known.registered == 0 {
			delete(r.subjects, s.id)
		}
	}
}

// current returns what is to be read, those of it that the sources did not give at the last collection, and what is
// wrong with what they gave. No lock is held while they are asked.
func (r *registry) current() (subjects map[id]*subject, arrived []*subject, err error) {
	r.mu.Lock()
	subjects, before, sources := maps.Clone(r.subjects), r.sourced, r.sources
	r.mu.Unlock()
	sourced := make(map[id]any)
	var errs []error
	for _, s := range sources {
		dependencies, err := s.ask()
		errs = append(errs, err)
		for _, d := range dependencies {
			if d == nil {
				continue
			}
			for _, policy := range d.Policies(steady.ReadIdempotent) {
				fresh, err := subjectOf(policy)
				if err != nil {
					errs = append(errs, fmt.Errorf("steadyotel: dependency %q: a policy %w", d.Name(), err))
					continue
				}
				if err := include(subjects, fresh); err != nil {
					errs = append(errs, err)
					continue
				}
				sourced[fresh.id] = fresh.is
				if before[fresh.id] != fresh.is {
					arrived = append(arrived, fresh)
				}
			}
		}
	}
	r.mu.Lock()
	r.sourced = sourced
	r.mu.Unlock()
	return subjects, arrived, errors.Join(errs...)
}

func (s *source) ask() (dependencies []*steady.Dependency, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("steadyotel: a source panicked: %v", v)
		}
	}()
	return s.dependencies(), nil
}

// collector returns the callback that reads everything. A policy's Stats may call its Hooks, any code then: one that
// panics ends neither the collection nor the process.
func (o *Observer) collector(in *readings) metric.Callback {
	return func(_ context.Context, to metric.Observer) error {
		subjects, arrived, err := o.registry.current()
		o.begin(arrived)
		errs := []error{err}
		for _, s := range subjects {
			errs = append(errs, s.readSafely(to, in))
		}
		return errors.Join(errs...)
	}
}

func (s *subject) readSafely(to metric.Observer, in *readings) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("steadyotel: a hook panicked while the %s %q was read: %v", s.kind, s.name, v)
		}
	}()
	s.read(to, in)
	return nil
}
