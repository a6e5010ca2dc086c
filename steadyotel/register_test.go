package steadyotel_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyotel"
)

func TestRegisterSaysEverythingThatIsWrongAndRegistersNothing(t *testing.T) {
	o := observe(t)
	good := newBreaker(t, o, steady.BreakerConfig{})
	_, err := o.Register(
		good,
		(*steady.Breaker)(nil),
		nil,
		steady.Must(steady.NewBreaker(steady.BreakerConfig{Name: "payments", NoSlowCalls: true})),
		steady.Must(steady.NewBulkhead(steady.BulkheadConfig{MaxConcurrent: 1, Hooks: o.Hooks()})),
		steady.Must(steady.NewRetry(steady.RetryConfig{})),
		steady.Must(steady.NewTimeout(steady.TimeoutConfig{Limit: time.Second})),
	)
	assert.EqualError(t, err, `steadyotel: Register: policies[1] must not be nil: leave it out
steadyotel: Register: policies[2] must not be nil: leave it out
steadyotel: Register: policies[3] is the breaker "payments" without Hooks, which count what it does: give it those of Observer.Hooks
steadyotel: Register: policies[4] is a bulkhead without a Name: metrics tell policies apart by it
steadyotel: Register: policies[5] is a retry without a Name: metrics tell policies apart by it
steadyotel: Register: policies[6] is a timeout without a Name: metrics tell policies apart by it`)
	assert.NotContains(t, o.collect(), "steady.breaker.state")
}

func TestTwoPoliciesOfOneKindMustNotShareAName(t *testing.T) {
	o := observe(t)
	o.register(newBreaker(t, o, steady.BreakerConfig{}))
	bulkhead := newBulkhead(t, o, steady.BulkheadConfig{MaxConcurrent: 1})
	_, err := o.Register(bulkhead, newBreaker(t, o, steady.BreakerConfig{}))
	assert.EqualError(t, err, `steadyotel: another breaker with the name "catalog" is registered: metrics tell them apart by it; give each its own`)
	assert.NotContains(t, o.collect(), "steady.bulkhead.usage", "nothing of what came with it")
	o.register(bulkhead) // of another kind
	assert.Equal(t, 1.0, o.value("steady.bulkhead.limit", "steady.bulkhead.name", "catalog"))
}

func TestWhatIsRegisteredTwiceCountsOnceUntilTheLastIsTakenBack(t *testing.T) {
	o := observe(t)
	d := newDependency(t, o, "catalog")
	d.Breaker().ForceOpen("test")
	_, err := d.Breaker().Allow()
	require.Error(t, err)
	whole, err := o.RegisterDependency(d)
	require.NoError(t, err)
	var pipelines []func()
	for _, intent := range []steady.Intent{steady.ReadIdempotent, steady.WriteNonIdempotent} {
		p, err := steady.NewPipelineFor(d, intent, steady.PipelineConfig[int]{})
		require.NoError(t, err)
		unregister, err := steadyotel.RegisterPipeline(o.Observer, p)
		require.NoError(t, err)
		pipelines = append(pipelines, unregister)
	}
	rejected := func() float64 {
		return o.value("steady.breaker.calls", "steady.breaker.name", "catalog", "steady.outcome", "rejected")
	}
	assert.Equal(t, 1.0, rejected())
	whole()
	whole()
	pipelines[0]()
	pipelines[0]()
	assert.Equal(t, 1.0, rejected(), "the last is still registered")
	pipelines[1]()
	assert.NotContains(t, o.collect(), "steady.breaker.calls")
	assert.NotContains(t, o.collect(), "steady.timeout.expirations")
}

func TestAMiddlewareIsLeftOut(t *testing.T) {
	o := observe(t)
	o.register(steady.Middleware(func(ctx context.Context, next func(context.Context) error) error { return next(ctx) }))
}

