package promtest_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dashboard is what Grafana and this test need of the file.
type dashboard struct {
	Title, UID string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ RefID, Expr string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	text, err := os.ReadFile("../steady.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// grafana puts in what Grafana would: the variables at "All", and its intervals for the incident.
var grafana = strings.NewReplacer(
	"$__rate_interval", "1m",
	"$__range", "13m",
	"$breaker", ".*",
	"$pipeline", ".*",
	"$bulkhead", ".*",
)

func TestEveryPanelShowsTheIncident(t *testing.T) {
	engine, storage := incident(t)
	panels := 0
	for _, panel := range readDashboard(t).Panels {
		if panel.Type == "row" {
			continue
		}
		panels++
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			expr := grafana.Replace(target.Expr)
			require.NotContains(t, expr, "$", "a variable that the test does not know")
			query, err := engine.NewRangeQuery(t.Context(), storage, nil, expr, fourteen(0, 0), fourteen(12, 45), scrapeInterval)
			require.NoError(t, err, "%s: %s", panel.Title, expr)
			matrix, err := query.Exec(t.Context()).Matrix()
			require.NoError(t, err, "%s: %s", panel.Title, expr)
			assert.NotEmpty(t, matrix, "%s: %s", panel.Title, expr)
			query.Close()
		}
	}
	assert.Equal(t, 21, panels)
}

// What the panels show of the incident at some of its moments.
func TestThePanelsTellTheStory(t *testing.T) {
	engine, storage := incident(t)
	expressions := make(map[string]string)
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			expressions[panel.Title+" "+target.RefID] = grafana.Replace(target.Expr)
		}
	}
	for _, moment := range []struct {
		panel  string
		minute int
		labels []string // pairs
		at     float64
		within float64
	}{
		{panel: "State A", minute: 6, at: 0},
		{panel: "State A", minute: 8, at: 2},
		{panel: "State A", minute: 12, at: 0},
		{panel: "Time open A", minute: 12, at: 232, within: 5},
		{panel: "Failed and slow A", minute: 3, at: 0.4, within: 0.01},
		{panel: "Failed and slow B", minute: 6, at: 0.4, within: 0.06},
		{panel: "Headroom A", minute: 4, at: 6.4, within: 0.1},
		{panel: "Headroom A", minute: 6, at: 0.9, within: 0.1},
		{panel: "Calls by outcome A", minute: 2, labels: []string{"steady_outcome", "success"}, at: 32, within: 0.5},
		{panel: "Calls by outcome A", minute: 8, labels: []string{"steady_outcome", "rejected"}, at: 32, within: 0.5},
		{panel: "Calls by end A", minute: 8, labels: []string{"steady_pipeline_name", "orders", "error_type", "breaker_open"}, at: 4, within: 0.1},
		{panel: "Attempts a call A", minute: 2, labels: []string{"steady_pipeline_name", "prices"}, at: 1, within: 0.01},
		{panel: "Attempts a call A", minute: 8, labels: []string{"steady_pipeline_name", "prices"}, at: 0, within: 0.01},
		{panel: "Retry budget spent A", minute: 3, at: 0.95, within: 0.05},
		{panel: "Calls inside A", minute: 6, at: 14},
		{panel: "Calls inside B", minute: 6, at: 14},
	} {
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, expressions[moment.panel], fourteen(moment.minute, 0))
		require.NoError(t, err, moment.panel)
		vector, err := query.Exec(t.Context()).Vector()
		require.NoError(t, err, moment.panel)
		vector = slices.DeleteFunc(slices.Clone(vector), func(s promql.Sample) bool {
			for i := 0; i < len(moment.labels); i += 2 {
				if s.Metric.Get(moment.labels[i]) != moment.labels[i+1] {
					return true
				}
			}
			return false
		})
		require.Len(t, vector, 1, "%s at 14:%02d", moment.panel, moment.minute)
		assert.InDelta(t, moment.at, vector[0].F, moment.within, "%s at 14:%02d", moment.panel, moment.minute)
		query.Close()
	}
}

func TestTheStateOfSeveralInstancesIsOneOfThem(t *testing.T) {
	const series = `load 15s
  steady_breaker_state{instance="a", steady_breaker_name="catalog", steady_breaker_state="half-open"} 1
  steady_breaker_state{instance="a", steady_breaker_name="catalog", steady_breaker_state="open"} 0
  steady_breaker_state{instance="b", steady_breaker_name="catalog", steady_breaker_state="half-open"} 0
  steady_breaker_state{instance="b", steady_breaker_name="catalog", steady_breaker_state="open"} 1
`
	storage := promqltest.LoadedStorage(t, series)
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	for _, panel := range readDashboard(t).Panels {
		if panel.Title != "State" {
			continue
		}
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, grafana.Replace(panel.Targets[0].Expr), fourteen(0, 0))
		require.NoError(t, err)
		defer query.Close()
		vector, err := query.Exec(t.Context()).Vector()
		require.NoError(t, err)
		require.Len(t, vector, 1)
		assert.Equal(t, 2.0, vector[0].F, "open, which is worse than half-open")
		return
	}
	require.Fail(t, "there is no such panel")
}

var metricName = regexp.MustCompile(`steady_[a-z0-9_]+`)

func TestTheDashboardShowsEveryMetric(t *testing.T) {
	shown := make(map[string]bool)
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(grafana.Replace(target.Expr))
			require.NoError(t, err)
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				if v, ok := node.(*parser.VectorSelector); ok {
					shown[family(v.Name)] = true
				}
				return nil
			})
		}
	}
	series, err := os.ReadFile("../../steadyotel/testdata/incident.load")
	require.NoError(t, err)
	families := make(map[string]bool)
	for line := range strings.Lines(string(series)) {
		if name := metricName.FindString(line); name != "" {
			families[family(name)] = true
		}
	}
	assert.Len(t, families, 24)
	assert.Equal(t, families, shown)
}

// family is a metric's name without what a histogram adds to it.
func family(name string) string {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

func TestTheDashboardCanBeImported(t *testing.T) {
	d := readDashboard(t)
	assert.NotEmpty(t, d.Title)
	assert.NotEmpty(t, d.UID)
	ids := make(map[int]string)
	taken := make(map[[2]int]string)
	for _, p := range d.Panels {
		assert.Empty(t, ids[p.ID], "the id of %q is another's", p.Title)
		ids[p.ID] = p.Title
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				assert.Empty(t, taken[[2]int{x, y}], "%q lies over another panel", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			assert.Regexp(t, `^label_values\(steady_\w+, steady_\w+_name\)$`, v.Definition)
		}
	}
}
