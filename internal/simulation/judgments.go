// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
)

// bounds are the times that are promised.
type bounds struct {
	grace    time.Duration // of a call beyond its context (R11)
	timer    time.Duration // of a context beyond the end of its grant (R4)
	toldCalm time.Duration // of a loss to an operator, in calm (R10)
	toldLate time.Duration // and after the end of a disturbance
	free     time.Duration // until every name is free for a newcomer, once everything works again and nobody holds it
	// renewable: the holder's part of the term is long enough, against round trips, for no lease to be lost in calm.
	renewable bool
}

func boundsOf(w World) bounds {
	term := w.term()
	trip := 4*w.Delay + 2*w.Commit + w.Apply + 2*w.Peer
	held := time.Duration(float64(term)*(1-w.Drift)/(1+w.Drift)) - w.Margin
	longest := time.Duration(float64(term) * (1 + w.Drift) / (1 - w.Drift)) // of a grantor whose clock is slow
	return bounds{
		renewable: held > time.Second/2+6*trip,
		grace:     10 * time.Millisecond,
		timer:     1100 * time.Millisecond, // a machine that wakes is noticed within a second
		toldCalm:  2*time.Second + 2*trip,
		toldLate:  4*time.Second + term/2 + 2*trip,
		free:      longest + w.Election + 3*time.Second + 2*trip,
	}
}

// term is the TTL that a member grants.
func (w World) term() time.Duration {
	least := (w.Election*3/2 + time.Second - 1).Truncate(time.Second)
	return max(w.TTL, least)
}

// disturbed counts a fault that concerns a host, or all, until the function that it returns is called.
func (j *judge) disturbed(host int) (calm func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.disturb[host]
	if d == nil {
		d = &disturbance{}
		j.disturb[host] = d
	}
	d.active++
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		d.active--
		d.ended = time.Now()
	}
}

// calmFromLocked is since when nothing concerns a host; false: something does.
func (j *judge) calmFromLocked(host int) (since time.Time, ok bool) {
	since = j.started
	for _, where := range []int{host, everywhere} {
		d := j.disturb[where]
		if d == nil {
			continue
		}
		if d.active > 0 {
			return time.Time{}, false
		}
		if d.ended.After(since) {
			since = d.ended
		}
	}
	return since, true
}

// calmSinceLocked tells whether nothing has concerned a host since some time before t: what a fault leaves behind, a
// client that backs off, a member that looks for a leader, may last for a while.
func (j *judge) calmSinceLocked(host int, t time.Time) bool {
	since, ok := j.calmFromLocked(host)
	return ok && t.Sub(since) > 2*time.Second
}

// shouldKnowLocked tells whether the holder of a grant that was taken away should have been told by now.
func (j *judge) shouldKnowLocked(b *belief, now time.Time) bool {
	if b.hit.IsZero() {
		return false
	}
	if j.survivedLocked(b) {
		return false
	}
	if _, revoked := j.hitLeases[b.grant.Session().Lease()]; revoked && now.Sub(b.hit) > b.grant.Session().TTL() {
		return true // whatever is disturbed: it cannot have been renewed
	}
	calm, ok := j.calmFromLocked(b.user.host.number)
	switch {
	case !ok:
		return false
	case calm.Before(b.hit.Add(-5*time.Second)) && !j.run.used[KeepAnswer]: // an answer that is kept leaves a stream that is silent for ever
		return now.Sub(b.hit) > j.bound.toldCalm
	}
	return now.Sub(b.hit) > j.bound.toldLate && now.Sub(calm) > j.bound.toldLate
}

// survivedLocked reports whether the cluster went back without taking the key of a grant along: it was there before the
// backup and still is.
func (j *judge) survivedLocked(b *belief) bool {
	return j.epochs > 0 && b.hit.Equal(j.backAt) && slices.ContainsFunc(j.lines[b.name], func(kv *mvccpb.KeyValue) bool { return keyOf(kv) == b.key })
}

