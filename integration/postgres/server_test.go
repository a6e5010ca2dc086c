package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgres is a PostgreSQL server with its data in a directory of its own, on a port of its own.
type postgres struct {
	bin, dir   string
	port       int
	credential *syscall.Credential // nil: our own
	running    *exec.Cmd
}

// newPostgres makes a database cluster and starts a server on it. The programs come from Debian's package postgresql.
func newPostgres() (p *postgres, err error) {
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(bins) == 0 {
		return nil, errors.New("/usr/lib/postgresql/*/bin is not there: apt-get install postgresql")
	}
	p = &postgres{bin: bins[len(bins)-1]}
	if p.credential, err = unprivileged(); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "steady-postgres-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.remove()
		}
	}()
	if c := p.credential; c != nil {
		if err := os.Chown(p.dir, int(c.Uid), int(c.Gid)); err != nil {
			return nil, err
		}
	}
	initdb := p.command("initdb", "--pgdata="+p.data(), "--username=steady", "--auth=trust", "--no-sync", "--no-locale", "--encoding=UTF8")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if p.port, err = freePort(); err != nil {
		return nil, err
	}
	return p, p.start()
}

// unprivileged returns whom the server runs as: it refuses to run as root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(errUID, errGID)
	}
	return nil, errors.New("root cannot run a server, and there is no user postgres or nobody")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (p *postgres) data() string { return filepath.Join(p.dir, "data") }
func (p *postgres) log() string  { return filepath.Join(p.dir, "log") }
func (p *postgres) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// dsn is where a client named app finds the database behind addr.
func (p *postgres) dsn(addr, app string) string {
	return fmt.Sprintf("postgres://steady@%s/postgres?sslmode=disable&connect_timeout=30&application_name=%s", addr, app)
}

func (p *postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.credential, Pdeathsig: syscall.SIGQUIT} // a test that times out cleans up nothing
	return cmd
}

// start starts the server, and returns when it answers.
func (p *postgres) start() error {
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := p.command("postgres", "-D", p.data(), "-p", strconv.Itoa(p.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	p.running = cmd
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if err = p.exec("SELECT 1"); err == nil {
			return nil
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(p.log())
			return fmt.Errorf("the server does not answer: %w\n%s", err, text)
		}
	}
}

// kill ends the server at once, with all its connections: it recovers from its log when it starts again.
func (p *postgres) kill() error {
	if p.running == nil {
		return nil
	}
	defer func() { p.running = nil }()
	if err := p.running.Process.Signal(syscall.SIGQUIT); err != nil {
		return err
	}
	_ = p.running.Wait() // it says that it was killed
	return nil
}

// remove ends the server and removes what it has left.
func (p *postgres) remove() {
	_ = p.kill()
	_ = os.RemoveAll(p.dir)
}

// exec runs statements on a connection of its own, past every proxy and policy.
func (p *postgres) exec(statements ...string) error {
	for _, statement := range statements {
		if _, err := ask[any](p, statement); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// ask returns the first column of the first row, on a connection of its own.
func ask[T any](p *postgres, query string, args ...any) (v T, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.dsn(p.addr(), "operator"))
	if err != nil {
		return v, err
	}
	defer func() { _ = conn.Close(ctx) }()
	return v, conn.QueryRow(ctx, query, args...).Scan(&v)
}
