// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"example.com/leasehold/internal/clock"
)

// A watchStream is one stream; its fields are guarded by watcher.mu.
type watchStream struct {
	watcher  *watcher
	link     *watchLink
	orders   []int64       // watches to create, by id, and with a minus sign to cancel
	creating []int64       // sent, without an answer yet, in order
	progress bool          // to be asked for
	heard    clock.Instant // when something was received last, or the stream began
	asked    clock.Instant // when progress was asked for since; 0: not
	dead     bool
}

type watchLink = link[pb.WatchRequest, pb.WatchResponse]

func (s *watchStream) open(ctx context.Context, _ *watchLink, conn *grpc.ClientConn) (grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchResponse], error) {
	if err := s.watcher.learnNamespace(ctx, conn); err != nil {
		return nil, err
	}
	return pb.NewWatchClient(conn).Watch(ctx)
}

// errNoOwnKey: none of the keys that are watched for exists any more, so there is nothing to learn from, nor to watch.
var errNoOwnKey = errors.New("leasehold: none of the watched leases has a key")

// learnNamespace finds out under which name the server knows our keys.
func (w *watcher) learnNamespace(ctx context.Context, conn *grpc.ClientConn) error {
	w.mu.Lock()
	known := w.namespaceKnown
	sessions := make(map[*Session]bool)
	for _, sub := range w.watches {
		sessions[sub.session] = true
	}
	w.mu.Unlock()
	if known {
		return nil
	}
	for s := range sessions {
		resp, err := pb.NewLeaseClient(conn).LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(s.id), Keys: true})
		if err != nil {
			return err
		}
		if namespace, ok := namespaceOf(resp.GetKeys(), s.slots.keys()); ok {
			w.mu.Lock()
			w.namespace, w.namespaceKnown = namespace, true
			w.mu.Unlock()
			return nil
		}
	}
	// The subscribers find out by reading that their keys are gone, which no watch will tell them.
	var subscribers []subscriber
	w.mu.Lock()
	for _, sub := range w.watches {
		if !sub.resting {
			subscribers = append(subscribers, sub.subscriber)
		}
	}
	w.mu.Unlock()
	for _, to := range subscribers {
		to.opened()
	}
	return errNoOwnKey
}

// namespaceOf finds what the server puts before the keys of a lease, as it tells them, which are some of our own. With a prefix that does
// not end in a slash, one of our keys can be the end of another ("jobss/1-0" and "jobsmyjobss/1-0"): the longest that fits is meant. And
// if one of them begins like the end of the namespace, the others show the whole of that.
func namespaceOf(told [][]byte, own map[string]bool) (namespace string, ok bool) {
	for _, full := range told {
		for i := range full {
			if own[string(full[i:])] {
				if !ok || i > len(namespace) {
					namespace, ok = string(full[:i]), true
				}
				break
			}
		}
	}
	return namespace, ok
}

func (s *watchStream) next(*watchLink) *pb.WatchRequest {
	w := s.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	for !s.dead && len(s.orders) > 0 {
		id := s.orders[0]
		if s.orders = s.orders[1:]; len(s.orders) == 0 {
			s.orders = nil
		}
		if id < 0 {
			return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: -id}}}
		}
		sub := w.watches[id]
		if sub == nil {
			continue // stopped meanwhile
		}
		sub.sent = true
		s.creating = append(s.creating, id)
		create := &pb.WatchCreateRequest{WatchId: id, Key: []byte(w.namespace + sub.key)}
		if sub.end != "" {
			create.RangeEnd = []byte(w.namespace + sub.end)
		}
		if sub.going {
			create.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
		}
		return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}
	}
	if !s.dead && s.progress {
		s.progress = false
		return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}
	}
	return nil
}

func (s *watchStream) received(_ *watchLink, answer *pb.WatchResponse) {
	w := s.watcher
	if err := w.engine.streamed(answer.GetHeader()); err != nil {
		return
	}
	w.mu.Lock()
	s.heard, s.asked = w.engine.clk.Now(), 0
	id := answer.GetWatchId()
	if answer.GetCreated() && len(s.creating) > 0 {
		id = s.creating[0] // a refusal carries no id
		s.creating = s.creating[1:]
	}
	sub := w.watches[id]
	if s.dead || sub == nil {
		w.mu.Unlock()
		return
	}
	for _, ev := range answer.GetEvents() {
		if ev.GetType() == mvccpb.Event_DELETE {
			sub.gone = max(sub.gone, ev.GetKv().GetModRevision())
		}
	}
	if sub.resting && (answer.GetCanceled() || len(answer.GetEvents()) > 0) {
		sub.sent = sub.sent && !answer.GetCanceled()
		w.stopLocked(sub)
	}
	if sub.subscriber == nil {
		w.mu.Unlock()
		return
	}
	if answer.GetCanceled() {
		// Refused, or ended by the server (compaction under a slow watch): it begins anew, soon, and under another id,
		// because the server may go on to count the old one as taken.
		delete(w.watches, sub.id)
		w.lastID++
		sub.id = w.lastID
		w.watches[sub.id] = sub
		sub.sent, sub.created = false, false
		sub.refused = w.engine.clk.Now().Add(refusedPause)
		if !sub.warned {
			sub.warned = true
			w.engine.journal.warn("leasehold: etcd refused or ended a watch; trying again",
				zap.String("key", sub.key), zap.String("reason", answer.GetCancelReason()))
		}
		if reauthenticates(answer.GetCancelReason()) {
			w.breakLocked(s) // a new stream brings a new token
			w.backOffLocked()
		}
		w.mu.Unlock()
		w.kick()
		return
	}
	if answer.GetCreated() {
		w.breaks, w.told = 0, false
		sub.created, sub.gone = true, max(sub.gone, answer.GetHeader().GetRevision())
	}
	namespace, to := w.namespace, sub.subscriber
	w.mu.Unlock()
	if answer.GetCreated() {
		to.opened()
	}
	if len(answer.GetEvents()) > 0 {
		if namespace != "" {
			for _, ev := range answer.GetEvents() {
				ev.Kv.Key = ev.GetKv().GetKey()[len(namespace):]
			}
		}
		to.saw(answer.GetEvents())
	}
}

// reauthenticates tells whether a new token helps against a refusal, of which the protocol gives nothing but the text.
func reauthenticates(reason string) bool {
	return reason == rpctypes.ErrGRPCInvalidAuthToken.Error() || reason == rpctypes.ErrGRPCAuthOldRevision.Error()
}

// closed: a break. The watches begin anew on another stream.
func (s *watchStream) closed(_ *watchLink, err error) {
	w := s.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.dead || w.engine.ctx.Err() != nil {
		return // broken off by us
	}
	w.breakLocked(s)
	if !errors.Is(err, errNoOwnKey) {
		w.tellLocked("leasehold: a watch stream ended", zap.String("endpoint", s.link.endpoint), zap.Error(err))
	}
	w.backOffLocked()
	w.kick()
}

// tellLocked writes to the log what is wrong, once until a watch begins again.
func (w *watcher) tellLocked(message string, fields ...zap.Field) {
	if !w.told {
		w.told = true
		w.engine.journal.info(message, fields...)
	}
}

// backOffLocked sets when the next stream is opened: at once, but after breaks in a row later and later.
func (w *watcher) backOffLocked() {
	w.again = w.engine.clk.Now()
	if w.breaks > 0 {
		w.again = w.again.Add(min(10*time.Millisecond<<min(w.breaks, 8), time.Second))
	}
	w.breaks++
}
