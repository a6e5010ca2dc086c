package steadygrpc_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// api.txt is the public API as go doc prints it, so that a change to it shows in review. After an intended
// change: go doc -all . > api.txt
func TestAPIIsAsRecorded(t *testing.T) {
	want, err := os.ReadFile("api.txt")
	require.NoError(t, err)
	got, err := exec.Command("go", "doc", "-all", ".").Output()
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "the public API has changed: run go doc -all . > api.txt")
}
