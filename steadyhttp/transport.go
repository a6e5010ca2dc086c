package steadyhttp

import (
	"errors"
	"net/http"
	"reflect"

	"github.com/steady-go/steady"
)

// Config configures a [Transport].
type Config struct {
	// Base makes the attempts. It must heed the context of a request, also while the body of its response is read. nil
	// means one of NewBaseTransport(Timeouts).
	Base http.RoundTripper
	// Dependency is what every request goes to. Its Timeout, required there, may be given as Timeouts.Total. Its
	// Classify is asked about errors for which Config.Classify has no answer. Required, unless there is PerHost.
	Dependency steady.DependencyConfig
	// PerHost gives each host a Dependency of its own. It is asked with the host as the URL has it, in lower case, with
	// its port where that is not the scheme's: "api.example.com", "localhost:8080". A Name left empty is the host. It
	// may be asked about several hosts, or twice about one, at once; what is wrong with a config is the error of the
	// requests to that host.
	PerHost func(host string) steady.DependencyConfig
	// MaxHosts is how many hosts there are at most, with PerHost. A host without calls and with a closed breaker makes
	// room for a new one, the longest unused first; what is known of it is forgotten. One whose breaker is not closed,
	// forced states included, and one with a call whose body is still open, or with a slot of its bulkhead in use by
	// other ways, stay. Where all stay, requests to further hosts are rejected with ErrTooManyHosts: hosts may come from
	// anywhere, so the bound has to hold, and a call without a breaker and a bulkhead is what this package is there to
	// prevent. A host that is gone for good keeps its place until its breaker is closed, by
	// Dependency(host).Breaker().Reset; it may take a few rejections more until that is seen, for each looks again at no
	// more than 32 of the hosts that had to stay. In [1, 1<<20]; 0 means 1000.
	MaxHosts int
	// Timeouts are the limits. Connect, TLSHandshake and ResponseHeader are for the base transport that NewTransport
	// makes; with a Base they are an error, for they would not be applied.
	Timeouts Timeouts
	// Classify says what an attempt means: by its response, or its error; for a body that fails, both are there. It
	// must not read the body. nil, or a result of 0, means the default: see the function Classify.
	Classify func(resp *http.Response, err error) steady.Outcome
	// IdempotencyKey makes a key for each logical call that could not be repeated otherwise: a POST or PATCH, say, that
	// has no Idempotency-Key header and no intent of WithIntent. Every attempt sends the same key, and the call's intent
	// is then WriteIdempotent: the server must know the header. An empty key is none. Any number of calls may ask at
	// once. nil means no keys. A redirect is another call.
	IdempotencyKey func() string
}

// Transport is an http.RoundTripper that makes the attempts of each call through a Dependency's policies. It keeps to the
// contract of http.RoundTripper: a request is not modified, its body is closed on every path, and a response is a
// response, whatever its status. When there is no attempt left, the last response comes back, its body unread; so does
// one that was to be retried, if no further attempt was made after all and its body could be read whole. The errors are
// those of package steady, also that of a body which a Timeout cuts off: errors.Is finds steady.ErrBreakerOpen through
// the *url.Error of http.Client, and that one's Timeout is true for a call that took too long.
//
// A request whose body cannot be had again, for it has no GetBody, is attempted once. Before another attempt up to 64 KiB
// of the response are read, for 50ms at most on the dependency's Clock, so that its connection can be used again.
//
// A Transport may be used by any number of goroutines.
type Transport struct {
	cfg   Config
	base  http.RoundTripper
	one   *host  // with Config.Dependency
	hosts *hosts // with Config.PerHost
}

