package steadyhttp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatAStatusMeans(t *testing.T) {
	want := map[int]steady.Outcome{
		408: steady.Transient, 429: steady.Throttled, 501: steady.Success, 505: steady.Success,
		500: steady.Transient, 502: steady.Transient, 503: steady.Transient, 504: steady.Transient,
		507: steady.Transient, 520: steady.Transient, 599: steady.Transient,
	}
	for status := 100; status < 500; status++ {
		if want[status] == 0 {
			want[status] = steady.Success
		}
	}
	for status, outcome := range want {
		assert.Equal(t, outcome, steadyhttp.Classify(&http.Response{StatusCode: status}, nil), "%d", status)
	}
}

func TestWhatAnErrorMeans(t *testing.T) {
	assert.Equal(t, steady.Transient, steadyhttp.Classify(nil, errBoom))
	assert.Equal(t, steady.Transient, steadyhttp.Classify(nil, context.DeadlineExceeded))
	assert.Equal(t, steady.Throttled, steadyhttp.Classify(nil, steady.Mark(errBoom, steady.Throttled)))
	assert.Equal(t, steady.Transient, steadyhttp.Classify(&http.Response{StatusCode: http.StatusOK}, errBoom), "a body that failed")
}

func TestWhatTLSRefusesIsPermanent(t *testing.T) {
	once := func(t *testing.T, url string, b *http.Transport) {
		cfg, seen := observed()
		tr := newTransport(t, steadyhttp.Config{Base: b, Dependency: cfg})
		err := fail(t, tr.RoundTrip, request(t, http.MethodGet, url, nil))
		require.Error(t, err)
		assert.Equal(t, []steady.Outcome{steady.Permanent}, seen.outcomes(), "%v", err)
		assert.Equal(t, 1, failures(tr))
		assertFree(t, tr)
	}
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run("the server's certificate, "+tls.VersionName(version), func(t *testing.T) {
			s, b := serve(t, h, (*httptest.Server).StartTLS)
			b.TLSClientConfig = &tls.Config{MaxVersion: version}
			once(t, s.URL, b)
		})
	}
	t.Run("the name in it", func(t *testing.T) {
		s, b := serve(t, h, (*httptest.Server).StartTLS)
		b.TLSClientConfig.ServerName = "elsewhere.test"
		once(t, s.URL, b)
	})
	t.Run("what a verification of one's own finds", func(t *testing.T) {
		s, b := serve(t, h, (*httptest.Server).StartTLS)
		trusted := b.TLSClientConfig.RootCAs
		for want, opts := range map[string]x509.VerifyOptions{
			"unknown authority": {Roots: x509.NewCertPool()},
			"not elsewhere":     {Roots: trusted, DNSName: "elsewhere.test"},
			"has expired":       {Roots: trusted, CurrentTime: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)},
		} {
			b := b.Clone()
			b.TLSClientConfig.InsecureSkipVerify = true
			b.TLSClientConfig.VerifyConnection = func(state tls.ConnectionState) error {
				_, err := state.PeerCertificates[0].Verify(opts)
				assert.ErrorContains(t, err, want)
				return err
			}
			once(t, s.URL, b)
		}
	})
	t.Run("ours", func(t *testing.T) {
		s, b := serve(t, h, func(s *httptest.Server) {
			s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: tls.VersionTLS12}
			s.StartTLS()
		})
		b.TLSClientConfig.Certificates = s.TLS.Certificates // which nobody has signed for a client
		once(t, s.URL, b)
	})
	t.Run("all of it", func(t *testing.T) {
		s, b := serve(t, h, (*httptest.Server).Start)
		url := strings.Replace(s.URL, "http:", "https:", 1)
		once(t, url, b)
		client := &http.Client{Transport: newTransport(t, steadyhttp.Config{Base: b})}
		err := fail(t, client.Do, request(t, http.MethodGet, url, nil))
		require.ErrorIs(t, err, http.ErrSchemeMismatch, "http.Client's own words for it")
	})
}

func TestTheCallersClassificationComesFirst(t *testing.T) {
	cfg, seen := observed()
	cfg.Classify = func(err error) steady.Outcome {
		if err == errBoom { //nolint:errorlint // the test's own
			return steady.Permanent
		}
		return 0
	}
	n := 0
	tr := newTransport(t, steadyhttp.Config{
		Dependency: cfg,
		Base: base(func(*http.Request) (*http.Response, error) {
			switch n++; n {
			case 1:
				return response(404, ""), nil
			case 2:
				return nil, errBoom
			case 4:
				return nil, steady.Mark(errBoom, steady.Throttled)
			default:
				return response(200, ""), nil
			}
		}),
		Classify: func(resp *http.Response, _ error) steady.Outcome {
			if resp != nil && resp.StatusCode == http.StatusNotFound {
				return steady.Transient // an index that has not caught up
			}
			return 0
		},
	})
	err := fail(t, tr.RoundTrip, get(t))
	require.ErrorIs(t, err, errBoom)
	do(t, tr.RoundTrip, get(t))
	do(t, tr.RoundTrip, get(t))
	assert.Equal(t, []steady.Outcome{
		steady.Transient, steady.Permanent, // the Transport's, the Dependency's
		steady.Success, steady.Throttled, steady.Success, // the default
	}, seen.outcomes())
}

