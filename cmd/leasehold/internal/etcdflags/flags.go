// SPDX-License-Identifier: Apache-2.0

// Package etcdflags has the flags and the environment of etcdctl, with the same meaning: who can reach a cluster with
// etcdctl reaches it with leasehold without learning anything.
//
// One difference: etcdctl refuses a flag that is given in the environment as well; here the flag counts.
package etcdflags

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/srv"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Flags are how to reach etcd. Register them, read the environment once they are parsed, then make clients.
type Flags struct {
	Endpoints      []string
	DialTimeout    time.Duration
	CommandTimeout time.Duration
	User           string // name or name:password

	keepAliveTime, keepAliveTimeout       time.Duration
	password                              string
	insecureTransport, insecureSkipVerify bool
	cert, key, caCert                     string
	discoverySRV, discoveryName           string
	insecureDiscovery, discovered         bool

	variables map[string]string // by flag: the variable that its value is from
}

// ErrFlags says that flags or the environment contradict each other or cannot be used.
var ErrFlags = errors.New("etcd flags")

// refusal matches ErrFlags, and says only what is wrong with which flag.
type refusal struct{ error }

func (refusal) Is(target error) bool { return target == ErrFlags }
func (r refusal) Unwrap() error      { return r.error }

func refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// source names where a flag's value is from: the flag itself, or the variable.
func (f *Flags) source(flag string) string { return cmp.Or(f.variables[flag], "--"+flag) }

// Register adds the flags to fs, with etcdctl's names and defaults.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.Endpoints, "endpoints", []string{"127.0.0.1:2379"}, "etcd's endpoints")
	fs.DurationVar(&f.DialTimeout, "dial-timeout", 2*time.Second, "time to get a connection")
	fs.DurationVar(&f.CommandTimeout, "command-timeout", 5*time.Second, "time for a request, not counting waits for a lock")
	fs.DurationVar(&f.keepAliveTime, "keepalive-time", 2*time.Second, "pings on an idle connection: interval")
	fs.DurationVar(&f.keepAliveTimeout, "keepalive-timeout", 6*time.Second, "pings on an idle connection: time for the answer")
	fs.BoolVar(&f.insecureTransport, "insecure-transport", true, "plain text where no TLS flag and no https endpoint says otherwise")
	fs.BoolVar(&f.insecureSkipVerify, "insecure-skip-tls-verify", false, "do not verify the servers' certificates: for tests only")
	fs.StringVar(&f.cert, "cert", "", "client's TLS certificate file")
	fs.StringVar(&f.key, "key", "", "client's TLS key file")
	fs.StringVar(&f.caCert, "cacert", "", "CA bundle that verifies the servers' certificates")
	fs.StringVar(&f.User, "user", "", "name[:password]; the password is asked for if it is nowhere")
	fs.StringVar(&f.password, "password", "", "password; then --user must not carry one")
	fs.StringVarP(&f.discoverySRV, "discovery-srv", "d", "", "domain whose SRV records name the endpoints")
	fs.StringVar(&f.discoveryName, "discovery-srv-name", "", "service name for the SRV records")
	fs.BoolVar(&f.insecureDiscovery, "insecure-discovery", true, "accept SRV records of plain-text endpoints")
}

// pace are the flags that say how long things may take. All others say which cluster is meant, and who asks.
var pace = []string{"dial-timeout", "command-timeout", "keepalive-time", "keepalive-timeout"}

// Which returns the names of those flags in fs that say which cluster is meant or who asks, and that were set.
func Which(fs *pflag.FlagSet) []string {
	var set []string
	for _, name := range names() {
		if !slices.Contains(pace, name) && fs.Changed(name) {
			set = append(set, name)
		}
	}
	return set
}

// FromEnvironment gives every flag of fs that was not set the value of its ETCDCTL_ variable, if there is one:
// --dial-timeout is ETCDCTL_DIAL_TIMEOUT. Only flags that Register has added are looked at.
func (f *Flags) FromEnvironment(fs *pflag.FlagSet) error {
	_, err := f.fill(fs, nil)
	return err
}

// PaceFromEnvironment is FromEnvironment for a cluster that is known otherwise: variables that say which one is meant, or who
// asks, are not used. It returns their names.
func (f *Flags) PaceFromEnvironment(fs *pflag.FlagSet) (unused []string, err error) {
	return f.fill(fs, pace)
}

// names returns those of all flags, in the order of Register.
func names() []string {
	var fs pflag.FlagSet
	new(Flags).Register(&fs)
	var all []string
	fs.VisitAll(func(known *pflag.Flag) { all = append(all, known.Name) })
	return all
}

// fill sets flags from the environment: only those, or all if only is nil.
func (f *Flags) fill(fs *pflag.FlagSet, only []string) (unused []string, err error) {
	var errs []error
	for _, name := range names() {
		flag := fs.Lookup(name)
		variable := "ETCDCTL_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		value, ok := os.LookupEnv(variable)
		if flag == nil || flag.Changed || !ok || value == "" {
			continue
		}
		if only != nil && !slices.Contains(only, name) {
			unused = append(unused, variable)
			continue
		}
		if err := fs.Set(name, value); err != nil {
			errs = append(errs, refuse("%s: %w", variable, err))
			continue
		}
		if f.variables == nil {
			f.variables = make(map[string]string)
		}
		f.variables[name] = variable
	}
	return unused, errors.Join(errs...)
}

