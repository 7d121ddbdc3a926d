// SPDX-License-Identifier: Apache-2.0

package house

// Exceptions are the places of this repository that break a rule for a reason.
var Exceptions = []Exception{
	{"cmd/", "context.Background", "a command is where contexts begin"},
	{"cmd/", "os.Exit", "a command ends with a status"},
	{"internal/etcdfake/", "context.Background", "a fake of a server, and a server's own work is bounded by its end, not by a caller"},
	{"overrun.go", "os.Exit", "OverrunExit: the caller has asked for it, because work that does not return cannot be stopped otherwise"},
	{"examples/", "context.Background", "a program is where contexts begin"},
	{"examples/", "os.Exit", "a program ends with a status"},
	{"internal/electionlab/", "context.Background", "a command is where contexts begin"},
	{"internal/electionlab/", "os.Exit", "a command ends with a status"},
	{"internal/torture/", "context.Background", "a command is where contexts begin"},
	{"internal/torture/", "os.Exit", "a command ends with a status"},
	{"internal/simulation/cmd/", "context.Background", "a command is where contexts begin"},
	{"internal/simulation/cmd/", "os.Exit", "a command ends with a status"},
	{"bench/", "context.Background", "a command is where contexts begin"},
	{"bench/main.go", "os.Exit", "a command ends with a status"},
	{"fence/internal/servers/", "os.Exit", "for tests: the binary of a test that runs as a server"},
	{"fence/internal/servers/", "server import", "for tests: an etcd to kill and to start again"},
}
