// Settings that went, with the way to do it now.

package server

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
)

// gone is the value of a setting that went: the way to do it now.
type gone string

// goneSettings maps the names of settings that went to their values.
var goneSettings = map[string]gone{
	"replicas": "this setting went: one server has all sessions of its principals, and takes them over when it starts again with the same --state-dir " +
		"(on Kubernetes a StatefulSet of one, with that folder on a claim). Leave the setting out; who outgrows one server runs several, each with a state folder and principals of its own",
	"audit-max-size": auditIsOneFile,
	"audit-keep":     auditIsOneFile,
}

const auditIsOneFile = "this setting went: the audit log is one file, which only grows. Leave the setting out; to begin a new file, stop the server, move the file away and start it again"

// Set refuses each value.
func (g gone) Set(string) error { return errors.New(string(g)) }

func (g gone) String() string { return "" }

// goneType is the Type of these values.
const goneType = "gone"

// Type names the value for descriptions of flags.
func (g gone) Type() string { return goneType }

// ServerProgram is the program with the features that this module's first program leaves out.
const ServerProgram = "code-sandbox-server"

// elsewhere are settings of ServerProgram.
var elsewhere = strings.Fields(`
	kubeconfig context namespace storage-class runtime-class warm-pool programs-image pod-users pod-seccomp pod-user-namespaces
	oidc-issuer oidc-audience oidc-claim oidc-groups-claim trusted-header trusted-groups-header trusted-proxy
	oauth oauth-url oidc-client-id policy metrics-principals
	max-kernels memory-total cpu-total disk-total calls-per-minute bytes-out-limit
	audit-log audit-code audit-required apis`)

// Elsewhere returns the settings and the commands of ServerProgram that a program without its features refuses by naming it.
func Elsewhere() (settings, commands []string) { return elsewhere, []string{"audit", "tokens"} }

// bindGone declares the settings that went, and those of ServerProgram alone; no help lists them.
func bindGone(fs *pflag.FlagSet) {
	hide := func(name string, value gone) {
		if fs.Lookup(name) == nil {
			fs.Var(value, name, string(value))
			fs.Lookup(name).Hidden, fs.Lookup(name).NoOptDefVal = true, "on" // a switch takes no value
		}
	}
	for name, value := range goneSettings {
		hide(name, value)
	}
	for _, name := range elsewhere {
		hide(name, "this program does not have this setting; "+ServerProgram+" has it, which takes all settings of this program too")
	}
}
