// SPDX-License-Identifier: Apache-2.0

package lines

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// escape is the SDK's: "%", "/" and control bytes become %XX.
func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c == '%' || c == '/' || c < 0x20 || c == 0x7f {
			b.WriteString("%" + string("0123456789ABCDEF"[c>>4]) + string("0123456789ABCDEF"[c&15]))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescape is the inverse of escape. What is no escape stays as it is: the key may be somebody else's.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// maxName is the SDK's.
const maxName = 1024

// CheckName refuses the names that the SDK refuses, for commands that want to know before anything is started. Names that others
// have given can be read all the same.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > maxName:
		return fmt.Errorf("the name has %d bytes: want %d at most", len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %q is not UTF-8", name)
	}
	return nil
}

// Dir is what all keys of a name begin with.
func Dir(prefix, name string) string { return prefix + escape(name) + "/" }

// sinceMark separates a holder's name from the time at which it got in line. etcd keeps no times, so this command writes
// them into the value.
const sinceMark = " since "

// Holder is the value under which this command stands in line.
func Holder(name string, since time.Time) string {
	return name + sinceMark + since.UTC().Format(time.RFC3339)
}

// ParseHolder is the inverse of Holder. Values of others come back whole, with the zero time.
func ParseHolder(value string) (name string, since time.Time) {
	i := strings.LastIndex(value, sinceMark)
	if i < 0 {
		return value, time.Time{}
	}
	since, err := time.Parse(time.RFC3339, value[i+len(sinceMark):])
	if err != nil {
		return value, time.Time{}
	}
	return value[:i], since
}

// Below is what the keys of all names begin with that begin with namePrefix.
func Below(prefix, namePrefix string) string { return prefix + escape(namePrefix) }
