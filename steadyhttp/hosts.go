package steadyhttp

import (
	"container/list"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/steady-go/steady"
)

// ErrTooManyHosts is the Reason of the RejectedError for a request to a host for which there is no room: there are
// Config.MaxHosts others, and each has a call or a breaker that is not closed. It matches steady.ErrBulkheadFull.
var ErrTooManyHosts error = tooManyHostsError{}

type tooManyHostsError struct{}

func (tooManyHostsError) Error() string { return "steadyhttp: too many hosts at once" }
func (tooManyHostsError) Unwrap() error { return steady.ErrBulkheadFull }

// hosts is the bounded set of hosts of a Transport with PerHost.
type hosts struct {
	limit int
	make  func(name string) (*host, error)

	mu     sync.Mutex
	byName map[string]*host
	idle   *list.List // of *host without calls, the longest unused first
	stuck  *list.List // of *host without calls that had to stay when room was sought, the longest not looked at first
}

// maxLooks is at how many of the stuck hosts one call looks again. A breaker closes by calls, which take its host from
// among them; what the caller does to it by other ways is found out by and by. Looking at all of them each time would
// make a rejection cost the more, the more hosts there are.
const maxLooks = 32

func newHosts(limit int, make func(name string) (*host, error)) *hosts {
	return &hosts{limit: limit, make: make, byName: map[string]*host{}, idle: list.New(), stuck: list.New()}
}

// hostName returns the name of a URL's host: in lower case, without the scheme's own port.
func hostName(u *url.URL) string {
	name := strings.ToLower(u.Host)
	switch u.Scheme {
	case "http":
		name = strings.TrimSuffix(name, ":80")
	case "https":
		name = strings.TrimSuffix(name, ":443")
	}
	return strings.TrimSuffix(name, ":")
}

// enter begins a call of a host; leave ends it.
func (s *hosts) enter(name string) (*host, error) {
	if name == "" {
		return nil, errors.New("steadyhttp: the request's URL has no host")
	}
	if h := s.use(name, nil); h != nil {
		return h, nil
	}
	fresh, err := s.make(name) // runs code of the caller's, so without the lock
	if err != nil {
		return nil, fmt.Errorf("steadyhttp: Config.PerHost(%q): %w", name, err)
	}
	for {
		if h := s.use(name, fresh); h != nil {
			return h, nil
		}
		if !s.makeRoom() {
			return nil, &steady.RejectedError{Policy: "MaxHosts", Reason: ErrTooManyHosts}
		}
	}
}

// use begins a call of the host with the name, or of fresh if there is none but room for it.
func (s *hosts) use(name string, fresh *host) *host {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.byName[name]
	if h == nil {
		if fresh == nil || len(s.byName) >= s.limit {
			return nil
		}
		h = fresh
		s.byName[name] = h
	}
	s.takeOut(h)
	h.calls++
	h.uses++
	return h
}

// takeOut takes a host from among those without calls, if it is there; s.mu must be held.
func (s *hosts) takeOut(h *host) {
	if h.place != nil {
		s.idle.Remove(h.place) // does nothing for one in the other list
		s.stuck.Remove(h.place)
		h.place = nil
	}
}

func (s *hosts) leave(h *host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.calls--; h.calls == 0 {
		h.place = s.idle.PushBack(h)
	}
}

// makeRoom forgets one host, and reports whether there may be room then. A breaker that is asked for its state may run
// hooks, so it is asked without the lock.
func (s *hosts) makeRoom() bool {
	looks := 0
	for {
		h, uses, again := s.candidate(looks)
		if h == nil {
			return s.hasRoom()
		}
		if again {
			looks++
		}
		if s.forget(h, uses, h.forgettable()) {
			return true
		}
	}
}

func (s *hosts) hasRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byName) < s.limit
}

// candidate returns a host without calls, if there is one that may make room, how often it has been used, and whether it
// is one of the stuck ones, of which so many have been looked at again.
func (s *hosts) candidate(looks int) (h *host, uses uint64, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.idle.Front()
	if first == nil && looks < min(maxLooks, s.stuck.Len()) {
		first, again = s.stuck.Front(), true
	}
	if first == nil {
		return nil, 0, false
	}
	h = first.Value.(*host)
	return h, h.uses, again
}

// forget forgets a host that was found to be forgettable, unless it has been used since. One that has to stay is stuck.
func (s *hosts) forget(h *host, uses uint64, forgettable bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.place == nil || h.uses != uses {
		return false
	}
	s.takeOut(h)
	if !forgettable {
		h.place = s.stuck.PushBack(h)
		return false
	}
	delete(s.byName, h.name)
	return true
}

func (s *hosts) dependency(name string) *steady.Dependency {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.byName[name]; h != nil {
		return h.dependency
	}
	return nil
}

func (s *hosts) dependencies() []*steady.Dependency {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*steady.Dependency, 0, len(s.byName))
	for _, h := range s.byName {
		all = append(all, h.dependency)
	}
	return all
}
