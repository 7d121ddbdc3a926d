// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// New draws a plan: the same one for the same seed. Each has its own mix of verbs, because faults that are always all
// there hide each other.
func New(seed uint64) Plan {
	d := &drawer{rng: rand.New(rand.NewPCG(seed, 0x51))}
	d.drawWorld(seed)
	d.drawCalls()
	d.drawFaults()
	slices.SortStableFunc(d.plan.Steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return d.plan
}

type drawer struct {
	rng    *rand.Rand
	plan   Plan
	length time.Duration
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func (d *drawer) chance(p float64) bool { return d.rng.Float64() < p }

// between draws a duration whose logarithm is uniform: short ones matter as much as long ones.
func (d *drawer) between(least, most time.Duration) time.Duration {
	x := math.Exp(math.Log(float64(least)) + d.rng.Float64()*(math.Log(float64(most))-math.Log(float64(least))))
	return max(least, time.Duration(x).Round(min(100*time.Microsecond, least)))
}

func (d *drawer) drawWorld(seed uint64) {
	w := &d.plan.World
	*w = World{
		Seed:     seed,
		Members:  pick(d.rng, 1, 3, 3, 3, 3, 3, 3, 5),
		Hosts:    pick(d.rng, 1, 2, 2, 3),
		Names:    pick(d.rng, 1, 1, 2, 3),
		TTL:      pick[time.Duration](d.rng, 1, 2, 3, 5, 5, 10) * time.Second,
		Drift:    pick(d.rng, 1e-3, 1e-3, 1e-2, 0.1),
		Margin:   pick(d.rng, time.Nanosecond, 10*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond, 400*time.Millisecond),
		Election: pick[time.Duration](d.rng, 300, 600, 1000) * time.Millisecond,
		Commit:   d.between(time.Microsecond, 10*time.Millisecond),
		Peer:     d.between(10*time.Microsecond, 5*time.Millisecond),
		Delay:    d.between(50*time.Microsecond, 20*time.Millisecond),
		Waits:    d.chance(0.3),
	}
	if d.chance(0.4) {
		w.Apply = d.between(10*time.Microsecond, 300*time.Millisecond)
	}
	if d.chance(0.2) {
		w.Stall = d.between(10*time.Microsecond, 50*time.Millisecond)
	}
	for !boundsOf(*w).renewable {
		w.TTL += time.Second
	}
	w.Rate = d.rate()
	d.length = max(d.between(10*time.Second, 40*time.Second), 3*w.TTL)
}

// rate draws a clock rate that the drift bound allows, often at its ends.
func (d *drawer) rate() float64 {
	rho := d.plan.World.Drift
	fast := (1 + rho) / (1 - rho)
	return pick(d.rng, 1, fast, fast, 1/fast, 1/fast+d.rng.Float64()*(fast-1/fast))
}

func (d *drawer) drawCalls() {
	gap := d.between(200*time.Millisecond, 2*time.Second)
	from := d.mix(true)
	for host := range d.plan.World.Hosts {
		for at := d.gap(gap); at < d.length; at += d.gap(gap) {
			s := d.step(at, from)
			s.Host = host
			d.plan.Steps = append(d.plan.Steps, s)
		}
	}
}

func (d *drawer) drawFaults() {
	gap := d.between(500*time.Millisecond, 5*time.Second)
	from := d.mix(false)
	if d.chance(0.15) { // a world where everything works, so that the promises for calm are held to
		from = slices.DeleteFunc(d.every(), func(s spec) bool { return !slices.Contains([]Verb{Delete, Overwrite, Revoke}, s.verb) })
	}
	for at := d.gap(gap); at < d.length; at += d.gap(gap) {
		d.plan.Steps = append(d.plan.Steps, d.step(at, from))
	}
	if d.chance(0.06) {
		at := d.length/4 + time.Duration(d.rng.Int64N(int64(d.length/2)))
		s := Step{At: at.Round(time.Millisecond), Do: pick(d.rng, RollBack, RollBack, Replace)}
		if s.Do == RollBack {
			s.Count = 1 + d.rng.IntN(20)
		}
		d.plan.Steps = append(d.plan.Steps, s)
	}
}

// gap is a time between two steps, half to one and a half of the mean.
func (d *drawer) gap(mean time.Duration) time.Duration {
	return (mean/2 + time.Duration(d.rng.Int64N(int64(mean)))).Round(100 * time.Microsecond)
}

// every returns all faults.
func (d *drawer) every() []spec {
	return slices.DeleteFunc(slices.Clone(specs), func(s spec) bool { return s.call || s.weight == 0 })
}

// mix chooses which verbs the plan uses: about half of the faults.
func (d *drawer) mix(calls bool) []spec {
	var from []spec
	for _, s := range specs {
		if s.call != calls || s.weight == 0 || !calls && d.chance(0.5) {
			continue
		}
		for range s.weight {
			from = append(from, s)
		}
	}
	if len(from) == 0 {
		from = append(from, specs[slices.IndexFunc(specs, func(s spec) bool { return s.verb == Cut })])
	}
	return from
}

func (d *drawer) step(at time.Duration, from []spec) Step {
	of := pick(d.rng, from...)
	w := d.plan.World
	s := Step{At: at, Do: of.verb}
	for _, o := range of.operands {
		switch o {
		case opHost:
			s.Host = d.rng.IntN(w.Hosts)
		case opUser:
			s.User = d.rng.IntN(users)
		case opMember:
			s.Member = d.rng.IntN(w.Members)
		case opName:
			s.Name = d.rng.IntN(w.Names)
		case opFor:
			s.For = d.between(time.Millisecond, 2*w.TTL)
		case opWait:
			s.Wait = d.between(time.Millisecond, 2*w.TTL)
		case opDir:
			s.Dir = pick(d.rng, Up, Down, Both)
		case opCall:
			s.Call = pick(d.rng, MethodTxn, MethodTxn, MethodTxn, MethodGrant, MethodRevoke, MethodKeepAlive, MethodKeepAlive, MethodWatch)
		case opCount:
			s.Count = 1 + d.rng.IntN(3)
		case opRate:
			s.Rate = d.rng.Float64() / 2
		}
	}
	if d.chance(0.35) {
		s.For = d.between(w.TTL/3, 3*w.TTL) // long enough for a lease to be lost
	}
	d.tune(&s)
	return s
}

// tune draws again what means something else for some verbs.
func (d *drawer) tune(s *Step) {
	w := d.plan.World
	switch s.Do {
	case Delete, Overwrite, Revoke:
		s.Count = pick(d.rng, 0, 0, 0, 1, 1, 2) // which of the line
	case Rate:
		s.Rate = d.rate()
	case Lag, Commit:
		s.Wait = d.between(time.Millisecond, time.Second)
	case Slow:
		s.Wait = d.between(time.Millisecond, w.TTL)
	case NoSpace, Standstill:
		s.For = d.between(100*time.Millisecond, w.TTL)
	}
}
