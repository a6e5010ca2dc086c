package promtest_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// firing is when an alert fires in the incident, both ends included.
type firing struct{ from, to time.Time }

func TestTheAlertsFireInTheIncidentWhereTheyShould(t *testing.T) {
	want := map[string]firing{
		// The breaker opens at 14:07:00.6 and closes at 14:10:53, after three openings that probes prolonged.
		"SteadyBreakerOpen": {fourteen(9, 15), fourteen(10, 45)},
		// Two of five calls are slow from 14:05 on; the window keeps the numbers that opened the breaker.
		"SteadySlowRatioNearLimit": {fourteen(6, 15), fourteen(7, 30)},
		// The calls of the last ten minutes are looked at, so this lasts.
		"SteadyHeadroomLow": {fourteen(10, 15), fourteen(12, 45)},
		// Two of five attempts fail from 14:02 to 14:04.
		"SteadyRetryBudgetEmpty": {fourteen(3, 15), fourteen(4, 0)},
		// More calls than there is room for from 14:05 on, until the breaker rejects them.
		"SteadyBulkheadFull": {fourteen(6, 15), fourteen(7, 45)},
	}
	engine, storage := incident(t)
	query := rules.EngineQueryFunc(engine, storage)
	alerts := readAlerts(t)
	require.Len(t, alerts, len(want))
	for _, r := range alerts {
		rule := newRule(t, r)
		var fired []time.Time
		for at := fourteen(0, 0); !at.After(fourteen(0, 0).Add(length)); at = at.Add(scrapeInterval) {
			_, err := rule.Eval(t.Context(), 0, at, query, nil, 0)
			require.NoError(t, err, r.Alert)
			for _, alert := range rule.ActiveAlerts() {
				assert.NotContains(t, alert.Annotations.Get("summary"), "error expanding template")
				if alert.State == rules.StateFiring {
					fired = append(fired, at)
				}
			}
		}
		require.NotEmpty(t, fired, r.Alert)
		got := firing{fired[0], fired[len(fired)-1]}
		assert.Equal(t, want[r.Alert], got, r.Alert)
		assert.Len(t, fired, int(got.to.Sub(got.from)/scrapeInterval)+1, "%s fires without a break", r.Alert)
	}
}

// Half-open without traffic may last, and is no failure.
func TestABreakerThatNobodyAsksAlarmsNobody(t *testing.T) {
	const series = `load 15s
  steady_breaker_state{instance="a", steady_breaker_name="catalog", steady_breaker_state="half-open"} 1x40
  steady_breaker_calls_total{instance="a", steady_breaker_name="catalog", steady_outcome="rejected"} 17x40
  steady_breaker_state{instance="b", steady_breaker_name="catalog", steady_breaker_state="half-open"} 1x40
  steady_breaker_calls_total{instance="b", steady_breaker_name="catalog", steady_outcome="rejected"} 17+5x40
`
	storage := promqltest.LoadedStorage(t, series)
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	for _, r := range readAlerts(t) {
		if r.Alert != "SteadyBreakerOpen" {
			continue
		}
		rule := newRule(t, r)
		for at := fourteen(0, 0); !at.After(fourteen(8, 0)); at = at.Add(scrapeInterval) {
			_, err := rule.Eval(t.Context(), 0, at, rules.EngineQueryFunc(engine, storage), nil, 0)
			require.NoError(t, err)
		}
		var firing []string
		for _, alert := range rule.ActiveAlerts() {
			if alert.State == rules.StateFiring {
				firing = append(firing, alert.Labels.Get("instance"))
			}
		}
		assert.Equal(t, []string{"b"}, firing)
		return
	}
	require.Fail(t, "there is no such alert")
}

func TestEveryAlertSaysWhatItIsAbout(t *testing.T) {
	for _, r := range readAlerts(t) {
		assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
		assert.NotEmpty(t, r.Annotations["description"], r.Alert)
		assert.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		assert.Positive(t, r.For, "%s must not fire for a moment's sake", r.Alert)
	}
}

func readAlerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	file, errs := rulefmt.ParseFile("../alerts.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	require.Len(t, file.Groups, 1)
	return file.Groups[0].Rules
}

func newRule(t *testing.T, r rulefmt.Rule) *rules.AlertingRule {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
	require.NoError(t, err)
	return rules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), 0, labels.FromMap(r.Labels), labels.FromMap(r.Annotations),
		labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
}
