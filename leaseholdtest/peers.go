// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
)

// gate is where the other members find a member: the listener behind its advertised peer URL. It tells by whom
// each connection was opened and hands it to the link of that pair.
//
// All members dial the same URL, and most of what they send there does not name its sender: raft's messages do,
// forwarded lease renewals and probes do not. So the members talk TLS with each other, and each is configured to ask
// for a server name that is its own (see [peerTLS]). A client's first TLS message carries that name in the clear.
//
// Goroutines: accept, and one for each connection until its sender is known. close ends and awaits them.
type gate struct {
	listener net.Listener
	from     []*Link // by the sender's index; nil at the member's own
	wg       sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	unknown map[*net.TCPConn]struct{} // connections whose sender is not known yet
}

// newGate opens the gate of a member that listens on target. The caller closes it, also the links.
func newGate(members, self int, target *port) (*gate, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gate{listener: l, from: make([]*Link, members), unknown: make(map[*net.TCPConn]struct{})}
	for i := range g.from {
		if i != self {
			g.from[i] = newPeerLink(target.addr)
		}
	}
	g.wg.Go(g.accept)
	return g, nil
}

func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	for conn := range g.unknown {
		_ = conn.Close()
	}
	g.mu.Unlock()
	_ = g.listener.Close()
	g.wg.Wait()
	for _, l := range g.from {
		if l != nil {
			l.close()
		}
	}
}

func (g *gate) accept() {
	for {
		c, err := g.listener.Accept()
		if err != nil {
			return // only close ends the listener
		}
		conn := c.(*net.TCPConn)
		g.mu.Lock()
		if g.closed {
			_ = conn.Close()
		} else {
			g.unknown[conn] = struct{}{}
			g.wg.Go(func() { g.identify(conn) })
		}
		g.mu.Unlock()
	}
}

// identify reads the first message of a connection and hands it on.
func (g *gate) identify(conn *net.TCPConn) {
	name, first := serverName(conn)
	g.mu.Lock()
	delete(g.unknown, conn)
	closed := g.closed
	g.mu.Unlock()
	i, ok := peerIndex(name)
	if closed || !ok || i >= len(g.from) || g.from[i] == nil {
		reset(conn) // nobody of this cluster
		return
	}
	g.from[i].adopt(conn, first)
}

// peerName is the server name that the member with the given index asks for.
func peerName(index int) string { return "m" + strconv.Itoa(index) + peerDomain }

const peerDomain = ".leaseholdtest.invalid"

func peerIndex(name string) (int, bool) {
	digits, ok := strings.CutSuffix(strings.TrimPrefix(name, "m"), peerDomain)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	return i, err == nil && i >= 0
}

var errSeen = errors.New("the first message has been seen")

// serverName reads a TLS client's first message and returns the server name in it and all bytes read.
func serverName(conn net.Conn) (string, []byte) {
	rec := &recorder{Conn: conn}
	var name string
	// The handshake fails on purpose once the name is known, before anything is answered.
	_ = tls.Server(rec, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name = hello.ServerName
			return nil, errSeen
		},
	}).Handshake()
	return name, rec.read
}

// recorder keeps what is read from a connection, and loses what is written to it.
type recorder struct {
	net.Conn
	read []byte
}

func (r *recorder) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.read = append(r.read, b[:n]...)
	return n, err
}

func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
