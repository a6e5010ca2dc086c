package steady_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryRuleOfTheDesignNamesTestsThatExist(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var tests strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		tests.Write(source)
	}
	design, err := os.ReadFile("docs/design.md")
	require.NoError(t, err)
	_, rules, found := strings.Cut(string(design), "## The rules")
	require.True(t, found)

	heads := regexp.MustCompile(`(?m)^- \*\*\w+\*\*`).FindAllStringIndex(rules, -1)
	require.NotEmpty(t, heads)
	for i, head := range heads {
		end := len(rules)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		names := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(rules[head[0]:end], -1)
		assert.NotEmpty(t, names, "%s names no test", rules[head[0]:head[1]])
		for _, name := range names {
			exists := strings.Contains(tests.String(), "func "+name[1]+"(") // the texts are too long to print
			assert.True(t, exists, "%s names %s, which does not exist", rules[head[0]:head[1]], name[1])
		}
	}
}

func TestTheCodeOfTheREADMEIsTakenFromExamples(t *testing.T) {
	files, err := filepath.Glob("example*_test.go")
	require.NoError(t, err)
	adapters, err := filepath.Glob("steady*/example*_test.go")
	require.NoError(t, err)
	files = append(files, adapters...)
	var examples strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		examples.WriteString(unindented(string(source)))
	}
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		found := strings.Contains(examples.String(), unindented(block[1]))
		assert.True(t, found, "in no example:\n%s", block[1])
	}
}

func unindented(code string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(code, "")
}
