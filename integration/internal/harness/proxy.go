package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// Proxy stands between a client and a server and makes the network between them misbehave.
type Proxy struct {
	tb    testing.TB
	proxy *toxiproxy.Proxy
}

// NewProxy starts a proxy on loopback in front of upstream, a host:port; it ends with the test.
func NewProxy(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{tb, toxiproxy.NewProxy(server, tb.Name(), "127.0.0.1:0", upstream)}
	require.NoError(tb, p.proxy.Start())
	tb.Cleanup(p.Stop)
	return p
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.proxy.Listen }

// Stop closes the listener and every connection: connects are refused. Start listens again at the same address.
func (p *Proxy) Stop() { p.proxy.Stop() }

// Start listens again after Stop.
func (p *Proxy) Start() { require.NoError(p.tb, p.proxy.Start()) }

// Toxic is a fault of toxiproxy's: https://github.com/Shopify/toxiproxy#toxics.
type Toxic struct {
	Name       string         `json:"name"`   // default type_stream
	Type       string         `json:"type"`   // latency, bandwidth, slow_close, timeout, reset_peer, slicer, limit_data
	Stream     string         `json:"stream"` // downstream (default), to the client; or upstream
	Attributes map[string]any `json:"attributes"`
}

// Add puts a fault on all connections, those that are open too. A timeout toxic with a timeout of 0 is a blackhole.
func (p *Proxy) Add(toxic Toxic) {
	p.tb.Helper()
	if toxic.Stream == "" {
		toxic.Stream = "downstream"
	}
	if toxic.Name == "" {
		toxic.Name = toxic.Type + "_" + toxic.Stream
	}
	body, err := json.Marshal(toxic)
	require.NoError(p.tb, err)
	_, err = p.proxy.Toxics.AddToxicJson(bytes.NewReader(body))
	require.NoError(p.tb, err)
}

// Heal takes every fault away.
func (p *Proxy) Heal() { p.proxy.Toxics.ResetToxics(context.Background()) }
