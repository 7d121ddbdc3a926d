// SPDX-License-Identifier: Apache-2.0

// Command electionlab puts electors in real processes through kills, stops, cuts and restarts, and holds what they did
// against what is promised. It runs an etcd cluster of its own in this process and needs nothing else:
//
//	go run ./internal/electionlab storm -terms 500    many elections under random faults
//	go run ./internal/electionlab rolling             how long nobody leads in a rolling restart, and after a kill
//
// Every work of a leader notes, in a file, since when and until when it has seen its context alive, in readings of the
// system's monotonic clock, which all processes of a machine share. A reading is taken before the context is asked, so that an
// entry never claims more than what was. What the processes cannot tell any more once they are killed, the file does.
//
// It needs Linux: for that clock, and for signals that stop a process and let it go on.
package main
