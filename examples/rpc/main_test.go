package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/steady-go/steady"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheShowPrintsWhatItShowsAndEnds(t *testing.T) {
	var out strings.Builder
	o, err := show{act: 1500 * time.Millisecond}.run(&out)
	t.Log(out.String())
	require.NoError(t, err, "no order is lost, none is received twice")

	for _, met := range []string{"price ok", "order ok", "message ok", "price rejected", "stream Unavailable", "price ResourceExhausted"} {
		assert.Positive(t, o.crowd.met[met], met)
		assert.Contains(t, out.String(), met)
	}
	assert.NotEmpty(t, o.crowd.confirmed)
	assert.Positive(t, o.server.bulkhead.Stats().Rejected)
	assert.Positive(t, o.client.prices.Breaker().Stats().Transitions)
	assert.Zero(t, o.client.prices.Breaker().Stats().InFlight)
	assert.Zero(t, o.client.prices.Bulkhead().Stats().InFlight, "no stream is left")
	for _, line := range []string{
		"breaker opened", "slow-call rate", "breaker closed", "--- all is well", "--- it is killed", "--- a crowd comes",
		"--- what the callers met with", "0 slots taken now", "0 of these lost, 0 received twice",
	} {
		assert.Contains(t, out.String(), line)
	}
}

func TestTheAuditFindsWhatIsNotInOrder(t *testing.T) {
	s := &server{received: map[string]int{"order 1": 1, "order 2": 2, "order 3": 1}}
	missing, twice := s.audit([]string{"order 1", "order 4"})
	assert.Equal(t, 1, missing)
	assert.Equal(t, 1, twice)
}

func TestCallersTellRejectionsAndStatusesApart(t *testing.T) {
	c := newCrowd(nil)
	c.note(t.Context(), "price", nil)
	c.note(t.Context(), "price", status.Error(codes.NotFound, ""))
	c.note(t.Context(), "price", errors.New("boom"))
	c.note(t.Context(), "price", &steady.RejectedError{Reason: steady.ErrBreakerOpen})
	assert.Equal(t, "price NotFound 1, price Unknown 1, price ok 1, price rejected 1", c.report())
	assert.Empty(t, c.report(), "a report is of what is new")
}
