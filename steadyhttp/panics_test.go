package steadyhttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A panic in the caller's code goes on in the caller, and leaves nothing behind: no body open, no context alive, no slot
// and no place among the hosts taken.
func TestAPanicOfTheCallersCodeLeavesNothingBehind(t *testing.T) {
	for name, arrange := range map[string]func(*steadyhttp.Config, *steady.DependencyConfig){
		"Config.Classify": func(cfg *steadyhttp.Config, _ *steady.DependencyConfig) {
			cfg.Classify = func(*http.Response, error) steady.Outcome { panic(errBoom) }
		},
		"Dependency.Classify": func(_ *steadyhttp.Config, d *steady.DependencyConfig) {
			d.Classify = func(error) steady.Outcome { panic(errBoom) } // hears of the body
		},
		"PerHost": func(cfg *steadyhttp.Config, _ *steady.DependencyConfig) {
			cfg.PerHost = func(string) steady.DependencyConfig { panic(errBoom) }
		},
		"IdempotencyKey": func(cfg *steadyhttp.Config, _ *steady.DependencyConfig) {
			cfg.IdempotencyKey = func() string { panic(errBoom) }
		},
		"GetBody": nil,
		"OnAttempt": func(_ *steadyhttp.Config, d *steady.DependencyConfig) {
			d.Hooks = &steady.Hooks{OnAttempt: func(context.Context, steady.Attempt) { panic(errBoom) }}
		},
		"OnRetry": func(_ *steadyhttp.Config, d *steady.DependencyConfig) {
			d.Hooks = &steady.Hooks{OnRetry: func(context.Context, steady.RetryDelay) { panic(errBoom) }}
		},
		"OnTransition": func(_ *steadyhttp.Config, d *steady.DependencyConfig) {
			d.Breaker.WindowSize, d.Breaker.MinCalls = 1, 1
			d.Hooks = &steady.Hooks{OnTransition: func(tr steady.Transition) {
				if tr.Reason != steady.ReasonManual {
					panic(errBoom)
				}
			}}
		},
		"OnDone": func(_ *steadyhttp.Config, d *steady.DependencyConfig) {
			d.Hooks = &steady.Hooks{OnDone: func(context.Context, steady.Completion) { panic(errBoom) }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var received []*receivable
			var contexts []context.Context
			cfg := steadyhttp.Config{MaxHosts: 1, Base: base(func(req *http.Request) (*http.Response, error) {
				consume(req)
				contexts = append(contexts, req.Context())
				body := &receivable{Reader: failing()}
				received = append(received, body)
				return &http.Response{StatusCode: http.StatusServiceUnavailable, ContentLength: -1, Body: body}, nil
			})}
			d := dependency()
			cfg.PerHost = func(string) steady.DependencyConfig { return d }
			if arrange != nil {
				arrange(&cfg, &d)
			}
			tr := newTransport(t, cfg)
			sent := &sendable{Reader: strings.NewReader("x")}
			req := request(t, http.MethodPut, "http://a/", sent)
			if name == "IdempotencyKey" {
				req.Method = http.MethodPost
			}
			req.GetBody = func() (io.ReadCloser, error) {
				if arrange == nil {
					panic(errBoom)
				}
				return io.NopCloser(strings.NewReader("x")), nil
			}
			assert.PanicsWithValue(t, errBoom, func() {
				resp, err := tr.RoundTrip(req)
				if err == nil {
					defer func() { _ = resp.Body.Close() }()
					_, _ = io.ReadAll(resp.Body)
				}
			})
			assert.EqualValues(t, 1, sent.closed.Load(), "of the request")
			for _, body := range received {
				assert.NotZero(t, body.closed.Load(), "of a response")
			}
			for _, ctx := range contexts {
				require.Error(t, ctx.Err(), "of an attempt")
			}
			assertFree(t, tr)
			if known := tr.Dependency("a"); known != nil {
				known.Breaker().Reset("the host may be forgotten")
			}
			func() {
				defer func() { _ = recover() }()
				require.NotErrorIs(t, ask(t, tr, "b"), steadyhttp.ErrTooManyHosts)
			}()
		})
	}
}
