package steadyhttp

import (
	"net"
	"net/http"
	"time"
)

// Timeouts are the limits of a call at three levels: of the steps towards a response, of one attempt, and of the whole.
// Each is optional here, 0 or more; the limits of an outer level may not be below those further in.
type Timeouts struct {
	// Connect limits the making of a connection, the look-up of the name included. 0 means 30s.
	Connect time.Duration
	// TLSHandshake limits the TLS handshake. 0 means 10s.
	TLSHandshake time.Duration
	// ResponseHeader limits the time from the end of the request to the response's header. 0 means no limit but that
	// of the attempt.
	ResponseHeader time.Duration
	// ReadIdle limits the time between bytes of a response's body: the longest that a Read may wait. It does not run
	// while nobody reads, nor on the connection that follows a 101 response. It is measured on the dependency's Clock.
	// 0 means no such limit.
	ReadIdle time.Duration
	// Attempt limits each attempt, the reading of the body included: it is the dependency's AttemptTimeout. 0 leaves
	// it to that.
	Attempt time.Duration
	// Total limits the whole call: all attempts, the delays between them, and the reading of the body. It is the
	// dependency's Timeout. 0 leaves it to that.
	Total time.Duration
}

// limit is a field with its name.
type limit struct {
	field string
	d     time.Duration
}

// steps are the limits of the steps towards a response, and of those of reading it.
func (t Timeouts) steps() []limit {
	return []limit{
		{"Connect", t.Connect},
		{"TLSHandshake", t.TLSHandshake},
		{"ResponseHeader", t.ResponseHeader},
		{"ReadIdle", t.ReadIdle},
	}
}

// check notes what is wrong with the numbers by themselves.
func (t Timeouts) check(f *faults) {
	for _, limit := range append(t.steps(), limit{"Attempt", t.Attempt}, limit{"Total", t.Total}) {
		f.refuse(limit.d < 0, "Timeouts.%s must not be negative, got %v (0 leaves it out)", limit.field, limit.d)
	}
	f.refuse(t.Total > 0 && t.Attempt > t.Total, "Timeouts.Attempt (%v) exceeds Total (%v): lower it, or leave it out", t.Attempt, t.Total)
	t.checkSteps(f, t.Attempt, t.Total)
}

// checkSteps notes which steps are longer than what is around them: the limit of an attempt, or else of the whole call;
// 0 is no limit.
func (t Timeouts) checkSteps(f *faults, attempt, total time.Duration) {
	around, name := attempt, "the limit of an attempt"
	if around <= 0 {
		around, name = total, "the limit of the whole call"
	}
	for _, step := range t.steps() {
		f.refuse(around > 0 && step.d > around, "Timeouts.%s (%v) exceeds %s (%v): it could never end a call; lower it, or leave it out",
			step.field, step.d, name, around)
	}
}

// NewBaseTransport returns a base transport that applies Connect, TLSHandshake and ResponseHeader, for adjusting before
// it is given to [NewTransport]: TLSClientConfig, MaxConnsPerHost, Proxy. ReadIdle, Attempt and Total are not a base
// transport's to apply; they are checked against the others and belong into Config.Timeouts. Every fault is named in the
// error.
//
// Otherwise it is like http.DefaultTransport, but keeps up to 100 idle connections to one host, where that keeps 2, and
// asks a silent HTTP/2 connection after 10s whether it is still there, giving it up after another 5s: all requests to a
// host share one, and a dead one would fail them all, and every probe, for as long as the kernel takes to notice.
func NewBaseTransport(t Timeouts) (*http.Transport, error) {
	var f faults
	t.check(&f)
	if err := f.err(); err != nil {
		return nil, err
	}
	return t.base(), nil
}

// base makes a base transport of limits that have been checked.
func (t Timeouts) base() *http.Transport {
	setDefault(&t.Connect, 30*time.Second)
	setDefault(&t.TLSHandshake, 10*time.Second)
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: t.Connect, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   t.TLSHandshake,
		ResponseHeaderTimeout: t.ResponseHeader,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
		MaxIdleConns:          100,
		MaxIdleConnsPerHost:   100,
		IdleConnTimeout:       90 * time.Second,
	}
}
