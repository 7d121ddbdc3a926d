// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"example.com/leasehold/internal/clock"
	"example.com/leasehold/internal/machineclock"
)

// workerConfig is what the parent tells a worker, by its environment.
type workerConfig struct {
	Slot      int
	Life      int // counts the processes of the slot
	Endpoints []string
	User      string
	Password  string
	Subject   string
	Names     []string
	TTL       time.Duration
	Seed      uint64
	Register  string // the socket
	Log       string
	Last      string // where the instants of the last belief go
}

// workerVariable holds a workerConfig. It makes the program a worker.
const workerVariable = "TORTURE_WORKER"

// routines is how many goroutines of a worker compete.
const routines = 3

// lastSize is the size of what a goroutine keeps in the file of last beliefs: the number of its grant, the instant, and its expiry.
const lastSize = 24

// work is a worker process. It goes on until it is told to end or killed.
func work(ctx context.Context, text string) error {
	var cfg workerConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	client, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // the process ends
	log, err := os.OpenFile(cfg.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	last, err := os.OpenFile(cfg.Last, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	var shared subject
	var all sync.WaitGroup
	for i := range routines {
		s := shared
		if s == nil {
			if s, err = newSubject(cfg.Subject, client, cfg.TTL, fmt.Sprintf("w%d", cfg.Slot)); err != nil {
				return err
			}
			if cfg.Subject == "leasehold" {
				shared = s // its goroutines exclude each other
			}
		}
		register, err := dialRegister(cfg.Register, cfg.Slot)
		if err != nil {
			return err
		}
		w := &worker{
			cfg: cfg, subject: s, register: register, log: log, last: last, number: i,
			rng: rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Slot)<<32|uint64(cfg.Life)<<8|uint64(i))),
		}
		all.Go(func() { w.run(ctx) })
	}
	all.Wait()
	return nil
}

// connect makes the client. With users it asks for a login, which can fail as everything else.
func connect(ctx context.Context, cfg workerConfig) (*clientv3.Client, error) {
	for {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: cfg.Endpoints, Username: cfg.User, Password: cfg.Password, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		})
		if err == nil {
			return client, nil
		}
		if clock.Wait(ctx, 200*time.Millisecond) != nil {
			return nil, fmt.Errorf("make a client: %w", err)
		}
	}
}

// worker is one goroutine that competes.
type worker struct {
	cfg      workerConfig
	subject  subject
	register *registerClient
	log      *os.File // appended to by single writes, so that lines of several goroutines do not mix
	last     *os.File
	number   int
	rng      *rand.Rand
	grants   int
}

func (w *worker) name() string { return fmt.Sprintf("w%d.%d-%d", w.cfg.Slot, w.cfg.Life, w.number) }

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.once(ctx)
		_ = clock.Wait(ctx, w.upTo(50*time.Millisecond)) // its end is seen above
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	w.subject.close(closing)
}

// upTo draws a duration, short ones more often.
func (w *worker) upTo(most time.Duration) time.Duration {
	return time.Duration(float64(most) * math.Pow(w.rng.Float64(), 3))
}

// once gets a name, acts under it for a while, and gives it back.
func (w *worker) once(ctx context.Context) {
	names := w.names()
	name := names[w.rng.IntN(len(names))]
	asked := machineclock.Now()
	limit, cancel := context.WithTimeout(ctx, time.Second+w.upTo(20*time.Second))
	g, err := w.subject.acquire(limit, name)
	cancel()
	if err != nil {
		w.note(event{Failed: &acquire{Worker: w.name(), Name: name, Asked: asked, Until: machineclock.Now(), Err: err.Error()}})
		_ = clock.Wait(ctx, w.upTo(200*time.Millisecond)) // run sees its end
		return
	}
	w.grants++
	b := belief{
		ID: fmt.Sprintf("%s-%d", w.name(), w.grants), Worker: w.name(), Name: name,
		Key: g.key(), Lease: g.lease(), Token: g.token(), Created: g.created(), Asked: asked,
	}
	w.act(ctx, g, &b)
	b.Why = "released"
	if !w.believes(g, &b) {
		b.Why = g.why()
	}
	if b.Why == "released" || !g.expired() {
		b.Until = b.Last // it was told to stop, or stops of itself
	}
	w.remember(&b) // before anybody else can be let in: it may be killed while it releases
	giving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := g.release(giving); err != nil {
		b.Release = err.Error()
	}
	w.note(event{Ended: &b})
}

// believes checks whether the name is held, and keeps the answer.
func (w *worker) believes(g holding, b *belief) bool {
	before := machineclock.Now()
	remaining := g.remaining()
	if !g.valid() {
		return false
	}
	// It believed at that instant, because it believes now and belief does not come back. And it would have gone on to believe for
	// what remained then.
	b.Last, b.Until = before, before+instant(remaining)
	b.Checks++
	if b.First == 0 {
		b.First = before
		w.note(event{Granted: b})
	}
	w.remember(b)
	return true
}