// NewTransport returns a Transport, or an error that names everything that is wrong: with the Dependency's numbers, with
// the Timeouts, and between the bulkhead and the base transport. The bulkhead's MaxConcurrent must be below the
// MaxConnsPerHost of a Base that is an *http.Transport, if it has one: otherwise one slow dependency takes every
// connection, and those who wait for one wait outside of every limit.
func NewTransport(cfg Config) (*Transport, error) {
	var f faults
	t := &Transport{base: cfg.Base}
	cfg.Timeouts.check(&f)
	t.checkBase(&cfg, &f)
	f.refuse(cfg.PerHost == nil && cfg.MaxHosts != 0, "Config.MaxHosts is %d without PerHost: leave it out", cfg.MaxHosts)
	if cfg.PerHost != nil {
		setDefault(&cfg.MaxHosts, 1000)
		f.refuse(cfg.MaxHosts < 1 || cfg.MaxHosts > 1<<20, "Config.MaxHosts must be in [1, 1048576], got %d (0 means 1000)", cfg.MaxHosts)
		f.refuse(!reflect.ValueOf(cfg.Dependency).IsZero(), "Config.Dependency is set with PerHost: leave one of them out")
	}
	t.cfg = cfg
	if cfg.PerHost != nil {
		t.hosts = newHosts(cfg.MaxHosts, t.newHost)
	} else {
		one, err := t.newHost("")
		f.add(err)
		t.one = one
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if t.base == nil {
		t.base = cfg.Timeouts.base()
	}
	if t.one != nil {
		t.cfg.Dependency = t.one.dependency.Config()
	}
	t.cfg.Base = t.base
	return t, nil
}

// checkBase refuses what a Base of the caller's would not do.
func (t *Transport) checkBase(cfg *Config, f *faults) {
	if cfg.Base == nil {
		return
	}
	v := reflect.ValueOf(cfg.Base)
	f.refuse(v.Kind() == reflect.Pointer && v.IsNil(), "Config.Base is a nil %T: leave it out", cfg.Base)
	const why = "Timeouts.%s is %v with a Base, to which it cannot be applied: give it to NewBaseTransport"
	f.refuse(cfg.Timeouts.Connect != 0, why, "Connect", cfg.Timeouts.Connect)
	f.refuse(cfg.Timeouts.TLSHandshake != 0, why, "TLSHandshake", cfg.Timeouts.TLSHandshake)
	f.refuse(cfg.Timeouts.ResponseHeader != 0, why, "ResponseHeader", cfg.Timeouts.ResponseHeader)
}

// Config returns the effective configuration, defaults filled in. Its Base is the one in use.
func (t *Transport) Config() Config { return t.cfg }

// Dependency returns the Dependency of a host, to look at its parts, or to call the host by other ways under the same
// limits. The host is written as PerHost is given it; without PerHost every host has the one Dependency. It returns nil
// for a host that is not known, or not any more. Ask for it anew for each use: a host that was forgotten has another one
// when it comes back.
func (t *Transport) Dependency(host string) *steady.Dependency {
	if t.one != nil {
		return t.one.dependency
	}
	return t.hosts.dependency(host)
}

// Dependencies returns the Dependencies of all known hosts, in no order.
func (t *Transport) Dependencies() []*steady.Dependency {
	if t.one != nil {
		return []*steady.Dependency{t.one.dependency}
	}
	return t.hosts.dependencies()
}

// CloseIdleConnections closes the idle connections of the base transport, if that has any: it is what
// http.Client.CloseIdleConnections calls.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// RoundTrip makes a call, as http.RoundTripper has it. An error of the context comes back as it is; a rejection, a
// timeout and a retry that gave up on an error as the error of package steady.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c := &call{t: t, req: req}
	defer c.closeUnsent()
	if err := checkRequest(req); err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		return nil, err // before a host is made room for
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	return c.run()
}

// checkRequest refuses what no attempt could be made of. It is the caller's mistake, of which no breaker should hear.
func checkRequest(req *http.Request) error {
	switch {
	case req.URL == nil:
		return errors.New("steadyhttp: the request has no URL")
	case req.Header == nil:
		return errors.New("steadyhttp: the request's Header is nil: make it, as http.NewRequest does")
	default:
		return nil
	}
}
