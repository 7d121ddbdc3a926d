// SPDX-License-Identifier: Apache-2.0

package mutants

// lines break what places of one line know of each other, what a release says of the key, and what is cleaned up behind callers.
var lines = []mutant{
	{
		"R7", "a later use of a neighbour's slot is counted on", one("neighbours.go", " || front.token >= p.token ||", " ||"),
		"Neighbours_OnlyAnOlderPlaceIsCountedOn|Neighbour_ALaterUseOfTheSlotIsNotFollowed",
	},
	{
		"R7", "a place that was left is counted on", one("neighbours.go", "front.left.Load() || front.lost ||", "front.lost ||"),
		"Neighbours_OnlyAnOlderPlaceIsCountedOn",
	},
	{
		"R7", "a neighbour is counted on when its key was taken", one("wait.go", " && !w.neighbour.left.Load() && !w.neighbour.wasTaken() {", " && !w.neighbour.left.Load() {"),
		"Neighbours_NobodyCountsOnAPlaceThatWasTaken",
	},
	{
		"R7", "nobody tells who counts on a grant that was taken", one("neighbours.go", "	p.mu.Unlock()\n	behind.lookYourself()\n", "	p.mu.Unlock()\n	_ = behind\n"),
		"Neighbour_IsToldWhenAKeptGrantWasTaken",
	},
	{
		"R7", "a later use of the key ahead is waited for", one("wait.go", "clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(int64(p.token)-1)))\n		if err", "clientv3.WithKeysOnly()))\n		if err"),
		"Wait_ALaterUseOfTheKeyAheadIsNotWaitedFor",
	},
	{
		"watch", "a watch that rests forgets what it was told", one("watchstream.go", "sub.gone = max(sub.gone, ev.GetKv().GetModRevision())", "_ = ev"),
		"Watcher_ARestingWatchTellsWhatItWasTold",
	},
	{
		"watch", "a watch that was told something rests on", one("watchstream.go", "	if sub.resting && (", "	if false && ("),
		"Watcher_ARestingWatchTellsWhatItWasTold",
	},
	{
		"watch", "a watch that rests is trusted whenever it began", one("wait.go", "since > int64(p.token) {", "since < 0 {"),
		"Wait_ARestingWatchThatBeganTooLateIsNotTrusted",
	},
	{
		"watch", "watches rest without bound", one("watch.go", " && len(w.resting) < restLimit {", " {"),
		"Watcher_RestingWatchesEnd",
	},
	{
		"watch", "watches rest for ever", one("watch.go", "now.Sub(sub.rests) > restFor", "now.Sub(sub.rests) > time.Hour"),
		"Watcher_RestingWatchesEnd",
	},
	{
		"R8", "a stranger's key is taken for that of a lock", one("line.go", "if !p.ours(own[0]) {", "if false {"),
		"Lock_AStrangersKeyInASlotEndsNothing",
	},
	{
		"R8", "a stranger's key is taken for that of a TryLock", one("lock.go", " && !p.ours(holder)", " && false"),
		"TryLock_DoesNotTakeAStrangersKeyForItsOwn",
	},
	{
		"release", "a key that was not found counts as held", one("grant.go", "answer{held: resp.Succeeded || !e.writes.failed(w)}", "answer{held: true}"),
		"Release_TellsAForeignDeletionWheneverItCanBeKnown",
	},
	{
		"release", "a key that an attempt without an answer may have deleted counts as taken away", one("grant.go", "answer{held: resp.Succeeded || !e.writes.failed(w)}", "answer{held: resp.Succeeded}"),
		"Release_TellsAForeignDeletionWheneverItCanBeKnown",
	},
	{
		"release", "a refusal leaves a doubt", one("commit.go", "		if verdict == outcomeUnknown {\n			w.doubt = true", "		if err != nil {\n			w.doubt = true"),
		"Release_ARefusedTryIsNoDoubt",
	},
	{
		"release", "a key that went with its lease counts as taken away", one("grant.go", "if reason := p.session.Err(); reason != nil {\n				return true, reason", "if reason := p.session.Err(); false {\n				return true, reason"),
		"Release_BehindTheEndOfTheLeaseTellsThatItHasExpired",
	},
	{
		"R11", "Do waits for its release long after its context", one("lock.go", "_ = pause(rctx, releaseGrace)", "_ = pause(rctx, 3*releaseGrace)"),
		"Do_ReturnsSoonAfterItsContextAlthoughEtcdIsSilent",
	},
	{
		"pool", "sessions of electors that were lost hold up openings", one("client.go", "case s.borrowed, errors.Is(", "case errors.Is("),
		"Client_BacksOffForSessionsThatDieYoungOnly",
	},
	{
		"pool", "the pool closes a session that it has handed out", one("client.go", "if c.closed || s.lent.Load() {", "if c.closed {"),
		"Client_DoesNotCloseASessionUnderItsUser",
	},
	{
		"pool", "the pool closes a session below the release of its last grant", one("grant.go", "	defer p.session.unload() // a session", "	p.session.unload() // a session"),
		"Release_OfTheLastGrantOfASpareSessionSucceeds",
	},
	{
		"R9", "a session that was opened beside Close is left open", one("client.go", "		c.closeBehind(s)\n		return nil", "		return nil"),
		"Client_CloseDuringAnOpeningLeavesNoLease",
	},
	{
		"R9", "the slot of an acquire that was given up is lost", one("janitor.go", "			case finished:\n				p.freeSlot()\n", "			case finished:\n"),
		"Slots_OfCancelledAcquiresAreFreedAgain",
	},
	{
		"R9", "a stray still uses the engine when Close goes on",
		[]edit{
			{"stray.go", "		s.engine.leave() // before", "		s.strays.leave()\n		s.engine.leave() // before"},
			{"stray.go", "if it is the last to leave\n		s.strays.leave()\n", "if it is the last to leave\n"},
		},
		"Stray_UsesTheEngineNoMoreWhenItIsDone",
	},
	{
		"R9", "a revocation that is due waits for those that are not", one("janitor.go", "case <-j.changed: // perhaps", "case <-chan struct{}(nil): // perhaps"),
		"Janitor_OrdersThatAreDueDoNotWaitForThoseThatAreNot",
	},
	{
		"R11", "an opening is tried with a context that has ended", one("session.go", "	if ctx.Err() != nil {\n		return nil, ending(ctx) // nothing is sent\n	}\n", ""),
		"Calls_WithAnEndedContextSendNothing",
	},
	{
		"rollback", "an answer of the cluster that was left reveals a change again", one("mark.go", ", !m.behind && id == m.former:", ":"),
		"Mark_JudgesAnswers",
	},
	{
		"rollback", "a cluster that was left and answers on a stream again is not looked at", one("mark.go", "(err != nil || e.mayDoubt())", "err == nil && e.mayDoubt()"),
		"Cluster_TheFormerOneComesBack",
	},
	{
		"rollback", "a cluster that was left and grants a lease again is not looked at", one("session.go", "if errors.Is(err, ErrRolledBack) && !e.mark.suspect() {", "if false {"),
		"Cluster_TheFormerOneComesBack",
	},
}
