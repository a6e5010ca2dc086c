package steadyotel_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

func readObservability(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/observability.md")
	require.NoError(t, err)
	return string(page)
}

func readGolden(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return string(text)
}

// A row of the page's table: metric, Prometheus' name, instrument and unit, attributes.
var row = regexp.MustCompile("(?m)^\\| `(steady\\.[a-z0-9._]+)` \\| `(steady_[a-z0-9_]+)` \\| ([a-z -]+), (\\S+) \\| (.*) \\|$")

func TestThePagesTableIsWhatIsMeasuredAndScraped(t *testing.T) {
	reader := sdk.NewManualReader()
	o := &observed{t: t, reader: reader}
	got := make(map[string]string)
	synctest.Test(t, func(t *testing.T) {
		runIncident(t, sdk.NewMeterProvider(sdk.WithReader(reader)), func(time.Time) {
			m := o.collect()
			for name := range m {
				got[name], _, _ = strings.Cut(m.instrument(name), "]")
			}
		})
	})
	scraped := readGolden(t, "incident.load")
	rows := row.FindAllStringSubmatch(readObservability(t), -1)
	want := make(map[string]string)
	for _, r := range rows {
		attributes := strings.Split(strings.ReplaceAll(r[5], "`", ""), ", ")
		slices.Sort(attributes)
		want[r[1]] = r[3] + " " + r[4] + " [" + strings.Join(attributes, " ")
		assert.Regexp(t, `(?m)^  `+r[2]+`(_count)?\{`, scraped)
	}
	assert.Equal(t, want, got)
}

// What the page shows as printed was printed.
func TestThePageQuotesTheIncident(t *testing.T) {
	blocks := strings.Split(readObservability(t), "```")
	quoted := 0
	for _, block := range blocks {
		var source string
		switch {
		case strings.HasPrefix(block, "\nsteady_"):
			source = readGolden(t, "incident.prom")
		case strings.HasPrefix(block, "\ntime="):
			source = readGolden(t, "incident.log")
		default:
			continue
		}
		quoted++
		lines := strings.Split(source, "\n")
		for line := range strings.Lines(strings.TrimPrefix(block, "\n")) {
			assert.Contains(t, lines, strings.TrimSuffix(line, "\n"))
		}
	}
	assert.Equal(t, 2, quoted)
}
