// Package screen is where the examples print: what happens, and what steady.LogHooks says of it.
package screen

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Screen lets several goroutines write at once.
type Screen struct {
	mu sync.Mutex
	w  io.Writer
}

// New returns a Screen that writes to w.
func New(w io.Writer) *Screen { return &Screen{w: w} }

// Write implements io.Writer.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// Printf writes as fmt.Printf does.
func (s *Screen) Printf(format string, args ...any) { _, _ = fmt.Fprintf(s, format, args...) }

// Logger writes what a reader of a show wants to see: seconds since its beginning in place of the date, milliseconds at the
// finest, and nothing that the message and its detail say anyhow.
func (s *Screen) Logger(began time.Time) *slog.Logger {
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey:
				return slog.String(slog.TimeKey, fmt.Sprintf("%.1fs", time.Since(began).Seconds()))
			case "at", "calls", "failed", "slow", "abandoned", "steady.breaker.from", "steady.breaker.to", "steady.breaker.reason":
				return slog.Attr{}
			}
			if a.Value.Kind() == slog.KindDuration {
				return slog.Duration(a.Key, a.Value.Duration().Round(time.Millisecond))
			}
			return a
		},
	}))
}
