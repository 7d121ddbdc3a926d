// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version may be set at link time: -ldflags "-X …/cli.version=1.2.3". Otherwise the module's is used, if it has one.
var version string

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Etcd     string `json:"etcd,omitempty"` // of the client, and of the server in demo and --embedded
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readVersion() versionInfo { return versionOf(debug.ReadBuildInfo()) }

// versionOf takes what the build has recorded. There is no revision in it under -buildvcs=false or outside a checkout.
func versionOf(info *debug.BuildInfo, ok bool) versionInfo {
	v := versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if ok {
		if v.Version == "" {
			v.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
		for _, dep := range info.Deps {
			if dep.Path == "go.etcd.io/etcd/client/v3" {
				v.Etcd = dep.Version
			}
		}
	}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	return v
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, of etcd's client and of Go",
		Args:  args(noArgs),
	}
	format := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		v := readVersion()
		if format.json() {
			return json.NewEncoder(a.stdout).Encode(v)
		}
		fmt.Fprintf(a.stdout, "leasehold %s\n", v.Version)
		if v.Revision != "" {
			modified := ""
			if v.Modified {
				modified = ", modified"
			}
			fmt.Fprintf(a.stdout, "revision  %s%s\n", v.Revision, modified)
		}
		fmt.Fprintf(a.stdout, "etcd      %s\ngo        %s %s\n", v.Etcd, v.Go, v.Platform)
		return nil
	}
	return cmd
}