// Config returns the client's configuration. ask is called with a prompt if a password is needed that is nowhere; nil:
// nobody can be asked. Errors match ErrFlags, or are those of files and of DNS.
func (f *Flags) Config(ask func(prompt string) (string, error)) (clientv3.Config, error) {
	if err := f.checkTimes(); err != nil {
		return clientv3.Config{}, err
	}
	if err := f.discover(); err != nil {
		return clientv3.Config{}, err
	}
	if err := f.checkEndpoints(); err != nil {
		return clientv3.Config{}, err
	}
	cfg := clientv3.Config{
		Endpoints: f.Endpoints, DialTimeout: f.DialTimeout,
		DialKeepAliveTime: f.keepAliveTime, DialKeepAliveTimeout: f.keepAliveTimeout,
		Logger: zap.NewNop(), // what matters comes back as an error
	}
	var err error
	if cfg.TLS, err = f.tls(); err != nil {
		return clientv3.Config{}, err
	}
	if cfg.Username, cfg.Password, err = f.credentials(ask); err != nil {
		return clientv3.Config{}, err
	}
	return cfg, nil
}

// Client makes a client. With a user it logs in, within the dial timeout; without, it sends nothing yet. The context
// becomes the client's own and ends it.
func (f *Flags) Client(ctx context.Context, ask func(prompt string) (string, error)) (*clientv3.Client, error) {
	cfg, err := f.Config(ask)
	if err != nil {
		return nil, err
	}
	cfg.Context = ctx
	return clientv3.New(cfg)
}

// discover replaces the endpoints by those of the SRV records, once.
func (f *Flags) discover() error {
	if f.discoverySRV == "" || f.discovered {
		return nil
	}
	found, err := srv.GetClient("etcd-client", f.discoverySRV, f.discoveryName)
	if err != nil {
		return fmt.Errorf("%s %s: %w", f.source("discovery-srv"), f.discoverySRV, err)
	}
	f.discovered = true
	f.Endpoints = nil
	for _, endpoint := range found.Endpoints {
		if f.insecureDiscovery || !strings.HasPrefix(endpoint, "http://") {
			f.Endpoints = append(f.Endpoints, endpoint)
		}
	}
	if len(f.Endpoints) == 0 {
		return refuse("%s %s: no endpoint that --insecure-discovery=false accepts", f.source("discovery-srv"), f.discoverySRV)
	}
	return nil
}

func (f *Flags) tls() (*tls.Config, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, refuse("--cert and --key belong together")
	}
	secure := f.cert != "" || f.caCert != "" || !f.insecureTransport
	for _, endpoint := range f.Endpoints {
		secure = secure || strings.HasPrefix(endpoint, "https://") || strings.HasPrefix(endpoint, "unixs://")
	}
	if !secure {
		return nil, nil // no TLS is a configuration
	}
	if err := f.checkFiles(); err != nil {
		return nil, err
	}
	info := transport.TLSInfo{
		CertFile: f.cert, KeyFile: f.key, TrustedCAFile: f.caCert,
		InsecureSkipVerify: f.insecureSkipVerify, Logger: zap.NewNop(),
	}
	if f.discoverySRV != "" && !f.insecureDiscovery {
		info.ServerName = f.discoverySRV
	}
	cfg, err := info.ClientConfig()
	if err != nil {
		return nil, refuse("%s and %s: %w", f.source("cert"), f.source("key"), err)
	}
	return cfg, nil
}

// checkFiles names the flag whose file cannot be used.
func (f *Flags) checkFiles() error {
	for _, file := range []struct{ flag, path string }{{"cacert", f.caCert}, {"cert", f.cert}, {"key", f.key}} {
		if file.path == "" {
			continue
		}
		text, err := os.ReadFile(file.path)
		if err != nil {
			return refuse("%s: %w", f.source(file.flag), err)
		}
		// etcd's client takes a bundle without any for one that trusts nobody.
		if file.flag == "cacert" && !x509.NewCertPool().AppendCertsFromPEM(text) {
			return refuse("%s: %s: no certificate in PEM in it", f.source(file.flag), file.path)
		}
	}
	return nil
}

// credentials splits --user, or takes the password from --password or from whoever can be asked, once.
func (f *Flags) credentials(ask func(prompt string) (string, error)) (name, password string, err error) {
	name, password, found := strings.Cut(f.User, ":")
	switch {
	case name == "" && (found || f.password != ""):
		return "", "", refuse("a password without a user: want %s name or name:password", f.source("user"))
	case name == "":
		return "", "", nil
	case f.password != "" && found:
		return "", "", refuse("%s carries a password, and %s is given", f.source("user"), f.source("password"))
	case f.password != "":
		return name, f.password, nil
	case found:
		return name, password, nil
	case ask == nil:
		return "", "", refuse("no password for user %s, and nobody to ask", name)
	}
	if password, err = ask("Password for " + name + ": "); err != nil {
		return "", "", refuse("read the password: %w", err)
	}
	f.password = password // the next client need not ask again
	return name, password, nil
}
