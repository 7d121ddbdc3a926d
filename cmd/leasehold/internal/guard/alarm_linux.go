// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"os"
	"time"

	"example.com/leasehold/internal/machineclock"
	"golang.org/x/sys/unix"
)

// alarm rings at an instant of the machine's clock. Go's timers stand still while the machine sleeps; this one fires
// at once when it wakes.
type alarm struct {
	C    chan struct{}
	file *os.File // a timerfd; nil if there is none
	slow *time.Timer
}

func newAlarm() *alarm {
	a := &alarm{C: make(chan struct{}, 1)}
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		a.slow = time.AfterFunc(time.Hour, a.ring) // a sandbox without timerfd
		return a
	}
	a.file = os.NewFile(uintptr(fd), "timerfd")
	go func() {
		buf := make([]byte, 8)
		for {
			if _, err := a.file.Read(buf); err != nil {
				return // closed by stop
			}
			a.ring()
		}
	}()
	return a
}

func (a *alarm) ring() {
	select {
	case a.C <- struct{}{}:
	default:
	}
}

// set replaces the instant; one that has passed rings at once.
func (a *alarm) set(at machineclock.Instant) {
	if a.file == nil {
		a.slow.Reset(at.Sub(machineclock.Now()))
		return
	}
	when := unix.NsecToTimespec(max(int64(at), 1)) // 0 would disarm it
	conn, err := a.file.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) {
			err = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: when}, nil)
		})
	}
	if err != nil {
		a.ring() // rather too busy than too late
	}
}

func (a *alarm) stop() {
	if a.file != nil {
		_ = a.file.Close() // nothing was written
		return
	}
	a.slow.Stop()
}
