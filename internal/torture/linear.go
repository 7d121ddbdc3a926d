// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// registerState is a register as its specification knows it.
type registerState struct {
	token int64
	value string
}

// model is a register that accepts a write whose token is not below the highest it has accepted, and answers with what it held
// before.
var model = porcupine.Model{
	Init:  func() any { return registerState{} },
	Step:  func(state, in, out any) (bool, any) { return step(state.(registerState), in.(write), out.(write)) },
	Equal: func(a, b any) bool { return a == b },
}

// step does an operation, if its answer could be the one that was seen; without an answer it could be any.
func step(s registerState, in, out write) (bool, registerState) {
	known := out.Return != 0
	if known && out.Seen != s.value {
		return false, s
	}
	if in.Read {
		return true, s
	}
	accepted := in.Token >= s.token
	if known && (out.OK != accepted || !accepted && out.Highest != s.token) {
		return false, s
	}
	if !accepted {
		return true, s
	}
	return true, registerState{in.Token, in.Value}
}

// checkTime bounds the search for an order of the operations of one register.
const checkTime = 5 * time.Minute

// addOrphans adds the writes whose callers were killed before they could note the answer. The value tells what they had asked.
func (v *verdict) addOrphans(h *history) {
	noted := make(map[string]bool)
	for _, w := range h.Writes {
		noted[w.Value] = true
	}
	for _, a := range h.Applied {
		if noted[a.Value] {
			continue
		}
		belief, call, err := parseValue(a.Value)
		if err != nil {
			v.Register = append(v.Register, err.Error())
			continue
		}
		h.Writes = append(h.Writes, write{Belief: belief, Worker: belief, Name: a.Name, Token: a.Token, Value: a.Value, Call: call})
	}
}

// late counts the writes that were accepted when their holder no longer believed.
func (h *history) late() int {
	end := make(map[string]instant)
	for _, b := range h.Beliefs {
		end[b.ID] = b.end()
	}
	n := 0
	for _, a := range h.Applied {
		belief, _, err := parseValue(a.Value)
		if until, ok := end[belief]; err == nil && ok && a.At > until {
			n++
		}
	}
	return n
}

// registers checks every name's register: what it accepted, and what its callers saw.
func (v *verdict) registers(h *history) {
	highest := make(map[string]int64)
	taken := make(map[string]instant) // when a value was accepted; values are unique
	for _, a := range h.Applied {
		if a.Token < highest[a.Name] {
			v.wentBack++
			v.Register = append(v.Register, fmt.Sprintf("%s went back from %d to %d", a.Name, highest[a.Name], a.Token))
		}
		highest[a.Name] = max(highest[a.Name], a.Token)
		taken[a.Value] = a.At
	}
	v.addOrphans(h)
	v.late = h.late()
	clients := make(map[string]int)
	ops := make(map[string][]porcupine.Operation)
	for _, w := range h.Writes {
		until := w.Return
		switch {
		case w.Return == 0:
			v.unanswered++
			if until = taken[w.Value]; until == 0 {
				continue // without effect: the register did not take it
			}
		case w.Read:
			v.reads++
		case w.OK:
			v.accepted++
		case w.Call < h.Main:
			v.refusedPast++
		default:
			v.refused++
		}
		if _, ok := clients[w.Worker]; !ok {
			clients[w.Worker] = len(clients)
		}
		ops[w.Name] = append(ops[w.Name], porcupine.Operation{ClientId: clients[w.Worker], Input: w, Output: w, Call: int64(w.Call), Return: int64(until)})
	}
	for _, name := range h.Names {
		switch porcupine.CheckOperationsTimeout(model, ops[name], checkTime) {
		case porcupine.Illegal:
			v.notLinear++
			v.Register = append(v.Register, fmt.Sprintf("%s: its %d operations are not linearizable", name, len(ops[name])))
		case porcupine.Unknown:
			v.notLinear++
			v.Register = append(v.Register, fmt.Sprintf("%s: whether its %d operations are linearizable was not found out in %v", name, len(ops[name]), checkTime))
		}
	}
}
