package steadyhttp

import (
	"context"
	"net/http"

	"github.com/steady-go/steady"
)

// keyHeader names the request header of draft-ietf-httpapi-idempotency-key-header: a server that knows it does a
// request once, however often it gets it.
const keyHeader = "Idempotency-Key"

type intentKey struct{}

// WithIntent returns a context whose requests have the given intent, whatever their method: a POST that only searches,
// a GET that counts. It says what this package may repeat. net/http goes by method and header when it repeats a request
// of its own accord, on a connection that the server had closed.
func WithIntent(ctx context.Context, intent steady.Intent) context.Context {
	return context.WithValue(ctx, intentKey{}, intent)
}

// intentOf says what a request may repeat, and whether that is only so because nobody said otherwise: it is then made
// repeatable by an Idempotency-Key.
func intentOf(req *http.Request) (intent steady.Intent, wantsKey bool) {
	if intent, ok := req.Context().Value(intentKey{}).(steady.Intent); ok {
		return intent, false
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return steady.ReadIdempotent, false
	case http.MethodPut, http.MethodDelete:
		return steady.WriteIdempotent, false
	}
	if req.Header.Get(keyHeader) != "" {
		return steady.WriteIdempotent, false
	}
	return steady.WriteNonIdempotent, true
}
