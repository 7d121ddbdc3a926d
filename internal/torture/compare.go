// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"
)

// compared are the figures by which subjects are compared, in this order.
var compared = []struct {
	what   string
	figure func(h *history, v *verdict) string
}{
	{"faults", func(h *history, _ *verdict) string { return number(len(h.Faults)) }},
	{"processes killed; stopped for longer than the term", func(h *history, _ *verdict) string {
		return number(h.Deaths) + "; " + number(h.longStops())
	}},
	{"grants; hand-overs between processes", func(_ *history, v *verdict) string { return number(v.grants) + "; " + number(v.handOvers) }},
	{"**times at which two believed that they held one name**", func(_ *history, v *verdict) string { return "**" + number(v.overlapsBut(true)) + "**" }},
	{"the longest of them; all together", func(_ *history, v *verdict) string {
		if longest, all := v.overlapTime(); longest > 0 {
			return fmt.Sprintf("%.2f s; %.1f s", longest.Seconds(), all.Seconds())
		}
		return "none"
	}},
	{"after an operator or a restore took a name: longest until its holder was told", func(_ *history, v *verdict) string {
		return fmt.Sprintf("%.2f s", v.longestTold.Seconds())
	}},
	{"tokens that did not rise; registers that went back or were not linearizable", func(_ *history, v *verdict) string {
		return number(len(v.Tokens)) + "; " + number(v.wentBack+v.notLinear)
	}},
	{"writes accepted; stale writes refused by the register", func(_ *history, v *verdict) string {
		return number(v.accepted) + "; " + number(v.refused+v.refusedPast)
	}},
	{"names still stuck after the faults", func(_ *history, v *verdict) string { return number(v.stuckNames()) }},
	{"longest time for which a name was wanted and free after the faults", func(_ *history, v *verdict) string {
		return v.longestFree.Round(100 * time.Millisecond).String()
	}},
}

// number writes a number as a person does: 12,345.
func number(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// compare makes a table in Markdown of saved histories.
func (o options) compare(paths []string) (string, error) {
	head, rule := "| |", "|---|"
	rows := make([]string, len(compared))
	for i, c := range compared {
		rows[i] = "| " + c.what + " |"
	}
	for _, path := range paths {
		h, err := load(path)
		if err != nil {
			return "", err
		}
		h.sort()
		o.ttl = h.TTL
		v := o.check(h)
		head += " " + h.Subject + " |"
		rule += "---|"
		for i, c := range compared {
			rows[i] += " " + c.figure(h, v) + " |"
		}
	}
	return strings.Join(append([]string{head, rule}, rows...), "\n") + "\n", nil
}
