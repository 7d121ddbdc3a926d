// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"bytes"
	"crypto/tls"
	"net"
	"testing"
)

// What the gate has read of a connection must reach the member unchanged, or its handshake would fail.
func TestServerName_IsReadWithoutTakingAnything(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = ours.Close() }()
	sent := &recorder{Conn: theirs}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It fails: nobody answers.
		_ = tls.Client(tee{sent}, &tls.Config{ServerName: peerName(3), InsecureSkipVerify: true}).Handshake()
	}()
	name, read := serverName(ours)
	_ = theirs.Close()
	<-done
	if i, ok := peerIndex(name); !ok || i != 3 {
		t.Errorf("the name is %q, want that of member 3", name)
	}
	if !bytes.Equal(read, sent.read) {
		t.Errorf("%d bytes were read, %d were sent", len(read), len(sent.read))
	}
}

// tee records what is written instead of what is read.
type tee struct{ *recorder }

func (w tee) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.read = append(w.read, b[:n]...)
	return n, err
}

func (w tee) Read(b []byte) (int, error) { return w.Conn.Read(b) }

func TestPeerIndex_KnowsPeerNamesOnly(t *testing.T) {
	for i := range 5 {
		if got, ok := peerIndex(peerName(i)); !ok || got != i {
			t.Errorf("peerIndex(peerName(%d)) = %d, %v", i, got, ok)
		}
	}
	for _, name := range []string{"", "m", "m-1" + peerDomain, "mx" + peerDomain, "m3", "example.com"} {
		if i, ok := peerIndex(name); ok {
			t.Errorf("%q is taken for member %d", name, i)
		}
	}
}

// Strangers at a member's gate are turned away, silent ones do not keep the gate from closing.
func TestGate_TurnsStrangersAway(t *testing.T) {
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer p.free()
	g, err := newGate(3, 0, p)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := net.Dial("tcp", g.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Close() }()
	send(t, stranger, "GET / HTTP/1.1\r\n\r\n")
	wasReset(t, stranger)
	mute, err := net.Dial("tcp", g.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	Eventually(t, patience, "the gate waits for a name", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.unknown) == 1
	})
	g.close()
}
