package steadyhttp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/steady-go/steady"
)

// Classify is the default classification.
//
//	429                                          Throttled
//	408; 5xx, except 501 and 505                 Transient
//	every other status                           Success: an answer, if only to say that the request is wrong
//	an error marked with steady.Mark             what it was marked
//	a certificate refused, by either side; no TLS at all   Permanent
//	a failed dial                                Unsent
//	every other error                            Transient
//
// A Transport knows more than the error tells: with a base transport that reports to net/http/httptrace, an error that
// came before there was a connection is Unsent, a dial error after there had been one is not, and what the caller did
// wrong, an invalid header, a request body that cannot be read or has another length than announced, is Ignored. A
// Config.Classify that returns 0 leaves it to that.
func Classify(resp *http.Response, err error) steady.Outcome {
	if err != nil {
		return classifyError(err)
	}
	switch status := resp.StatusCode; {
	case status == http.StatusTooManyRequests:
		return steady.Throttled
	case status == http.StatusRequestTimeout:
		return steady.Transient
	case status == http.StatusNotImplemented, status == http.StatusHTTPVersionNotSupported:
		return steady.Success
	case status >= 500:
		return steady.Transient
	default:
		return steady.Success
	}
}

func classifyError(err error) steady.Outcome {
	if o := steady.Classify(err); o != steady.Transient { // marked
		return o
	}
	var op *net.OpError
	switch {
	case refusedByTLS(err):
		return steady.Permanent
	case errors.As(err, &op) && op.Op == "dial":
		return steady.Unsent
	default:
		return steady.Transient
	}
}

// refusedByTLS reports whether the two sides will never come together: the server's certificate does not pass, be it
// verified by crypto/tls or by a VerifyConnection of the caller's, the server says so of ours, or it does not speak TLS.
func refusedByTLS(err error) bool {
	var (
		ours    *tls.CertificateVerificationError
		invalid x509.CertificateInvalidError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		theirs  *net.OpError
		garbage tls.RecordHeaderError
	)
	for _, target := range []any{&ours, &invalid, &unknown, &name, &garbage} {
		if errors.As(err, target) {
			return true
		}
	}
	// The alert's type is crypto/tls's own.
	return errors.As(err, &theirs) && theirs.Op == "remote error" && strings.Contains(theirs.Err.Error(), "certificate")
}
