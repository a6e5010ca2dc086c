package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Without compiling anything: whoever changes the core sees at once which fault to change with it.
func TestEveryFaultFitsTheCodeAndNamesATestThatExists(t *testing.T) {
	files, err := filepath.Glob("../../*_test.go")
	require.NoError(t, err)
	var tests strings.Builder
	for _, file := range files {
		tests.WriteString(read(t, file))
	}
	names := make(map[string]bool)
	for _, f := range faults {
		assert.False(t, names[f.name], "%s: twice", f.name)
		names[f.name] = true
		assert.Equal(t, 1, strings.Count(read(t, "../../"+f.file), f.old), "%s: %s: so often in %s", f.rule, f.name, f.file)
		assert.NotEqual(t, f.old, f.new, "%s: %s", f.rule, f.name)
		exists := strings.Contains(tests.String(), "func "+f.test+"(") // the texts are too long to print
		assert.True(t, exists, "%s: %s: there is no %s", f.rule, f.name, f.test)
	}
}

func TestEveryRuleOfTheDesignHasAFault(t *testing.T) {
	var have, want []string
	for _, f := range faults {
		if len(have) == 0 || have[len(have)-1] != f.rule {
			have = append(have, f.rule)
		}
	}
	for _, rule := range regexp.MustCompile(`(?m)^- \*\*([A-Z]\d+)\*\*`).FindAllStringSubmatch(read(t, "../../docs/design.md"), -1) {
		want = append(want, rule[1])
	}
	assert.Equal(t, want, have, "in the same order")
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(content)
}
