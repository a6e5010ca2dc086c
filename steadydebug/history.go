package steadydebug

// historySize is how many seconds the page looks back.
const historySize = 120

// counts is what became of the calls of a second.
type counts struct {
	Answered uint32 `json:"answered"`
	Slow     uint32 `json:"slow"` // reached the threshold, and may still run
	Failed   uint32 `json:"failed"`
	Rejected uint32 `json:"rejected"`
}

// history is a ring of the last seconds.
type history struct {
	ring [historySize]counts
	n    int // recorded so far
}

func (h *history) record(c counts) {
	h.ring[h.n%historySize] = c
	h.n++
}

// latest returns the last second, zero if there is none yet.
func (h *history) latest() counts {
	return h.ring[(h.n+historySize-1)%historySize]
}

// series is a history as columns, oldest first, without leading zeros.
type series struct {
	Answered []uint32 `json:"answered"`
	Slow     []uint32 `json:"slow"`
	Failed   []uint32 `json:"failed"`
	Rejected []uint32 `json:"rejected"`
}

func (h *history) series() series {
	column := func(of func(*counts) uint32) []uint32 {
		values := []uint32{}
		for i := h.n; i < h.n+historySize; i++ {
			if v := of(&h.ring[i%historySize]); v > 0 || len(values) > 0 {
				values = append(values, v)
			}
		}
		return values
	}
	return series{
		Answered: column(func(c *counts) uint32 { return c.Answered }),
		Slow:     column(func(c *counts) uint32 { return c.Slow }),
		Failed:   column(func(c *counts) uint32 { return c.Failed }),
		Rejected: column(func(c *counts) uint32 { return c.Rejected }),
	}
}
