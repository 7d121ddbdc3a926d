// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"os"
	"strings"
)

// clockSource names the kernel's source of time.
func clockSource() string {
	text, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if err != nil {
		return ""
	}
	return " (source: " + strings.TrimSpace(string(text)) + ")"
}
