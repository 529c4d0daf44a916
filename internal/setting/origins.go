package setting

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	reports "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/report"
)

// Origins of settings.
const (
	fromFlag        = "flag"
	fromEnvironment = "environment"
	fromFile        = "file"
	fromDefault     = "default"
	fromPolicy      = "policy"
)

// origin is a setting's origin. The zero value means its default.
type origin struct {
	From     string
	Variable string // of the environment
	File     string // the configuration file, or the file of variables
}

// beatsFile reports whether the command line or a variable set the setting.
func (o origin) beatsFile() bool {
	return o.From == fromFlag || o.From == fromEnvironment
}

func (o origin) String() string {
	switch {
	case o.Variable != "" && o.File != "":
		return o.Variable + " in " + o.File
	case o.Variable != "" || o.File != "":
		return o.Variable + o.File
	}
	return cmp.Or(o.From, fromDefault)
}

// InForce is the output of doctor --settings.
type InForce struct {
	Settings  []settingInForce `json:"settings"`
	Variables []settingInForce `json:"variables"` // for databases, code and hosts; the values are secret and left out
}

type settingInForce struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	From     string `json:"from"`
	Variable string `json:"variable,omitempty"`
	File     string `json:"file,omitempty"`
}

func inForceFrom(name, value string, o origin) settingInForce {
	return settingInForce{Name: name, Value: value, From: cmp.Or(o.From, fromDefault), Variable: o.Variable, File: o.File}
}

// maskedValue stands for a value that is a secret.
const maskedValue = "•••"

// shownValue returns a flag's value, without the secrets of an address.
func shownValue(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	value := f.Value.String()
	if u, err := url.Parse(value); err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), "xxxxx")
		}
		return u.String()
	}
	return value
}

// OK returns true: the settings in force are checked.
func (c InForce) OK() bool { return true }

// WriteJSON writes one object: settings and variables.
func (c InForce) WriteJSON(w io.Writer) error { return reports.WriteJSON(w, c) }

// WriteTable writes a line for each setting and variable.
func (c InForce) WriteTable(w io.Writer) error {
	var rows []reports.Row
	for _, s := range append(c.Settings, c.Variables...) {
		from := origin{From: s.From, Variable: s.Variable, File: s.File}
		rows = append(rows, reports.Row{Cells: []string{s.Name, cmp.Or(s.Value, "-"), from.String()}})
	}
	changed := 0
	for _, s := range c.Settings {
		if s.From != fromDefault {
			changed++
		}
	}
	return reports.WriteTable(w, rows, fmt.Sprintf("%d of %d settings are not the defaults.", changed, len(c.Settings)))
}
