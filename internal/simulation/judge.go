// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
	"example.com/leasehold/internal/etcdfake"
)

// The judge knows the truth, which in the world no one does: what the cluster holds at every instant, and what every
// holder believes at the same instant. It looks at each change of the store as it is applied, before anybody can have learned of
// it, after each call, and ten times a second.
//
// Locks. Of the cluster's mutex and the judge's, the cluster's is taken first; so while the judge holds its own it asks the
// cluster nothing.
type judge struct {
	run     *run
	cluster *etcdfake.Cluster
	started time.Time
	bound   bounds

	mu       sync.Mutex
	grants   []*belief
	sessions []*leasehold.Session
	over     map[*leasehold.Session]bool // seen to have ended
	lines    map[int][]*mvccpb.KeyValue  // by name, the oldest first
	empty    map[int]time.Time           // since when the line has been empty; zero: it is not
	highest  map[int]leasehold.Token     // of the grants of each name
	client   map[seenBy]leasehold.Token  // the same by etcd client, which must rise even when the cluster goes back in time
	suspects []suspect
	accused  map[*leasehold.Session]bool
	disturb  map[int]*disturbance // by host; everywhere for the cluster

	touched   map[int64][]hitKey             // by revision, the keys that it deleted or gave another lease
	hitKeys   map[hitKey]time.Time           // what an operator took away, and when
	hitLeases map[clientv3.LeaseID]time.Time // those that were revoked
	operated  map[int64]bool                 // the revisions of operators
	epochs    int                            // how often the cluster went back in time
	backAt    time.Time                      // when last
	backRev   int64                          // and to which revision
	revived   map[hitKey]bool                // keys that had gone, and were there again when it had

	violations []Violation
	trace      []entry
	stats      Stats
}

// Violation is a broken invariant.
type Violation struct {
	At   time.Duration // since the beginning
	Kind string
	Text string
}

func (v Violation) String() string { return fmt.Sprintf("%v: %s: %s", v.At, v.Kind, v.Text) }

// belief is one grant, and what has been seen of it.
type belief struct {
	grant  *leasehold.Grant
	user   *user
	name   int
	key    hitKey
	since  time.Time
	dead   bool
	deadAt time.Time // when it was first seen invalid
	told   bool      // its context was seen to have ended
	lateOK bool      // has been reported as not told
	double bool      // has been reported as one of two holders
	hit    time.Time // when an operator took it away; zero: none did
}

// seenBy is a name as one etcd client knows it.
type seenBy struct {
	etcd *clientv3.Client
	name int
}

type hitKey struct {
	key     string
	created int64
}

// suspect is a key that went while its holder believed in it: a violation unless an operator did it.
type suspect struct {
	revision int64
	text     string
	at       time.Duration
}

type disturbance struct {
	active int
	ended  time.Time
}

const prefix = "leasehold/"

func newJudge(r *run) *judge {
	j := &judge{
		run: r, cluster: r.cluster, started: time.Now(), bound: boundsOf(r.plan.World),
		lines: make(map[int][]*mvccpb.KeyValue), empty: make(map[int]time.Time), highest: make(map[int]leasehold.Token), client: make(map[seenBy]leasehold.Token),
		disturb: make(map[int]*disturbance), hitKeys: make(map[hitKey]time.Time), touched: make(map[int64][]hitKey), over: make(map[*leasehold.Session]bool), accused: make(map[*leasehold.Session]bool),
		hitLeases: make(map[clientv3.LeaseID]time.Time), operated: make(map[int64]bool), revived: make(map[hitKey]bool),
	}
	for name := range r.plan.World.Names {
		j.empty[name] = j.started
	}
	j.stats = Stats{Plans: 1, Losses: make(map[string]int), Steps: make(map[string]int)}
	r.cluster.OnChange(j.changed)
	return j
}

func (j *judge) now() time.Duration { return time.Since(j.started) }

func (j *judge) violation(kind, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.violationLocked(kind, format, args...)
}

func (j *judge) violationLocked(kind, format string, args ...any) {
	v := Violation{j.now(), kind, fmt.Sprintf(format, args...)}
	j.violations = append(j.violations, v)
	j.noteLocked("VIOLATION %s: %s", v.Kind, v.Text)
}

