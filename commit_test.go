// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errCutOff = status.Error(codes.Unavailable, "cut off")

func TestCommitter_SendsALoneWriteAtOnceAndSharesWhatWaits(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		d.submit("l1", "a")
		d.wantFlights("a")
		if !d.arrived()[0].solo {
			d.Error("a lone write was nested")
		}
		d.submit("l2", "b")
		d.submit("l3", "c")
		d.wantFlights("a") // one write transaction at a time
		d.answer(0, 2)
		d.wantFlights("a | b c")
		d.wantAnswer("a", 2)
		d.wantNoAnswer("b")
		d.answer(1, 3)
		for _, key := range []string{"b", "c"} {
			d.wantAnswer(key, 3)
			if got := string(d.answers[key][0].resp.Responses[0].GetResponseRange().GetKvs()[0].GetKey()); got != key {
				d.Errorf("%s was given the part of %s", key, got)
			}
		}
	})
}

// R8: keys of one line put in one transaction would have equal create revisions.
func TestCommitter_WritesOfOneLineNeverShareATransaction(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		d.submit("x", "x0")
		for i := range 4 {
			d.submit("l1", fmt.Sprint("a", i))
			d.submit("l2", fmt.Sprint("b", i))
		}
		d.submit("", "free1") // of no line
		d.submit("", "free2")
		for i := range 5 {
			d.answer(i, int64(10+i))
		}
		d.wantFlights("x0 | a0 b0 free1 free2 | a1 b1 | a2 b2 | a3 b3")
	})
}

func TestCommitter_BoundsASharedTransaction(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		d.submit("x", "x")
		for i := range 200 {
			d.submit(fmt.Sprint("l", i), fmt.Sprint("k", i))
		}
		d.wantSizes(1, shareLimit/2) // one goes beside the one under way when it is half full, and no third
		d.answer(0, 2)
		d.wantSizes(1, shareLimit/2, shareLimit)
		d.answer(1, 3)
		d.wantSizes(1, shareLimit/2, shareLimit)
		d.answer(2, 4)
		d.wantSizes(1, shareLimit/2, shareLimit, 200-shareLimit/2-shareLimit)
	})
	onDesk(t, false, func(d *desk) {
		d.submit("x", "x")
		for i := range 4 {
			w := &write{line: fmt.Sprint("big", i), size: shareBytes/2 - 1, wanted: func() bool { return true }}
			w.then = putOf(fmt.Sprint("big", i))
			d.send(fmt.Sprint("big", i), w)
		}
		d.answer(0, 2)
		d.answer(1, 3)
		d.wantFlights("x | big0 big1 | big2 big3")
	})
}

// One write that etcd refuses must not take its company along: halves go again, and only the bad one is told.
func TestCommitter_RefusedCompanyGoesAgainEachByItself(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		d.submit("x", "x")
		a, b, c := d.submit("l1", "a"), d.submit("l2", "b"), d.submit("l3", "c")
		d.answer(0, 2)
		d.fail(1, rpctypes.ErrPermissionDenied)
		d.wantFlights("x | a b c | a")
		d.answer(2, 3)
		d.fail(3, rpctypes.ErrPermissionDenied)
		d.answer(4, 4)
		d.wantFlights("x | a b c | a | b | c")
		d.wantAnswer("a", 3)
		d.wantAnswer("c", 4)
		if got := d.answers["b"]; len(got) != 1 || !errors.Is(got[0].err, rpctypes.ErrPermissionDenied) {
			d.Errorf("b was answered with %+v, want the refusal", got)
		}
		d.wantOutcome(a, true, true) // a refusal is an outcome: nothing of it can be applied later
		d.wantOutcome(b, true, false)
		d.wantOutcome(c, true, true)
		d.submit("l4", "d")
		d.submit("l5", "e")
		d.submit("l6", "f")
		d.answer(5, 5)
		d.wantFlights("x | a b c | a | b | c | d | e f") // others share as before
	})
}

func TestCommitter_LearnsALowerLimitOfTheServer(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		d.submit("x", "x")
		for i := range 40 {
			d.submit(fmt.Sprint("l", i), fmt.Sprint("k", i))
		}
		d.answer(0, 2)
		d.fail(1, rpctypes.ErrTooManyOps)
		for i := 2; i < len(d.arrived()); i++ { // those 40 go alone
			d.answer(i, int64(i))
		}
		for i := range 41 {
			d.submit(fmt.Sprint("m", i), fmt.Sprint("later", i))
		}
		n := len(d.arrived())
		d.answer(n-1, 100)
		if got := len(d.arrived()[n].writes); got != 20 {
			d.Errorf("%d writes share a transaction after 40 were too many, want 20", got)
		}
		for i := range 40 {
			d.wantAnswer(fmt.Sprint("k", i), d.answers[fmt.Sprint("k", i)][0].resp.Header.GetRevision())
		}
	})
}

