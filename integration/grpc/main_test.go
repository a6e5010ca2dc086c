// Package grpc_test runs gRPC servers behind a network that misbehaves, and looks at what becomes of their clients' calls.
package grpc_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/steady-go/steady/integration/internal/harness"
)

// table is what is printed when all scenarios have run.
var table harness.Table

func TestMain(m *testing.M) {
	code := m.Run()
	if err := table.Print(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