func TestAClassificationHearsOfABodyThatFails(t *testing.T) {
	b, _ := streaming(failing())
	type heard struct {
		resp bool
		err  error
	}
	var all []heard
	tr := newTransport(t, steadyhttp.Config{Base: b, Classify: func(resp *http.Response, err error) steady.Outcome {
		all = append(all, heard{resp != nil, err})
		return steady.Success
	}})
	body := open(t, tr, get(t))
	_, err := body.Read(make([]byte, 10))
	require.NoError(t, err)
	_, err = body.Read(make([]byte, 10))
	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, []heard{{true, nil}, {true, errBoom}}, all)
	assert.Zero(t, failures(tr))
}

func TestRetryAfterIsTheFloorOfTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		now := time.Now()
		in := func(d time.Duration, form string) string { return now.Add(d).UTC().Format(form) }
		const rfc850 = "Monday, 02-Jan-06 15:04:05 GMT"
		for _, c := range []struct {
			status int
			value  string
			want   time.Duration
		}{
			{429, "", 0},
			{429, "0", 0},
			{429, "2", 2 * time.Second},
			{503, "120", 2 * time.Minute},
			{503, "007", 7 * time.Second},
			{500, "2", 0},
			{502, "2", 0},
			{503, "-2", 0},
			{503, "+2", 0},
			{503, "1.5", 0},
			{503, "1e3", 0},
			{503, "2 s", 0},
			{503, "soon", 0},
			{503, "31536000", 365 * day},
			{503, "9223372037", 0},
			{503, "18446744074", 0}, // 290 ms too many for 64 bits
			{503, "9223372036854775807", 0},
			{503, "9223372036854775808", 0},
			{503, "99999999999999999999999999", 0},
			{429, in(90*time.Second, http.TimeFormat), 90 * time.Second},
			{503, in(90*time.Second, rfc850), 90 * time.Second},
			{503, in(90*time.Second, time.ANSIC), 90 * time.Second},
			{503, in(-time.Hour, http.TimeFormat), 0},
			{503, in(-time.Hour, rfc850), 0},
			{503, in(-time.Hour, time.ANSIC), 0},
			{503, "Mon, 01 Jan 9999 00:00:00 GMT", 0},
			{503, "Mon, 32 Jan 2001 00:00:00 GMT", 0},
			{503, "2001-01-01T00:00:00Z", 0},
		} {
			now = time.Now()
			value := c.value
			if c.want == 90*time.Second { // the bubble's time has gone on
				for _, form := range []string{http.TimeFormat, rfc850, time.ANSIC} {
					if _, err := time.Parse(form, value); err == nil {
						value = in(90*time.Second, form)
						break
					}
				}
			}
			var delays []time.Duration
			n := 0
			tr := newTransport(t, steadyhttp.Config{
				Base: base(func(*http.Request) (*http.Response, error) {
					if n++; n > 1 {
						return response(200, ""), nil
					}
					resp := response(c.status, "")
					if value != "" {
						resp.Header.Set("Retry-After", value)
					}
					return resp, nil
				}),
				Dependency: dependency(func(cfg *steady.DependencyConfig) {
					cfg.Timeout, cfg.NoTimeout = 0, true
					cfg.Hooks = &steady.Hooks{OnRetry: func(_ context.Context, d steady.RetryDelay) { delays = append(delays, d.Delay) }}
				}),
			})
			start := time.Now()
			do(t, tr.RoundTrip, get(t))
			assert.Equal(t, []time.Duration{c.want}, delays, "%d %q", c.status, value)
			assert.Equal(t, c.want, time.Since(start), "%d %q", c.status, value)
		}
	})
}

func TestAWaitThatTheDeadlineWouldCutOffIsNotWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		tr := newTransport(t, steadyhttp.Config{Base: base(func(*http.Request) (*http.Response, error) {
			resp := response(503, "in an hour")
			resp.Header.Set("Retry-After", "3600")
			return resp, nil
		})})
		resp := do(t, tr.RoundTrip, get(t))
		assert.Equal(t, "in an hour", resp.content)
		assert.Zero(t, time.Since(start))
		assert.EqualValues(t, 1, tr.Dependency("").Retry().Stats().DeadlineDenied)
	})
}

func TestTheBreakerHearsTheSameOfAnyNumberOfCalls(t *testing.T) {
	tr := newTransport(t, steadyhttp.Config{Base: always(404, "no such thing")})
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			resp, err := tr.RoundTrip(get(t))
			if assert.NoError(t, err) {
				_ = resp.Body.Close()
			}
		})
	}
	wg.Wait()
	assert.Zero(t, failures(tr), "a wrong question must not close the counter for everybody")
	assertFree(t, tr)
}
