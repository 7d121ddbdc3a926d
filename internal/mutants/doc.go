// SPDX-License-Identifier: Apache-2.0

// Package mutants breaks the rules of the protocol one by one and shows that the fast tests of the root package notice.
//
// A mutant is a change of a few lines that breaks one decision on which safety or liveness hangs: a rule of the protocol (R1 to
// R13) or another that is as important. Each names the tests that must go red. The changes are pairs of text to find and to put in
// its place; a text that is not found exactly once is an error, so that mutants follow the code.
//
// The tree is never touched: the go command is given an overlay in which the changed files are replaced, and the tests that start
// real servers left out.
//
//	go test ./internal/mutants            every mutant still applies; every rule has one
//	make mutants                          every mutant is killed; prints the table
package mutants