func TestDependenciesThatComeAndGoAreReadFromTheirSource(t *testing.T) {
	o := observe(t)
	var mu sync.Mutex
	var hosts []*steady.Dependency
	unregister, err := o.RegisterSource(func() []*steady.Dependency {
		mu.Lock()
		defer mu.Unlock()
		return append([]*steady.Dependency{nil}, hosts...)
	})
	require.NoError(t, err)
	names := func() (names []string) {
		for _, p := range o.collect().points("steady.breaker.in_flight") {
			name, _ := p.set.Value("steady.breaker.name")
			names = append(names, name.AsString())
		}
		return names
	}
	assert.Empty(t, names())
	a, b := newDependency(t, o, "a"), newDependency(t, o, "b")
	_, err = o.RegisterDependency(a)
	require.NoError(t, err)
	hosts = []*steady.Dependency{a, b}
	assert.ElementsMatch(t, []string{"a", "b"}, names())
	hosts = nil
	assert.Equal(t, []string{"a"}, names())
	hosts = []*steady.Dependency{b}
	unregister()
	assert.Equal(t, []string{"a"}, names())
}

func TestASourcesDependencyWithATakenNameIsLeftOutWithAnError(t *testing.T) {
	o := observe(t)
	_, err := o.RegisterDependency(newDependency(t, o, "catalog"))
	require.NoError(t, err)
	_, err = o.RegisterSource(func() []*steady.Dependency {
		return []*steady.Dependency{newDependency(t, o, "catalog"), newDependency(t, o, "other")}
	})
	require.NoError(t, err)
	var all metricdata.ResourceMetrics
	err = o.reader.Collect(t.Context(), &all)
	assert.ErrorContains(t, err, `another breaker with the name "catalog" is registered`)
	m := make(metrics)
	for _, metric := range all.ScopeMetrics[0].Metrics {
		m[metric.Name] = metric
	}
	assert.Len(t, m.points("steady.breaker.in_flight"), 2)
}

// A breaker's Stats make a transition that is due, and so call hooks, anybody's, in the collection.
func TestAHookThatPanicsInACollectionEndsNeitherItNorTheProcess(t *testing.T) {
	o := observe(t)
	mock := clock.NewMock()
	b, err := steady.NewBreaker(steady.BreakerConfig{
		Name: "catalog", SlowThreshold: time.Second, WindowSize: 1, Clock: mock,
		Hooks: &steady.Hooks{OnTransition: func(steady.Transition) { panic("out of range") }},
	})
	require.NoError(t, err)
	o.register(b, newBulkhead(t, o, steady.BulkheadConfig{MaxConcurrent: 1}))
	_, err = b.Allow()
	require.NoError(t, err)
	mock.Add(time.Second)
	var all metricdata.ResourceMetrics
	err = o.reader.Collect(t.Context(), &all)
	assert.ErrorContains(t, err, `steadyotel: a hook panicked while the breaker "catalog" was read: out of range`)
	assert.Contains(t, o.collect(), "steady.bulkhead.limit")
	assert.Contains(t, o.collect(), "steady.breaker.state", "the next one is whole")
}

// No lock of the Observer's is held while code of others runs in a collection; if one were, this would hang.
func TestHooksAndSourcesMayRegisterInACollection(t *testing.T) {
	o := observe(t)
	more := newBulkhead(t, o, steady.BulkheadConfig{MaxConcurrent: 1})
	registered := 0
	register := func() {
		unregister, err := o.Register(more)
		assert.NoError(t, err)
		unregister()
		registered++
	}
	mock := clock.NewMock()
	b, err := steady.NewBreaker(steady.BreakerConfig{
		Name: "catalog", SlowThreshold: time.Second, WindowSize: 1, Clock: mock,
		Hooks: steady.JoinHooks(o.Hooks(), &steady.Hooks{OnTransition: func(steady.Transition) { register() }}),
	})
	require.NoError(t, err)
	o.register(b)
	_, err = o.RegisterSource(func() []*steady.Dependency { register(); return nil })
	require.NoError(t, err)
	_, err = b.Allow()
	require.NoError(t, err)
	mock.Add(time.Second)
	assert.Contains(t, o.collect(), "steady.breaker.state")
	assert.Equal(t, 2, registered)
}

