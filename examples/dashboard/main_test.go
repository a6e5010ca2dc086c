package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs the program until stop, and returns the address it prints.
func start(t *testing.T, s show) (address string, acts <-chan string, ended <-chan error, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- s.run(ctx, w)
		_ = w.Close()
	}()
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(r); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return <-lines, lines, done, cancel
}

func TestThePageShowsFiveDependenciesAndTheActsThatOpenThem(t *testing.T) {
	address, acts, ended, stop := start(t, show{addr: "127.0.0.1:0", act: 2 * time.Second})
	require.True(t, strings.HasPrefix(address, "http://127.0.0.1:"), address)
	res, err := http.Get(address)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Contains(t, string(body), "<!doctype html>")

	told := map[string]string{} // reasons, by breaker
	require.Eventually(t, func() bool {
		var s struct {
			Dependencies []struct{ Name string }
			Transitions  []struct{ Breaker, To, Reason string }
		}
		res, err := http.Get(address + "?format=json")
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		require.NoError(t, json.NewDecoder(res.Body).Decode(&s))
		for _, x := range s.Transitions {
			if x.To == "open" && strings.HasSuffix(x.Reason, "_rate") {
				told[x.Breaker] = x.Reason
			}
		}
		return len(s.Dependencies) == 5 && told["catalogue"] != "" && told["payments"] != "" && told["search"] != ""
	}, time.Minute, 200*time.Millisecond)
	assert.Equal(t, "slow_rate", told["catalogue"])
	assert.Equal(t, "failure_rate", told["payments"])
	assert.Equal(t, "slow_rate", told["search"])
	assert.Contains(t, <-acts, "catalogue is well")
	assert.Contains(t, <-acts, "catalogue is slow")

	stop()
	require.NoError(t, <-ended)
	http.DefaultClient.CloseIdleConnections()
}

func TestTheProgramEndsByItself(t *testing.T) {
	_, _, ended, _ := start(t, show{addr: "127.0.0.1:0", act: time.Second, duration: 100 * time.Millisecond})
	require.NoError(t, <-ended)
}

func TestWhatCannotBeIsAnError(t *testing.T) {
	assert.ErrorContains(t, show{addr: "127.0.0.1:0"}.run(t.Context(), io.Discard), "-act must be positive")
	assert.Error(t, show{addr: "not an address", act: time.Second}.run(t.Context(), io.Discard))
}
