package grpc_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/integration/internal/harness"
	"github.com/steady-go/steady/steadygrpc"
)

// soon is how long anything that must happen may take, on the slowest machine.
const soon = 30 * time.Second

// scene is a server, a proxy in front of it, and a client with a dependency.
type scene struct {
	t      testing.TB
	ledger harness.Ledger
	server *server
	proxy  *harness.Proxy
	dep    *steady.Dependency
	conn   *grpc.ClientConn
	client grpc_testing.TestServiceClient

	mu          sync.Mutex
	transitions []steady.Transition
	onOpen      func()

	bounded atomic.Bool // streams that are opened now are not long-lived

	ids  atomic.Int64
	stop chan struct{}
	load sync.WaitGroup
}

// proxys are goroutines of toxiproxy's own: those of a connection that was reset while a toxic was taken away may stay.
var proxys = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).write"),
}

// unhurried is the breaker of scenes that slowness is no part of: not even that of the machine.
var unhurried = steady.BreakerConfig{NoSlowCalls: true}

// set arranges a scene; what cfg does not say is as it suits most scenes.
func set(t testing.TB, cfg steady.DependencyConfig, opts ...grpc.ServerOption) *scene {
	t.Helper()
	existing := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, slices.Concat(proxys, []goleak.Option{existing})...) }) // runs when everything else has ended
	s := &scene{t: t, stop: make(chan struct{})}
	s.server = newServer(t, opts...)
	s.proxy = harness.NewProxy(t, s.server.addr)

	cfg.Name = "server"
	setDefault(&cfg.Timeout, 4*time.Second)
	if !cfg.Breaker.NoSlowCalls {
		setDefault(&cfg.Breaker.SlowThreshold, 400*time.Millisecond)
	}
	setDefault(&cfg.Breaker.OpenDuration, 300*time.Millisecond)
	setDefault(&cfg.Bulkhead.MaxConcurrent, 20)
	setDefault(&cfg.Retry.BaseDelay, 20*time.Millisecond)
	cfg.Hooks = &steady.Hooks{OnTransition: s.note}
	var err error
	s.dep, err = steady.NewDependency(cfg)
	require.NoError(t, err)

	client := steadygrpc.ClientConfig{
		Dependency: s.dep,
		LongLived: func(method string) bool {
			return method == grpc_testing.TestService_StreamingOutputCall_FullMethodName && !s.bounded.Load()
		},
	}
	unary, err := steadygrpc.NewUnaryClientInterceptor(client)
	require.NoError(t, err)
	stream, err := steadygrpc.NewStreamClientInterceptor(client)
	require.NoError(t, err)
	s.conn, err = grpc.NewClient(s.proxy.Addr(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{ // back soon after a fault
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.conn.Close() })
	s.client = grpc_testing.NewTestServiceClient(s.conn)
	return s
}

func setDefault[V comparable](field *V, value V) {
	var zero V
	if *field == zero {
		*field = value
	}
}

func (s *scene) note(t steady.Transition) {
	s.mu.Lock()
	s.transitions = append(s.transitions, t)
	onOpen := s.onOpen
	s.mu.Unlock()
	s.t.Log(t)
	if t.To == steady.StateOpen && t.From == steady.StateClosed && onOpen != nil {
		onOpen()
	}
}

// opened reports how often the breaker has opened, re-openings apart.
func (s *scene) opened() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.transitions {
		if t.From == steady.StateClosed && t.To == steady.StateOpen {
			n++
		}
	}
	return n
}

// eventually waits for what must happen.
func (s *scene) eventually(what string, happened func() bool) {
	s.t.Helper()
	require.Eventually(s.t, happened, soon, 2*time.Millisecond, what)
}

// breakerIs waits for the breaker to be in a state.
func (s *scene) breakerIs(state steady.State) {
	s.t.Helper()
	s.eventually("the breaker is "+state.String(), func() bool { return s.dep.Breaker().State() == state })
}

// call makes a unary call with an id of its own, or the given one.
func (s *scene) call(ctx context.Context, opts ...grpc.CallOption) (id string, err error) {
	id = fmt.Sprint("call ", s.ids.Add(1))
	s.ledger.Start()
	_, err = s.client.UnaryCall(ctx, &grpc_testing.SimpleRequest{Payload: &grpc_testing.Payload{Body: []byte(id)}}, opts...)
	s.ledger.End(err)
	return id, err
}

// under starts callers that do the same again and again, until rest.
func (s *scene) under(callers int, do func()) {
	for range callers {
		s.load.Go(func() {
			for {
				select {
				case <-s.stop:
					return
				case <-time.After(time.Millisecond): // a caller takes a breath
					do()
				}
			}
		})
	}
}

// rest ends the callers.
func (s *scene) rest() {
	close(s.stop)
	s.load.Wait()
}

// end checks that nothing is left of the scene, and puts it on the table.
func (s *scene) end(scenario, note string, args ...any) {
	s.t.Helper()
	s.holdsNothing()
	_ = s.conn.Close()
	s.eventually("no connection and no handler is left at the server", func() bool {
		return s.server.conns.Load() == 0 && s.server.handlers.Load() == 0
	})
	table.Close(s.t, scenario, &s.ledger, note, args...)
}

// holdsNothing checks that no slot, no permit and no probe is out.
func (s *scene) holdsNothing() {
	s.t.Helper()
	s.eventually("no slot is taken", func() bool { return s.dep.Bulkhead().Stats().InFlight == 0 })
	assert.Zero(s.t, s.dep.Breaker().Stats().InFlight, "permits are out")
}
