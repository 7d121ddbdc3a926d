// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package leaseholdtest

import (
	"fmt"
	"net"
)

// reusePort is false where nothing is reserved.
const reusePort = false

// reservePort asks the system for a free port and lets it go again at once. Somebody else can be given the port
// before the member listens; the start is then tried again.
func reservePort() (*port, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("leaseholdtest: find a port: %w", err)
	}
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	return &port{addr: addr, free: func() {}}, l.Close()
}
