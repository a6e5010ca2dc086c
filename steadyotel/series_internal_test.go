package steadyotel

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEachSeriesIsMadeOnceByAnyNumberOfGoroutines(t *testing.T) {
	const keys, goroutines = 500, 8
	var made [keys]atomic.Int32
	s := series[int, *int]{make: func(k int) *int { made[k].Add(1); return &k }}
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range keys {
				k := (i*(2*g+1) + g) % keys
				first := s.of(k)
				assert.Equal(t, k, *first)
				assert.Same(t, first, s.of(k))
			}
		})
	}
	all.Wait()
	for k := range made {
		assert.Equal(t, int32(1), made[k].Load(), k)
	}
}

func TestSeriesWithoutEndDoNotFillTheMemory(t *testing.T) {
	s := series[int, int]{make: func(k int) int { return k }}
	for k := range 10 * maxSeries {
		assert.Equal(t, k, s.of(k))
	}
	assert.LessOrEqual(t, len(*s.known.Load())+len(s.recent), 2*maxSeries)
}
