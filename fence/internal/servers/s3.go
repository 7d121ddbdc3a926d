// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The credentials of the servers of [S3].
const (
	S3Access = "access"
	S3Secret = "secret"
)

// S3 starts the S3 gateway in binary, which is Versity's, over a directory.
func S3(tb testing.TB, binary string) *Server {
	tb.Helper()
	s := &Server{Name: "S3 gateway", Addr: freeAddr(tb), Dir: tempDir(tb, nil)}
	data := filepath.Join(s.Dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		tb.Fatal(err)
	}
	s.command = func() *exec.Cmd {
		return command(nil, s.Dir, binary, "--port", s.Addr, "--access", S3Access, "--secret", S3Secret, "--quiet", "posix", data)
	}
	return s.launch(tb)
}
