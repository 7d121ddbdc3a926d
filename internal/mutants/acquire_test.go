// SPDX-License-Identifier: Apache-2.0

package mutants

// acquires break what makes a grant, a token and its end (R7 to R10, R13).
var acquires = []mutant{
	{
		"R7", "a grant is made after the expiry", one("grant.go", "	if !s.Valid() {\n		return nil, s.Err()\n	}\n	g := &Grant", "	if s.ended() {\n		return nil, s.Err()\n	}\n	g := &Grant"),
		"Lock_DoesNotSucceedAfterTheExpiry",
	},
	{
		"R7", "older keys in the line are not looked at", one("line.go", "			a.keys = append(a.keys, string(kv.GetKey()))\n		}\n	}\n	if p.token == 0 {", "		}\n	}\n	if p.token == 0 {"),
		"Lock_GoroutinesOfOneSessionExcludeEachOther|Lock_TheLineIsServedInOrder",
	},
	{
		"R7", "TryLock does not compare the line", one("lock.go", "clientv3.Compare(clientv3.CreateRevision(p.dir).WithPrefix(), \"=\", 0)", "clientv3.Compare(clientv3.CreateRevision(p.key), \"=\", 0)"),
		"TryLock_LeavesNothingBehind",
	},
	{
		"R7", "a wait goes on after its session has ended", one("wait.go", "		case <-p.session.Done():\n			return p.session.Err()\n", ""),
		"Lock_AWaiterEndsAtOnceWithItsSession",
	},
	{
		"R7", "who sees the key ahead go takes itself for the first", one("wait.go", "		if len(went) > 0 && !s.whole {\n", "		if len(went) > 0 && !s.whole {\n			s.first = true\n"),
		"Lock_APlaceAheadThatGoesIsNotTheLastOne",
	},
	{
		"R7", "a release hands over without a look at the neighbour's own key", one("neighbours.go", "if len(own) > 0 && p.intact(own[0]) {", "if len(own) >= 0 {"),
		"Lock_IsNotHandedOverToANeighbourWhoseKeyHasGone",
	},
	{
		"R7", "a watch on the line is trusted before the line was read", one("wait.go", "s.whole && s.synced && len(s.ahead) == 0", "s.whole && len(s.ahead) == 0"),
		"Lock_AWaiterIsNotFirstBeforeItHasReadTheLine",
	},
	{
		"R7", "an acquire under way goes on after its session has ended", one("commit.go", "	case <-lost:\n", "	case <-chan struct{}(nil):\n		_ = lost\n"),
		"Outage_LongerThanTheTermTellsEverybody",
	},

	{
		"R8", "an old token that a backup has brought back is handed out", one("line.go", "if int64(p.token) <= p.floor {", "if p.token == 0 {"),
		"Cluster_RolledBackUnnoticedHandsOutNoOldToken",
	},
	{
		"R8", "the token comes from the header of the answer", one("line.go", "		if err := p.took(own[0]); err != nil {", "		own[0].CreateRevision = resp.Header.GetRevision()\n		if err := p.took(own[0]); err != nil {"),
		"Lock_TokenIsTheKeysOwnWhateverHappensToTheRequest",
	},
	{
		"R8", "acquires of one name share a transaction", one("write.go", "b.line == w.line && (!b.frees && !w.frees || b.whole || w.whole)", "b.line == w.line && (b.whole || w.whole)"),
		"Committer_WritesOfOneLineNeverShareATransaction",
	},
	{
		"R7", "a look at the whole line shares a transaction with a deletion there", one("write.go", "(!b.frees && !w.frees || b.whole || w.whole)", "(!b.frees && !w.frees)"),
		"Committer_ADeletionSharesWithAPutOfItsLineButNotWithALookAtIt",
	},
	{
		"R8", "a key is used again though attempts to put it are not settled", one("grant.go", "p.deleted(settled && err == nil && resp.Succeeded)", "p.deleted((settled || w != nil) && err == nil && resp.Succeeded)"),
		"Grant_AKeyWithAnUnsettledAttemptIsNotUsedAgain",
	},
	{
		"R8", "a key that the janitor still looks for is used again", one("line.go", "if gone && !p.sought.Load() {", "if gone {"),
		"Grant_TheJanitorLeavesTheNextGrantOfAKeyAlone",
	},
	{
		"R8", "the guard is true for any grant of the key", one("grant.go", "return clientv3.Compare(clientv3.CreateRevision(g.place.key), \"=\", int64(g.place.token))", "return clientv3.Compare(clientv3.CreateRevision(g.place.key), \">\", 0)"),
		"Grant_CmpIsTrueForThisGrantAlone",
	},

	{
		"R9", "an acquire that was given up is not removed", one("line.go", "		p.session.engine.janitor.search(p) // a", "		// a"),
		"Lock_AnAbandonedAcquireLeavesNoGhost",
	},
	{
		"R9", "a delete that found nothing settles the attempt", one("line.go", "	p.session.engine.janitor.search(p)\n", ""),
		"Lock_AnAbandonedAcquireLeavesNoGhost|Release_OfARepeatedAcquireLeavesNoGhost",
	},
	{
		"R9", "the key of a late attempt is found and left", one("janitor.go", "				p.delete(found, nil)\n", ""),
		"Lock_AnAbandonedAcquireLeavesNoGhost|Release_OfARepeatedAcquireLeavesNoGhost",
	},
	{
		"R9", "the deletion of a key without its lease is given up after a term", one("stray.go", "	stop := context.AfterFunc(s.ctx, func() { time.AfterFunc(s.granted, end) })\n", "	stop := context.AfterFunc(s.ctx, func() {})\n	time.AfterFunc(s.granted, end)\n"),
		"Grant_AKeyWithoutItsLeaseIsDeletedHoweverLongThatTakes",
	},
	{
		"R9", "Close does not wait for the deletion of a key without its lease", one("session.go", "			case <-s.strays.gone():\n", "			default:\n"),
		"Close_WaitsForTheDeletionOfAKeyWithoutItsLease",
	},
	{
		"R9", "the search ends before the attempts are settled", one("janitor.go", "finished := err == nil && settled && found == 0", "finished := err == nil && (settled || found == 0)"),
		"Lock_AnAbandonedAcquireLeavesNoGhost|Release_OfARepeatedAcquireLeavesNoGhost",
	},
	{
		"R9", "a deletion that found another create revision settles the place", one("line.go", "p.deleted(settled && err == nil && resp.Succeeded)", "p.deleted(settled && err == nil)"),
		"Grant_TakenAwayAndPutAgainByALateAttemptLeavesNoGhost",
	},
	{
		"R9", "a lost answer counts as an outcome", one("commit.go", "			w.doubt = true\n", "			w.doubt = false\n"),
		"Committer_KeepsADoubtAboutWhatWasNeverAnswered",
	},
	{
		"R9", "a flight under way counts as settled", one("commit.go", "return w.out == 0 && !w.doubt, w.put", "return !w.doubt, w.put"),
		"Committer_SendsAgainWhatIsOverdueAndTheFirstAnswerCounts|Release_OfARepeatedAcquireLeavesNoGhost",
	},
	{
		"R9", "a failure that says nothing counts as a refusal", one("flight.go", "codes.OutOfRange, codes.Unimplemented,", "codes.OutOfRange, codes.Unavailable, codes.Unimplemented,"),
		"Judge_CallsAnOutcomeKnownOnlyIfItIs",
	},
	{
		"R9", "an acquire that is sent again puts again", one("line.go", "cmps: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(p.key), \"=\", 0)},", "cmps: nil,"),
		"Leadership_ALateAttemptToAcquireOverwritesNothing",
	},
	{
		"R9", "a delete takes whatever is there", one("line.go", "{clientv3.Compare(clientv3.CreateRevision(p.key), \"=\", created)}", "{clientv3.Compare(clientv3.CreateRevision(p.key), \">\", min(created, 0))}"),
		"Release_ALateDeleteDoesNotFreeALaterGrant",
	},
	{
		"R9", "a lease whose grant nobody waits for is left", one("session.go", "if resp != nil || judge(err) == outcomeUnknown {", "if resp != nil && err != nil {"),
		"NewSession_ThatFailsLeavesNothing|NewSession_ALateGrantIsRevoked",
	},

	{
		"R10", "a grant is never put under watch", one("vigil.go", "			g.startWatch()\n", ""),
		"Grant_OlderThanASecondIsToldOfItsLossWithinARoundTrip",
	},
	{
		"R10", "a grant is put under watch after three seconds", one("vigil.go", "const youth = time.Second", "const youth = 3 * time.Second"),
		"Grant_OlderThanASecondIsToldOfItsLossWithinARoundTrip|Grant_YoungerThanASecondIsToldOfItsLossWithinTwo",
	},
	{
		"R10", "a grant is put under watch at once", one("vigil.go", "const youth = time.Second", "const youth = 0"),
		"Grant_ShortCriticalSectionsPayForNoWatch",
	},
	{
		"R10", "what happened before a watch began is not read", one("grant.go", "func (g *Grant) opened() { g.place.session.engine.vigil.verify(g) }", "func (g *Grant) opened() {}"),
		"Grant_YoungerThanASecondIsToldOfItsLossWithinTwo|Grant_IsToldOfWhatHappenedWhileItsWatchWasBroken",
	},
	{
		"R10", "a key with a strange value or without its lease is taken for ours", one("line.go", "return clientv3.LeaseID(kv.GetLease()) == p.session.id && (value == p.value || slices.Contains(p.maybe, value))", "return value != \"\" || slices.Contains(p.maybe, value)"),
		"Grant_OlderThanASecondIsToldOfItsLossWithinARoundTrip",
	},
	{
		"R10", "a key that was made again is taken for ours", one("line.go", "	if Token(kv.GetCreateRevision()) != p.token {\n		return false\n	}\n	p.mu.Lock()\n	defer p.mu.Unlock()\n	if kv.GetModRevision() < p.mod", "	p.mu.Lock()\n	defer p.mu.Unlock()\n	if kv.GetModRevision() < p.mod"),
		"Grant_YoungerThanASecondIsToldOfItsLossWithinTwo",
	},
	{
		"R10", "an answer that the lease is gone is not believed", one("carrier.go", "lost = ErrRevoked // believed at once (R10)", "lost = nil // believed at once (R10)"),
		"Stream_BelievesAtOnceThatALeaseIsGone",
	},
	{
		"R10", "a waiter does not mind the loss of its own key", one("wait.go", "		case string(kv.GetKey()) == p.key:\n			gone = gone || deleted || !p.intact(kv)\n", "		case string(kv.GetKey()) == p.key:\n"),
		"Lock_AWaiterIsToldAtOnceThatItsOwnKeyOrLeaseHasGone",
	},
	{
		"rollback", "a lower revision is believed", one("mark.go", "back := rev < sent.floor", "back := false"),
		"Mark_JudgesAnswers|Cluster_ReplacedOrRolledBackEndsAllGrants",
	},
	{
		"rollback", "another cluster's stream is believed", one("mark.go", "	m.behind, m.rumour = true, id\n	m.changes++\n	return true, false, ErrRolledBack\n", "	return false, false, nil\n"),
		"Mark_JudgesAnswers",
	},
	{
		"rollback", "tokens are handed out before the store has come to the mark", one("mark.go", "if m.behind = rev < m.highest; m.behind", "if m.behind = false; m.behind"),
		"Mark_JudgesAnswers",
	},
	{
		"rollback", "an answer is held against the present mark, not that of its send", one("mark.go", "back := rev < sent.floor", "back := rev < m.highest"),
		"Mark_JudgesAnswers|Mark_BelievesConcurrentAnswersOfAHealthyCluster",
	},
	{
		"rollback", "an answer that was under way reveals the change again", one("mark.go", "case sent.changes != m.changes:", "case false:"),
		"Mark_JudgesAnswers",
	},
	{
		"rollback", "the first answer of a cluster that is behind is not remembered", one("mark.go", "m.rumour = id\n		}", "}"),
		"Mark_JudgesAnswers",
	},
	{
		"rollback", "the mark is forgotten with the last session", one("engine.go", "startEngine(client, &slot.mark, log)", "startEngine(client, &mark{}, log)"),
		"Cluster_RolledBackWhileNobodyHoldsAnything",
	},
	{
		"rollback", "new sessions do not ask how far a suspect cluster has come", one("session.go", "if e.mark.suspect() {", "if false {"),
		"Cluster_ReplacedOrRolledBackEndsAllGrants",
	},

	{
		"R13", "a transaction under a grant runs without it", one("txn.go", "KV.Txn(t.ctx).If(g.Cmp()).Then(", "KV.Txn(t.ctx).Then("),
		"GrantTxn_ThatArrivesAfterTheGrantDoesNotRun",
	},
	{
		"R13", "a fence admits a lower token", one("fencing.go", "if t <= 0 || t < highest {", "if t <= 0 {"),
		"Fence_AdmitsRisingTokensAndRefusesLateOnes",
	},
	{
		"R13", "a fence admits the token of nobody", one("fencing.go", "if t <= 0 || t < highest {", "if t < highest {"),
		"Fence_AdmitsRisingTokensAndRefusesLateOnes",
	},
	{
		"R13", "a fence forgets what it has admitted", one("fencing.go", "	f.marks[resource] = t\n", "	f.marks[resource] = 0\n"),
		"Fence_AdmitsRisingTokensAndRefusesLateOnes",
	},
	{
		"R13", "a token with leading zeros or a sign is parsed", one("fencing.go", "n > 0 && t.String() == s {", "n > 0 {"),
		"ParseToken_RefusesWhatNoTokenPrints",
	},

	{
		"names", "a slash in a name is not escaped", one("key.go", "b == '%' || b == '/' ||", "b == '%' ||"),
		"EscapeName_ChangesOnlyWhatItMust",
	},
	{
		"names", "a percent sign in a name is not escaped", one("key.go", "b == '%' || b == '/' ||", "b == '/' ||"),
		"EscapeName_ChangesOnlyWhatItMust",
	},
	{
		"names", "a line has no slash at its end", one("key.go", "return prefix + escapeName(name) + \"/\" }", "return prefix + escapeName(name) }"),
		"PlaceKey_IsWhereEtcdsOwnMutexStands",
	},
	{
		"R9", "a grant forgets how its key was put before the last attempt has an outcome", one("line.go", "	if p.settled() {\n		p.acquire = nil", "	if p.settled() || true {\n		p.acquire = nil"),
		"Grant_TheJanitorLeavesTheNextGrantOfAKeyAlone|Grant_AKeyWithAnUnsettledAttemptIsNotUsedAgain",
	},
	{
		"R9", "a release is told that the key was gone, although another attempt has just deleted it", one("commit.go", "return w.out == 0 && !w.doubt && !w.won", "return w.out == 0 && !w.doubt"),
		"Committer_AnAttemptThatSucceedsBehindTheAnswerCounts",
	},
	{
		"rollback", "what a watch has told is forgotten", one("mark.go", "		m.highest = max(m.highest, rev)\n		return false, doubt, nil", "		return false, doubt, nil"),
		"Cluster_TakingBackWhatOnlyAWatchToldIsNoticed",
	},
	{
		"rollback", "a renewal that tells of an earlier revision is not looked into", one("mark.go", "(err != nil || e.mayDoubt())", "err != nil"),
		"Cluster_TakingBackALittleIsNoticedByTheNextRenewal",
	},
}
