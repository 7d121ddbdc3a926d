// SPDX-License-Identifier: Apache-2.0

// Package terminal finds out what the other end of a file can show.
package terminal

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Colour is the choice of the --color flag.
type Colour string

// The choices. Auto colours a terminal unless NO_COLOR is set or TERM is dumb.
const (
	Auto   Colour = "auto"
	Always Colour = "always"
	Never  Colour = "never"
)

// ParseColour checks a choice. The empty string is Auto.
func ParseColour(s string) (Colour, error) {
	switch c := Colour(s); c {
	case "":
		return Auto, nil
	case Auto, Always, Never:
		return c, nil
	}
	return "", fmt.Errorf("colour %q: want auto, always or never", s)
}

// Screen is what a file can show.
type Screen struct {
	Terminal bool
	Width    int // columns, at least 20; 80 where unknown
	Height   int // lines, at least 5; 24 where unknown
	Colour   bool
	ASCII    bool // the locale does not say UTF-8
}

// Of looks at f and the environment. COLUMNS and LINES count where f is no terminal.
func Of(f *os.File, colour Colour) Screen {
	s := Screen{Width: number("COLUMNS", 80), Height: number("LINES", 24), ASCII: !utf8Locale()}
	fd := int(f.Fd())
	if s.Terminal = term.IsTerminal(fd); s.Terminal {
		if w, h, err := term.GetSize(fd); err == nil && w > 0 && h > 0 {
			s.Width, s.Height = w, h
		}
	}
	s.Width, s.Height = max(s.Width, 20), max(s.Height, 5)
	switch colour {
	case Always:
		s.Colour = true
	case Never:
	default:
		s.Colour = s.Terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	if s.Colour {
		s.Colour = enableEscapes(f)
	}
	return s
}

func number(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// utf8Locale follows the order of precedence of POSIX. Nothing set at all is taken for UTF-8: containers and service
// managers seldom set a locale, and what reads their logs reads UTF-8.
func utf8Locale() bool {
	for _, variable := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(variable); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

// Is reports whether f is a terminal.
func Is(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// ReadPassword reads a line from a terminal that does not show it.
func ReadPassword(f *os.File) (string, error) {
	b, err := term.ReadPassword(int(f.Fd()))
	return string(b), err
}
