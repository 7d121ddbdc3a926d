// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"
)

// Plan is one schedule: a world, and what happens in it. Plans are drawn from a seed ([New]) or read from text ([Parse]).
type Plan struct {
	World World
	Steps []Step // in the order of their times
}

// World is what holds from beginning to end.
type World struct {
	Seed    uint64 // of the fake network and cluster
	Members int
	Hosts   int // machines with an etcd client each, and two users on it
	Names   int // that they compete for

	TTL    time.Duration // asked for
	Drift  float64       // rho
	Margin time.Duration // epsilon
	// Rate is how fast the members' clocks run against the hosts'. What the drift bound allows is (1+rho)/(1-rho): a
	// grantor fast by rho, holders slow by rho.
	Rate float64

	Election time.Duration // timeout of the members
	Commit   time.Duration // latency, and as much again at random
	Apply    time.Duration // latency
	Peer     time.Duration // delay from member to member
	Delay    time.Duration // from host to member and back, each; and as much again at random
	Stall    time.Duration // of renewals at the lessor
	Waits    bool          // lessors wait for what is committed to be applied (etcd before 3.7)
	Flaw     Flaw          // of the servers; only to see the checker see
}

// Flaw is a defect of servers.
type Flaw uint8

// The flaws. See etcdfake.LeaseBehaviour.
const (
	FlawNone         Flaw = iota
	FlawNoRecheck         // a renewal that raced a revocation is acknowledged
	FlawFormerLeader      // a leader that is cut off goes on acknowledging renewals
	// FlawResumedLeader: one that was stopped, and is cut off when it goes on, acknowledges them for an election timeout. This
	// one is in all servers. See docs/testing.md.
	FlawResumedLeader
)

// Verb is what a [Step] does.
type Verb string

// What users do.
const (
	Lock    Verb = "lock"
	Try     Verb = "try"
	Do      Verb = "do"
	Lead    Verb = "lead" // campaigns, proclaims, resigns
	Observe Verb = "observe"
	Ask     Verb = "ask"     // who leads
	Close   Verb = "close"   // the user's session or pool; the next call opens another
	Abandon Verb = "abandon" // the user's session
	Quit    Verb = "quit"    // closes the etcd client under its users; the next call makes another
)

// What goes wrong. All but those that happen in an instant last for a time and are then repaired.
const (
	Stop       Verb = "stop"
	Pause      Verb = "pause"
	Blackhole  Verb = "blackhole"
	Isolate    Verb = "isolate"
	Lag        Verb = "lag"
	Elect      Verb = "elect"      // another leader
	Standstill Verb = "standstill" // a member's clock stops
	Rate       Verb = "rate"       // a member's clock runs at another rate from now on
	Commit     Verb = "commit"     // proposals take longer
	Hold       Verb = "hold"       // bytes between a host and a member wait
	Cut        Verb = "cut"        // bytes between a host and all members wait
	Slow       Verb = "slow"
	Lossy      Verb = "lossy"
	Refuse     Verb = "refuse"
	Reset      Verb = "reset"
	Late       Verb = "late"       // requests wait on their way, and are applied even if nobody waits for them
	LateAnswer Verb = "lateanswer" // as late, the answer
	LoseAsk    Verb = "loseask"    // the connection breaks before the request is applied
	LoseAnswer Verb = "loseanswer" // and after it
	KeepAnswer Verb = "keepanswer" // applied, and never answered
	Twice      Verb = "twice"      // applied twice
	Sleep      Verb = "sleep"      // all machines but none of the timers: all clocks leap
	Nap        Verb = "nap"        // a host's clock leaps
	Delete     Verb = "delete"     // an operator deletes a key of a line
	Overwrite  Verb = "overwrite"
	Revoke     Verb = "revoke" // the lease of a key of a line
	Compact    Verb = "compact"
	NoSpace    Verb = "nospace"
	RollBack   Verb = "rollback"
	Replace    Verb = "replace" // by another, empty cluster
)

