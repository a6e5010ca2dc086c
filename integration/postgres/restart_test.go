package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadysql"
)

func TestAServerThatIsKilledAndRestartedIsFoundAgainAndHasWhatItAcknowledged(t *testing.T) {
	require.NoError(t, server.exec("CREATE TABLE letters (id text PRIMARY KEY)"))
	s := newScenario(t, "restart")
	d := s.policies(steady.DependencyConfig{Name: "restart, wrapped"})
	db := s.wrapped(d)
	pgx := s.policies(steady.DependencyConfig{Name: "restart, pgxpool"})
	pool := s.pgxPool()
	p := steady.Must(steady.NewPipelineFor(pgx, steady.WriteNonIdempotent, steady.PipelineConfig[pgconn.CommandTag]{}))
	const insert = "INSERT INTO letters VALUES ($1)"
	writers := []struct {
		name  string
		d     *steady.Dependency
		write func(ctx context.Context, id string) error
	}{
		{"database/sql, wrapped", d, func(ctx context.Context, id string) error {
			_, err := db.ExecContext(ctx, insert, id)
			return err
		}},
		{"pgxpool, closure", pgx, func(ctx context.Context, id string) error {
			_, err := steadysql.Exec(ctx, p, pool.Exec, insert, id)
			return err
		}},
	}
	loads := s.loads(len(writers))
	acknowledged := make([][][]string, len(writers)) // by caller
	for i, w := range writers {
		acknowledged[i] = make([][]string, 8)
		loads[i].start(8, 10*time.Millisecond, func(caller, n int) error {
			id := fmt.Sprintf("%d-%d-%d", i, caller, n)
			err := w.write(context.Background(), id)
			if err == nil {
				acknowledged[i][caller] = append(acknowledged[i][caller], id)
			}
			return err
		})
	}
	for i := range loads {
		s.goesOn(&loads[i].ledger, 100)
	}
	require.NoError(t, server.kill())
	for _, w := range writers {
		s.becomes(w.d, steady.StateOpen)
	}
	require.NoError(t, server.start())
	for i, w := range writers {
		s.becomes(w.d, steady.StateClosed)
		s.goesOn(&loads[i].ledger, 100)
	}
	stop(loads)
	for i, w := range writers {
		letters := 0
		for _, ids := range acknowledged[i] {
			letters += len(ids)
			n, err := ask[int](server, "SELECT count(*) FROM letters WHERE id = ANY($1)", ids)
			require.NoError(t, err)
			assert.Equal(t, len(ids), n, "what was acknowledged is there")
		}
		s.end("killed and restarted: "+w.name, &loads[i].ledger, "%d inserts acknowledged, all there", letters)
	}
}

func TestConnectionsThatAreResetMidQuery(t *testing.T) {
	s := newScenario(t, "reset")
	clients := s.clients(steady.DependencyConfig{})
	loads := s.loads(len(clients))
	for i, c := range clients {
		loads[i].start(8, 5*time.Millisecond, func(int, int) error {
			return c.read(context.Background(), "SELECT pg_sleep(0.05)::text")
		})
	}
	for range 4 {
		for i := range loads {
			s.goesOn(&loads[i].ledger, 20)
		}
		s.relay.reset()
	}
	for i, c := range clients {
		s.becomes(c.d, steady.StateClosed)
		s.goesOn(&loads[i].ledger, 20)
	}
	stop(loads)
	for i, c := range clients {
		assert.Positive(t, loads[i].ledger.Failed.Load(), "nobody noticed")
		s.end("reset mid-query: "+c.name, &loads[i].ledger, "4 times all connections")
	}
}

func TestACommitThatIsResetIsInDoubtAndNeverRunAgain(t *testing.T) {
	require.NoError(t, server.exec(
		"CREATE TABLE deeds (id text)",
		"CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.2); RETURN NULL; END $$",
		// so that COMMIT takes a while
		"CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON deeds DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dawdle()",
	))
	for _, way := range []string{"plain", "wrapped"} {
		s := newScenario(t, "commit-"+way)
		d := s.policies(steady.DependencyConfig{})
		db, p := s.plain(false), steady.Must(steady.NewPipelineFor(d, steady.WriteIdempotent, steady.PipelineConfig[int]{}))
		if way == "wrapped" {
			db, p = s.wrapped(d), steady.Must(steady.NewPipeline(steady.PipelineConfig[int]{}))
		}
		l := &s.loads(1)[0]
		var deeds deeds
		l.start(6, time.Millisecond, func(caller, n int) error {
			id := fmt.Sprintf("%s-%d-%d", way, caller, n)
			_, err := steadysql.InTx(context.Background(), db, p, steadysql.TxOptions{},
				func(ctx context.Context, tx *sql.Tx) (int, error) {
					deeds.ran(id)
					_, err := tx.ExecContext(ctx, "INSERT INTO deeds VALUES ($1)", id)
					return 0, err
				})
			deeds.ended(id, err)
			return err
		})
		for range 3 {
			s.goesOn(&l.ledger, 6)
			s.relay.reset()
		}
		s.goesOn(&l.ledger, 6)
		l.stop()
		note := deeds.check(t, "deeds", "id")
		assert.Positive(t, deeds.doubtful, "no commit was in doubt")
		s.end("reset mid-commit: InTx, "+way, &l.ledger, "%s", note)
	}
}
