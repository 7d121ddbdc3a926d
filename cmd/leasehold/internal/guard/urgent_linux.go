// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// urgent asks the scheduler to run this process's threads as soon as they wake: on a machine with more work than cores
// an ordinary process can wait for half a second, and a deadline does not. It needs a privilege (CAP_SYS_NICE); without
// it the margin must do. Processes that were started before keep their priority.
func urgent() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
		if err := unix.SchedSetAttr(tid, &attr, 0); err != nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, -20) // the next best
		}
	}
}
