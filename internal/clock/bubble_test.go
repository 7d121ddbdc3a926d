// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestNew_TellsABubbleFromTheRealWorld(t *testing.T) {
	if inBubble() {
		t.Error("the real world was taken for a bubble")
	}
	synctest.Test(t, func(*testing.T) {
		if !inBubble() {
			t.Error("a bubble was taken for the real world")
		}
		time.Sleep(time.Hour)
		if !inBubble() {
			t.Error("a bubble was taken for the real world after an hour")
		}
	})
	if inBubble() {
		t.Error("the real world was taken for a bubble after there was one")
	}
}

// The reading is the system's even where Go's time is fake.
func TestNew_OutsideABubbleReadsTheSystemsClock(t *testing.T) {
	c := New()
	if !c.CountsSuspend() {
		t.Fatal("CountsSuspend is false: this system has no clock that counts suspend")
	}
	before, ok := readSuspendClock()
	now := c.Now()
	after, _ := readSuspendClock()
	if !ok || now.Before(before) || now.After(after) {
		t.Errorf("Now = %d, want a reading of the system's between %d and %d", now, before, after)
	}
	synctest.Test(t, func(t *testing.T) {
		start := c.Now()
		time.Sleep(24 * time.Hour)
		if got := c.Now().Sub(start); got > time.Hour {
			t.Errorf("a clock from outside went on by %v in a day of a bubble, want real time", got)
		}
	})
}
