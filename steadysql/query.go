package steadysql

import (
	"context"
	"fmt"

	"github.com/steady-go/steady"
)

// Rows are the rows that [Query] reads: *sql.Rows and pgx.Rows.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}

// Query runs a query in the pipeline and returns all its rows, each as scan makes it; nil when there are none. An error
// while rows are read is the attempt's, so the breaker counts it and a Retry begins anew. The rows are closed in any
// case. query is a method such as (*sql.DB).QueryContext, or (*pgxpool.Pool).Query:
//
//	users, err := steadysql.Query(ctx, pipeline, db.QueryContext, func(rows *sql.Rows) (u User, err error) {
//		return u, rows.Scan(&u.ID, &u.Name)
//	}, "SELECT id, name FROM users WHERE team = $1", team)
//
// pgx's own ways to scan a row fit with its Rows around them:
//
//	func(row pgx.Rows) (User, error) { return pgx.RowToStructByName[User](row) }
//
// Errors are marked as [Mark] has it. An error of scan, while the context lives, is the program's, not the database's:
// Success.
//
// In a pipeline that retries, the statement may run more than once: give a SELECT that is none, a function that writes or
// an INSERT … RETURNING, to a pipeline for steady.WriteNonIdempotent.
func Query[T any, R Rows](
	ctx context.Context,
	p *steady.Pipeline[[]T],
	query func(ctx context.Context, sql string, args ...any) (R, error),
	scan func(rows R) (T, error),
	sql string, args ...any,
) ([]T, error) {
	if p == nil || query == nil || scan == nil {
		return nil, misused("Query", "a pipeline, a query and a scan")
	}
	return p.Do(ctx, func(ctx context.Context) (all []T, err error) {
		rows, err := query(ctx, sql, args...)
		if err != nil {
			return nil, Mark(ctx, err)
		}
		defer func() {
			if e := closeRows(rows); err == nil {
				err = e
			}
			if err != nil {
				all, err = nil, Mark(ctx, err)
			}
		}()
		for rows.Next() {
			v, err := scan(rows)
			if err != nil && ctx.Err() == nil {
				err = steady.Mark(err, steady.Success)
			}
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, rows.Err()
	})
}

// closeRows closes *sql.Rows and the like, or pgx.Rows and the like, whose Close returns nothing: their Err does.
func closeRows(rows Rows) error {
	switch rows := rows.(type) {
	case interface{ Close() error }:
		return rows.Close()
	case interface{ Close() }:
		rows.Close()
	}
	return rows.Err()
}

// Exec runs a statement without rows in the pipeline. exec is a method such as (*sql.DB).ExecContext, or
// (*pgxpool.Pool).Exec:
//
//	_, err := steadysql.Exec(ctx, pipeline, db.ExecContext, "UPDATE users SET name = $1 WHERE id = $2", name, id)
//
// Errors are marked as [Mark] has it. What may not be done twice belongs in a pipeline for steady.WriteNonIdempotent.
func Exec[R any](
	ctx context.Context,
	p *steady.Pipeline[R],
	exec func(ctx context.Context, sql string, args ...any) (R, error),
	sql string, args ...any,
) (R, error) {
	if p == nil || exec == nil {
		var zero R
		return zero, misused("Exec", "a pipeline and an exec")
	}
	return p.Do(ctx, func(ctx context.Context) (R, error) {
		res, err := exec(ctx, sql, args...)
		return res, Mark(ctx, err)
	})
}

func misused(function, what string) error {
	return fmt.Errorf("steadysql: %s needs %s that are not nil", function, what)
}
