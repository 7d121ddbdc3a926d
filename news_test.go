// SPDX-License-Identifier: Apache-2.0

package leasehold

import "testing"

// What an elector hears by winning and what it hears by observing arrive in no particular order.
func TestNews_NeverGoesBack(t *testing.T) {
	a := Leader{Value: "a", Token: 5, Revision: 5}
	aAgain := Leader{Value: "a2", Token: 5, Revision: 8}
	b := Leader{Value: "b", Token: 7, Revision: 7}
	nobody := Leader{}
	type piece struct {
		leader   Leader
		revision int64
	}
	for name, c := range map[string]struct {
		heard []piece
		want  Leader
	}{
		"nothing":                                {nil, nobody},
		"a leader":                               {[]piece{{a, 5}}, a},
		"proclaimed again":                       {[]piece{{a, 5}, {aAgain, 8}}, aAgain},
		"a value of before":                      {[]piece{{aAgain, 8}, {a, 9}}, aAgain},
		"the next":                               {[]piece{{a, 5}, {b, 9}}, b},
		"won, and then the leader of before":     {[]piece{{b, 0}, {a, 9}}, b},
		"won, and then nobody of before":         {[]piece{{b, 0}, {nobody, 4}}, b},
		"the leader goes":                        {[]piece{{b, 9}, {nobody, 10}}, nobody},
		"gone, and then won again":               {[]piece{{nobody, 10}, {Leader{Token: 11, Revision: 11}, 0}}, Leader{Token: 11, Revision: 11}},
		"gone, and then the leader of before it": {[]piece{{nobody, 10}, {b, 9}}, nobody},
	} {
		var n news
		for _, p := range c.heard {
			n.heard(p.leader, p.revision)
		}
		if got := n.leader(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