// note adds a line to the trace, which is shown when something was violated.
func (j *judge) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.noteLocked(format, args...)
}

func (j *judge) noteLocked(format string, args ...any) {
	j.trace = append(j.trace, entry{j.now(), format, args})
}

// An entry of the trace becomes text only if somebody is to read it: most schedules are in order, and text is a good part of what
// they cost. So what can change before the end is made text by whoever notes it.
type entry struct {
	at     time.Duration
	format string
	args   []any
}

func (e entry) String() string { return fmt.Sprintf("%-14v ", e.at) + fmt.Sprintf(e.format, e.args...) }

// traced returns the trace, if something was violated.
func (j *judge) traced() []string {
	if len(j.violations) == 0 {
		return nil
	}
	lines := make([]string, len(j.trace))
	for i, e := range j.trace {
		lines[i] = e.String()
	}
	return lines
}

// changed looks at a change of the store, at the instant at which it is made. It runs under the cluster's mutex.
func (j *judge) changed(ch etcdfake.Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := make(map[string]*mvccpb.KeyValue)
	for _, line := range j.lines {
		for _, kv := range line {
			before[string(kv.GetKey())] = kv
		}
	}
	var survivors []*belief
	for _, b := range j.grants {
		if j.survivedLocked(b) {
			survivors = append(survivors, b)
		}
	}
	j.takeLocked(ch.Keys(prefix))
	for _, b := range survivors {
		if !j.survivedLocked(b) {
			b.hit = time.Now() // not by the backup, but now
		}
	}
	for _, ev := range ch.Events {
		kv := ev.GetKv()
		if old := before[string(kv.GetKey())]; old != nil && old.GetLease() != kv.GetLease() {
			j.touched[ch.Revision] = append(j.touched[ch.Revision], keyOf(old))
		}
		j.noteLocked("rev %d: %v %s lease %x", ch.Revision, ev.GetType(), kv.GetKey(), kv.GetLease())
		if ev.GetType() != mvccpb.Event_DELETE {
			continue
		}
		for _, b := range j.grants {
			if b.key.key == string(kv.GetKey()) && b.hit.IsZero() && b.grant.Remaining() > 0 {
				j.suspects = append(j.suspects, suspect{ch.Revision, fmt.Sprintf("%v: its key goes at revision %d", b, ch.Revision), j.now()})
			}
		}
	}
	j.lookLocked()
	j.expiriesLocked(ch.LeaseExpiry)
}

// takeLocked takes note of the lines.
func (j *judge) takeLocked(kvs []*mvccpb.KeyValue) {
	for name := range j.run.plan.World.Names {
		dir := prefix + nameOf(name) + "/"
		var line []*mvccpb.KeyValue
		for _, kv := range kvs {
			if key := string(kv.GetKey()); len(key) > len(dir) && key[:len(dir)] == dir {
				line = append(line, kv)
			}
		}
		j.lines[name] = line
		switch {
		case len(line) > 0:
			j.empty[name] = time.Time{}
		case j.empty[name].IsZero():
			j.empty[name] = time.Now()
		}
	}
}

func (b *belief) String() string {
	return fmt.Sprintf("%s of host %d user %d, token %v, lease %x, %v left", b.key.key, b.user.host.number, b.user.number, b.grant.Token(), int64(b.grant.Session().Lease()), b.grant.Remaining())
}

// look looks at what everybody believes.
func (j *judge) look() {
	j.mu.Lock()
	j.lookLocked()
	grants := slices.Clone(j.grants)
	sessions := slices.Clone(j.sessions)
	j.mu.Unlock()
	for _, b := range grants {
		j.expiry(b.grant.Session(), j.cluster.LeaseExpiry)
	}
	for _, s := range sessions {
		j.expiry(s, j.cluster.LeaseExpiry)
	}
}

func (j *judge) expiriesLocked(of func(clientv3.LeaseID) (time.Time, bool)) {
	for _, b := range j.grants {
		j.tooLongLocked(b.grant.Session(), j.tooLong(b.grant.Session(), of))
	}
}

