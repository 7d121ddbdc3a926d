// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"fmt"
	"os/exec"
	"testing"
)

// Redis starts a Redis server that appends every write to its log before it answers. More arguments are handed to it.
func Redis(tb testing.TB, args ...string) *Server {
	tb.Helper()
	daemon := find("redis-server")
	if daemon == "" {
		missing(tb, "Redis", "redis-server")
	}
	s := &Server{Name: "Redis", Addr: freeAddr(tb), Dir: tempDir(tb, nil)}
	host, port := s.Host()
	s.command = func() *exec.Cmd {
		all := append([]string{
			"--bind", host, "--port", fmt.Sprint(port), "--dir", s.Dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
		}, args...)
		return command(nil, s.Dir, daemon, all...)
	}
	return s.launch(tb)
}
