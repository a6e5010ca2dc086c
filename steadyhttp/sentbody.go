package steadyhttp

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
)

// sentBody is a request's body that says when it is to blame for what becomes of the attempt: when reading it fails, of
// itself and not because it was closed, or gives more or less than the request's ContentLength.
type sentBody struct {
	io.ReadCloser
	left   int64 // of the request's ContentLength
	sized  bool  // there is one
	blamed *atomic.Bool
	closed atomic.Bool
}

// send returns the body of a request as the attempt sends it.
func (x *exchange) send(body io.ReadCloser) io.ReadCloser {
	length := x.call.req.ContentLength
	if inMemory(body, length) {
		return body
	}
	return &sentBody{ReadCloser: body, left: length, sized: length > 0, blamed: &x.blamed}
}

func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	switch {
	case b.closed.Load():
	case err != nil && err != io.EOF, b.sized && (b.left < 0 || err == io.EOF && b.left > 0):
		b.blamed.Store(true)
	}
	return n, err
}

func (b *sentBody) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}

// nopCloser is what http.NewRequest makes of a reader of bytes or a string.
var nopCloser = reflect.TypeOf(io.NopCloser(new(bytes.Reader)))

// inMemory reports whether a body consists of so many bytes in memory: nothing can be wrong with it. Net/http looks for
// these as well, to write them together with the header, and would not see them in a sentBody.
func inMemory(body io.ReadCloser, length int64) bool {
	v := reflect.ValueOf(body)
	if v.Type() != nopCloser {
		return false
	}
	switch r := v.Field(0).Interface().(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return int64(r.(interface{ Len() int }).Len()) == length
	default:
		return false
	}
}
