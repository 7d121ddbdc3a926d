// SPDX-License-Identifier: Apache-2.0

// Command torture runs many worker processes against three embedded etcd members under every fault that leaseholdtest can make, while
// workers are stopped and killed and an operator takes keys away, and then checks what everybody believed.
//
//	go run ./internal/torture -for 20m -rewinds 12 -seed 1 -out dist/torture
//	go run ./internal/torture -for 20m -rewinds 12 -seed 1 -out dist/torture-mutex -subject mutex
//
// The second form drives the Mutex of etcd's own concurrency package by the same workers, under the same faults at the same
// times: it must find overlaps, or the checks of the first prove nothing.
//
// # What goes wrong
//
// The plan of a run follows from the seed and the flags alone (see [options.plan]):
//
//   - First, with -rewinds, the data goes back, again and again: rolled back to a copy, wiped, replaced by another cluster. After each
//     the operator lifts the revision above all that he knew, as one does who restores (docs/operations.md). This has a part of the
//     run to itself, because tokens begin anew with the data, and checks across it can demand less.
//   - Then, for -for, everything else at once. Members: killed, stopped, paused, isolated, cut off from one another in one direction or both;
//     the leader moved and isolated; the quorum lost; all killed at once; compaction. Links between one client and one member, or all
//     links of a client at once: held or blackholed in each direction, slow with jitter, narrow, refused, reset. Workers: stopped and
//     killed at any time, stopped between a check and the write that follows until their term is over, with a slow way to the
//     register. An operator: deletes, overwrites and revokes what somebody holds; full disks. With -auth, which is the default, all
//     clients log in, with logins of two seconds.
//   - Then, for -calm, nothing.
//
// # What is recorded
//
// All instants are readings of one clock of the machine, which counts suspend and never steps. A worker acts while its subject says
// that it may: while the grant is valid, or the session's Done is open. Before each check it reads the clock, and if the check says
// yes, that reading is an instant at which it believed: belief began at the first of them and lasted until the last, whatever happened
// to the process in between or after; one that was stopped believes what it reads when it goes on. The last is written to a file at
// once, so that it survives the process. A subject that knows its own expiry is held to more: a belief that nobody ended counts
// until the expiry as it was at the last check, also if the process was killed before, because it might as well have been stopped and
// have gone on at any instant until then.
//
// A worker writes to a register that compares tokens: at once when it has got a name, which tells the register of the new holder, and now and
// then while it holds it. Before each write it says that it is about to; there the nemesis stops it, when it has checked and not
// written. When it goes on it writes without another look.
//
// # What is checked
//
//   - Beliefs in one name never overlap. Where an operator took the key of the older one before the newer one had it, or the data went
//     back under one of them, they may, until the holder has been told; these are counted by themselves, and told holders have a bound.
//   - Tokens of one name rise along its holders, but for where the data went back.
//   - Each name's register is linearizable (by porcupine), refuses lower tokens, and never goes back.
//   - When the faults are over, no name is wanted and free for longer than a bound.
//
// The folder gets summary.txt, history.json, which -check checks again, and report.html: a time line of holders, overlaps, refused writes and
// faults, in one file.
//
// # Goroutines
//
// In the parent: one for each worker slot, which starts processes and waits for them; one for each connection to the register; one each
// that plays the faults of members, links, workers and the operator, and one for each fault that lasts. All end with the run's context,
// and main waits for them.
package main
