package steadydebug_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadydebug"
)

// The page comes first, for the dependencies report their transitions to it.
func ExampleNewHandler() {
	page := steady.Must(steadydebug.NewHandler(steadydebug.HandlerConfig{Title: "checkout"}))
	defer page.Close()
	catalog := steady.Must(steady.NewDependency(steady.DependencyConfig{
		Name:     "catalog",
		Timeout:  2 * time.Second,
		Breaker:  steady.BreakerConfig{SlowThreshold: 500 * time.Millisecond},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 20},
		Hooks:    steady.JoinHooks(steady.LogHooks(nil), page.Hooks()),
	}))
	fmt.Println(page.Add(catalog))
	// A second dependency of that name could not be told apart.
	fmt.Println(page.Add(catalog))
	// Output:
	// <nil>
	// steadydebug: Add[0]: the name "catalog" is taken: transitions are told apart by it; give each its own
}

// Mounted on an internal listener. Shutdown waits for open streams, so it is to close the page first.
func ExampleHandler() {
	page := steady.Must(steadydebug.NewHandler(steadydebug.HandlerConfig{}))
	mux := http.NewServeMux()
	mux.Handle("/debug/steady", page)
	internal := &http.Server{Addr: "127.0.0.1:6060", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	internal.RegisterOnShutdown(page.Close)

	for _, target := range []string{"/debug/steady", "/debug/steady?format=json"} {
		w := httptest.NewRecorder()
		internal.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	page.Close()
	// Output:
	// 200 text/html; charset=utf-8
	// 200 application/json
}

// A pool with a breaker for each of its members, which come and go.
func ExampleHandlerConfig() {
	primary := steady.Must(steady.NewBreaker(steady.BreakerConfig{Name: "primary", SlowThreshold: 50 * time.Millisecond}))
	replicas := func() []*steady.Dependency { return nil } // those that there are now
	page, err := steadydebug.NewHandler(steadydebug.HandlerConfig{
		Title:    "orders database",
		Breakers: []*steady.Breaker{primary, nil},
		Dynamic:  replicas,
	})
	fmt.Println(page == nil, err)
	// Output: true steadydebug: HandlerConfig.Breakers[1] must not be nil (leave it out)
}