// exclusiveLocked looks for names with two valid holders. That is allowed only while one of them has not been told yet
// that an operator took it away (R10).
func (j *judge) exclusiveLocked(now time.Time) {
	holders := make(map[int]*belief)
	for _, b := range j.grants {
		if b.dead || b.double {
			continue
		}
		first := holders[b.name]
		switch {
		case first == nil:
			holders[b.name] = b
		case first.hit.IsZero() && b.hit.IsZero():
			j.violationLocked("two holders", "%v and %v", first, b)
			b.double = true // once is enough
		default:
			j.stats.Excused++
			if j.shouldKnowLocked(first, now) || j.shouldKnowLocked(b, now) {
				j.violationLocked("two holders", "%v and %v, long after one of them was taken away", first, b)
				b.double = true
			}
		}
	}
}

// granted takes note of a grant that a call has returned.
func (j *judge) granted(u *user, name int, g *leasehold.Grant) {
	j.mu.Lock()
	b := &belief{grant: g, user: u, name: name, key: hitKey{g.Key(), int64(g.Token())}, since: time.Now()}
	line := j.lines[name]
	valid := g.Remaining() > 0 // read after the line, which it must be true of
	j.stats.Grants++
	j.noteLocked("granted: %s", b.String())
	j.grants = append(j.grants, b)
	if s := g.Session(); !slices.Contains(j.sessions, s) {
		j.sessions = append(j.sessions, s) // of a pool
	}
	b.hit = j.hitKeys[b.key]
	if at, ok := j.hitLeases[g.Session().Lease()]; ok && b.hit.IsZero() {
		b.hit = at
	}
	operator := !b.hit.IsZero()
	present := slices.ContainsFunc(line, func(kv *mvccpb.KeyValue) bool { return keyOf(kv) == b.key })
	if !present && b.hit.IsZero() && j.epochs > 0 {
		b.hit = j.backAt // it was asked for before the cluster went back
	}
	if valid && b.hit.IsZero() {
		switch {
		case !present:
			j.violationLocked("no key", "%v: granted without its key", b)
		case keyOf(j.firstLocked(line)) != b.key:
			j.violationLocked("not first", "%v: granted behind %s", b, line[0].GetKey())
		case g.Token() <= j.highest[name]:
			j.violationLocked("token", "%v: after %v", b, j.highest[name])
		}
	}
	by := seenBy{u.etcd, name}
	if valid && !operator && g.Token() <= j.client[by] {
		j.violationLocked("token", "%v: the same etcd client was granted %v before", b, j.client[by])
	}
	j.client[by] = max(j.client[by], g.Token())
	if present {
		j.highest[name] = max(j.highest[name], g.Token())
	}
	j.lookLocked()
	j.mu.Unlock()
	j.expiry(g.Session(), j.cluster.LeaseExpiry)
}

func keyOf(kv *mvccpb.KeyValue) hitKey { return hitKey{string(kv.GetKey()), kv.GetCreateRevision()} }

func leaseOf(kv *mvccpb.KeyValue) clientv3.LeaseID { return clientv3.LeaseID(kv.GetLease()) }

func (j *judge) opened(_ *user, s *leasehold.Session) {
	j.mu.Lock()
	j.sessions = append(j.sessions, s)
	j.mu.Unlock()
	j.expiry(s, j.cluster.LeaseExpiry)
}

// released holds what Release says against the store: without an error, the key is gone.
func (j *judge) released(g *leasehold.Grant, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if g.Remaining() > 0 {
		j.violationLocked("release", "key %s: valid after its release", g.Key())
	}
	for _, line := range j.lines {
		for _, kv := range line {
			if err == nil && keyOf(kv) == (hitKey{g.Key(), int64(g.Token())}) {
				j.violationLocked("release", "key %s, created at %d, exists after its release", g.Key(), g.Token())
			}
		}
	}
	j.lookLocked()
}

