package http_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/integration/internal/harness"
	"github.com/steady-go/steady/steadyhttp"
	"github.com/stretchr/testify/assert"
)

// orders is a server that does what it is sent, by id, and knows a key that it has seen.
type orders struct {
	mu   sync.Mutex
	done map[string]int
	keys map[string]bool
}

func newOrders() *orders { return &orders{done: map[string]int{}, keys: map[string]bool{}} }

func (o *orders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it did not arrive whole, and is not done
	}
	id, _, _ := strings.Cut(string(body), " ")
	o.do(id, r.Header.Get("Idempotency-Key"))
	_, _ = io.WriteString(w, id)
}

func (o *orders) do(id, key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if key != "" && o.keys[key] {
		return
	}
	o.keys[key] = true
	o.done[id]++
}

func (o *orders) times(id string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.done[id]
}

// phase is where in a call the network resets connections.
type phase struct {
	name    string
	faults  []harness.Toxic
	refuses bool // nobody listens
	inDoubt bool // the server may have done what nobody hears of
	mends   bool // at the first attempt that is repeated
	keys    bool // the orders have an Idempotency-Key
}

var (
	afterwards = []harness.Toxic{
		{Type: "reset_peer", Stream: "downstream", Attributes: map[string]any{"timeout": 0}},
		{Type: "limit_data", Stream: "downstream", Attributes: map[string]any{"bytes": 10}},
	}
	phases = []phase{
		{name: "before the request is written", refuses: true, mends: true},
		{name: "while it is written", faults: []harness.Toxic{
			{Type: "limit_data", Stream: "upstream", Attributes: map[string]any{"bytes": 9_000}},
			{Type: "reset_peer", Stream: "upstream", Attributes: map[string]any{"timeout": 0}},
		}},
		{name: "after it is written", faults: afterwards, inDoubt: true},
		{name: "after it is written, with keys", faults: afterwards, inDoubt: true, mends: true, keys: true},
	}
)

// network is a proxy that is whole, or in trouble.
type network struct {
	mu      sync.Mutex
	proxy   *harness.Proxy
	trouble phase
	in      bool
}

func (n *network) spoil(round int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.in = true
	if n.trouble.refuses {
		n.proxy.Stop()
		return
	}
	n.proxy.Add(n.trouble.faults[round%len(n.trouble.faults)])
}

func (n *network) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.in {
		return
	}
	n.in = false
	n.proxy.Heal()
	if n.trouble.refuses {
		n.proxy.Start()
	}
}

// TestConnectionsResetAroundAWrite sends orders of 20 KB each through a network that resets connections now and then.
func TestConnectionsResetAroundAWrite(t *testing.T) {
	for _, p := range protocols {
		for _, ph := range phases {
			t.Run(p.name+", "+ph.name, func(t *testing.T) { resets(t, p, ph) })
		}
	}
}

func resets(t *testing.T, p protocol, ph phase) {
	server := newOrders()
	w := newWorld(t, p, server)
	net := &network{proxy: w.proxy, trouble: ph}
	cfg := steadyhttp.Config{Dependency: dependency(func(cfg *steady.DependencyConfig) {
		if ph.mends {
			cfg.Hooks = &steady.Hooks{OnRetry: func(context.Context, steady.RetryDelay) { net.mend() }}
		}
	})}
	if ph.keys {
		cfg.IdempotencyKey = rand.Text
	}
	tr := w.transport(cfg)
	const writers, rounds = 8, 16
	acknowledged := map[string]bool{}
	for round := range rounds {
		if round%2 == 1 {
			net.spoil(round / 2)
		}
		var mu sync.Mutex
		together(writers, func(i int) {
			id := fmt.Sprintf("order-%d-%d", round, i)
			answer, err := w.call(t.Context(), tr, http.MethodPost, w.url, id+" "+strings.Repeat("x", 20_000))
			if err == nil {
				assert.Equal(t, id, answer)
			}
			mu.Lock()
			defer mu.Unlock()
			acknowledged[id] = err == nil
		})
		net.mend()
	}
	repeated := tr.Dependency("").Retry().Stats().SucceededAfterRetry
	if ph.mends {
		assert.Positive(t, repeated)
	} else {
		assert.Positive(t, w.ledger.Failed.Load())
	}

	doubtful := 0
	for id, acked := range acknowledged {
		times := server.times(id)
		switch {
		case acked:
			assert.Equal(t, 1, times, "%s was acknowledged", id)
		case ph.inDoubt:
			assert.LessOrEqual(t, times, 1, "%s failed, and must not have been repeated", id)
			doubtful += times
		default:
			assert.Zero(t, times, "%s failed", id)
		}
	}
	assert.Len(t, acknowledged, writers*rounds)
	w.close("reset "+ph.name+", "+p.name, tr, "all acknowledged were done once, %d of them repeated; of the failed %d were done, none twice",
		repeated, doubtful)
}
