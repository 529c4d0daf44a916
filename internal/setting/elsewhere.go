// Settings of the other program, and of earlier versions.

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

// removed are settings of earlier versions, with what there is instead.
var removed = map[string]string{
	"skills": "this setting is gone: --mount ~/skills:skills lets code read a folder of skills in /mnt/data/mounts/skills; copy one out of a hidden folder, such as ~/.claude/skills, first",
	"wheels": "this setting is gone: with --mount ~/wheels:wheels code installs from a folder by `pip install --no-index --find-links /mnt/data/mounts/wheels NAME`",
}

// refused is the value of a setting that the program does not have, and says why. It refuses each value.
type refused string

// Set returns the reason.
func (why refused) Set(string) error { return errors.New(string(why)) }

func (why refused) String() string { return "" }

const refusedType = "refused"

// Type names the value for descriptions of flags.
func (why refused) Type() string { return refusedType }

// bindRefused declares the settings of ServerProgram that fs does not have, and those of earlier versions; no help lists them.
func bindRefused(fs *pflag.FlagSet) {
	refuse := func(name, why string) {
		if fs.Lookup(name) == nil {
			fs.Var(refused(why), name, "")
			fs.Lookup(name).Hidden, fs.Lookup(name).NoOptDefVal = true, "on" // a switch takes no value
		}
	}
	for _, name := range elsewhere {
		refuse(name, "this program does not have this setting; "+ServerProgram+" has it, which takes all settings of this program too")
	}
	for name, why := range removed {
		refuse(name, why)
	}
}
