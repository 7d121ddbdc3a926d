// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// The credentials of the servers of [S3].
const (
	S3Access = "access"
	S3Secret = "secret"
)

// gateway is the module that has the gateway among its tools, from here.
const gateway = "../../objectfence/s3store/conformance"

// S3 builds and starts Versity's S3 gateway over a directory.
func S3(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{Name: "S3 gateway", Addr: freeAddr(tb), Dir: tempDir(tb, nil)}
	binary, data := filepath.Join(s.Dir, "versitygw"), filepath.Join(s.Dir, "data")
	_, here, _, ok := runtime.Caller(0)
	if !ok {
		tb.Fatal("no path of the source")
	}
	module := filepath.Join(filepath.Dir(here), gateway)
	build := exec.CommandContext(tb.Context(), "go", "build", "-C", module, "-o", binary, "github.com/versity/versitygw/cmd/versitygw")
	if output, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build the S3 gateway: %v\n%s", err, output)
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		tb.Fatal(err)
	}
	s.command = func() *exec.Cmd {
		return command(nil, s.Dir, binary, "--port", s.Addr, "--access", S3Access, "--secret", S3Secret, "--quiet", "posix", data)
	}
	return s.launch(tb)
}
