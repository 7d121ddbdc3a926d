// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package guard

import (
	"time"

	"example.com/leasehold/internal/machineclock"
)

// alarm rings at an instant of the machine's clock. Timers may stand still while the machine sleeps, so it looks at the
// clock again and again.
type alarm struct {
	C     chan struct{}
	timer *time.Timer
}

const alarmStep = 50 * time.Millisecond

func newAlarm() *alarm {
	a := &alarm{C: make(chan struct{}, 1)}
	a.timer = time.AfterFunc(time.Hour, a.ring)
	return a
}

func (a *alarm) ring() {
	select {
	case a.C <- struct{}{}:
	default:
	}
}

// set makes it ring at the instant or a step from now, whichever is earlier; whoever waits looks at the clock himself.
func (a *alarm) set(at machineclock.Instant) {
	a.timer.Reset(min(at.Sub(machineclock.Now()), alarmStep))
}

func (a *alarm) stop() { a.timer.Stop() }
