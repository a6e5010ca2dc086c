package steadyotel

import (
	"maps"
	"sync"
	"sync/atomic"
)

// series keeps what is needed to record into a time series, made when that is first seen. Almost every lookup is one
// in a map that does not change, without a lock or an allocation; sync.Map would allocate for the key.
type series[K comparable, V any] struct {
	make  func(K) V
	known atomic.Pointer[map[K]V]

	mu     sync.Mutex
	recent map[K]V // not in known yet
	misses int     // lookups that were not answered by known, since it was made
}

// maxSeries is how many are kept before it starts anew, lest names and error types without end fill the memory. The
// SDK folds what exceeds 2000 series of an instrument into one by default.
const maxSeries = 1 << 14

func (s *series[K, V]) of(k K) V {
	if v, ok := s.lookup(k); ok {
		return v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.lookup(k); ok { // made known meanwhile
		return v
	}
	v, ok := s.recent[k]
	if !ok {
		v = s.make(k)
		if s.recent == nil {
			s.recent = make(map[K]V)
		}
		s.recent[k] = v
	}
	s.misses++
	s.merge()
	return v
}

func (s *series[K, V]) lookup(k K) (v V, ok bool) {
	if known := s.known.Load(); known != nil {
		v, ok = (*known)[k]
	}
	return v, ok
}

// merge makes the recent ones known, once the misses have earned what that takes. s.mu must be held.
func (s *series[K, V]) merge() {
	all := s.recent
	if known := s.known.Load(); known != nil {
		if s.misses <= len(*known)/4 {
			return
		}
		if len(*known) < maxSeries {
			all = maps.Clone(*known)
			maps.Copy(all, s.recent)
		}
	}
	s.known.Store(&all)
	s.recent, s.misses = nil, 0
}
