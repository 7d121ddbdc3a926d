// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// The environment that makes the binary of a test be a server.
const (
	roleVariable = "LEASEHOLD_FENCE_TEST_ROLE"
	addrVariable = "LEASEHOLD_FENCE_TEST_ADDR"
	dirVariable  = "LEASEHOLD_FENCE_TEST_DIR"
)

// Role is what the binary of a test does when it is a server: listen on addr and keep its data in dir, until it is killed.
type Role func(addr, dir string) error

// Main runs the role that [Self] started this process for and does not return then; otherwise it returns at once. A
// TestMain calls it first.
func Main(roles map[string]Role) {
	name, ok := os.LookupEnv(roleVariable)
	if !ok {
		return
	}
	role, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no role %q\n", name)
		os.Exit(2)
	}
	if err := role(os.Getenv(addrVariable), os.Getenv(dirVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Self starts the binary of this test as a server of the given role.
func Self(tb testing.TB, role string) *Server {
	tb.Helper()
	binary, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{Name: role, Addr: freeAddr(tb), Dir: tempDir(tb, nil)}
	s.command = func() *exec.Cmd {
		cmd := command(nil, s.Dir, binary)
		cmd.Env = append(cmd.Env, roleVariable+"="+role, addrVariable+"="+s.Addr, dirVariable+"="+s.Dir)
		return cmd
	}
	return s.launch(tb)
}
