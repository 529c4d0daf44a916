// Settings that went: who still names one is told how to do it now.

package server

import (
	"errors"

	"github.com/spf13/pflag"
)

// gone is the value of a setting that went. It says how to do it now.
type gone string

// goneSettings are the settings that went, by their names.
var goneSettings = map[string]gone{
	"replicas": "this setting went: one server has all sessions of its principals, and takes them over when it starts again with the same --state-dir " +
		"(on Kubernetes a StatefulSet of one, with that folder on a claim). Leave the setting out; who outgrows one server runs several, each with a state folder and principals of its own",
}

// Set refuses each value.
func (g gone) Set(string) error { return errors.New(string(g)) }

func (g gone) String() string { return "" }

// Type names the value for what describes flags.
func (g gone) Type() string { return "gone" }

// bindGone declares the settings that went, which no help lists.
func bindGone(fs *pflag.FlagSet) {
	for name, value := range goneSettings {
		fs.Var(value, name, string(value))
		_ = fs.MarkHidden(name)
	}
}
