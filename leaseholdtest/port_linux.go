// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// reusePort says that members must set SO_REUSEPORT to be let in beside the reservation.
const reusePort = true

// reservePort binds a socket that never listens. The kernel hands no connection to it and gives the port to nobody
// else: an explicit bind needs SO_REUSEPORT and the same user, and neither a bind to port 0 nor an outgoing
// connection takes a port that a socket is bound to.
func reservePort() (*port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("leaseholdtest: reserve a port: %w", os.NewSyscallError("socket", err))
	}
	free := func() { _ = unix.Close(fd) } // nothing was sent through it that could be lost
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		free()
		return nil, fmt.Errorf("leaseholdtest: reserve a port: %w", os.NewSyscallError("setsockopt", err))
	}
	loopback := [4]byte{127, 0, 0, 1}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: loopback}); err != nil {
		free()
		return nil, fmt.Errorf("leaseholdtest: reserve a port: %w", os.NewSyscallError("bind", err))
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		free()
		return nil, fmt.Errorf("leaseholdtest: reserve a port: %w", os.NewSyscallError("getsockname", err))
	}
	number := sa.(*unix.SockaddrInet4).Port
	return &port{addr: netip.AddrPortFrom(netip.AddrFrom4(loopback), uint16(number)), free: free}, nil
}
