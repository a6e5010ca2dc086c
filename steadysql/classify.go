package steadysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/steady-go/steady"
)

// Classify says what the error of a database means:
//
//   - Success for a healthy "no": [sql.ErrNoRows]; SQLSTATE classes 22, 23 and 42 (bad data, a constraint, a wrong
//     statement) and others of the caller's making (09, 0A, 0L, 0P, 20, 21, 24, 25, 26, 27, 2B, 2D, 2F, 34, 38, 39, 3B,
//     3F, 44, 54, 55, P0); a COMMIT that was answered with ROLLBACK, since a statement before it had failed; and 40, a
//     serialization failure (40001) or deadlock (40P01), which is the database doing its work: [InTx] repeats those.
//   - Unsent for what failed before the database can have seen the statement: a refused or failed connect, also when the
//     server gave the reason (57P03, while it starts), a name that was not found, and what a driver says is safe to
//     retry (pgx does, with a SafeToRetry method).
//   - Permanent for what repeating cannot mend: class 28 (the password is wrong), 3D000 (there is no such database), and
//     a [CommitError].
//   - Transient for everything else: classes 08, 53, 57P01 to 57P03, 58 and XX, 40003, a server that has become
//     read-only (25006), driver.ErrBadConn, a lost connection, context errors.
//
// 57014, a statement that the server was asked to cancel, is Transient: a limit was reached, of ours or the server's
// own. When it was the caller who cancelled, the pipeline makes it Ignored, as it does with every error then; [Mark]
// joins the context's error, by which a Timeout knows its own work.
//
// SQLSTATE is read from a method SQLState() string of the error or of one that it wraps, which the errors of pgx and
// lib/pq have. For a driver without one, classify its errors first, and leave the rest to Classify.
//
// What steady.Mark has said of the error stands, unless it said Transient. Sources: PostgreSQL's Appendix A, "Error
// Codes" (https://www.postgresql.org/docs/current/errcodes-appendix.html), and ISO/IEC 9075-2.
func Classify(err error) steady.Outcome {
	if o := steady.Classify(err); o != steady.Transient {
		return o
	}
	var commit *CommitError
	switch {
	case errors.As(err, &commit):
		return steady.Permanent
	case errors.Is(err, sql.ErrNoRows), errors.Is(err, sql.ErrTxDone), errors.Is(err, sql.ErrConnDone), emptied(err):
		return steady.Success
	}
	o := steady.Transient
	if state := sqlState(err); len(state) == 5 {
		o = classifyState(state)
	}
	if o == steady.Transient && unsent(err) {
		o = steady.Unsent
	}
	return o
}

// classifyState says what a SQLSTATE means.
func classifyState(state string) steady.Outcome {
	switch state {
	case "40003", // statement completion unknown
		"25006": // the server has become read-only: a standby now
		return steady.Transient
	case "3D000": // no such database
		return steady.Permanent
	}
	switch state[:2] {
	case "22", "23", "42", "40",
		"09", "0A", "0L", "0P", "20", "21", "24", "25", "26", "27", "2B", "2D", "2F", "34", "38", "39", "3B", "3F", "44", "54", "55", "P0":
		return steady.Success
	case "28":
		return steady.Permanent
	default:
		return steady.Transient
	}
}

// sqlState returns the SQLSTATE of err, "" if it has none.
func sqlState(err error) string {
	var s interface {
		error
		SQLState() string
	}
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// conflicted reports whether the database has undone a transaction because of others, and it may go through when it is
// run again.
func conflicted(err error) bool {
	state := sqlState(err)
	return state == "40001" || state == "40P01"
}

// unsent reports whether err is from before the database could see the statement.
func unsent(err error) bool {
	var safe interface {
		error
		SafeToRetry() bool
	}
	if errors.As(err, &safe) && safe.SafeToRetry() {
		return true
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	var lookup *net.DNSError
	return errors.As(err, &lookup) || errors.Is(err, syscall.ECONNREFUSED) || unconnected(err)
}

// unconnected reports whether err is pgx's for a connect that failed for whatever reason. Only its name tells.
func unconnected(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if fmt.Sprintf("%T", err) == "*pgconn.ConnectError" {
			return true
		}
	}
	return false
}

// emptied reports whether err is that of a COMMIT of a transaction that had failed, which was answered with ROLLBACK. The
// drivers have no type for it.
func emptied(err error) bool {
	text := strings.ToLower(err.Error()) // lib/pq began with a capital before 1.12
	for _, known := range []string{
		"commit unexpectedly resulted in rollback",             // pgx
		"could not complete operation in a failed transaction", // lib/pq
	} {
		if strings.Contains(text, known) {
			return true
		}
	}
	return false
}

// Mark returns err so that any pipeline takes it for what [Classify] says, whatever the pipeline's own default: it is
// for functions that call a database themselves, in place of the helpers of this package, which do it too. ctx is the
// context that the statement was given. If it has ended, and the server says no more than that it was asked to cancel
// (57014), the context's error is joined, for a steady.Timeout to know its limit by. Errors.Is and errors.As see through
// the mark. A nil err stays nil.
func Mark(ctx context.Context, err error) error {
	err = withCause(ctx, err)
	if o := Classify(err); o != steady.Classify(err) {
		return steady.Mark(err, o)
	}
	return err
}

// withCause joins ctx's error to that of a statement which was cancelled because of it.
func withCause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ctx.Err()) || sqlState(err) != "57014" {
		return err
	}
	return &cancelledError{error: err, cause: ctx.Err()}
}

// cancelledError is the server's word that it has cancelled a statement, and why it was asked to.
type cancelledError struct {
	error
	cause error
}

func (e *cancelledError) Unwrap() []error { return []error{e.error, e.cause} }

// rolledBack reports whether the error of a COMMIT says that the transaction was not committed: the server's own
// answer, or a driver's that nothing was sent. Everything else leaves it open, the states that a server sends with its
// last breath among it.
func rolledBack(err error) bool {
	if errors.Is(err, sql.ErrTxDone) {
		return true // nothing was sent; the function has ended the transaction itself
	}
	state := sqlState(err)
	if len(state) == 5 {
		switch state[:2] {
		case "08", "57", "58", "XX":
			return false
		}
		return state != "40003"
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return unsent(err)
	}
	return emptied(err) || unsent(err)
}