// locked holds a refusal against the line: there was somebody in it.
func (j *judge) locked(name int, err *leasehold.LockedError, began time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if since := j.empty[name]; !since.IsZero() && since.Before(began) && j.epochs == 0 {
		j.violationLocked("locked", "%v, and the line has been empty since %v", err, since.Sub(j.started))
	}
}

// returned holds a call against its context: it returns in time, whatever the network does (R11).
func (j *judge) returned(what string, ctx context.Context, _ time.Time) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return
	}
	if late := time.Since(deadline); late > j.bound.grace {
		j.violation("bounded", "%s returned %v after its context had ended", what, late)
	}
}

// operates lets an operator do something, and takes note of what was hit. lease is the one that is revoked, if one is.
func (j *judge) operates(lease clientv3.LeaseID, do func() (int64, error)) {
	rev, err := do()
	if err != nil {
		return // it was gone already
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	j.operated[rev] = true
	if lease != 0 {
		j.hitLeases[lease] = now
	}
	for _, key := range j.touched[rev] {
		j.hitKeys[key] = now
	}
	for _, b := range j.grants {
		_, key := j.hitKeys[b.key]
		_, lease := j.hitLeases[b.grant.Session().Lease()]
		if b.hit.IsZero() && (key || lease) {
			b.hit = now
		}
	}
}

// goesBack lets the cluster go back in time: whoever holds something may have lost it.
func (j *judge) goesBack(do func()) {
	j.mu.Lock()
	j.epochs++
	j.backAt = time.Now()
	clear(j.highest)
	clear(j.hitKeys) // what an operator took may be back, and the same key can be put again at the same revision
	clear(j.hitLeases)
	for _, b := range j.grants {
		if b.hit.IsZero() {
			b.hit = j.backAt
		}
	}
	there := make(map[hitKey]bool)
	for _, line := range j.lines {
		for _, kv := range line {
			there[keyOf(kv)] = true
		}
	}
	j.mu.Unlock()
	do()
	rev, kvs := j.cluster.Revision(), j.cluster.Keys(prefix)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.backRev = rev
	for _, kv := range kvs {
		if !there[keyOf(kv)] {
			j.revived[keyOf(kv)] = true
		}
	}
	j.takeLocked(kvs)
	j.noteLocked("the cluster went back")
}

// firstLocked is the first key of a line that was always there. One that had gone, and that a backup has brought back, counts for nothing:
// its holder believes in nothing any more, and to whoever has not noticed the backup the line is what it was.
func (j *judge) firstLocked(line []*mvccpb.KeyValue) *mvccpb.KeyValue {
	for _, kv := range line {
		if !j.revived[keyOf(kv)] {
			return kv
		}
	}
	return line[0]
}

// wasGranted tells whether a key was that of a grant.
func (j *judge) wasGranted(key hitKey) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.grants, func(b *belief) bool { return b.key == key })
}

// backup is the revision that the cluster went back to; 0: it never did.
func (j *judge) backup() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.backRev
}

func (j *judge) epoch() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.epochs
}

// conclude turns what is left of suspicions into violations.
func (j *judge) conclude() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.suspects {
		if !j.operated[s.revision] {
			j.violations = append(j.violations, Violation{s.at, "freed", s.text})
			j.trace = append(j.trace, entry{s.at, "VIOLATION freed: %s", []any{s.text}})
		}
	}
	j.stats.Simulated = j.now()
	slices.SortStableFunc(j.violations, func(a, b Violation) int { return int(a.At - b.At) })
}

// calm tells whether nothing that was done to a request is still under way.
func (j *judge) calm() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, d := range j.disturb {
		if d.active > 0 {
			return false
		}
	}
	return true
}

func (j *judge) step(s Step, of spec) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.noteLocked("step: %v", s)
	j.stats.Steps[string(of.verb)]++
}

func (j *judge) freed(after time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stats.LongestGet = max(j.stats.LongestGet, after)
}

func (j *judge) noteError(h *host, what string, err error) {
	if err != nil {
		j.note("host %d: %s: %v", h.number, what, err)
	}
}
