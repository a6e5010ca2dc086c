package steadyhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// perHost is a Config whose hosts have a breaker that opens on the first failure, and no retry.
func perHost(limit int, b http.RoundTripper) steadyhttp.Config {
	return steadyhttp.Config{
		Base: b, MaxHosts: limit,
		PerHost: func(string) steady.DependencyConfig {
			return dependency(func(cfg *steady.DependencyConfig) {
				cfg.Name, cfg.NoRetry = "", true
				cfg.Breaker.WindowSize, cfg.Breaker.MinCalls = 1, 1
			})
		},
	}
}

// byHost answers with status 500 where the host's name begins with "bad".
var byHost = base(func(req *http.Request) (*http.Response, error) {
	if strings.HasPrefix(req.URL.Host, "bad") {
		return response(500, "x"), nil
	}
	return response(200, "x"), nil
})

func ask(t testing.TB, tr *steadyhttp.Transport, host string) error {
	t.Helper()
	resp, err := tr.RoundTrip(request(t, http.MethodGet, "http://"+host+"/", nil))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func TestEachHostHasADependencyOfItsOwn(t *testing.T) {
	tr := newTransport(t, perHost(0, byHost))
	assert.Equal(t, 1000, tr.Config().MaxHosts)
	require.NoError(t, ask(t, tr, "good.test"))
	require.NoError(t, ask(t, tr, "bad.test"))
	require.ErrorIs(t, ask(t, tr, "bad.test"), steady.ErrBreakerOpen)
	require.NoError(t, ask(t, tr, "good.test"))
	assert.Equal(t, "bad.test", tr.Dependency("bad.test").Name(), "a name left empty is the host")
	assert.Nil(t, tr.Dependency("other.test"))
	assert.Len(t, tr.Dependencies(), 2)
}

func TestAHostIsOneHoweverItIsWritten(t *testing.T) {
	var asked []string
	cfg := perHost(0, byHost)
	inner := cfg.PerHost
	cfg.PerHost = func(host string) steady.DependencyConfig {
		asked = append(asked, host)
		return inner(host)
	}
	tr := newTransport(t, cfg)
	for _, url := range []string{
		"http://API.test", "http://api.test:80/x", "https://api.test:443", "https://api.TEST/y", "http://api.test:/",
		"https://b.test:443", "http://c.test:443", "https://c.test:80", "http://api.test:8080", "http://[::1]:80/", "http://[::1]/",
	} {
		do(t, tr.RoundTrip, request(t, http.MethodGet, url, nil))
	}
	assert.Equal(t, []string{"api.test", "b.test", "c.test:443", "c.test:80", "api.test:8080", "[::1]"}, asked)
}

func TestTheLongestUnusedHostMakesRoom(t *testing.T) {
	tr := newTransport(t, perHost(3, byHost))
	for _, host := range []string{"a", "b", "c", "a", "d"} {
		require.NoError(t, ask(t, tr, host))
	}
	assert.Nil(t, tr.Dependency("b"))
	for _, host := range []string{"a", "c", "d"} {
		assert.NotNil(t, tr.Dependency(host), host)
	}
}

func TestAHostWhoseBreakerIsNotClosedStays(t *testing.T) {
	tr := newTransport(t, perHost(3, byHost))
	require.NoError(t, ask(t, tr, "bad"))
	require.NoError(t, ask(t, tr, "forced"))
	tr.Dependency("forced").Breaker().ForceClosed("test")
	for i := range 10 {
		require.NoError(t, ask(t, tr, fmt.Sprint("h", i)))
	}
	assert.NotNil(t, tr.Dependency("bad"))
	assert.NotNil(t, tr.Dependency("forced"))
	require.ErrorIs(t, ask(t, tr, "bad"), steady.ErrBreakerOpen)
	assert.Len(t, tr.Dependencies(), 3)
}

func TestAHostWithAnOpenBodyStays(t *testing.T) {
	tr := newTransport(t, perHost(2, byHost))
	busy := open(t, tr, request(t, http.MethodGet, "http://busy/", nil))
	d := tr.Dependency("busy")
	for i := range 5 {
		require.NoError(t, ask(t, tr, fmt.Sprint("h", i)))
	}
	assert.Same(t, d, tr.Dependency("busy"))
	require.NoError(t, busy.Close())
	require.NoError(t, ask(t, tr, "h5"))
	require.NoError(t, ask(t, tr, "h6"))
	assert.Nil(t, tr.Dependency("busy"))
}

func TestWhereAllHostsStayAFurtherOneIsRejected(t *testing.T) {
	tr := newTransport(t, perHost(2, byHost))
	require.NoError(t, ask(t, tr, "bad"))
	busy := open(t, tr, request(t, http.MethodGet, "http://busy/", nil))

	body := &sendable{Reader: strings.NewReader("x")}
	err := fail(t, tr.RoundTrip, request(t, http.MethodPost, "http://new/", body))
	require.ErrorIs(t, err, steadyhttp.ErrTooManyHosts)
	require.ErrorIs(t, err, steady.ErrBulkheadFull)
	assert.True(t, steady.IsRejected(err))
	assert.EqualError(t, err, `steadyhttp: too many hosts at once: "MaxHosts"`)
	assert.EqualValues(t, 1, body.closed.Load())
	require.ErrorIs(t, ask(t, tr, "bad"), steady.ErrBreakerOpen, "those that are known have their places")

	tr.Dependency("bad").Breaker().Reset("gone for good")
	require.NoError(t, ask(t, tr, "new"))
	assert.Nil(t, tr.Dependency("bad"))
	require.NoError(t, busy.Close())
}

func TestAHostWithoutABreakerMakesRoom(t *testing.T) {
	cfg := perHost(1, byHost)
	cfg.PerHost = func(string) steady.DependencyConfig {
		return dependency(func(cfg *steady.DependencyConfig) { cfg.NoBreaker = true })
	}
	tr := newTransport(t, cfg)
	require.NoError(t, ask(t, tr, "a"))
	require.NoError(t, ask(t, tr, "b"))
	assert.Nil(t, tr.Dependency("a"))
}

func TestAHostsWrongConfigIsTheErrorOfItsRequests(t *testing.T) {
	good := true
	tr := newTransport(t, steadyhttp.Config{Base: byHost, PerHost: func(string) steady.DependencyConfig {
		return dependency(func(cfg *steady.DependencyConfig) {
			if !good {
				cfg.Breaker.SlowThreshold = 0
			}
		})
	}})
	require.NoError(t, ask(t, tr, "a"))
	good = false
	require.NoError(t, ask(t, tr, "a"), "a known host is not asked about again")
	err := ask(t, tr, "b")
	require.ErrorContains(t, err, `steadyhttp: Config.PerHost("b")`)
	require.ErrorContains(t, err, "SlowThreshold")
	assert.Len(t, tr.Dependencies(), 1)
	require.ErrorContains(t, ask(t, tr, ""), "no host")
}

func TestACallThatIsOverBeforeItBeginsTakesNoPlace(t *testing.T) {
	tr := newTransport(t, perHost(1, byHost))
	require.NoError(t, ask(t, tr, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := fail(t, tr.RoundTrip, request(t, http.MethodGet, "http://b/", nil).WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	assert.NotNil(t, tr.Dependency("a"))
}

// A breaker that is asked for its state may find that it has to open, and run hooks, which may use the transport.
func TestHooksMayUseTheTransportWhileItMakesRoom(t *testing.T) {
	mock := clock.NewMock()
	var tr *steadyhttp.Transport
	var known []int
	cfg := perHost(1, byHost)
	inner := cfg.PerHost
	cfg.PerHost = func(host string) steady.DependencyConfig {
		c := inner(host)
		c.NoTimeout, c.Timeout, c.Clock = true, 0, mock
		c.NoBulkhead = true
		c.Breaker.SlowThreshold = time.Second
		c.Hooks = &steady.Hooks{OnTransition: func(steady.Transition) { known = append(known, len(tr.Dependencies())) }}
		return c
	}
	tr = newTransport(t, cfg)
	require.NoError(t, ask(t, tr, "a"))
	permit := steady.Must(tr.Dependency("a").Breaker().Allow()) // by another way than the transport
	mock.Add(time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.ErrorIs(t, ask(t, tr, "b"), steadyhttp.ErrTooManyHosts)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the hook waits for the transport, and the transport for the hook")
	}
	assert.Equal(t, []int{1}, known)
	permit.Done(steady.Success)
}

func TestAHostThatIsCalledByOtherWaysStays(t *testing.T) {
	tr := newTransport(t, perHost(1, byHost))
	require.NoError(t, ask(t, tr, "a"))
	a := tr.Dependency("a")
	slot := steady.Must(a.Bulkhead().Acquire(t.Context()))
	require.ErrorIs(t, ask(t, tr, "b"), steadyhttp.ErrTooManyHosts)
	assert.Same(t, a, tr.Dependency("a"))
	slot.Release()
	require.NoError(t, ask(t, tr, "b"))
}

// However many hosts have to stay, the one among them that need not makes room, at once if the transport can know.
func TestRoomIsFoundAmongHostsThatStay(t *testing.T) {
	const limit = 100
	tr := newTransport(t, perHost(limit, byHost))
	for i := range limit - 1 {
		require.NoError(t, ask(t, tr, fmt.Sprint("bad", i)))
	}
	for i := range 10 {
		require.NoError(t, ask(t, tr, fmt.Sprint("good", i)), "in the place of the one before")
	}
	require.NoError(t, ask(t, tr, "bad-too"))
	require.ErrorIs(t, ask(t, tr, "good"), steadyhttp.ErrTooManyHosts)

	tr.Dependency("bad50").Breaker().Reset("it is gone for good")
	rejected := 0
	for ask(t, tr, "good") != nil {
		rejected++
		require.Less(t, rejected, limit, "no room is found")
	}
	assert.LessOrEqual(t, rejected, limit/32)
	assert.Nil(t, tr.Dependency("bad50"))
	assert.Len(t, tr.Dependencies(), limit)
}

// A panic of such a hook is the caller's to recover.
func TestAHookThatPanicsWhileRoomIsMadeBreaksNothing(t *testing.T) {
	mock := clock.NewMock()
	panics := false
	cfg := perHost(1, byHost)
	inner := cfg.PerHost
	cfg.PerHost = func(host string) steady.DependencyConfig {
		c := inner(host)
		c.NoTimeout, c.Timeout, c.Clock = true, 0, mock
		c.Breaker.SlowThreshold = time.Second
		c.Hooks = &steady.Hooks{OnTransition: func(steady.Transition) {
			if panics {
				panic(errBoom)
			}
		}}
		return c
	}
	tr := newTransport(t, cfg)
	require.NoError(t, ask(t, tr, "a"))
	permit := steady.Must(tr.Dependency("a").Breaker().Allow()) // by another way than the transport
	mock.Add(time.Minute)
	panics = true
	assert.PanicsWithValue(t, errBoom, func() { _ = ask(t, tr, "b") })
	panics = false
	permit.Done(steady.Success)
	require.ErrorIs(t, ask(t, tr, "b"), steadyhttp.ErrTooManyHosts)
	assert.Len(t, tr.Dependencies(), 1)
}

func TestTheNumberOfHostsIsBoundedUnderConcurrency(t *testing.T) {
	const limit = 8
	tr := newTransport(t, perHost(limit, base(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, ContentLength: 1, Body: io.NopCloser(strings.NewReader("x"))}, nil
	})))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 300 {
				resp, err := tr.RoundTrip(request(t, http.MethodGet, fmt.Sprintf("http://h%d/", (g*7+i*13)%20), nil))
				if err != nil {
					assert.ErrorIs(t, err, steadyhttp.ErrTooManyHosts)
					continue
				}
				assert.LessOrEqual(t, len(tr.Dependencies()), limit)
				_ = resp.Body.Close()
			}
		})
	}
	wg.Wait()
	assertFree(t, tr)
	for i := range limit { // nothing has been lost of the places
		require.NoError(t, ask(t, tr, fmt.Sprint("new", i)))
	}
	assert.Len(t, tr.Dependencies(), limit)
}
