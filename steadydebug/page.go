package steadydebug

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"strings"
)

//go:embed page.html
var pageFile []byte

// page is the one file that the browser gets, and the policy that it comes with: nothing runs but the script
// in it, nothing is loaded, the stream comes from where the page came from, and no text can become markup.
var page = func() (p struct {
	html   []byte
	policy string
},
) {
	p.html = pageFile
	p.policy = strings.Join([]string{
		"default-src 'none'",
		"script-src " + hashOf("script"),
		"style-src " + hashOf("style"),
		"img-src data:",
		"connect-src 'self'",
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
		"require-trusted-types-for 'script'",
		"trusted-types 'none'",
	}, "; ")
	return p
}()

// hashOf returns the source expression for the content of the page's one element of that name.
func hashOf(element string) string {
	_, rest, _ := bytes.Cut(pageFile, []byte("<"+element+">"))
	content, _, _ := bytes.Cut(rest, []byte("</"+element+">"))
	sum := sha256.Sum256(content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
