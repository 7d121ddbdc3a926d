// SPDX-License-Identifier: Apache-2.0

// Package terminal finds out what the other end of a file can show.
package terminal

import (
	"bufio"
	"context"
	"errors"
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

// ReadPassword reads a line from a terminal that does not show it. When ctx ends it returns the context's cause, with the
// terminal as it was.
func ReadPassword(ctx context.Context, f *os.File) (string, error) {
	fd := int(f.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	text, err := read(ctx, func() (string, error) {
		b, err := term.ReadPassword(fd)
		return string(b), err
	})
	if ctx.Err() != nil {
		err = errors.Join(err, term.Restore(fd, before))
	}
	return text, err
}

// ReadLine reads a line from a terminal. When ctx ends it returns the context's cause.
func ReadLine(ctx context.Context, f *os.File) (string, error) {
	return read(ctx, func() (string, error) { return bufio.NewReader(f).ReadString('\n') })
}

// read waits for what a person types. Its goroutine may stay until the end of the process: a read from a terminal cannot be
// called off. So nothing must be read from that terminal after ctx has ended.
func read(ctx context.Context, from func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	typed := make(chan answer, 1)
	go func() {
		text, err := from()
		typed <- answer{text, err}
	}()
	select {
	case a := <-typed:
		return a.text, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
