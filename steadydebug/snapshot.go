package steadydebug

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/steady-go/steady"
)

// These are the shapes that the package's documentation describes.
type (
	snapshot struct {
		Schema       int          `json:"schema"`
		Title        string       `json:"title"`
		At           moment       `json:"at"`
		Sequence     uint64       `json:"sequence"`
		Interval     millis       `json:"intervalMs"`
		Dependencies []dependency `json:"dependencies"`
		Transitions  []transition `json:"transitions"`
	}
	dependency struct {
		ID   uint64 `json:"id"`
		Name string `json:"name"`
		current
		History series    `json:"history"`
		Config  []setting `json:"config"`
	}
	update struct {
		At           moment            `json:"at"`
		Sequence     uint64            `json:"sequence"`
		Dependencies []json.RawMessage `json:"dependencies"`
		Transitions  []transition      `json:"transitions"`
	}
	dependencyUpdate struct {
		ID uint64 `json:"id"`
		current
	}
	// current is what an update tells of a dependency.
	current struct {
		Breaker  *breaker  `json:"breaker"`
		Bulkhead *bulkhead `json:"bulkhead"`
		Retry    *retry    `json:"retry"`
		Budget   *budget   `json:"budget"`
		Timeouts *timeouts `json:"timeouts"`
		Latest   counts    `json:"latest"`
	}
	breaker struct {
		Name             string  `json:"name"`
		State            string  `json:"state"`
		Since            moment  `json:"since"`
		OpenUntil        moment  `json:"openUntil"`
		Why              string  `json:"why"`
		HooksJoined      bool    `json:"hooksJoined"`
		Shadow           bool    `json:"shadow"`
		Calls            int     `json:"calls"`
		Failed           int     `json:"failed"`
		Slow             int     `json:"slow"`
		Deciding         bool    `json:"deciding"`
		FailureRate      float64 `json:"failureRate"`
		SlowRate         float64 `json:"slowRate"`
		FailureRateLimit float64 `json:"failureRateLimit"`
		SlowRateLimit    float64 `json:"slowRateLimit"`
		MinCalls         int     `json:"minCalls"`
		InFlight         int     `json:"inFlight"`
		Overdue          int     `json:"overdue"`
		Rejected         uint64  `json:"rejected"`
		Transitions      uint64  `json:"transitions"`
		TimeOpen         millis  `json:"timeOpenMs"`
		P50              millis  `json:"p50Ms"`
		P99              millis  `json:"p99Ms"`
		SlowThreshold    millis  `json:"slowThresholdMs"`
		Headroom         float64 `json:"headroom"`
	}
	bulkhead struct {
		Limit    int    `json:"limit"`
		InFlight int    `json:"inFlight"`
		Waiting  int    `json:"waiting"`
		MaxQueue int    `json:"maxQueue"`
		Rejected uint64 `json:"rejected"`
	}
	retry struct {
		Calls               uint64 `json:"calls"`
		Retries             uint64 `json:"retries"`
		SucceededAfterRetry uint64 `json:"succeededAfterRetry"`
		Exhausted           uint64 `json:"exhausted"`
		BudgetDenied        uint64 `json:"budgetDenied"`
		DeadlineDenied      uint64 `json:"deadlineDenied"`
	}
	budget struct {
		Tokens float64 `json:"tokens"`
		Burst  int     `json:"burst"`
	}
	timeouts struct {
		Expired      uint64 `json:"expired"`
		AbandonedNow int    `json:"abandonedNow"`
	}
)

// moment is a time.Time in UTC with milliseconds, null when it is zero.
type moment time.Time

func (m moment) MarshalJSON() ([]byte, error) {
	if time.Time(m).IsZero() {
		return []byte("null"), nil
	}
	return time.Time(m).UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000Z"`), nil
}

// millis is a duration in milliseconds, to the microsecond.
type millis time.Duration

func (d millis) MarshalJSON() ([]byte, error) {
	us := time.Duration(d).Microseconds()
	return strconv.AppendFloat(nil, float64(us)/1000, 'f', -1, 64), nil
}

// encoded is what has been encoded of the last reading, once for everybody. It is guarded by the handler's
// lock.
type encoded struct {
	snapshot    []byte // nil when it has not been asked for
	snapshotSeq uint64

	update    []byte // nil when one has to start with a snapshot
	updateSeq uint64
	updateSet uint64
	heard     uint64            // the last transition told
	parts     map[uint64][]byte // of each dependency, by id
}

// snapshot returns the last reading as JSON.
func (h *Handler) snapshot() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.encodeSnapshot()
}