// An unanswered flight does not hold up what is behind it, and its own writes go again, by another way.
func TestCommitter_SendsAgainWhatIsOverdueAndTheFirstAnswerCounts(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		w := d.submit("l", "a")
		time.Sleep(250*time.Millisecond - 1)
		d.wantFlights("a")
		time.Sleep(time.Nanosecond)
		d.wantFlights("a | a")
		d.wantOutcome(w, false, false)
		d.answer(1, 5)
		d.wantAnswer("a", 5)
		d.wantOutcome(w, false, true) // the first can still be applied: R9
		d.answer(0, 6)
		d.wantAnswer("a", 5)
		d.wantOutcome(w, true, true)
	})
}

func TestCommitter_AnOverdueFlightsOwnAnswerCountsToo(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		w := d.submit("l", "a")
		time.Sleep(250 * time.Millisecond)
		d.wantFlights("a | a")
		d.answer(0, 5)
		d.wantAnswer("a", 5)
		d.fail(1, errCutOff)
		d.wantAnswer("a", 5)
		d.wantOutcome(w, false, true)
		time.Sleep(time.Minute)
		d.wantFlights("a | a") // answered, so not again
	})
}

// However many share a transaction with a bad one, it is found in few more: a client that asks again and again for a name that it must
// not lock would otherwise slow down all others.
func TestCommitter_FindsTheBadWriteByHalves(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		d.submit("x", "x")
		const n = shareLimit/2 - 1
		for i := range n {
			d.submit(fmt.Sprint("l", i), fmt.Sprint("k", i))
		}
		d.answer(0, 2)
		const bad = "k37"
		flights := 1
		for ; len(d.arrived()) > flights; flights++ {
			if slices.Contains(d.arrived()[flights].writes, bad) {
				d.fail(flights, rpctypes.ErrPermissionDenied)
			} else {
				d.answer(flights, int64(10+flights))
			}
		}
		if want := 2 * 7; flights > want {
			d.Errorf("%d flights to find the bad one of %d, want at most %d", flights, n, want)
		}
		for i := range n {
			key := fmt.Sprint("k", i)
			if got := d.answers[key]; len(got) != 1 || (got[0].err != nil) != (key == bad) {
				d.Errorf("%s was answered with %+v", key, got)
			}
		}
	})
}

// R9: an answer that is lost leaves a doubt for ever; a refusal, or an answer, does not.
func TestCommitter_KeepsADoubtAboutWhatWasNeverAnswered(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		w := d.submit("l", "a")
		d.fail(0, errCutOff)
		d.wantNoAnswer("a")
		time.Sleep(100 * time.Millisecond)
		d.wantFlights("a | a")
		d.answer(1, 5)
		d.wantAnswer("a", 5)
		d.wantOutcome(w, false, true)
		time.Sleep(time.Hour)
		d.wantOutcome(w, false, true)
	})
}

// A failure is followed by a pause that grows, up to a second: no busy loop while the cluster is down.
func TestCommitter_PausesBetweenFailures(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		d.submit("l", "a")
		start := time.Now()
		for i := 0; time.Since(start) < 30*time.Second && i < 100; i++ {
			for len(d.arrived()) == i {
				time.Sleep(time.Millisecond)
			}
			d.fail(i, errCutOff)
		}
		if n := len(d.arrived()); n < 30 || n > 80 {
			d.Errorf("%d attempts in 30s of failures, want about one a second after the first few", n)
		}
		late := d.arrived()[len(d.arrived())-1].at.Sub(d.arrived()[len(d.arrived())-2].at)
		if late < 500*time.Millisecond || late > 1100*time.Millisecond {
			d.Errorf("the last pause was %v, want 0.5s to 1s", late)
		}
	})
}

