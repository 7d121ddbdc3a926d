// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/leasehold/cmd/leasehold/internal/embedded"
	"example.com/leasehold/cmd/leasehold/internal/etcdflags"
	"example.com/leasehold/cmd/leasehold/internal/terminal"
	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/grpclog"
)

// link is a command's way to etcd: flags first, a client once opened.
type link struct {
	app      *app
	flags    etcdflags.Flags
	prefix   string
	embedded bool
	dataDir  string

	server *embedded.Server
	client *clientv3.Client
}

// etcdFlags gives a command the flags by which it reaches etcd.
func (a *app) etcdFlags(cmd *cobra.Command) *link {
	l := &link{app: a}
	l.flags.Register(cmd.Flags())
	cmd.Flags().StringVar(&l.prefix, "prefix", "leasehold/", "what all keys begin with; who shares a name must share it")
	cmd.Flags().BoolVar(&l.embedded, "embedded", false, "run an etcd inside this command, to try things out: it protects nothing beyond this machine")
	cmd.Flags().StringVar(&l.dataDir, "data-dir", "", "with --embedded: where etcd keeps its data (default: a temporary directory, removed at the end)")
	return l
}

// configure reads the environment. An etcd of this command's own cannot be the one that somebody has named: a flag that names
// one is refused, and the environment, which may have been set for something else, is left alone, as unused tells.
func (l *link) configure(cmd *cobra.Command) (unused string, err error) {
	if !l.embedded {
		return "", l.flags.FromEnvironment(cmd.Flags())
	}
	if set := etcdflags.Which(cmd.Flags()); len(set) > 0 {
		return "", exitWith(exitUsage, "--embedded and --%s exclude each other", set[0])
	}
	variables, err := l.flags.PaceFromEnvironment(cmd.Flags())
	if len(variables) > 0 {
		unused = "; not used: " + strings.Join(variables, ", ")
	}
	return unused, err
}

// checkPrefix comes before an etcd is started; the bounds are the SDK's.
func (l *link) checkPrefix() error {
	const most = 1024
	switch {
	case l.prefix == "":
		return exitWith(exitUsage, "--prefix is empty: want what the keys of all names begin with, leasehold/ for one")
	case len(l.prefix) > most:
		return exitWith(exitUsage, "--prefix of %d bytes: want %d at most", len(l.prefix), most)
	case !utf8.ValidString(l.prefix):
		return exitWith(exitUsage, "--prefix %q: want UTF-8", l.prefix)
	}
	return nil
}

// open makes the client, and starts the embedded etcd if there is to be one.
func (l *link) open(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if err := l.checkPrefix(); err != nil {
		return err
	}
	unused, err := l.configure(cmd)
	if err != nil {
		return l.classify(ctx, err)
	}
	if l.dataDir != "" && !l.embedded {
		return exitWith(exitUsage, "--data-dir is for --embedded")
	}
	quietGRPC()
	if l.embedded {
		server, err := embedded.Start(ctx, l.dataDir)
		if err != nil {
			return l.classify(ctx, err)
		}
		l.server = server
		l.flags.Endpoints = []string{server.Endpoint()}
		l.app.say("--embedded: an etcd for trying out serves at %s (for others: --endpoints %[1]s); it protects nothing beyond this machine and ends with this command%s", server.Endpoint(), unused)
	}
	client, err := l.flags.Client(context.WithoutCancel(ctx), l.app.askPassword(ctx))
	if err != nil {
		return errors.Join(l.classify(ctx, err), l.close())
	}
	l.client = client
	return nil
}

// close ends what open began. Called again it does nothing.
func (l *link) close() error {
	var errs []error
	if l.client != nil {
		errs = append(errs, l.client.Close())
	}
	if l.server != nil {
		errs = append(errs, l.server.Close())
	}
	l.client, l.server = nil, nil
	return errors.Join(errs...)
}

// brief bounds what should not take long.
func (l *link) brief(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.flags.DialTimeout+l.flags.CommandTimeout)
}

// with opens the link for fn and closes it afterwards.
func (l *link) with(cmd *cobra.Command, fn func(ctx context.Context) error) (err error) {
	if err := l.open(cmd); err != nil {
		return err
	}
	defer func() {
		if cerr := l.close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	return l.classify(cmd.Context(), fn(cmd.Context()))
}

// quietGRPC takes gRPC's logger, which writes to standard error, out of the way: what matters comes back as an error.
func quietGRPC() {
	if os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL") == "" {
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(discard{}, discard{}, discard{}))
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// say prints a line about what is going on, to standard error.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.stderr, "leasehold: "+format+"\n", args...)
}

// askPassword returns a function that asks at the terminal until ctx ends, or nil if there is none.
func (a *app) askPassword(ctx context.Context) func(prompt string) (string, error) {
	in, ok := a.stdin.(*os.File)
	if !ok || !terminal.Is(in) {
		return nil
	}
	return func(prompt string) (string, error) {
		fmt.Fprint(a.stderr, prompt)
		defer fmt.Fprintln(a.stderr)
		return terminal.ReadPassword(ctx, in)
	}
}

// defaultHolder names this process as the SDK does.
func defaultHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown" // a display value only
	}
	return host + ":" + strconv.Itoa(os.Getpid())
}

// seconds formats a duration for people.
func seconds(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}
