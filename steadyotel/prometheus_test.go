package steadyotel_test

import (
	"context"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "run go test -update if this is meant to change, and the dashboards' tests after it")
}

// scraper is a Prometheus exporter and a client of it, over HTTP on a connection that works in a bubble.
type scraper struct {
	provider *sdk.MeterProvider
	client   *http.Client
}

func newScraper(t *testing.T) *scraper {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	require.NoError(t, err)
	connections := make(pipeListener)
	server := &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.PanicOnError})}
	served := make(chan error)
	go func() { served <- server.Serve(connections) }()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		connections <- theirs
		return ours, nil
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return &scraper{
		provider: sdk.NewMeterProvider(sdk.WithReader(reader)),
		client:   &http.Client{Transport: transport},
	}
}

func (s *scraper) scrape(t *testing.T) string {
	response, err := s.client.Get("http://catalog-client/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}

// pipeListener is a net.Listener of the connections sent to it.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l pipeListener) Close() error   { close(l); return nil }
func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func TestPrometheusShowsTheIncident(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScraper(t)
		var scrapes []string
		in := runIncident(t, s.provider, func(at time.Time) {
			text := s.scrape(t)
			scrapes = append(scrapes, text)
			if at.Equal(minute(8)) {
				golden(t, "incident.prom", text)
			}
		})
		golden(t, "incident.log", shortened(in.log.String(), "14:07:00"))
		golden(t, "incident.load", timeSeries(t, scrapes))
	})
}
