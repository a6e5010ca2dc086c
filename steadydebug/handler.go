package steadydebug

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/steady-go/steady"
)

// HandlerConfig configures a [Handler].
type HandlerConfig struct {
	// Title heads the page: the service's name, say. Empty means "steady".
	Title string
	// Dependencies are shown from the beginning; Add shows further ones. No two may have the same name, nor
	// their breakers, for that is what tells transitions apart.
	Dependencies []*steady.Dependency
	// Breakers are shown too, each as a dependency of its own: those that belong to no Dependency.
	Breakers []*steady.Breaker
	// Dynamic returns the dependencies that come and go, such as one per host of an HTTP client. It is asked
	// once a second, on a goroutine of the handler, until Close, and must not block. Names that repeat are
	// shown as often as they are there, but share their reasons. A panic is logged to slog.Default, and what
	// it returned last stays. nil means that there are none.
	Dynamic func() []*steady.Dependency
}

// Handler serves the page, the snapshot and the stream; see the package's documentation for their
// addresses. It reads the Stats of every policy once a second, whether somebody watches or not, so that the
// page has the last two minutes when it is opened, on one goroutine that Close ends. Nothing is added to the
// path of a call. What it remembers takes about 2 KiB for each dependency.
//
// Whoever watches costs one goroutine, that of the request. A client that reads slowly misses readings, and
// is dropped when a write takes longer than ten seconds. The stream needs an http.ResponseWriter that can
// flush, through Unwrap if it is wrapped.
//
// A Stats may make a transition that is due, and so call the hooks of the breaker on the handler's
// goroutine. A panic in one is logged to slog.Default, and the page shows the reading before.
//
// A Handler may be used by any number of goroutines.
type Handler struct {
	title    string
	dynamic  func() []*steady.Dependency
	timeline timeline
	closed   chan struct{}
	close    sync.Once

	passing map[*steady.Dependency]*subject // those of dynamic; the sampler's own

	mu      sync.Mutex
	fixed   []*subject
	ids     uint64     // given out
	shown   []*subject // as of the last reading, which the fields below describe
	at      time.Time
	seq     uint64
	heard   uint64        // the last transition by then
	set     uint64        // changes when a snapshot is needed to follow
	next    chan struct{} // closed by the next reading
	encoded encoded
}

// NewHandler returns a Handler that has begun to read, or an error that names every entry of cfg that cannot
// be shown: a nil one, or one whose name is taken. Close ends it.
func NewHandler(cfg HandlerConfig) (*Handler, error) {
	h := &Handler{
		title:   cfg.Title,
		dynamic: cfg.Dynamic,
		closed:  make(chan struct{}),
		passing: make(map[*steady.Dependency]*subject),
		at:      time.Now(),
		next:    make(chan struct{}),
	}
	if h.title == "" {
		h.title = "steady"
	}
	subjects, errs := subjectsOf("HandlerConfig.Dependencies", cfg.Dependencies, ofDependency)
	breakers, more := subjectsOf("HandlerConfig.Breakers", cfg.Breakers, ofBreaker)
	if err := h.add(append(subjects, breakers...), append(errs, more...)); err != nil {
		return nil, err
	}
	go h.run()
	return h, nil
}

// Add shows further dependencies, from the next reading on. It adds all of them or, when one is nil or its
// name is taken, none, and returns an error that names each such.
func (h *Handler) Add(dependencies ...*steady.Dependency) error {
	subjects, errs := subjectsOf("Add", dependencies, ofDependency)
	return h.add(subjects, errs)
}

// AddBreaker is Add for breakers that belong to no Dependency.
func (h *Handler) AddBreaker(breakers ...*steady.Breaker) error {
	subjects, errs := subjectsOf("AddBreaker", breakers, ofBreaker)
	return h.add(subjects, errs)
}

func (h *Handler) add(subjects []*subject, errs []error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := make(map[string]bool)
	for _, s := range h.fixed {
		taken[s.name], taken[s.breakerName()] = true, true
	}
	for _, s := range subjects {
		if taken[s.name] || taken[s.breakerName()] {
			errs = append(errs, fmt.Errorf("steadydebug: %s: the name %q is taken: transitions are told apart by it; give each its own", s.entry, s.name))
		}
		taken[s.name], taken[s.breakerName()] = true, true
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, s := range subjects {
		h.ids++
		s.id = h.ids
	}
	h.fixed = append(h.fixed, subjects...)
	return nil
}

// Hooks returns the hooks through which the page hears of transitions and their reasons. Join them, with
// [steady.JoinHooks], into those of every breaker that is shown; without them the page has states, counts and
// latencies, but no reasons and no timeline. Only OnTransition is set.
func (h *Handler) Hooks() *steady.Hooks {
	return &steady.Hooks{OnTransition: h.timeline.add}
}

// Close stops the reading and ends every stream; requests are answered with 503 from then on. It does not
// wait for a reading under way. A server's Shutdown waits for streams, so call Close before it, or have it
// called by RegisterOnShutdown. Further calls do nothing.
func (h *Handler) Close() {
	h.close.Do(func() { close(h.closed) })
}

// ServeHTTP answers with the page, the snapshot or the stream.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", page.policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD: this page changes nothing", http.StatusMethodNotAllowed)
		return
	}
	select {
	case <-h.closed:
		http.Error(w, "closed", http.StatusServiceUnavailable)
		return
	default:
	}
	switch format := r.URL.Query().Get("format"); format {
	case "":
		header.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page.html)
	case "json":
		header.Set("Content-Type", "application/json")
		_, _ = w.Write(h.snapshot())
	case "events":
		h.stream(w, r)
	default:
		http.Error(w, "format must be json or events, or left out for the page", http.StatusBadRequest)
	}
}
