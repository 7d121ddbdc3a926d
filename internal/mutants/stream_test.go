// SPDX-License-Identifier: Apache-2.0

package mutants

// streams break what goes over the wire, when, and how long it is waited for (R11, R12).
var streams = []mutant{
	{
		"R11", "a wait for an answer goes on after its context", one("commit.go", "	case <-ctx.Done():\n		if last := c.abandon(w); last != nil {", "	case <-c.engine.ctx.Done():\n		if last := c.abandon(w); last != nil {"),
		"Committer_AwaitEndsWithItsContext",
	},
	{
		"R11", "a wait in line goes on after its context", one("wait.go", "		case <-ctx.Done():\n			return fmt.Errorf(\"%w, in line behind %s\", ending(ctx), p.nameOf(a.keys[0]))\n", "		case <-(chan struct{})(nil):\n			return fmt.Errorf(\"%w, in line behind %s\", ending(ctx), p.nameOf(a.keys[0]))\n"),
		"BlockingCalls_EndWithTheirContextWhenEverybodyIsSilent",
	},
	{
		"R11", "Release waits for its answer after its context", one("grant.go", "	case <-ctx.Done():\n		return false, ending(ctx)\n	}\n}\n\n// opened", "	}\n}\n\n// opened"),
		"BlockingCalls_EndWithTheirContextWhenEverybodyIsSilent",
	},
	{
		"R11", "a session ends with the context of its opening", one("session.go", "context.WithCancelCause(context.WithoutCancel(e.ctx))", "context.WithCancelCause(ctx)"),
		"NewSession_ContextBoundsTheOpeningOnly",
	},
	{
		"R11", "a failed transaction is sent again without a pause", one("commit.go", "	wait := min(20*time.Millisecond<<min(c.failures, 6), time.Second)\n	if c.failures == 10", "	wait := time.Duration(1)\n	if c.failures == 10"),
		"Committer_PausesBetweenFailures",
	},
	{
		"R11", "flights without an answer pile up", one("flight.go", "		c.aloft[0].cancel() //", "		_ = c.aloft[0].cancel //"),
		"Committer_BoundsTheFlightsWithoutAnAnswer",
	},
	{
		"R11", "an unanswered transaction is not sent again", one("flight.go", "			c.requeueLocked(f.writes)\n", ""),
		"Committer_SendsAgainWhatIsOverdueAndTheFirstAnswerCounts",
	},
	{
		"R11", "one refused write takes its company along", one("commit.go", "case verdict == outcomeRefused && len(f.writes) == 1, errors", "case verdict == outcomeRefused, errors"),
		"Committer_RefusedCompanyGoesAgainEachByItself",
	},

	{
		"R12", "renewals go out after two thirds of the term", one("term.go", "min(granted/3, a.held(granted)/2)", "granted*2/3"),
		"RenewAfter_IsATenthBelowAThirdAtMost|Stream_RenewsEachThirdOfTheTermAfterTheLastSend",
	},
	{
		"R12", "renewals are not spread", one("term.go", "* (1 - jitter/10))", "* (1 - 0*jitter))"),
		"RenewAfter_IsATenthBelowAThirdAtMost",
	},
	{
		"R12", "a third of the term counts from the answer", one("carrier.go", "r.next = r.sent.Add(", "r.next = k.engine.clk.Now().Add("),
		"Stream_RenewsEachThirdOfTheTermAfterTheLastSend",
	},
	{
		"R12", "an unanswered renewal is not repeated", one("keepalive.go", "	r.next = now.Add(s.allow.patience(s.granted, k.trip))", "	r.next = now.Add(s.granted)"),
		"Stream_RepeatsAnUnansweredRenewalOverOtherMembers|Stream_SurvivesTheSilenceOfItsMember",
	},
	{
		"R12", "an unanswered renewal is repeated over the same stream", one("keepalive.go", "		k.stalledLocked(r.over)\n", ""),
		"Stream_RepeatsAnUnansweredRenewalOverOtherMembers|Stream_SurvivesTheSilenceOfItsMember",
	},
	{
		"R12", "a stream is opened over the same member always", one("streams.go", "if best == \"\" || cost < bestCost {", "if best == \"\" || endpoint < best && cost+bestCost < 1000 {"),
		"Stream_RepeatsAnUnansweredRenewalOverOtherMembers|Stream_SurvivesTheSilenceOfItsMember",
	},
	{
		"R12", "the head of a stalled stream is not suspected", one("keepalive.go", "r.suspect = r.suspect || r.over.headIs(s)", "r.suspect = false"),
		"Stream_OneStuckLeaseDelaysNoOther|Stream_APathSlowerThanItsPatienceStillRenews",
	},
	{
		"R12", "a stalled stream is ended although its answers could extend", one("carrier.go", "		if s.allow.expiry(sent.at, s.granted).After(clock.Instant(s.expiry.Load())) {\n			return true", "		if sent.at == clock.Instant(s.granted) {\n			return true"),
		"Session_HeldAnswersCountFromTheirOwnSendsAcrossAReopenedStream|Stream_APathSlowerThanItsPatienceStillRenews",
	},
	{
		"R12", "a slow stream is not used again", one("streams.go", "		k.mains = slices.Insert(k.mains, 0, c)\n", ""),
		"Stream_APathSlowerThanItsPatienceStillRenews",
	},
	{
		"R12", "a renewal is sent for a lease whose expiry has passed", one("carrier.go", "		if !now.Before(clock.Instant(s.expiry.Load())) {\n			continue // R12", "		if now == 0 {\n			continue // R12"),
		"Carrier_SendsNothingForALeaseThatIsLost",
	},
	{
		"R12", "a renewal is sent for a lease that has ended", one("carrier.go", "live := k.sessions[s.id] == s && !s.ended()", "live := k.sessions[s.id] == s || !s.ended()"),
		"Carrier_SendsNothingForALeaseThatIsLost",
	},
	{
		"R12", "each session has its own stream", one("streams.go", "	if n <= len(k.mains) {\n		return k.mains[n-1]\n	}\n", ""),
		"Stream_SessionsOfAClientShareIt",
	},

	{
		"watch", "a silent watch stream is not noticed", one("watch.go", "	if s.asked == 0 {\n", "	if s.asked == 0 || s.heard <= now {\n"),
		"Grant_IsToldAlthoughTheMemberWithItsWatchIsSilent",
	},
	{
		"watch", "a waiter reads nothing when its watch begins anew", one("wait.go", "	p.tell(func(s *sightings) { s.stale, s.synced = true, false })", "	p.tell(func(s *sightings) {})"),
		"Lock_TheWaitSurvivesWhatBreaksItsWatch",
	},
	{
		"watch", "a watch does not require a leader", one("link.go", "	stream, err := owner.open(clientv3.WithRequireLeader(ctx), l, conn)\n", "	_ = clientv3.WithRequireLeader\n	stream, err := owner.open(ctx, l, conn)\n"),
		"Lock_AWatchOnACutOffMemberLeavesNoLockFree",
	},
	{
		"outage", "grpc's backoff is not reset when somebody waits",
		one("engine.go", "== connectivity.TransientFailure\n", "== connectivity.Shutdown\n"),
		"Grant_IsToldOfWhatHappenedWhileItsWatchWasBroken|Outage_APoolGoesOnAfterIt",
	},
	{
		"R12", "renewals go out after a third of the term however large the allowances", one("term.go", "min(granted/3, a.held(granted)/2)", "granted/3"),
		"Config_WhatIsAcceptedCanBeRenewed",
	},
	{
		"R12", "the stream follows a former leader", one("pilot.go", " && status.RaftTerm >= p.keeper.term.Load() {", " {"),
		"Pilot_AFormerLeaderIsNotFollowed",
	},
	{
		"R12", "a scout becomes the main stream before it is answered", one("pilot.go", "	p.scout = c\n", "	p.scout = c\n	k.mains = append(k.mains[:0], c)\n"),
		"Pilot_AScoutThatIsNotAnsweredCostsNothing",
	},
	{
		"R12", "the endpoint of a leader that has died is preferred", one("carrier.go", "	k.pilot.distrustLocked(c.link.endpoint, 0)\n", ""),
		"Stream_SurvivesChangesOfLeader",
	},
	{
		"R12", "any member that answers a scout is taken for the leader", one("pilot.go", "	case c.member != c.sought:\n", "	case false:\n"),
		"Pilot_AnEndpointOfManyMembersIsNotChased",
	},
	{
		"R12", "the stream stays where it is when the leader changes", one("pilot.go", "k.mains[0] == c {\n		p.kick()\n", "k.mains[0] == c {\n"),
		"Pilot_RenewalsFollowTheLeader",
	},
}