func TestASourceThatPanicsDoesNotEndTheProcess(t *testing.T) {
	o := observe(t)
	o.register(newBulkhead(t, o, steady.BulkheadConfig{MaxConcurrent: 1}))
	_, err := o.RegisterSource(func() []*steady.Dependency { panic("out of range") })
	require.NoError(t, err)
	var all metricdata.ResourceMetrics
	err = o.reader.Collect(t.Context(), &all)
	require.ErrorContains(t, err, "steadyotel: a source panicked: out of range")
	assert.NotEmpty(t, all.ScopeMetrics, "what is registered is read")
}

func TestNilIsRefused(t *testing.T) {
	o := observe(t)
	_, err := o.RegisterDependency(nil)
	assert.EqualError(t, err, "steadyotel: RegisterDependency: the Dependency must not be nil")
	_, err = o.RegisterSource(nil)
	assert.EqualError(t, err, "steadyotel: RegisterSource: the function must not be nil")
	_, err = steadyotel.RegisterPipeline[int](o.Observer, nil)
	assert.EqualError(t, err, "steadyotel: RegisterPipeline: Observer and Pipeline must not be nil")
	nameless, err := steady.NewPipeline(steady.PipelineConfig[int]{})
	require.NoError(t, err)
	_, err = steadyotel.RegisterPipeline(o.Observer, nameless)
	assert.EqualError(t, err, "steadyotel: RegisterPipeline: the pipeline has no Name: metrics tell pipelines apart by it")
}

func TestCallsCollectionsAndRegistrationsMeet(t *testing.T) {
	o := observe(t)
	d := newDependency(t, o, "catalog")
	p, err := steady.NewPipelineFor(d, steady.WriteNonIdempotent, steady.PipelineConfig[int]{})
	require.NoError(t, err)
	_, err = o.RegisterDependency(d)
	require.NoError(t, err)
	const each = 300
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range each {
				_, _ = p.Do(context.Background(), returns(n, steady.Mark(errReset, steady.Outcome(1+(i+n)%6))))
				if n%50 == 0 {
					d.Breaker().Reset("test")
				}
			}
		})
	}
	all.Go(func() {
		for range each {
			unregister, err := steadyotel.RegisterPipeline(o.Observer, p)
			assert.NoError(t, err)
			unregister()
		}
	})
	all.Go(func() {
		var all metricdata.ResourceMetrics
		for range 100 {
			assert.NoError(t, o.reader.Collect(context.Background(), &all))
		}
	})
	all.Wait()
	for _, metric := range []string{"steady.pipeline.duration", "steady.retry.attempts"} {
		calls := uint64(0)
		for _, p := range o.collect().points(metric) {
			calls += p.count
		}
		assert.Equal(t, uint64(4*each), calls, metric)
	}
}

func TestAPipelineWithoutHooksIsNotRegistered(t *testing.T) {
	o := observe(t)
	p := steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{Name: "prices", Policies: []steady.Policy{
		newBulkhead(t, o, steady.BulkheadConfig{MaxConcurrent: 1}),
	}}))
	_, err := steadyotel.RegisterPipeline(o.Observer, p)
	assert.EqualError(t, err, `steadyotel: RegisterPipeline: the pipeline "prices" has no Hooks, which measure its calls: give it those of Observer.Hooks`)
	assert.NotContains(t, o.collect(), "steady.bulkhead.limit", "nothing is registered")
}

func TestTheCountsOfASourcesDependencyBeginWithZero(t *testing.T) {
	o := observe(t)
	d := newDependency(t, o, "catalog")
	_, err := o.RegisterSource(func() []*steady.Dependency { return []*steady.Dependency{d} })
	require.NoError(t, err)
	m := o.collect()
	_, ok := m.at("steady.bulkhead.rejections", "steady.bulkhead.name", "catalog", "steady.bulkhead.reason", "full")
	assert.True(t, ok)
	assert.NotEmpty(t, m.by("steady.breaker.transitions", "steady.breaker.name", "catalog"))
}
