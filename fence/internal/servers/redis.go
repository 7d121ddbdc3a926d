// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"fmt"
	"net"
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

// RedisNode starts a Redis server that is a node of a cluster yet to be made, and returns the port of its cluster bus.
func RedisNode(tb testing.TB) (node *Server, busPort string) {
	tb.Helper()
	// Not the usual offset of 10,000, which may lie beyond the last port.
	_, busPort, err := net.SplitHostPort(freeAddr(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return Redis(tb, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", busPort), busPort
}