// Step is one thing that happens. Of the fields below Do, those count that the verb needs.
type Step struct {
	At     time.Duration // since the beginning
	Do     Verb
	Host   int
	User   int // 0: a pool (leasehold.Client); 1: a session
	Member int
	Name   int
	For    time.Duration // how long the grant is held, or the fault lasts, or the clock leaps
	Wait   time.Duration // how long a call may take, or how slow things are
	Dir    Dir
	Call   Method
	Count  int     // how many requests are hit; which key of a line; how many revisions back
	Rate   float64 // of a clock; of losses
}

// Dir is a direction, or both.
type Dir uint8

// The directions: Up is to the member.
const (
	Up Dir = 1 << iota
	Down
	Both = Up | Down
)

// Method is a kind of request.
type Method uint8

// The kinds of requests that can be hit.
const (
	MethodTxn Method = iota
	MethodGrant
	MethodRevoke
	MethodKeepAlive
	MethodWatch
	methods
)

// users is how many there are on each host.
const users = 2

// operand is a field of a Step that a verb needs.
type operand uint8

const (
	opHost operand = iota
	opUser
	opMember
	opName
	opFor
	opWait
	opDir
	opCall
	opCount
	opRate
)

// spec is all there is to know about a verb but what it does.
type spec struct {
	verb     Verb
	operands []operand
	weight   int  // how often it is drawn; 0: never
	call     bool // a user's, not a fault
}

// specs lists every verb. A change of it changes what a seed stands for.
var specs = []spec{
	{Lock, []operand{opHost, opUser, opName, opWait, opFor}, 60, true},
	{Try, []operand{opHost, opUser, opName, opWait, opFor}, 20, true},
	{Do, []operand{opHost, opUser, opName, opWait, opFor}, 15, true},
	{Lead, []operand{opHost, opUser, opName, opWait, opFor}, 25, true},
	{Observe, []operand{opHost, opUser, opName, opFor}, 4, true},
	{Ask, []operand{opHost, opUser, opName, opWait}, 4, true},
	{Close, []operand{opHost, opUser, opWait}, 3, true},
	{Abandon, []operand{opHost}, 1, true},
	{Quit, []operand{opHost}, 1, true},

	{Stop, []operand{opMember, opFor}, 4, false},
	{Pause, []operand{opMember, opFor}, 4, false},
	{Blackhole, []operand{opMember, opFor}, 4, false},
	{Isolate, []operand{opMember, opFor}, 4, false},
	{Lag, []operand{opMember, opWait, opFor}, 2, false},
	{Elect, []operand{opMember}, 4, false},
	{Standstill, []operand{opMember, opFor}, 1, false},
	{Rate, []operand{opMember, opRate}, 1, false},
	{Commit, []operand{opWait, opFor}, 2, false},
	{Hold, []operand{opHost, opMember, opDir, opFor}, 4, false},
	{Cut, []operand{opHost, opDir, opFor}, 4, false},
	{Slow, []operand{opHost, opMember, opWait, opFor}, 3, false},
	{Lossy, []operand{opHost, opMember, opDir, opRate, opFor}, 2, false},
	{Refuse, []operand{opHost, opMember, opFor}, 3, false},
	{Reset, []operand{opHost, opMember}, 3, false},
	{Late, []operand{opHost, opCall, opCount, opWait}, 5, false},
	{LateAnswer, []operand{opHost, opCall, opCount, opWait}, 5, false},
	{LoseAsk, []operand{opHost, opCall, opCount}, 2, false},
	{LoseAnswer, []operand{opHost, opCall, opCount}, 4, false},
	{KeepAnswer, []operand{opHost, opCall, opCount}, 3, false},
	{Twice, []operand{opHost, opCall, opCount}, 2, false},
	{Sleep, []operand{opFor}, 2, false},
	{Nap, []operand{opHost, opFor}, 4, false},
	{Delete, []operand{opName, opCount}, 3, false},
	{Overwrite, []operand{opName, opCount}, 2, false},
	{Revoke, []operand{opName, opCount}, 4, false},
	{Compact, nil, 2, false},
	{NoSpace, []operand{opFor}, 1, false},
	{RollBack, []operand{opCount}, 0, false}, // rare: see New
	{Replace, nil, 0, false},
}

func specOf(v Verb) (spec, bool) {
	for _, s := range specs {
		if s.verb == v {
			return s, true
		}
	}
	return spec{}, false
}
