// Package promtest_test runs the dashboard and the alerts in Prometheus' own engine.
package promtest_test

import (
	"os"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"
)

// The scripted incident is what package steadyotel's tests scraped every 15 s, from 14:00 to 14:13. In the storage
// 14:00 is the beginning of time.
const (
	scrapeInterval = 15 * time.Second
	length         = 13*time.Minute - scrapeInterval
)

// fourteen returns the moment so long after 14:00.
func fourteen(minute, second int) time.Time {
	return time.Unix(0, 0).UTC().Add(time.Duration(minute)*time.Minute + time.Duration(second)*time.Second)
}

// incident returns Prometheus' engine and a storage with the incident.
func incident(t *testing.T) (*promql.Engine, storage.Queryable) {
	t.Helper()
	series, err := os.ReadFile("../../steadyotel/testdata/incident.load")
	require.NoError(t, err)
	return promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery), promqltest.LoadedStorage(t, string(series))
}
