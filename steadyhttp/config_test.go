package steadyhttp_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsWrongIsNamedAllOfIt(t *testing.T) {
	var none *http.Transport
	pool := func(n int) *http.Transport { return &http.Transport{MaxConnsPerHost: n} }
	for name, c := range map[string]struct {
		cfg  steadyhttp.Config
		want []string
	}{
		"nothing given": {steadyhttp.Config{}, []string{"DependencyConfig.Name is required", "Timeout is required", "SlowThreshold", "MaxConcurrent"}},
		"negative timeouts": {
			steadyhttp.Config{Dependency: dependency(), Timeouts: steadyhttp.Timeouts{Connect: -1, TLSHandshake: -1, ResponseHeader: -1, ReadIdle: -1}},
			[]string{
				"steadyhttp: Timeouts.Connect must not be negative, got -1ns (0 leaves it out)",
				"Timeouts.TLSHandshake must", "Timeouts.ResponseHeader must", "Timeouts.ReadIdle must",
			},
		},
		"an attempt longer than the whole": {
			steadyhttp.Config{PerHost: perHost(0, nil).PerHost, Timeouts: steadyhttp.Timeouts{Attempt: 5, Total: 4}},
			[]string{"Timeouts.Attempt (5ns) exceeds Total (4ns)"},
		},
		"negative limits": {
			steadyhttp.Config{PerHost: perHost(0, nil).PerHost, Timeouts: steadyhttp.Timeouts{Attempt: -1, Total: -1}},
			[]string{"Timeouts.Attempt must not be negative", "Timeouts.Total must not be negative"},
		},
		"steps beyond the dependency's limit": {
			steadyhttp.Config{Dependency: dependency(), Timeouts: steadyhttp.Timeouts{Connect: time.Hour, ReadIdle: time.Hour}},
			[]string{"Timeouts.Connect (1h0m0s) exceeds the limit of the whole call (1m0s)", "Timeouts.ReadIdle"},
		},
		"steps beyond the attempt": {
			steadyhttp.Config{Dependency: dependency(), Timeouts: steadyhttp.Timeouts{Attempt: 40 * time.Second, TLSHandshake: 50 * time.Second, ResponseHeader: 50 * time.Second}},
			[]string{"Timeouts.TLSHandshake (50s) exceeds the limit of an attempt (40s)", "Timeouts.ResponseHeader"},
		},
		"two limits for one thing": {
			steadyhttp.Config{
				Dependency: dependency(func(cfg *steady.DependencyConfig) { cfg.AttemptTimeout = 35 * time.Second }),
				Timeouts:   steadyhttp.Timeouts{Attempt: 40 * time.Second, Total: 2 * time.Minute},
			},
			[]string{
				`Timeouts.Total (2m0s) is not the Timeout (1m0s) of dependency "api": leave one of them out`,
				`Timeouts.Attempt (40s) is not the AttemptTimeout (35s)`,
			},
		},
		"steps for a base that does not know them": {
			steadyhttp.Config{Dependency: dependency(), Base: byHost, Timeouts: steadyhttp.Timeouts{Connect: 1, TLSHandshake: 1, ResponseHeader: 1}},
			[]string{"Timeouts.Connect is 1ns with a Base", "TLSHandshake is 1ns", "ResponseHeader is 1ns"},
		},
		"a nil base":                {steadyhttp.Config{Dependency: dependency(), Base: none}, []string{"Config.Base is a nil *http.Transport"}},
		"hosts without PerHost":     {steadyhttp.Config{Dependency: dependency(), MaxHosts: 5}, []string{"Config.MaxHosts is 5 without PerHost"}},
		"too many hosts":            {perHost(1<<20+1, byHost), []string{"Config.MaxHosts must be in [1, 1048576], got 1048577"}},
		"a negative number of them": {perHost(-1, byHost), []string{"Config.MaxHosts must be in [1, 1048576], got -1"}},
		"both kinds": {
			steadyhttp.Config{Dependency: dependency(), PerHost: perHost(0, nil).PerHost},
			[]string{"Config.Dependency is set with PerHost"},
		},
		"a bulkhead as large as the pool": {
			steadyhttp.Config{Dependency: dependency(), Base: pool(50)},
			[]string{`Bulkhead.MaxConcurrent (50) of dependency "api" must be less than the base transport's MaxConnsPerHost (50)`},
		},
		"a larger one": {steadyhttp.Config{Dependency: dependency(), Base: pool(10)}, []string{"MaxConcurrent (50)"}},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := steadyhttp.NewTransport(c.cfg)
			require.Error(t, err)
			assert.Nil(t, tr)
			for _, want := range c.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

func TestAPoolThatTheBulkheadCannotEmptyIsRight(t *testing.T) {
	for _, n := range []int{0, 51} {
		newTransport(t, steadyhttp.Config{Base: &http.Transport{MaxConnsPerHost: n}})
	}
	newTransport(t, steadyhttp.Config{
		Base:       &http.Transport{MaxConnsPerHost: 1},
		Dependency: dependency(func(cfg *steady.DependencyConfig) { cfg.NoBulkhead = true }),
	})
	tr := newTransport(t, steadyhttp.Config{Base: &http.Transport{MaxConnsPerHost: 50}, PerHost: perHost(0, nil).PerHost})
	require.ErrorContains(t, ask(t, tr, "host.test"), `of dependency "host.test" must be less than`)
}

func TestTimeoutsBecomeTheDependencys(t *testing.T) {
	limits := steadyhttp.Timeouts{Attempt: 40 * time.Second, Total: 50 * time.Second}
	tr := newTransport(t, steadyhttp.Config{
		Base: byHost, Timeouts: limits,
		Dependency: dependency(func(cfg *steady.DependencyConfig) { cfg.Timeout = 0 }),
	})
	assert.Equal(t, limits.Attempt, tr.Config().Dependency.AttemptTimeout)
	assert.Equal(t, limits.Total, tr.Config().Dependency.Timeout)
	assert.Equal(t, limits.Total, tr.Dependency("any").Timeout().Config().Limit)

	tr = newTransport(t, steadyhttp.Config{Base: byHost, Timeouts: limits, PerHost: func(string) steady.DependencyConfig {
		return dependency(func(cfg *steady.DependencyConfig) { cfg.Timeout = 0 })
	}})
	require.NoError(t, ask(t, tr, "a"))
	assert.Equal(t, limits.Attempt, tr.Dependency("a").AttemptTimeout().Config().Limit)
}

func TestTheBaseTransportAppliesTheSteps(t *testing.T) {
	b, err := steadyhttp.NewBaseTransport(steadyhttp.Timeouts{})
	require.NoError(t, err)
	assert.Equal(t, 10*time.Second, b.TLSHandshakeTimeout)
	assert.Zero(t, b.ResponseHeaderTimeout)
	assert.Positive(t, b.HTTP2.SendPingTimeout, "a dead HTTP/2 connection is found out")
	assert.Greater(t, b.MaxIdleConnsPerHost, http.DefaultMaxIdleConnsPerHost)

	b, err = steadyhttp.NewBaseTransport(steadyhttp.Timeouts{TLSHandshake: 2, ResponseHeader: 3, Attempt: 4, Total: 5})
	require.NoError(t, err)
	assert.EqualValues(t, 2, b.TLSHandshakeTimeout)
	assert.EqualValues(t, 3, b.ResponseHeaderTimeout)

	_, err = steadyhttp.NewBaseTransport(steadyhttp.Timeouts{Connect: 6, Attempt: 5, Total: 4})
	require.ErrorContains(t, err, "Timeouts.Connect (6ns) exceeds the limit of an attempt (5ns)")
	require.ErrorContains(t, err, "Timeouts.Attempt (5ns) exceeds Total (4ns)")
}

func TestTheBaseTransportGivesUpOnAConnectionThatIsNotMade(t *testing.T) {
	b, err := steadyhttp.NewBaseTransport(steadyhttp.Timeouts{Connect: time.Nanosecond})
	require.NoError(t, err)
	_, err = b.DialContext(t.Context(), "tcp", "127.0.0.1:1")
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout())
}

func TestTheTransportsOwnBaseAppliesTheSteps(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer s.Close()
	tr := newTransport(t, steadyhttp.Config{
		Dependency: dependency(func(cfg *steady.DependencyConfig) { cfg.NoRetry = true }),
		Timeouts:   steadyhttp.Timeouts{ResponseHeader: 10 * time.Millisecond},
	})
	err := fail(t, tr.RoundTrip, request(t, http.MethodGet, s.URL, nil))
	require.ErrorContains(t, err, "awaiting response headers")
	assert.Equal(t, 1, failures(tr))
	assertFree(t, tr)
	_, ok := tr.Config().Base.(*http.Transport)
	assert.True(t, ok)
}

func TestAContextsIntentIsItsOwn(t *testing.T) {
	cfg, seen := observed()
	tr := newTransport(t, steadyhttp.Config{Base: always(503, ""), Dependency: cfg})
	ctx := steadyhttp.WithIntent(steadyhttp.WithIntent(context.Background(), steady.WriteNonIdempotent), steady.ReadIdempotent)
	do(t, tr.RoundTrip, request(t, http.MethodPost, "http://api.test/", nil).WithContext(ctx))
	assert.Len(t, seen.outcomes(), 3, "the innermost counts")
}
