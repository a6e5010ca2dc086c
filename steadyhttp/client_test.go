package steadyhttp_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each step of a redirect is a call of its own, and leaves before the next begins.
func TestAClientFollowsRedirectsWithBodyAndCookies(t *testing.T) {
	var asked sync.Map
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		if _, again := asked.LoadOrStore(r.URL.Path, true); !again {
			http.SetCookie(w, &http.Cookie{Name: "of-a-response-that-nobody-got", Value: "1"})
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		switch r.URL.Path {
		case "/307":
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "7"})
			http.Redirect(w, r, "/308", http.StatusTemporaryRedirect)
		case "/308":
			http.Redirect(w, r, "/end", http.StatusPermanentRedirect)
		default:
			fmt.Fprint(w, r.Method, " ", string(content), " ", r.Cookies())
		}
	})
	overEachProtocol(t, h, func(t *testing.T, url string, b *http.Transport) {
		asked.Clear()
		made := connections(b)
		tr := newTransport(t, steadyhttp.Config{Base: b, Dependency: dependency(func(cfg *steady.DependencyConfig) {
			cfg.Bulkhead.MaxConcurrent, cfg.Breaker.HalfOpenProbes = 1, 1
		})})
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		client := &http.Client{Transport: tr, Jar: jar}
		got := do(t, client.Do, request(t, http.MethodPut, url+"/307", strings.NewReader("body")))
		assert.Equal(t, "PUT body [session=7]", got.content)
		assert.EqualValues(t, 1, made.Load())
		assertFree(t, tr)

		got = do(t, client.Do, request(t, http.MethodPut, url+"/307", onlyReader{strings.NewReader("body")}))
		assert.Equal(t, http.StatusTemporaryRedirect, got.status, "a body that cannot be had again is not sent on")
		assertFree(t, tr)
	})
}

// Callers that know only package net ask an error whether it is a timeout.
func TestAnHTTPClientKnowsATimeoutForOne(t *testing.T) {
	stuck := base(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})
	limits := steadyhttp.Timeouts{Attempt: 10 * time.Millisecond}
	for name, c := range map[string]struct {
		base http.RoundTripper
		want bool
	}{
		"each attempt took too long": {stuck, true},
		"each attempt failed":        {base(func(*http.Request) (*http.Response, error) { return nil, errBoom }), false},
	} {
		tr := newTransport(t, steadyhttp.Config{Base: c.base, Timeouts: limits, Dependency: dependency(func(cfg *steady.DependencyConfig) {
			cfg.Breaker.SlowThreshold = time.Millisecond
		})})
		err := fail(t, (&http.Client{Transport: tr}).Do, get(t))
		require.ErrorIs(t, err, steady.ErrRetriesExhausted, name)
		var asked net.Error
		require.ErrorAs(t, err, &asked, name)
		assert.Equal(t, c.want, asked.Timeout(), name)
	}
}
