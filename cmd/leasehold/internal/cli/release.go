// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/lines"
	"example.com/leasehold/cmd/leasehold/internal/terminal"
	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func (a *app) releaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release NAME --token N",
		Short: "Take a name away from its holder, on purpose",
		Long: `Release deletes the key with token N from the line of NAME: the holder's, so that the next in line gets the name, or
a waiter's. It is for names that are stuck: held by a process that lives but does nothing, or by a key without a lease.

Nothing waits for the holder. It is told by etcd, within two seconds if it can be reached; "leasehold run" kills its
command then. Until then it goes on, beside the next holder: only a resource that compares tokens is safe from that. To
end a holder properly, end its process instead.

It compares: if the line has moved on and the token is not there any more, nothing is deleted.
It asks before it deletes, unless --yes says not to.

` + exitHelp("", nothingReleased, endedBySignal, exitOK, exitNo, exitUsage, exitDenied, exitUnreachable, exitFailed),
		Args: args(oneName),
	}
	l := a.etcdFlags(cmd)
	var token string
	var yes bool
	cmd.Flags().StringVar(&token, "token", "", "the token of the key to delete, as list and show print it (required)")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if token == "" {
			return exitWith(exitUsage, "--token is required; see leasehold show NAME")
		}
		t, err := leasehold.ParseToken(token)
		if err != nil {
			return exitWith(exitUsage, "--token %q: want a positive decimal number, as list and show print it", token)
		}
		return l.with(cmd, func(ctx context.Context) error { return a.release(ctx, l, given[0], t, yes) })
	}
	return cmd
}

func (a *app) release(ctx context.Context, l *link, name string, t leasehold.Token, yes bool) error {
	place, position, err := find(ctx, l, name, t)
	if err != nil {
		return err
	}
	if !yes {
		if ok, err := a.confirm(ctx, name, place, position); err != nil || !ok {
			return err
		}
	}
	// Only the asking may take long.
	ctx, cancel := l.brief(ctx)
	defer cancel()
	resp, err := l.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(place.Key), "=", int64(t))).
		Then(clientv3.OpDelete(place.Key)).Commit()
	if err != nil {
		return err
	}
	if !resp.Succeeded {
		return exitWith(exitNo, "token %v has left the line of %q meanwhile: nothing was deleted", t, name)
	}
	fmt.Fprintf(a.stdout, "token %v is out of the line of %q\n", t, name)
	return nil
}

// find returns the place with the token and its position in line; 0 holds.
func find(ctx context.Context, l *link, name string, t leasehold.Token) (lines.Place, int, error) {
	ctx, cancel := l.brief(ctx)
	defer cancel()
	line, _, err := lines.ReadOne(ctx, l.client, l.prefix, name)
	if err != nil {
		return lines.Place{}, 0, err
	}
	i := slices.IndexFunc(line.Places, func(p lines.Place) bool { return p.Token == t })
	switch {
	case i >= 0:
		return line.Places[i], i, nil
	case len(line.Places) == 0:
		return lines.Place{}, 0, exitWith(exitNo, "nobody holds %q", name)
	default:
		first := line.Places[0]
		return lines.Place{}, 0, exitWith(exitNo, "token %v is not in the line of %q, which is held by %s with token %v", t, name, printable(first.Holder), first.Token)
	}
}

// confirm explains and asks. Without a terminal there is nobody to ask.
func (a *app) confirm(ctx context.Context, name string, p lines.Place, position int) (bool, error) {
	in, ok := a.stdin.(*os.File)
	if !ok || !terminal.Is(in) {
		return false, exitWith(exitUsage, "nobody to ask: say --yes to take %q away from %s", name, printable(p.Holder))
	}
	if position == 0 {
		fmt.Fprintf(a.stderr, "%s holds %q with token %v.\n", printable(p.Holder), name, p.Token)
		fmt.Fprintln(a.stderr, "The next in line gets it at once. The holder is told within two seconds if etcd can reach it; until then both go on.")
	} else {
		fmt.Fprintf(a.stderr, "%s waits for %q as number %d, with token %v. Its wait will fail.\n", printable(p.Holder), name, position, p.Token)
	}
	if p.Problem != "" {
		fmt.Fprintf(a.stderr, "Its key %s.\n", p.Problem)
	}
	fmt.Fprint(a.stderr, "Take it away? [y/N] ")
	answer, _ := terminal.ReadLine(ctx, in) // no answer is a no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, exitWith(exitNo, "nothing was deleted")
}
