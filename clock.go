package steady

import (
	"context"
	"math"
	"reflect"
	"sync"
	"time"

	"github.com/benbjohnson/clock"
)

// Clock is where a policy takes its time from: [github.com/benbjohnson/clock.Clock]. A nil Clock in a
// config means the system clock. Tests inject clock.NewMock(), or run on the system clock inside a
// testing/synctest bubble. A clock of one's own may show any time within 290 years of the real one.
type Clock = clock.Clock

// instant is a moment as a policy sees it: nanoseconds since origin, monotonic on the system clock. It may
// be negative (a synctest bubble starts before origin), so no value of it means "none".
type instant int64

// never is a moment that does not come.
const never = instant(math.MaxInt64)

// origin is the moment that instants are counted from. Reading the time since a fixed moment needs the
// monotonic clock alone, and costs about half of reading the time of day.
var origin = time.Now()

// add returns t+d, and never if that is past the end of time.
func (t instant) add(d time.Duration) instant {
	if d > 0 && t > never-instant(d) {
		return never
	}
	return t + instant(d)
}

// since returns how long after u the instant t is.
func (t instant) since(u instant) time.Duration { return time.Duration(t - u) }

// timekeeper reads a Clock. The zero value reads the system clock.
type timekeeper struct {
	clock Clock // nil for the system clock
}

// newTimekeeper returns the timekeeper of c. A nil c and clock.New() are both the system clock.
func newTimekeeper(c Clock) timekeeper {
	if isSystem(c) {
		return timekeeper{}
	}
	return timekeeper{clock: c}
}

// isSystem reports whether c is the system clock: nil, or any that clock.New made, told by its type.
func isSystem(c Clock) bool {
	return c == nil || reflect.TypeOf(c) == reflect.TypeOf(systemClock)
}

// sameClock reports whether a and b are one clock. Clocks that Go cannot compare are never the same.
func sameClock(a, b Clock) bool {
	if isSystem(a) || isSystem(b) {
		return isSystem(a) && isSystem(b)
	}
	va := reflect.ValueOf(a)
	return va.Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// now reads the clock.
func (k timekeeper) now() instant {
	if k.clock == nil {
		return instant(time.Since(origin))
	}
	return instant(k.clock.Now().Sub(origin))
}

// wall is a reading of a clock by which instants are turned into times of day: the distance to it is monotonic, and the
// result is on the time of day that people see now.
type wall struct {
	now time.Time
	at  instant // the same moment
}

func (k timekeeper) wall() wall {
	now := k.wallNow()
	return wall{now, instant(now.Sub(origin))}
}

// of returns the time of day of an instant.
func (w wall) of(i instant) time.Time { return w.now.Add(i.since(w.at)) }

func (k timekeeper) wallNow() time.Time {
	if k.clock == nil {
		return time.Now()
	}
	return k.clock.Now()
}

// timer returns a timer of the clock. Its owner stops it.
func (k timekeeper) timer(d time.Duration) *clock.Timer {
	if k.clock == nil {
		return systemClock.Timer(d)
	}
	return k.clock.Timer(d)
}

var systemClock = clock.New()

// withDeadline returns a child of parent that ends, with context.DeadlineExceeded, at the given time of
// the clock. The cancel function releases its timer and must be called.
//
// The mock clock's own WithTimeout will not do: the Err of its context is a data race, and it drops the
// cause of a cancelled parent.
func (k timekeeper) withDeadline(parent context.Context, at time.Time) (context.Context, context.CancelFunc) {
	if k.clock == nil {
		return context.WithDeadline(parent, at)
	}
	d := &clockDeadline{Context: parent, at: at, done: make(chan struct{})}
	left := at.Sub(k.clock.Now())
	timer := k.clock.AfterFunc(left, func() { d.end(context.DeadlineExceeded) })
	if err := parent.Err(); err != nil { // not only when AfterFunc gets to it
		d.end(err)
	} else if left <= 0 {
		d.end(context.DeadlineExceeded)
	}
	unlink := context.AfterFunc(parent, func() { d.end(parent.Err()) })
	ctx, cancel := context.WithCancel(d)
	return clockContext{Context: ctx, deadline: d}, func() {
		timer.Stop()
		unlink()
		cancel()
	}
}

// clockContext is what withDeadline gives out on such a clock. The end of the parent reaches the embedded
// context from another goroutine; its Err does not wait for that.
type clockContext struct {
	context.Context
	deadline *clockDeadline
}

func (c clockContext) Err() error {
	if err := c.deadline.Context.Err(); err != nil {
		c.deadline.end(err)
	}
	return c.Context.Err()
}

// clockDeadline is a context that ends at a moment of a clock the context package does not know. It is
// only ever the parent of one context.WithCancel, which gives users a context of the standard library:
// safe to derive from, without a goroutine, with the causes of its ancestors.
type clockDeadline struct {
	context.Context // the parent, for its values
	at              time.Time
	done            chan struct{}
	once            sync.Once

	mu    sync.Mutex
	err   error
	child func() // ends the one child
}

func (d *clockDeadline) Deadline() (time.Time, bool) {
	if at, ok := d.Context.Deadline(); ok && at.Before(d.at) {
		return at, true
	}
	return d.at, true
}

func (d *clockDeadline) Done() <-chan struct{} { return d.done }

func (d *clockDeadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// AfterFunc is what the context package asks a foreign parent for, instead of watching its Done from a
// goroutine.
func (d *clockDeadline) AfterFunc(f func()) (stop func() bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.child = f
	return func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		pending := d.child != nil
		d.child = nil
		return pending
	}
}

// end ends the context, the first time. When it returns, the child has ended too.
func (d *clockDeadline) end(err error) {
	d.once.Do(func() {
		d.mu.Lock()
		d.err = err
		child := d.child
		d.child = nil
		close(d.done)
		d.mu.Unlock()
		if child != nil {
			child()
		}
	})
}
