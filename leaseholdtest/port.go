// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"net/netip"
	"net/url"
)

// port is a loopback port that a member listens on whenever it runs. Where the system allows it, the port stays
// reserved for the cluster's whole life, also while the member is down: nobody else is given it, and who dials
// it is refused as by a machine whose service has died.
type port struct {
	addr netip.AddrPort
	free func() // gives the reservation up; called once
}

func (p *port) String() string { return p.addr.String() }

func (p *port) url(scheme string) url.URL { return url.URL{Scheme: scheme, Host: p.addr.String()} }
