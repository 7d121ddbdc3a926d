// SPDX-License-Identifier: Apache-2.0

// The command leasehold holds locks and leads elections for programs that are not written in Go, and looks after them.
package main

import (
	"os"

	"example.com/leasehold/cmd/leasehold/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
