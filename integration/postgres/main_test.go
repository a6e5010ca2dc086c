// Package postgres_test runs steadysql against a PostgreSQL server of its own.
package postgres_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/steady-go/steady/integration/internal/harness"
)

var (
	server *postgres
	table  harness.Table
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if server, err = newPostgres(); err != nil {
		fmt.Fprintln(os.Stderr, "no PostgreSQL to test with:", err)
		return 1
	}
	defer server.remove()
	code := m.Run()
	if err := table.Print(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server.remove()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