// patient reports whether the goroutine is one that holds names for long. There are always some that do, so that whatever is stopped
// or cut off holds a name; the others make the many grants and hand-overs.
func (w *worker) patient() bool { return w.number == 0 }

// names are those that the goroutine competes for: a third of them is held for long.
func (w *worker) names() []string {
	third := (len(w.cfg.Names) + 2) / 3
	if w.patient() || third == len(w.cfg.Names) {
		return w.cfg.Names[:third]
	}
	return w.cfg.Names[third:]
}

// act works for as long as it wants to and may.
func (w *worker) act(ctx context.Context, g holding, b *belief) {
	wanted := 10 * time.Millisecond
	switch {
	case w.patient():
		wanted += time.Duration(w.rng.Float64() * 4 * float64(w.cfg.TTL))
	case w.rng.IntN(12) == 0:
		wanted += w.upTo(w.cfg.TTL)
	}
	until := time.Now().Add(wanted)
	for first := true; ctx.Err() == nil && w.believes(g, b) && time.Now().Before(until); first = false {
		if first || w.rng.IntN(4) == 0 { // the first write is what tells the register of a new holder
			if w.rng.IntN(20) == 0 {
				_ = clock.Wait(ctx, w.upTo(w.cfg.TTL)) // it thinks between the check and the write, as processes do (R13)
			}
			w.write(b, !first && w.rng.IntN(5) == 0)
		}
		t := time.NewTimer(2*time.Millisecond + w.upTo(20*time.Millisecond))
		select {
		case <-g.done():
		case <-t.C:
		}
		t.Stop()
	}
}

// write writes to the register, or reads it.
func (w *worker) write(b *belief, read bool) {
	if !read {
		// Where the nemesis stops it between the check and the write. Without an answer the register has gone, and the run is over.
		if _, err := w.register.ask(request{Intent: true}); err != nil {
			return
		}
	}
	r := write{Belief: b.ID, Worker: w.name(), Name: b.Name, Token: b.Token, Call: machineclock.Now(), Read: read}
	if !r.Read {
		r.Value = valueOf(b.ID, r.Call)
	}
	a, err := w.register.ask(request{Name: r.Name, Token: r.Token, Value: r.Value, Read: r.Read})
	if err == nil {
		r.Return, r.OK, r.Highest, r.Seen = machineclock.Now(), a.OK, a.Highest, a.Value
	}
	w.note(event{Write: &r})
}

// valueOf makes a value that is written once only, and tells by whom and since when.
func valueOf(belief string, call instant) string { return fmt.Sprintf("%s@%d", belief, call) }

func parseValue(value string) (belief string, call instant, err error) {
	belief, text, ok := strings.Cut(value, "@")
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return "", 0, fmt.Errorf("value %q: want a belief and an instant", value)
	}
	return belief, instant(n), nil
}

// remember keeps the last belief where it survives the process.
func (w *worker) remember(b *belief) {
	var buf [lastSize]byte
	binary.LittleEndian.PutUint64(buf[:8], uint64(w.grants))
	binary.LittleEndian.PutUint64(buf[8:16], uint64(b.Last))
	binary.LittleEndian.PutUint64(buf[16:], uint64(b.Until))
	_, _ = w.last.WriteAt(buf[:], int64(w.number)*lastSize) // a worker without a disk ends as one that was killed
}

// readLast reads what the goroutines of a process believed in last, by the id of the belief: Last and Until of each.
func readLast(path, process string) (map[string]belief, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make(map[string]belief)
	for i := range len(text) / lastSize {
		buf := text[i*lastSize:]
		id := fmt.Sprintf("%s-%d-%d", process, i, binary.LittleEndian.Uint64(buf[:8]))
		out[id] = belief{Last: instant(binary.LittleEndian.Uint64(buf[8:16])), Until: instant(binary.LittleEndian.Uint64(buf[16:lastSize]))}
	}
	return out, nil
}

func (w *worker) note(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		return // it is made of strings and numbers
	}
	_, _ = w.log.Write(append(line, '\n'))
}

// errorKind is a short form of an error, for counting.
func errorKind(text string) string {
	for _, kind := range []string{
		"local expiry has passed", "taken away", "session is expired", "space exceeded", "deadline exceeded", "signal received",
		"leader changed", "no leader", "connection", "canceled", "timed out", "lease not found", "rolled back", "compacted",
	} {
		if strings.Contains(text, kind) {
			return kind
		}
	}
	return text[:min(len(text), 60)]
}
