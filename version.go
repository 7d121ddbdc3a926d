// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// Before these versions a renewal could be acknowledged although the lease was gone: for a lease just revoked, and by a
// former leader that was stuck. The protocol discards such answers after the local expiry (R2); before it, only
// the server can tell.
var (
	honestRevoked = map[int]release{5: {3, 5, 23}, 6: {3, 6, 5}}
	honestLeader  = map[int]release{4: {3, 4, 31}, 5: {3, 5, 13}}
)

type release struct{ major, minor, patch int }

func (r release) before(o release) bool {
	if r.major != o.major {
		return r.major < o.major
	}
	if r.minor != o.minor {
		return r.minor < o.minor
	}
	return r.patch < o.patch
}

// versionWarnings tells what a server of this version may do wrong.
func versionWarnings(version string) []string {
	var r release
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &r.major, &r.minor, &r.patch); err != nil {
		return []string{"unknown version"}
	}
	var warnings []string
	if isBefore(r, honestRevoked, release{3, 5, 23}) {
		warnings = append(warnings, "may acknowledge the renewal of a lease that was just revoked: use 3.5.23, 3.6.5 or later")
	}
	if isBefore(r, honestLeader, release{3, 4, 31}) {
		warnings = append(warnings, "may acknowledge renewals as a stuck former leader: use 3.4.31, 3.5.13 or later")
	}
	return warnings
}

// isBefore compares with the fixed release of the same minor version, and otherwise with the oldest fix.
func isBefore(r release, fixed map[int]release, oldest release) bool {
	if f, ok := fixed[r.minor]; ok && r.major == 3 {
		return r.before(f)
	}
	return r.before(oldest)
}

// inspectServers looks at the version of each member, once for each etcd client, and warns of those below the known fixes.
func (e *engine) inspectServers() {
	for _, endpoint := range e.client.Endpoints() {
		ctx, cancel := context.WithTimeout(e.ctx, 5*time.Second)
		status, err := e.status(ctx, endpoint)
		cancel()
		if err != nil {
			e.journal.info("leasehold: the version of a member is not known", zap.String("endpoint", endpoint), zap.Error(err))
			continue
		}
		for _, w := range versionWarnings(status.Version) {
			e.journal.warn("leasehold: etcd server "+w, zap.String("endpoint", endpoint), zap.String("version", status.Version))
		}
	}
}
