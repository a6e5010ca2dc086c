package steadydebug

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/steady-go/steady"
)

// interval is the time between two readings.
const interval = time.Second

// run reads until Close.
func (h *Handler) run() {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		h.look()
		select {
		case <-ticker.C:
		case <-h.closed:
			return
		}
	}
}

// look makes a reading of everything. Stats are read without the handler's lock, for they may call hooks.
func (h *Handler) look() {
	subjects := h.subjects()
	breakers := make([]string, 0, len(subjects))
	for _, s := range subjects {
		breakers = append(breakers, s.breakerName())
	}
	h.timeline.watch(breakers)
	readings := make([]reading, len(subjects))
	oks := make([]bool, len(subjects))
	for i, s := range subjects {
		readings[i], oks[i] = s.look()
		readings[i].last = h.timeline.lastOf(s.breakerName())
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	changed := !slices.Equal(h.shown, subjects)
	for i, s := range subjects {
		if !oks[i] {
			readings[i] = s.now // history goes on, as it does for those who follow
		}
		if (oks[i] || s.read) && s.record(readings[i]) {
			changed = true
		}
	}
	if changed {
		h.set++
	}
	h.shown = subjects
	h.at = time.Now()
	h.heard = h.timeline.latest()
	h.seq++
	close(h.next)
	h.next = make(chan struct{})
}

// subjects returns what is to be shown now, in the order of its coming.
func (h *Handler) subjects() []*subject {
	passing, ok := h.ask()
	h.mu.Lock()
	defer h.mu.Unlock()
	subjects := slices.Clone(h.fixed)
	known := h.passing
	if !ok {
		passing = slices.Collect(maps.Keys(known))
	}
	h.passing = make(map[*steady.Dependency]*subject, len(passing))
	for _, d := range passing {
		if d == nil || h.passing[d] != nil {
			continue
		}
		s := known[d]
		if s == nil {
			s = ofDependency(d)
			h.ids++
			s.id = h.ids
		}
		h.passing[d] = s
		subjects = append(subjects, s)
	}
	slices.SortFunc(subjects, func(a, b *subject) int { return cmp.Compare(a.id, b.id) })
	return subjects
}

// ask returns the dependencies that come and go. It reports false when they cannot be had, for a panic.
func (h *Handler) ask() (dependencies []*steady.Dependency, ok bool) {
	if h.dynamic == nil {
		return nil, true
	}
	defer func() {
		if v := recover(); v != nil {
			slog.Error("steadydebug: HandlerConfig.Dynamic panicked", "panic", v)
		}
	}()
	return h.dynamic(), true
}
