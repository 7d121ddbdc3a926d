// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Postgres starts a PostgreSQL server. Its superuser is "postgres", without a password.
func Postgres(tb testing.TB) *Server {
	tb.Helper()
	initdb, postgres := findPostgres("initdb"), findPostgres("postgres")
	if initdb == "" || postgres == "" {
		missing(tb, "PostgreSQL", "postgresql")
	}
	owner := unprivileged("postgres", "nobody")
	s := &Server{Name: "PostgreSQL", Addr: freeAddr(tb), Dir: tempDir(tb, owner)}
	data := filepath.Join(s.Dir, "data")
	setUp(tb, owner, s.Dir, initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	host, port := s.Host()
	s.command = func() *exec.Cmd {
		return command(owner, s.Dir, postgres, "-D", data, "-h", host, "-p", fmt.Sprint(port), "-k", "")
	}
	return s.launch(tb)
}

// PostgresURL returns the address of a server of [Postgres] as drivers want it.
func PostgresURL(s *Server) string {
	return "postgres://postgres@" + s.Addr + "/postgres?sslmode=disable"
}

// findPostgres finds a binary of the server, which Debian keeps out of the path.
func findPostgres(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	paths, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(paths) == 0 {
		return ""
	}
	return paths[len(paths)-1]
}

// MariaDB starts a MariaDB server. Its superuser is "root", without a password; there is a database "test".
func MariaDB(tb testing.TB) *Server {
	tb.Helper()
	installer, daemon := find("mariadb-install-db"), find("mariadbd")
	if installer == "" || daemon == "" {
		missing(tb, "MariaDB", "mariadb-server")
	}
	owner := unprivileged("mysql", "nobody")
	s := &Server{Name: "MariaDB", Addr: freeAddr(tb), Dir: tempDir(tb, owner)}
	data := filepath.Join(s.Dir, "data")
	setUp(tb, owner, s.Dir, installer, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal")
	host, port := s.Host()
	s.command = func() *exec.Cmd {
		return command(owner, s.Dir, daemon, "--no-defaults", "--datadir="+data, "--bind-address="+host,
			fmt.Sprintf("--port=%d", port), "--socket="+filepath.Join(s.Dir, "s"), "--pid-file="+filepath.Join(s.Dir, "pid"))
	}
	return s.launch(tb)
}

// MariaDBDSN returns the address of a server of [MariaDB] as the driver wants it.
func MariaDBDSN(s *Server) string { return "root@tcp(" + s.Addr + ")/test" }

// find finds the binary of a server, which need not be in the path of a user.
func find(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// command prepares a process that runs as owner in dir.
func command(owner *syscall.Credential, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+dir)
	cmd.SysProcAttr = processAttributes(owner)
	return cmd
}

// setUp runs a command that prepares a data directory.
func setUp(tb testing.TB, owner *syscall.Credential, dir, name string, args ...string) {
	tb.Helper()
	cmd := command(owner, dir, name, args...)
	if output, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
	}
}
