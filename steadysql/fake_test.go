package steadysql_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
)

// fake is a database and its driver. It writes down what it is asked.
type fake struct {
	mu   sync.Mutex
	log  []string
	on   func(ctx context.Context, call string) error // what a call does; nil: nothing
	rows int                                          // of each query; 0 means 2
	open atomic.Int64                                 // connections
	// variant makes a connection; nil means one with everything.
	variant func(base) driver.Conn
}

// call is where every call ends up.
func (f *fake) call(ctx context.Context, format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	f.mu.Lock()
	f.log = append(f.log, call)
	on := f.on
	f.mu.Unlock()
	if on == nil {
		return nil
	}
	return on(ctx, call)
}

// does sets what a call does from now on.
func (f *fake) does(on func(ctx context.Context, call string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

// calls returns what was asked, and forgets it.
func (f *fake) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.log = nil }()
	return f.log
}

// asked counts the calls that begin with a word.
func (f *fake) asked(word string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, call := range f.log {
		if strings.HasPrefix(call, word) {
			n++
		}
	}
	return n
}

func (f *fake) Connect(ctx context.Context) (driver.Conn, error) {
	if err := f.call(ctx, "connect"); err != nil {
		return nil, err
	}
	f.open.Add(1)
	if f.variant != nil {
		return f.variant(base{f}), nil
	}
	return modern(execs | queries | resets | validates)(base{f}), nil
}

func (f *fake) Driver() driver.Driver { return fakeDriver{} }

func (f *fake) Close() error { return f.call(context.Background(), "connector close") }

type fakeDriver struct{}

func (fakeDriver) Open(string) (driver.Conn, error) { return nil, io.ErrUnexpectedEOF }

// base is all that a connection must have.
type base struct{ f *fake }

func (b base) Prepare(query string) (driver.Stmt, error) {
	if err := b.f.call(context.Background(), "prepare %s", query); err != nil {
		return nil, err
	}
	return oldStmt(b), nil
}

func (b base) Close() error {
	b.f.open.Add(-1)
	return b.f.call(context.Background(), "close")
}

func (b base) Begin() (driver.Tx, error) {
	if err := b.f.call(context.Background(), "begin"); err != nil {
		return nil, err
	}
	return fakeTx{b.f, context.Background()}, nil
}

// What a connection may have besides, each by itself.
type (
	pinger        struct{ f *fake }
	checker       struct{ f *fake }
	preparer      struct{ f *fake }
	beginner      struct{ f *fake }
	execer        struct{ f *fake }
	queryer       struct{ f *fake }
	resetter      struct{ f *fake }
	validator     struct{ f *fake }
	oldExecer     struct{ f *fake }
	oldQueryer    struct{ f *fake }
	contextMethod struct {
		pinger
		checker
		preparer
		beginner
	}
)

func (p pinger) Ping(ctx context.Context) error { return p.f.call(ctx, "ping") }

// odd is an argument that only a checker or a column converter understands.
type odd struct{}

func (c checker) CheckNamedValue(v *driver.NamedValue) error {
	switch v.Value.(type) {
	case odd:
		v.Value = "odd, by the connection"
		return nil
	case bool:
		return driver.ErrRemoveArgument
	}
	return driver.ErrSkip
}

func (p preparer) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := p.f.call(ctx, "prepare with context %s", query); err != nil {
		return nil, err
	}
	return newStmt{oldStmt(p)}, nil
}

func (b beginner) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if err := b.f.call(ctx, "begin %v", opts); err != nil {
		return nil, err
	}
	return fakeTx{b.f, ctx}, nil
}

func (e execer) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), e.f.call(ctx, "exec %s %v", query, args)
}

func (q queryer) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := q.f.call(ctx, "query %s %v", query, args); err != nil {
		return nil, err
	}
	return &richRows{plainRows{f: q.f, ctx: ctx}}, nil
}

func (r resetter) ResetSession(ctx context.Context) error { return r.f.call(ctx, "reset") }

func (v validator) IsValid() bool { return v.f.call(context.Background(), "valid?") == nil }

func (e oldExecer) Exec(query string, args []driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), e.f.call(context.Background(), "old exec %s %v", query, args)
}

func (q oldQueryer) Query(query string, args []driver.Value) (driver.Rows, error) {
	if err := q.f.call(context.Background(), "old query %s %v", query, args); err != nil {
		return nil, err
	}
	return &plainRows{f: q.f, ctx: context.Background()}, nil
}

// oldStmt knows no contexts, and converts its arguments by column.
type oldStmt struct{ f *fake }

func (s oldStmt) Close() error  { return s.f.call(context.Background(), "close statement") }
func (s oldStmt) NumInput() int { return -1 }

func (s oldStmt) Exec(args []driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), s.f.call(context.Background(), "old statement exec %v", args)
}

func (s oldStmt) Query(args []driver.Value) (driver.Rows, error) {
	if err := s.f.call(context.Background(), "old statement query %v", args); err != nil {
		return nil, err
	}
	return &plainRows{f: s.f, ctx: context.Background()}, nil
}

func (s oldStmt) ColumnConverter(int) driver.ValueConverter { return byColumn{} }

type byColumn struct{}

func (byColumn) ConvertValue(v any) (driver.Value, error) {
	if _, ok := v.(odd); ok {
		return "odd, by the column", nil
	}
	return driver.DefaultParameterConverter.ConvertValue(v)
}

// newStmt has contexts and checks its arguments itself.
type newStmt struct{ old oldStmt }

