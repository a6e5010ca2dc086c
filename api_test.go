package steady_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each package's api.txt is its public API as go doc prints it, so that a change to it shows in review.
func TestAPIIsAsRecorded(t *testing.T) {
	for _, dir := range []string{".", "steadydebug", "steadyhttp", "steadysql"} {
		want, err := os.ReadFile(filepath.Join(dir, "api.txt"))
		require.NoError(t, err)
		doc := exec.Command("go", "doc", "-all", ".")
		doc.Dir = dir
		got, err := doc.Output()
		require.NoError(t, err)
		same := string(want) == string(got) // the texts are too long to print
		assert.True(t, same, "the public API has changed: in %s, run go doc -all . > api.txt, and look at the difference", dir)
	}
}
