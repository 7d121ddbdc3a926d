// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"net"
)

// Dial is the dialer of the host's clients, for tests that put something of their own around it.
func (h *Host) Dial(ctx context.Context, address string) (net.Conn, error) { return h.dial(ctx, address) }
