package steady

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzWindow compares the window with a list of outcomes that is counted anew at every look. The list's time is a number.
func FuzzWindow(f *testing.F) {
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 2000 {
			t.Skip("long programs find nothing that shorter ones do not")
		}
		next := func() int {
			if len(program) == 0 {
				return 0
			}
			b := program[0]
			program = program[1:]
			return int(b)
		}
		type listed struct {
			at           int64
			failed, slow bool
		}
		size := 1 + next()%40
		age := int64(max(0, next()-64))
		base := int64(next()-128) << 50
		w := newWindow(size, time.Duration(age), instant(base))
		now := base + int64(next()-128)<<53
		var list, all []*listed
		refs := make(map[*listed]func(int64) bool)
		drop := func(at int64) {
			list = slices.DeleteFunc(list, func(o *listed) bool { return age > 0 && at-o.at > age })
		}
		for len(program) > 0 {
			switch op := next(); op % 8 {
			case 0, 1, 2, 3:
				at := now
				if op >= 128 { // another goroutine read the clock before, and came after
					at -= int64(next() % 16)
				}
				o := &listed{at: at, failed: op&16 != 0, slow: op&32 != 0}
				if len(all) > 0 { // no outcome is older than one before it
					o.at = max(at, all[len(all)-1].at)
				}
				drop(at)
				list = append(list, o)
				list = list[max(0, len(list)-size):]
				all = append(all, o)
				entry := w.record(instant(at), o.failed, o.slow)
				refs[o] = func(at int64) bool { return w.fail(instant(at), entry) }
			case 4:
				if len(all) > 0 {
					o := all[len(all)-1-next()%min(len(all), 2*size)]
					drop(now)
					require.Equal(t, slices.Contains(list, o), refs[o](now))
					o.failed = true
				}
			case 5:
				w.expire(instant(now))
				drop(now)
			case 6:
				now += int64(next())
			case 7:
				if op >= 224 {
					w.clear()
					list = nil
				} else {
					now += max(0, age+int64(op/8%3-1))
				}
			}
			var failures, slow int
			for _, o := range list {
				if o.failed {
					failures++
				}
				if o.slow {
					slow++
				}
			}
			require.Equal(t, []int{len(list), failures, slow}, []int{w.len(), w.failures, w.slow})
		}
	})
}
