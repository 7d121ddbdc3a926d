// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

func TestReservePort_IsGivenToNobodyElse(t *testing.T) {
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer p.free()
	if l, err := net.Listen("tcp", p.String()); err == nil {
		_ = l.Close()
		t.Error("somebody else listens on a reserved port")
	}
	if conn, err := net.Dial("tcp", p.String()); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			_ = conn.Close()
		}
		t.Errorf("a dial to a reserved port that nobody listens on: %v, want %v", err, syscall.ECONNREFUSED)
	}
}
