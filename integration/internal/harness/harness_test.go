package harness_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/integration/internal/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestALedgerTellsAnswersFailuresRejectionsAndLostCallsApart(t *testing.T) {
	var l harness.Ledger
	for range 5 {
		l.Start()
	}
	l.End(nil)
	l.End(errors.New("boom"))
	l.End(&steady.RejectedError{Policy: "db", Reason: steady.ErrBreakerOpen})
	assert.EqualValues(t, 1, l.Answered.Load())
	assert.EqualValues(t, 1, l.Failed.Load())
	assert.EqualValues(t, 1, l.Rejected.Load())
	assert.EqualValues(t, 2, l.Lost())
	l.End(nil)
	l.End(nil)

	var table harness.Table
	table.Close(t, "five calls", &l, "%d heard", 5)
	var b strings.Builder
	require.NoError(t, table.Print(&b))
	assert.Regexp(t, `five calls +5 +3 +1 +1 +0 +5 heard`, b.String())
}

func TestAProxyPassesCutsAndRefuses(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	defer func() { _ = echo.Close(); <-done }()

	p := harness.NewProxy(t, echo.Addr().String())
	ask := func() error {
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write([]byte("hello")); err != nil {
			return err
		}
		_, err = io.ReadFull(conn, make([]byte, 5))
		return err
	}
	require.NoError(t, ask())
	p.Add(harness.Toxic{Type: "limit_data", Attributes: map[string]any{"bytes": 2}})
	require.ErrorIs(t, ask(), io.ErrUnexpectedEOF)
	p.Heal()
	require.NoError(t, ask())
	p.Stop()
	require.Error(t, ask())
	p.Start()
	require.NoError(t, ask())
}
