// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// console is the keyboard's and screen's side of a terminal.
type console struct {
	*os.File
	mu     sync.Mutex
	screen strings.Builder
}

// openConsole returns a terminal: the side that a person sees, and the one that programs use.
func openConsole(t *testing.T) (*console, *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &console{File: master}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			c.mu.Lock()
			c.screen.Write(buf[:n])
			c.mu.Unlock()
			if err != nil {
				return // nobody has the terminal open any more
			}
		}
	}()
	return c, slave
}

func (c *console) shows(text string) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return strings.Contains(c.screen.String(), text)
	}
}

func (c *console) typed(t *testing.T, keys string) {
	t.Helper()
	if _, err := c.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

func TestRun_CommandHasTheTerminal(t *testing.T) {
	cluster(t)
	screen, tty := openConsole(t)
	p := command(t, "run", "a", "--", "sh", "-c", `echo ready; while read line; do echo "read $line"; done`)
	p.Stdin, p.Stdout, p.Stderr = tty, tty, tty
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // as a login shell has it
	p.start(t)
	tty.Close()
	eventually(t, "the command runs", screen.shows("ready"))
	screen.typed(t, "one\n")
	eventually(t, "it reads from the terminal", screen.shows("read one"))
	screen.typed(t, "\x1a") // ^Z
	eventually(t, "it is not suspended", screen.shows("cannot be suspended"))
	screen.typed(t, "two\n")
	eventually(t, "it still reads", screen.shows("read two"))
	screen.typed(t, "\x03") // ^C
	if code := p.code(); code != 128+2 {
		t.Errorf("exit code %d after ^C", code)
	}
}

func TestRelease_AsksAtATerminal(t *testing.T) {
	c := cluster(t)
	g := lock(t, c, "a")
	for _, tt := range []struct {
		answer string
		code   int
	}{{"n\n", exitNo}, {"\n", exitNo}, {"y\n", exitOK}} {
		screen, tty := openConsole(t)
		p := command(t, "release", "a", "--token", g.Token().String())
		p.Stdin, p.Stdout, p.Stderr = tty, tty, tty
		p.start(t)
		tty.Close()
		eventually(t, "it asks", screen.shows("Take it away?"))
		if !screen.shows("the test holds \"a\"")() {
			t.Error("it does not say from whom")
		}
		screen.typed(t, tt.answer)
		if code := p.code(); code != tt.code {
			t.Errorf("%q: exit code %d, want %d", tt.answer, code, tt.code)
		}
	}
}

func TestRun_AsksForThePassword(t *testing.T) {
	c := cluster(t)
	etcd, ctx := c.DirectClient(t), t.Context()
	for _, step := range []func() error{
		func() error { _, err := etcd.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := etcd.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := etcd.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	screen, tty := openConsole(t)
	p := command(t, "run", "a", "--user", "root", "--", "true")
	p.Stdin, p.Stdout, p.Stderr = tty, tty, tty
	p.start(t)
	tty.Close()
	eventually(t, "it asks", screen.shows("Password for root:"))
	screen.typed(t, "secret\n")
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d: %s", code, &screen.screen)
	}
	if screen.shows("secret")() {
		t.Error("the password is on the screen")
	}
}

// TestPrompts_EndWithTheFirstInterrupt is about questions that a person answers with ^C.
func TestPrompts_EndWithTheFirstInterrupt(t *testing.T) {
	c := cluster(t)
	g := lock(t, c, "a")
	for question, args := range map[string][]string{
		"Take it away?":      {"release", "a", "--token", g.Token().String()},
		"Password for root:": {"list", "--user", "root"},
	} {
		screen, tty := openConsole(t)
		p := command(t, args...)
		p.Stdin, p.Stdout, p.Stderr = tty, tty, tty
		p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		p.start(t)
		eventually(t, question, screen.shows(question))
		screen.typed(t, "\x03")
		if code := p.code(); code != 128+2 {
			t.Errorf("%s exit code %d after ^C", question, code)
		}
		if echo, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS); err != nil || echo.Lflag&unix.ECHO == 0 {
			t.Errorf("%s the terminal shows nothing any more (%v)", question, err)
		}
		tty.Close()
	}
	if !g.Valid() {
		t.Error("the grant is gone")
	}
}