// encodeSnapshot encodes the last reading, unless that has been done. h.mu must be held.
func (h *Handler) encodeSnapshot() []byte {
	e := &h.encoded
	if e.snapshot != nil && e.snapshotSeq == h.seq {
		return e.snapshot
	}
	s := snapshot{
		Schema:       1,
		Title:        h.title,
		At:           moment(h.at),
		Sequence:     h.seq,
		Interval:     millis(interval),
		Dependencies: make([]dependency, 0, len(h.shown)),
		Transitions:  h.timeline.between(0, h.heard),
	}
	for _, subject := range h.shown {
		s.Dependencies = append(s.Dependencies, dependency{
			ID:      subject.id,
			Name:    subject.name,
			current: subject.current(),
			History: subject.history.series(),
			Config:  settings(subject),
		})
	}
	e.snapshot, e.snapshotSeq = encode(s), h.seq
	return e.snapshot
}

// encodeUpdate encodes what has changed since the reading before, unless that has been done; nothing when
// that reading was not encoded, or does not have the same dependencies. h.mu must be held.
func (h *Handler) encodeUpdate() []byte {
	e := &h.encoded
	if e.parts != nil && e.updateSeq == h.seq {
		return e.update
	}
	follows := e.parts != nil && e.updateSeq == h.seq-1 && e.updateSet == h.set
	u := update{At: moment(h.at), Sequence: h.seq, Dependencies: []json.RawMessage{}, Transitions: h.timeline.between(e.heard, h.heard)}
	parts := make(map[uint64][]byte, len(h.shown))
	for _, s := range h.shown {
		part := encode(dependencyUpdate{ID: s.id, current: s.current()})
		parts[s.id] = part
		if !bytes.Equal(part, e.parts[s.id]) {
			u.Dependencies = append(u.Dependencies, part)
		}
	}
	e.parts, e.updateSeq, e.updateSet, e.heard, e.update = parts, h.seq, h.set, h.heard, nil
	if follows {
		e.update = encode(u)
	}
	return e.update
}

// encode encodes one of the shapes above, none of which can fail.
func encode(v any) []byte {
	return steady.Must(json.Marshal(v))
}

// current returns what the last reading says of a subject. The handler's lock must be held.
func (s *subject) current() current {
	c := current{Latest: s.history.latest()}
	if s.breaker != nil {
		c.Breaker = currentBreaker(s)
	}
	if s.bulkhead != nil {
		b := s.now.bulkhead
		c.Bulkhead = &bulkhead{b.MaxConcurrent, b.InFlight, b.Waiting, b.MaxQueue, b.Rejected}
	}
	if s.retry != nil {
		r := s.now.retry
		c.Retry = &retry{r.Calls, r.Retries, r.SucceededAfterRetry, r.Exhausted, r.BudgetDenied, r.DeadlineDenied}
	}
	if s.budget != nil {
		c.Budget = &budget{s.now.budget.Tokens, s.now.budget.Burst}
	}
	if s.timeout != nil || s.attempt != nil {
		c.Timeouts = &timeouts{s.now.expired, s.now.abandonedNow}
	}
	return c
}

func currentBreaker(s *subject) *breaker {
	stats, cfg, last := s.now.breaker, s.breaker.Config(), s.now.last
	return &breaker{
		Name:             stats.Name,
		State:            stats.State.String(),
		Since:            moment(stats.Since),
		OpenUntil:        moment(stats.OpenUntil),
		Why:              whyNow(stats.State, last),
		HooksJoined:      stats.Transitions == 0 || last.Sequence > 0,
		Shadow:           cfg.Shadow,
		Calls:            stats.Calls,
		Failed:           stats.Failures,
		Slow:             stats.Slow,
		Deciding:         stats.Deciding,
		FailureRate:      stats.FailureRate,
		SlowRate:         stats.SlowRate,
		FailureRateLimit: cfg.FailureRate,
		SlowRateLimit:    cfg.SlowRate,
		MinCalls:         cfg.MinCalls,
		InFlight:         stats.InFlight,
		Overdue:          stats.Overdue,
		Rejected:         stats.Rejected,
		Transitions:      stats.Transitions,
		TimeOpen:         millis(stats.TimeOpen),
		P50:              millis(stats.LatencyP50),
		P99:              millis(stats.LatencyP99),
		SlowThreshold:    millis(cfg.SlowThreshold),
		Headroom:         stats.Headroom,
	}
}

// whyNow returns why a breaker is in its state, as far as that has been heard: a reading may come between a
// transition and the call of its hook.
func whyNow(state steady.State, last transition) string {
	switch {
	case last.To == state.String():
		return last.Why
	case state == steady.StateHalfOpen && last.To == steady.StateOpen.String():
		return "open period elapsed; the next call will be the first probe"
	default:
		return ""
	}
}