// A write that waits while nothing is answered costs a bounded number of flights, not one for each patience.
func TestCommitter_BoundsTheFlightsWithoutAnAnswer(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		d.submit("l", "a")
		time.Sleep(10 * time.Minute)
		open := 0
		for _, a := range d.arrived() {
			if a.ctx.Err() == nil {
				open++
			}
		}
		if open > flightLimit {
			d.Errorf("%d flights without an answer, want at most %d", open, flightLimit)
		}
		if n := len(d.arrived()); n > 400 {
			d.Errorf("%d flights in ten minutes of silence", n)
		}
		last := len(d.arrived()) - 1
		d.answer(last, 9)
		d.wantAnswer("a", 9)
	})
}

// What nobody wants any more and was never sent leaves no trace.
func TestCommitter_ForgetsWhatIsAbandonedBeforeItIsSent(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		d.submit("x", "x")
		w := d.submit("l", "a")
		d.c.abandon(w)
		d.wantOutcome(w, true, false)
		d.answer(0, 2)
		d.submit("l2", "b")
		d.wantFlights("x | b")
		d.wantNoAnswer("a")
	})
}

func TestCommitter_AnAbandonedFlightIsSettledByItsAnswer(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		w := d.submit("l", "a")
		d.c.abandon(w)
		d.wantOutcome(w, false, false)
		d.answer(0, 5)
		d.wantNoAnswer("a")
		d.wantOutcome(w, true, true)
	})
}

// R11: await returns with its context, says what failed last, and what it has sent can still be settled.
func TestCommitter_AwaitEndsWithItsContext(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		ctx, cancel := context.WithTimeout(d.Context(), 10*time.Second)
		defer cancel()
		w := &write{line: "l", size: 10, then: putOf("a")}
		start := time.Now()
		got := make(chan error, 1)
		go func() {
			_, err := d.c.await(ctx, nil, w)
			got <- err
		}()
		synctest.Wait()
		d.fail(0, errCutOff)
		var err error
		select {
		case err = <-got:
		case <-time.After(time.Minute):
			d.Fatal("await did not return in a minute")
		}
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "cut off") {
			d.Errorf("await: %v, want the deadline and the last failure", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			d.Errorf("await took %v, want the 10s of its context", took)
		}
		d.wantOutcome(w, false, false)
		n := len(d.arrived())
		time.Sleep(time.Minute)
		if len(d.arrived()) != n {
			d.Error("sent again although nobody waits")
		}
	})
}

func TestCommitter_CloseAnswersEverythingAndSendsNothingMore(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		a := d.submit("l", "a")
		d.submit("l", "b")
		d.c.close()
		synctest.Wait()
		for _, key := range []string{"a", "b"} {
			if got := d.answers[key]; len(got) != 1 || !errors.Is(got[0].err, ErrClosed) {
				d.Errorf("%s was answered with %+v, want ErrClosed once", key, got)
			}
		}
		d.wantOutcome(a, false, false)
		d.submit("l", "c")
		if got := d.answers["c"]; len(got) != 1 || !errors.Is(got[0].err, ErrClosed) {
			d.Errorf("c, submitted after, was answered with %+v, want ErrClosed", got)
		}
		time.Sleep(time.Minute)
		d.wantFlights("a")
	})
}

// Reads are answered without a commit, so some fly side by side, each caller getting its own part.
func TestCommitter_ReadsFlySideBySide(t *testing.T) {
	onDesk(t, true, func(d *desk) {
		for i := range 6 {
			d.submit("", fmt.Sprint("r", i))
		}
		d.wantFlights("r0 | r1 | r2 | r3")
		d.answer(2, 9)
		d.wantFlights("r0 | r1 | r2 | r3 | r4 r5")
		d.answer(4, 10)
		for _, key := range []string{"r4", "r5"} {
			d.wantAnswer(key, 10)
			if got := string(d.answers[key][0].resp.Responses[0].GetResponseRange().GetKvs()[0].GetKey()); got != key {
				d.Errorf("%s was given the part of %s", key, got)
			}
		}
	})
}

// R6 of the whole cluster: an answer that shows a rollback is no answer, for none of its writes.
func TestCommitter_ARolledBackAnswerIsARefusal(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		d.submit("l", "a")
		d.answer(0, 50)
		d.submit("l", "b")
		d.answer(1, 49)
		if got := d.answers["b"]; len(got) != 1 || !errors.Is(got[0].err, ErrRolledBack) {
			d.Errorf("b was answered with %+v, want ErrRolledBack", got)
		}
		d.submit("l", "c")
		d.answer(2, 51)
		d.wantAnswer("c", 51)
	})
}
