// SPDX-License-Identifier: Apache-2.0

package mutants

func all() []mutant {
	var m []mutant
	m = append(m, beliefs...)
	m = append(m, acquires...)
	m = append(m, lines...)
	return append(m, streams...)
}

func one(file, find, put string) []edit { return []edit{{file, find, put}} }

// beliefs break what a session believes: the term, the expiry, the end (R1 to R6), and the arithmetic below them.
var beliefs = []mutant{
	{
		"R2", "an answer of an earlier raft term extends", one("carrier.go", "s == nil || term < s.renewal.term {", "s == nil {"),
		"Carrier_AnAnswerOfAnEarlierRaftTermCountsForNothing|Carrier_TransactionsTellTheRaftTermToo",
	},
	{
		"R2", "a raft term counts for the lease alone whose answer told it", one("keepalive.go", "		s.renewal.term = max(s.renewal.term, term)\n", "		_ = s\n"),
		"Carrier_AnAnswerOfAnEarlierRaftTermCountsForNothing",
	},
	{
		"term", "the holder takes one half of the drift only", one("term.go", "* (1 - a.drift) / (1 + a.drift))", "* (1 - a.drift))"),
		"Expiry_LiesBeforeTheGrantorsWithinTheDriftBound|Expiry_OfKnownTerms",
	},
	{
		"term", "the margin is forgotten", one("term.go", "time.Duration(held) - a.margin)", "time.Duration(held))"),
		"Expiry_OfKnownTerms",
	},
	{
		"term", "the expiry is rounded up", one("term.go", "math.Floor(", "math.Ceil("),
		"Expiry_IsExactAndRoundsTowardsEarlier",
	},
	{
		"term", "the term asked for counts, not the one granted", one("session.go", "s.granted = time.Duration(granted.TTL) * time.Second", "s.granted = cfg.TTL"),
		"Session_TheGrantedTermCounts",
	},
	{
		"config", "a drift that is not a number is accepted", one("config.go", "math.IsNaN(c.DriftBound) || c.DriftBound < minDriftBound", "math.IsInf(c.DriftBound, -1) || c.DriftBound < minDriftBound"),
		"Config_Bounds",
	},
	{
		"config", "a TTL is rounded down", one("config.go", "c.TTL += time.Second - rest", "c.TTL -= rest"),
		"Config_RoundsTheTTLUpToWholeSeconds",
	},

	{
		"R1", "a renewal counts from its answer", one("carrier.go", "s.extend(sent, time.Duration(", "s.extend(k.engine.clk.Now(), time.Duration("),
		"Carrier_PairsAnAnswerWithTheOldestUnansweredSend|Session_SlowRenewalDoesNotExtendExpiryBeyondItsOwnSendAndTerm",
	},
	{
		"R1", "an answer is paired with the latest send", one("carrier.go", "s.extend(sent, time.Duration(", "s.extend(s.renewal.sent, time.Duration("),
		"Session_HeldAnswersCountFromTheirOwnSendsAcrossAReopenedStream",
	},
	{
		"R1", "an answer is paired with the youngest send of its stream",
		one("carrier.go", "for i := c.head; i < len(c.sends); i++ {", "for i := len(c.sends) - 1; i >= c.head; i-- {"),
		"Carrier_PairsAnAnswerWithTheOldestUnansweredSend",
	},
	{
		"R1", "an answer to nothing extends", one("carrier.go", "	if !ok {\n		k.mu.Unlock()\n		return // an answer to nothing", "	if !ok && id == 0 {\n		k.mu.Unlock()\n		return // an answer to nothing"),
		"Carrier_AnAnswerWithoutASendSaysNothing",
	},
	{
		"R1", "the first term counts from the answer to the grant", one("session.go", "expiry := s.allow.expiry(sent, s.granted)", "expiry := s.allow.expiry(e.clk.Now(), s.granted)"),
		"Session_TheFirstExpiryCountsFromTheSendOfTheGrant",
	},

	{
		"R2", "an answer after the expiry extends",
		one("lease.go", "	if !l.clk.Now().Before(clock.Instant(l.expiry.Load())) {\n		l.endLocked(ErrExpired) // R2", "	if l.expiry.Load() == longAgo {\n		l.endLocked(ErrExpired) // R2"),
		"Lease_ExtendsOnlyForwardAndOnlyInTime|Lease_IsNeverRevived",
	},
	{
		"R2", "an old answer moves the expiry back", one("lease.go", "e.After(clock.Instant(l.expiry.Load()))", "e != 0"),
		"Lease_ExtendsOnlyForwardAndOnlyInTime",
	},
	{
		"R2", "the term in the answer is ignored", one("carrier.go", "s.extend(sent, time.Duration(answer.GetTTL())*time.Second)", "s.extend(sent, s.granted)"),
		"Carrier_ATermInAnAnswerCounts",
	},

	{
		"R3", "an answer revives a lease that has ended", one("lease.go", "	if l.cause != nil {\n		return false\n	}\n	if !l.clk.Now().Before(clock.Instant(l.expiry.Load())) {\n		l.endLocked(ErrExpired) // R2", "	if l.clk.Now() < 0 && l.clk.Now().Before(clock.Instant(l.expiry.Load())) {\n		l.endLocked(ErrExpired) // R2"),
		"Lease_EndsOnceForOneReason|Lease_IsNeverRevived",
	},
	{
		"R3", "a check that finds the expiry passed does not end the lease", one("lease.go", "	l.endLocked(ErrExpired)\n	return false, true", "	return false, false"),
		"Lease_IsLiveUntilItsExpiryAndNotAt",
	},
	{
		"R3", "the second reason counts", one("lease.go", "	if l.cause != nil {\n		return false\n	}\n	if !l.clk.Now().Before(clock.Instant(l.expiry.Load())) {\n		reason", "	if !l.clk.Now().Before(clock.Instant(l.expiry.Load())) && l.cause == nil {\n		reason"),
		"Lease_EndsOnceForOneReason",
	},
	{
		"R3", "a lost session is renewed",
		[]edit{
			{"session.go", "		s.engine.keeper.remove(s)\n", ""},
			{"keepalive.go", "		case expiry <= now:\n			heap.Pop(&k.agenda) // nothing is sent for it any more\n", "		case expiry <= now && s.end(ErrExpired):\n"},
			{"keepalive.go", "s.Valid() // finds the expiry passed", "s.announce() // finds the expiry passed"},
			{"keepalive.go", "r.at = min(r.next, clock.Instant(s.expiry.Load()))", "r.at = r.next"},
			{"carrier.go", "live := k.sessions[s.id] == s && !s.ended()", "live := true"},
			{"carrier.go", "		if !now.Before(clock.Instant(s.expiry.Load())) {\n			continue // R12", "		if now == 0 {\n			continue // R12"},
		},
		"Session_LostIsLost",
	},
	{
		"R3", "the lease of a lost session is left to run out", one("session.go", "if !s.quiet.Load() && !s.retained.Load() {", "if false {"),
		"Lock_DoesNotSucceedAfterTheExpiry",
	},

	{
		"R4", "Valid trusts the timer", one("lease.go", "	if l.clk.Now().Before(clock.Instant(expiry)) {\n		return true, false", "	if l.cause == nil {\n		return true, false"),
		"Lease_IsLiveUntilItsExpiryAndNotAt|Session_AMachineThatSleptFindsItselfExpired",
	},
	{
		"R4", "nobody is told when the expiry passes", one("keepalive.go", "s.Valid() // finds the expiry passed", "_ = s // finds the expiry passed"),
		"Session_ContextEndsAtTheExpiryWithEverythingBlackholed",
	},
	{
		"R4", "the expiry is enforced a millisecond late", one("keepalive.go", "wait = min(wait, max(0, k.agenda[0].renewal.at.Sub(now)))", "wait = min(wait, max(0, k.agenda[0].renewal.at.Sub(now))+time.Millisecond)"),
		"Session_ContextEndsAtTheExpiryWithEverythingBlackholed",
	},
	{
		"R4", "the context ends without the reason", one("session.go", "s.cancel(reason) // first", "s.cancel(nil) // first"),
		"Session_ContextEndsAtTheExpiryWithEverythingBlackholed",
	},

	{
		"R5", "the clock does not count the time asleep", one("internal/clock/clock.go", "return now.Add(time.Duration(c.asleep.Load()))", "return now"),
		"Session_AMachineThatSleptFindsItselfExpired",
	},
	{
		"R5", "a machine that wakes is noticed by the old timers", one("keepalive.go", "tick = time.Second\n", "tick = time.Hour\n"),
		"Session_AMachineThatSleptFindsItselfExpired|Session_AShortSleepIsSurvived",
	},

	{
		"R6", "Release sends before the belief ends", one("grant.go", "	p := g.place\n	if !g.end(ErrReleased)", "	p := g.place\n	if g.ended.Load() == nil {\n		lost, err := p.deleteNow(ctx)\n		g.end(ErrReleased)\n		return lost, err\n	}\n	if !g.end(ErrReleased)"),
		"Grant_BeliefEndsBeforeTheRequestThatFreesTheName",
	},
	{
		"R6", "Close revokes before the belief ends",
		[]edit{
			{"session.go", "	s.lose(ErrClosed)\n	switch reason := s.reason(); {", "	switch reason := ErrClosed; {"},
			{"session.go", "			s.last = e.leave()\n			close(s.closing)\n		}\n		if !e.start(revoke)", "			s.lose(ErrClosed)\n			s.last = e.leave()\n			close(s.closing)\n		}\n		if !e.start(revoke)"},
		},
		"Grant_BeliefEndsBeforeTheRequestThatFreesTheName",
	},
}
