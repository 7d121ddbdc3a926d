// SPDX-License-Identifier: Apache-2.0

// Command torture runs many worker processes against three embedded etcd members under every fault that leaseholdtest can make, while
// workers are stopped and killed and an operator takes keys away, and then checks what everybody believed.
//
//	go run ./internal/torture -for 20m -seed 1 -out dist/torture
//	go run ./internal/torture -for 20m -seed 1 -out dist/torture-mutex -subject mutex
//
// The second form drives the Mutex of etcd's own concurrency package by the same workers, under the same faults at the same
// times: it must find overlaps, or the checks of the first prove nothing.
//
// # What is recorded
//
// All instants are readings of one clock of the machine, which counts suspend and never steps. A worker acts while its subject says
// that it may: while the grant is valid, or the session's Done is open. Before each check it reads the clock, and if the check says
// yes, that reading is an instant at which it believed: belief began at the first of them and lasted until the last, whatever happened
// to the process in between or after. The last one is written to a file at once, so that it survives the process.
//
// Between its checks a worker writes to a register that compares tokens, at a distance that the nemesis can stretch.
//
// # What is checked
//
//   - Beliefs in one name never overlap. Where an operator took the key of the first away, they may, until its holder has been told;
//     these are counted by themselves, with their longest.
//   - Tokens of one name rise along its holders.
//   - Each name's register is linearizable (by porcupine), refuses lower tokens, and never goes back.
//   - When the faults are over, every name is granted again within a bound, and from then on never without a holder for longer.
//
// The folder gets summary.txt, history.json, and report.html: a time line of holders, faults, overlaps and refused writes.
//
// # Goroutines
//
// In the parent: one for each worker slot, which starts processes and waits for them; one for each connection to the register; one each
// that plays the faults of the cluster, of the workers and of the operator. All end with the run's context, and main waits for them.
package main