func (s newStmt) Close() error                                    { return s.old.Close() }
func (s newStmt) NumInput() int                                   { return -1 }
func (s newStmt) Exec(args []driver.Value) (driver.Result, error) { return s.old.Exec(args) }
func (s newStmt) Query(args []driver.Value) (driver.Rows, error)  { return s.old.Query(args) }

func (s newStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), s.old.f.call(ctx, "statement exec %v", args)
}

func (s newStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.old.f.call(ctx, "statement query %v", args); err != nil {
		return nil, err
	}
	return &richRows{plainRows{f: s.old.f, ctx: ctx}}, nil
}

func (s newStmt) CheckNamedValue(v *driver.NamedValue) error {
	if _, ok := v.Value.(odd); ok {
		v.Value = "odd, by the statement"
		return nil
	}
	return driver.ErrSkip
}

// fakeTx keeps the context of BeginTx, as pgx does.
type fakeTx struct {
	f   *fake
	ctx context.Context
}

func (t fakeTx) Commit() error   { return t.f.call(t.ctx, "commit") }
func (t fakeTx) Rollback() error { return t.f.call(t.ctx, "rollback") }

// plainRows are rows with nothing optional.
type plainRows struct {
	f    *fake
	ctx  context.Context
	read int
}

func (r *plainRows) Columns() []string { return []string{"n"} }
func (r *plainRows) Close() error      { return r.f.call(r.ctx, "close rows") }

func (r *plainRows) Next(dest []driver.Value) error {
	if err := r.f.call(r.ctx, "next"); err != nil {
		return err
	}
	rows := r.f.rows
	if rows == 0 {
		rows = 2
	}
	if r.read == rows {
		return io.EOF
	}
	r.read++
	dest[0] = int64(r.read)
	return nil
}

// richRows have everything.
type richRows struct{ plainRows }

func (r *richRows) HasNextResultSet() bool {
	return r.f.call(r.ctx, "next result set?") == nil && r.read < 4
}

func (r *richRows) NextResultSet() error {
	if !r.HasNextResultSet() {
		return io.EOF
	}
	r.read = 4 // an empty one
	r.f.rows = 4
	return nil
}

func (r *richRows) ColumnTypeScanType(int) reflect.Type               { return reflect.TypeFor[int64]() }
func (r *richRows) ColumnTypeDatabaseTypeName(int) string             { return "INT8" }
func (r *richRows) ColumnTypeLength(int) (int64, bool)                { return 8, true }
func (r *richRows) ColumnTypeNullable(int) (bool, bool)               { return true, true }
func (r *richRows) ColumnTypePrecisionScale(int) (int64, int64, bool) { return 3, 2, true }

// The optional interfaces whose presence means something, as bits.
const (
	execs = 1 << iota
	queries
	resets
	validates
)

func names(has int) string {
	var words []string
	for i, word := range []string{"Execer", "Queryer", "SessionResetter", "Validator"} {
		if has&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	if words == nil {
		return "none"
	}
	return strings.Join(words, "+")
}

// modern makes connections with contexts and the given interfaces.
func modern(has int) func(base) driver.Conn {
	return func(b base) driver.Conn {
		f := b.f
		m := contextMethod{pinger{f}, checker{f}, preparer{f}, beginner{f}}
		e, q, r, v := execer{f}, queryer{f}, resetter{f}, validator{f}
		return [...]driver.Conn{
			struct {
				base
				contextMethod
			}{b, m},
			struct {
				base
				contextMethod
				execer
			}{b, m, e},
			struct {
				base
				contextMethod
				queryer
			}{b, m, q},
			struct {
				base
				contextMethod
				execer
				queryer
			}{b, m, e, q},
			struct {
				base
				contextMethod
				resetter
			}{b, m, r},
			struct {
				base
				contextMethod
				execer
				resetter
			}{b, m, e, r},
			struct {
				base
				contextMethod
				queryer
				resetter
			}{b, m, q, r},
			struct {
				base
				contextMethod
				execer
				queryer
				resetter
			}{b, m, e, q, r},
			struct {
				base
				contextMethod
				validator
			}{b, m, v},
			struct {
				base
				contextMethod
				execer
				validator
			}{b, m, e, v},
			struct {
				base
				contextMethod
				queryer
				validator
			}{b, m, q, v},
			struct {
				base
				contextMethod
				execer
				queryer
				validator
			}{b, m, e, q, v},
			struct {
				base
				contextMethod
				resetter
				validator
			}{b, m, r, v},
			struct {
				base
				contextMethod
				execer
				resetter
				validator
			}{b, m, e, r, v},
			struct {
				base
				contextMethod
				queryer
				resetter
				validator
			}{b, m, q, r, v},
			struct {
				base
				contextMethod
				execer
				queryer
				resetter
				validator
			}{b, m, e, q, r, v},
		}[has]
	}
}

// old makes connections that know no contexts.
func old(has int) func(base) driver.Conn {
	return func(b base) driver.Conn {
		f := b.f
		e, q, r, v := oldExecer{f}, oldQueryer{f}, resetter{f}, validator{f}
		return [...]driver.Conn{
			b,
			struct {
				base
				oldExecer
			}{b, e},
			struct {
				base
				oldQueryer
			}{b, q},
			struct {
				base
				oldExecer
				oldQueryer
			}{b, e, q},
			struct {
				base
				oldExecer
				oldQueryer
				resetter
				validator
			}{b, e, q, r, v},
		}[has]
	}
}

// state is an error of the server with a SQLSTATE.
type state string

func (s state) Error() string    { return "server: " + string(s) }
func (s state) SQLState() string { return string(s) }
