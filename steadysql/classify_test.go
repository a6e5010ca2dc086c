package steadysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadysql"
)

// safe is an error as pgx has for what it did not send.
type safe bool

func (safe) Error() string       { return "conn busy" }
func (s safe) SafeToRetry() bool { return bool(s) }

func TestClassifySaysWhatADatabasesErrorMeans(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("no route to host")}
	for _, c := range []struct {
		err  error
		want steady.Outcome
	}{
		{nil, steady.Success},
		{sql.ErrNoRows, steady.Success},
		{sql.ErrTxDone, steady.Success},
		{sql.ErrConnDone, steady.Success},
		{state("22P02"), steady.Success}, // invalid text representation
		{state("23505"), steady.Success}, // unique violation
		{state("42P01"), steady.Success}, // undefined table
		{state("40001"), steady.Success}, // serialization failure
		{state("40P01"), steady.Success}, // deadlock detected
		{state("55P03"), steady.Success}, // lock not available
		{state("P0001"), steady.Success}, // raise exception
		{state("2F005"), steady.Success}, // function executed no return statement
		{errors.New("commit unexpectedly resulted in rollback"), steady.Success},
		{state("08000"), steady.Transient},
		{state("08006"), steady.Transient}, // connection failure
		{state("53300"), steady.Transient}, // too many connections
		{state("53100"), steady.Transient}, // disk full
		{state("57P01"), steady.Transient}, // admin shutdown
		{state("57P02"), steady.Transient}, // crash shutdown
		{state("57P03"), steady.Transient}, // cannot connect now
		{state("57014"), steady.Transient}, // query canceled: a limit of the server's
		{state("40003"), steady.Transient}, // statement completion unknown
		{state("25006"), steady.Transient}, // read-only: a standby
		{state("XX000"), steady.Transient}, // internal error
		{state("28P01"), steady.Permanent}, // invalid password
		{state("3D000"), steady.Permanent}, // no such database
		{state("7"), steady.Transient},     // no SQLSTATE at all
		{driver.ErrBadConn, steady.Transient},
		{io.ErrUnexpectedEOF, steady.Transient},
		{context.DeadlineExceeded, steady.Transient},
		{context.Canceled, steady.Transient},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, steady.Transient},
		{safe(false), steady.Transient},
		{safe(true), steady.Unsent},
		{dial, steady.Unsent},
		{syscall.ECONNREFUSED, steady.Unsent},
		{&net.DNSError{Err: "no such host", Name: "db"}, steady.Unsent},
		{&steadysql.CommitError{Err: io.ErrUnexpectedEOF}, steady.Permanent},
		{&steady.RejectedError{Reason: steady.ErrBreakerOpen}, steady.Ignored},
		{steady.Mark(io.ErrUnexpectedEOF, steady.Throttled), steady.Throttled},
	} {
		assert.Equal(t, c.want, steadysql.Classify(c.err), "%v", c.err)
		if c.err != nil {
			assert.Equal(t, c.want, steadysql.Classify(fmt.Errorf("reading orders: %w", c.err)), "%v, wrapped", c.err)
		}
	}
}

func TestMarkTellsAnyPipelineWhatTheErrorMeans(t *testing.T) {
	ctx := context.Background()
	assert.NoError(t, steadysql.Mark(ctx, nil))

	marked := steadysql.Mark(ctx, sql.ErrNoRows)
	assert.Equal(t, steady.Success, steady.Classify(marked))
	assert.ErrorIs(t, marked, sql.ErrNoRows)
	assert.Equal(t, "sql: no rows in result set", marked.Error())

	assert.Equal(t, io.ErrUnexpectedEOF, steadysql.Mark(ctx, io.ErrUnexpectedEOF), "what is Transient anyhow stays as it is")
}

func TestMarkJoinsTheContextsErrorToAStatementThatTheServerCancelled(t *testing.T) {
	live := context.Background()
	cancelled, cancel := context.WithCancel(live)
	cancel()
	expired, cancel := context.WithTimeout(live, 0)
	defer cancel()

	assert.NotErrorIs(t, steadysql.Mark(live, state("57014")), context.DeadlineExceeded, "a statement_timeout")
	assert.ErrorIs(t, steadysql.Mark(cancelled, state("57014")), context.Canceled)
	assert.ErrorIs(t, steadysql.Mark(expired, state("57014")), context.DeadlineExceeded)
	assert.ErrorIs(t, steadysql.Mark(expired, state("57014")), state("57014"))
	assert.NotErrorIs(t, steadysql.Mark(expired, state("23505")), context.DeadlineExceeded, "an answer that raced with the limit")
}

func TestACommitErrorSaysThatNobodyKnows(t *testing.T) {
	err := &steadysql.CommitError{Err: io.ErrUnexpectedEOF}
	assert.EqualError(t, err, "steadysql: the transaction may have been committed, or not: unexpected EOF")
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.EqualError(t, (*steadysql.CommitError)(nil), "steadysql: the transaction may have been committed, or not")
	assert.NoError(t, (*steadysql.CommitError)(nil).Unwrap())
}
