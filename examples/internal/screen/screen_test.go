package screen_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/examples/internal/screen"
)

func TestLinesOfManyGoroutinesStayWhole(t *testing.T) {
	var out bytes.Buffer
	s := screen.New(&out)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { s.Printf("%s\n", "a line") })
	}
	all.Wait()
	assert.Equal(t, strings.Repeat("a line\n", 100), out.String())
}

func TestALogLineHasSecondsAndNoMoreThanIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := screen.New(&out).Logger(time.Now())
		time.Sleep(1500 * time.Millisecond)
		steady.LogHooks(logger).OnTimeout(t.Context(), steady.Expiry{Policy: "prices", Limit: 1234567 * time.Microsecond})
		assert.Equal(t, "time=1.5s level=WARN msg=\"call timed out\" steady.timeout.name=prices limit=1.235s\n", out.String())
	})
}
