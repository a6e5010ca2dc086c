// Package http_test takes steadyhttp through what networks and servers do to a client: real servers on loopback, over
// HTTP/1.1 and HTTP/2, behind proxies that delay, throttle, cut and swallow.
package http_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/rs/zerolog"
	"github.com/steady-go/steady/integration/internal/harness"
	"go.uber.org/goleak"
)

// table is what all scenarios tell, printed at the end.
var table harness.Table

func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled) // some of toxiproxy's faults have a logger of their own
	goleak.VerifyTestMain(m, append(proxysOwn, goleak.Cleanup(func(code int) {
		if err := table.Print(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))...)
}
