package steadyhttp

import (
	"errors"
	"fmt"
)

// faults collects everything that is wrong with a config.
type faults struct{ errs []error }

// refuse notes a fault.
func (f *faults) refuse(fault bool, format string, args ...any) {
	if fault {
		f.errs = append(f.errs, fmt.Errorf("steadyhttp: "+format, args...))
	}
}

// add notes the faults that another package found, if any.
func (f *faults) add(err error) {
	if err != nil {
		f.errs = append(f.errs, err)
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
