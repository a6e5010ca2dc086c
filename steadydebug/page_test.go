package steadydebug_test

import (
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady/steadydebug"
)

func TestThePolicyAllowsTheOneScriptAndTheOneStyleOfThePage(t *testing.T) {
	w := get(newHandler(t, steadydebug.HandlerConfig{}), "/")
	for _, element := range []string{"script", "style"} {
		contents := regexp.MustCompile(`(?s)<`+element+`[^>]*>(.*?)</`+element+`>`).FindAllStringSubmatch(w.Body.String(), -1)
		require.Len(t, contents, 1, "one %s", element)
		sum := sha256.Sum256([]byte(contents[0][1]))
		assert.Contains(t, strings.Split(w.Header().Get("Content-Security-Policy"), "; "),
			element+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
}

func TestThePageMakesNoMarkupOfDataAndLoadsNothing(t *testing.T) {
	page := get(newHandler(t, steadydebug.HandlerConfig{}), "/").Body.String()
	for _, way := range []string{
		"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "createContextualFragment", "DOMParser", "srcdoc", "setHTML",
		"eval(", "new Function", "import(", "fetch(", "XMLHttpRequest", " style=\"", "onclick=", "javascript:", "@import", "@font-face",
	} {
		assert.NotContains(t, page, way)
	}
	assert.Empty(t, regexp.MustCompile(`(?:src|href)="[^"?d]`).FindAllString(page, -1), "addresses are the page's own, or data")
	assert.Equal(t, 1, strings.Count(page, "http"), "the name of the SVG namespace")
	assert.NotContains(t, page, "https:")
}
