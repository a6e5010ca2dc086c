package steady

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// faults collects everything that is wrong with one config.
type faults struct {
	config string // the config's type, and its Name when it has one
	errs   []error
}

// require notes, unless ok, that the field must be as the rule says and was got, with a way out.
func (f *faults) require(ok bool, field, rule string, got any, wayOut string) {
	if ok {
		return
	}
	f.errs = append(f.errs, fmt.Errorf("steady: %s.%s %s, got %v (%s)", f.config, field, rule, got, wayOut))
}

// refuse notes a contradiction between fields.
func (f *faults) refuse(contradiction bool, format string, args ...any) {
	if contradiction {
		f.errs = append(f.errs, fmt.Errorf("steady: "+f.config+"."+format, args...))
	}
}

func (f *faults) err() error { return errors.Join(f.errs...) }

// setDefault fills in a field that was left at zero.
func setDefault[V comparable](field *V, value V) {
	var zero V
	if *field == zero {
		*field = value
	}
}

// duration notes a negative duration in an optional field.
func (f *faults) duration(field string, d time.Duration, wayOut string) {
	f.require(d >= 0, field, "must not be negative", d, wayOut)
}

// rate notes a rate outside (0, 1].
func (f *faults) rate(field string, r float64) {
	f.require(r > 0 && r <= 1, field, "must be in (0, 1]", r, percentHint(r))
}

// percentHint is the way out for a share that was likely meant as a percentage.
func percentHint(r float64) string {
	if r > 1 && r <= 100 {
		return fmt.Sprintf("a percentage? write %v", r/100)
	}
	if math.IsNaN(r) {
		return "a division by zero?"
	}
	return "0 means the default"
}

// Must returns v, or panics with err: for configurations that are constants of the program.
func Must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}
