package steadydebug

import (
	"errors"
	"net/http"
	"time"
)

// writeTimeout is how long a client may take to read an event.
const writeTimeout = 10 * time.Second

// stream sends the readings until the client is gone, reads too slowly, or the handler is closed. It always
// sends the last reading there is; a client that was still busy with an earlier one misses those between.
// It has no goroutine of its own, and the sampler does not know of it.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // a proxy must not collect events
	s := eventStream{w: w, control: http.NewResponseController(w)}
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := s.control.Flush(); err != nil { // sends the header
		if errors.Is(err, http.ErrNotSupported) {
			http.Error(w, "cannot stream: an http.ResponseWriter around the server's does not flush, and has no Unwrap", http.StatusNotImplemented)
		}
		return
	}
	if r.Method == http.MethodHead {
		return
	}
	for {
		event, next := h.event(&s)
		if err := s.send(event); err != nil {
			return
		}
		select {
		case <-next:
		case <-r.Context().Done():
			return
		case <-h.closed:
			return
		}
	}
}

// eventStream is one client.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sent    bool
	seq     uint64 // of the last reading sent
}

// event is a server-sent event. Its data is JSON, which has no line breaks.
type event struct {
	name string
	data []byte // shared by all clients
}

// event returns the next event for a client, and what tells that there is another.
func (h *Handler) event(s *eventStream) (e event, next <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e = event{"update", h.encodeUpdate()}
	if !s.sent || s.seq != h.seq-1 || e.data == nil {
		e = event{"snapshot", h.encodeSnapshot()}
	}
	s.sent, s.seq = true, h.seq
	return e, h.next
}

// send writes an event. A connection that cannot have a deadline has none.
func (s *eventStream) send(e event) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	for _, part := range [][]byte{[]byte("event: " + e.name + "\ndata: "), e.data, []byte("\n\n")} {
		if _, err := s.w.Write(part); err != nil {
			return err
		}
	}
	return s.control.Flush()
}