func (j *judge) expiry(s *leasehold.Session, of func(clientv3.LeaseID) (time.Time, bool)) {
	text := j.tooLong(s, of) // without the judge's mutex: it asks the cluster
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tooLongLocked(s, text)
}

func (j *judge) tooLongLocked(s *leasehold.Session, text string) {
	if text != "" && !j.accused[s] {
		j.accused[s] = true // once is enough
		j.violationLocked("expiry", "%s", text)
	}
}

// tooLong tells whether a session believes for too long: its validity ends before the grantor's expiry, by the margin. What the
// session believes is read first, because it can only become more true that way.
func (j *judge) tooLong(s *leasehold.Session, of func(clientv3.LeaseID) (time.Time, bool)) string {
	left, margin := s.Remaining(), j.run.plan.World.Margin
	if left <= 0 {
		return ""
	}
	at, ok := of(s.Lease())
	if early := at.Sub(time.Now().Add(left)); ok && early < margin {
		return fmt.Sprintf("lease %x: the session believes for %v, until %v before the grantor's expiry, with a margin of %v", int64(s.Lease()), left, early, margin)
	}
	return ""
}

// lookLocked holds what is believed now against what was seen before.
func (j *judge) lookLocked() {
	now := time.Now()
	for _, s := range j.sessions {
		if valid := s.Remaining() > 0; valid && j.over[s] {
			j.violationLocked("resurrection", "the session of lease %x had ended, and has %v left", int64(s.Lease()), s.Remaining())
			delete(j.over, s)
		} else if !valid {
			j.over[s] = true
		}
	}
	for _, b := range j.grants {
		valid := b.grant.Remaining() > 0
		switch {
		case valid && b.dead:
			j.violationLocked("resurrection", "%v: it had ended at %v", b, b.deadAt.Sub(j.started))
			b.dead = false
		case !valid && !b.dead:
			b.dead, b.deadAt = true, now
			j.noteLocked("%s: has ended", b.String())
		}
		if valid && !b.lateOK && j.shouldKnowLocked(b, now) {
			b.lateOK = true
			j.violationLocked("not told", "%v: taken away at %v", b, b.hit.Sub(j.started))
		}
		if b.dead && !b.told {
			j.toldLocked(b, now)
		}
	}
	j.exclusiveLocked(now)
}

// toldLocked holds the context of an ended grant against its end. Observing must not help: the judge asks Remaining, which
// tells nobody that the end was found.
func (j *judge) toldLocked(b *belief, now time.Time) {
	select {
	case <-b.grant.Done():
		b.told = true
		err := b.grant.Err()
		if !ended(err) || !ended(context.Cause(b.grant.Context())) {
			j.violationLocked("reason", "%v: error %v, cause %v", b, err, context.Cause(b.grant.Context()))
		}
		j.lossLocked(b, err)
	default:
		if now.Sub(b.deadAt) > j.bound.timer {
			b.told = true
			j.violationLocked("timer", "%v: ended at %v, and its context has not", b, b.deadAt.Sub(j.started))
		}
	}
}

// lossLocked asks why a grant was lost: for a reason that was there.
func (j *judge) lossLocked(b *belief, err error) {
	for what, reason := range map[string]error{
		"expired": leasehold.ErrExpired, "revoked": leasehold.ErrRevoked, "rolled back": leasehold.ErrRolledBack,
		"closed": leasehold.ErrClosed, "released": leasehold.ErrReleased,
	} {
		if errors.Is(err, reason) {
			j.stats.Losses[what]++
		}
	}
	_, lease := j.hitLeases[b.grant.Session().Lease()]
	_, key := j.hitKeys[b.key]
	if errors.Is(err, leasehold.ErrRevoked) && !lease && !key && j.epochs == 0 {
		j.violationLocked("false alarm", "%v: %v, and nobody took it away", b, err)
	}
	if errors.Is(err, leasehold.ErrExpired) && j.bound.renewable && j.calmSinceLocked(b.user.host.number, b.deadAt.Add(-b.grant.Session().TTL())) {
		j.violationLocked("needless loss", "%v: %v in calm", b, err)
	}
}
