package steadyhttp_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onMock is dependency on a mock clock.
func onMock(change ...func(*steady.DependencyConfig)) (steady.DependencyConfig, *clock.Mock) {
	mock := clock.NewMock()
	return dependency(append(change, func(cfg *steady.DependencyConfig) { cfg.Clock = mock })...), mock
}

func TestADateIsSoFarAwayAsTheDependencysClockSays(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var delay time.Duration
	cfg, mock := onMock(func(cfg *steady.DependencyConfig) {
		cfg.Hooks = &steady.Hooks{OnRetry: func(_ context.Context, d steady.RetryDelay) {
			delay = d.Delay
			cancel() // nobody moves the clock
		}}
	})
	tr := newTransport(t, steadyhttp.Config{Dependency: cfg, Base: base(func(*http.Request) (*http.Response, error) {
		resp := response(503, "")
		resp.Header.Set("Retry-After", mock.Now().Add(30*time.Second).UTC().Format(http.TimeFormat))
		return resp, nil
	})})
	require.ErrorIs(t, fail(t, tr.RoundTrip, get(t).WithContext(ctx)), context.Canceled)
	assert.Equal(t, 30*time.Second, delay)
}

func TestReadIdleIsMeasuredOnTheDependencysClock(t *testing.T) {
	cfg, mock := onMock()
	reading := make(chan bool)
	tr := newTransport(t, steadyhttp.Config{
		Dependency: cfg, Timeouts: steadyhttp.Timeouts{ReadIdle: time.Second},
		Base: base(func(req *http.Request) (*http.Response, error) {
			resp := response(200, "")
			resp.ContentLength = -1
			resp.Body = io.NopCloser(readerFunc(func([]byte) (int, error) {
				reading <- true
				<-req.Context().Done()
				return 0, req.Context().Err()
			}))
			return resp, nil
		}),
	})
	go func() {
		<-reading
		mock.Add(time.Second)
	}()
	_, err := io.ReadAll(open(t, tr, get(t)))
	require.ErrorIs(t, err, steady.ErrTimeout)
	assertFree(t, tr)
}
