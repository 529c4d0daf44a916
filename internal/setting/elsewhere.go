// Settings of the other program.

package setting

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
)

// ServerProgram is the program with the features that this module's first program leaves out.
const ServerProgram = "code-sandbox-server"

// elsewhere are settings of ServerProgram.
var elsewhere = strings.Fields(`
	kubeconfig context namespace storage-class runtime-class programs-image pod-users pod-seccomp pod-user-namespaces
	oidc-issuer oidc-audience oidc-claim oidc-groups-claim trusted-header trusted-groups-header trusted-proxy
	http-url policy metrics-principals
	max-kernels memory-total cpu-total disk-total calls-per-minute bytes-out-limit
	audit-log audit-code audit-required apis`)

// Elsewhere returns the settings and the commands of ServerProgram that a program without its features refuses by naming it.
func Elsewhere() (settings, commands []string) { return elsewhere, []string{"audit", "tokens"} }

// notHere is the value of a setting of ServerProgram alone. It refuses each value.
type notHere struct{}

func (notHere) Set(string) error {
	return errors.New("this program does not have this setting; " + ServerProgram + " has it, which takes all settings of this program too")
}

func (notHere) String() string { return "" }

const notHereType = "elsewhere"

// Type names the value for descriptions of flags.
func (notHere) Type() string { return notHereType }

// bindElsewhere declares the settings of ServerProgram that fs does not have; no help lists them.
func bindElsewhere(fs *pflag.FlagSet) {
	for _, name := range elsewhere {
		if fs.Lookup(name) == nil {
			fs.Var(notHere{}, name, "")
			fs.Lookup(name).Hidden, fs.Lookup(name).NoOptDefVal = true, "on" // a switch takes no value
		}
	}
}
