package main

// The system has recovered when for so many seconds it was not overloaded, and answered this share of the
// calls that it answers in as much time when calm.
const (
	steadySeconds = 5
	steadyShare   = 0.9
)

// measures are what a result comes to.
type measures struct {
	answered   int     // calls, in all
	failedCalm float64 // the share of calls that failed before the server did
	perCall    float64 // requests at the server for a call
	wasted     float64 // the share of work that nobody waited for
	overloaded int     // seconds
	recovery   int     // seconds from the end of the failure to the first steady ones; negative if there are none
}

func (res result) measure(sc *scenario) (m measures) {
	fails, well, _ := sc.seconds()
	var all, calm second
	for i, s := range res.seconds {
		all.add(s)
		if i < fails {
			calm.add(s)
		}
		if s.overloaded(sc) {
			m.overloaded++
		}
	}
	m.answered = all.answered
	m.failedCalm = share(calm.failed, calm.answered+calm.failed)
	m.perCall = share(all.arrivals, all.answered+all.failed)
	m.wasted = share(res.wasted, res.served)
	m.recovery = -1
	usual := share(calm.answered, fails) // a second
	for i := well; i+steadySeconds <= len(res.seconds); i++ {
		if steadyFrom(res.seconds[i:i+steadySeconds], sc, usual) {
			m.recovery = i - well
			break
		}
	}
	return m
}

func (s *second) add(other second) {
	s.arrivals += other.arrivals
	s.answered += other.answered
	s.failed += other.failed
}

func (s second) overloaded(sc *scenario) bool {
	return float64(s.arrivals) > sc.capacity() || s.backlog > 0
}

// steadyFrom reports whether the seconds are without overload, with about as many answers as usual.
func steadyFrom(seconds []second, sc *scenario, usual float64) bool {
	var sum second
	for _, s := range seconds {
		if s.overloaded(sc) {
			return false
		}
		sum.add(s)
	}
	return float64(sum.answered) >= steadyShare*usual*float64(len(seconds))
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
