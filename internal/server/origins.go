package server

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
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

	isAlias bool // the variable is another system's
}

// source is where settings come from.
type source struct {
	env        variables
	origins    map[string]origin // by setting; absent: the default
	aliasFlags aliasFlags
	notes      []Note
}

// aliasFlags holds the flags of other systems that mean nothing here.
type aliasFlags map[string]*string

// Note is a message about a setting of another system.
type Note struct {
	Name string `json:"name"`
	Text string `json:"text"`

	level slog.Level
}

// beatsFile reports whether the command line or a variable of our own set the setting.
func (o origin) beatsFile() bool {
	return !o.isAlias && (o.From == fromFlag || o.From == fromEnvironment)
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

// InForce is the output of doctor --config.
type InForce struct {
	Settings  []settingInForce `json:"settings"`
	Variables []settingInForce `json:"variables"` // for databases, code and hosts; the values are secret and left out
	Notes     []Note           `json:"notes"`     // of settings of other systems
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

// WriteJSON writes one object: settings, variables and notes.
func (c InForce) WriteJSON(w io.Writer) error { return reports.WriteJSON(w, c) }

// WriteTable writes a line for each setting and variable, and the notes on other systems' settings.
func (c InForce) WriteTable(w io.Writer) error {
	var rows []reports.Row
	for _, s := range append(c.Settings, c.Variables...) {
		from := origin{From: s.From, Variable: s.Variable, File: s.File}
		rows = append(rows, reports.Row{Cells: []string{s.Name, cmp.Or(s.Value, "-"), from.String()}})
	}
	var notes strings.Builder
	for _, n := range c.Notes {
		fmt.Fprintf(&notes, "%s: %s\n", n.Name, n.Text)
	}
	changed := 0
	for _, s := range c.Settings {
		if s.From != fromDefault {
			changed++
		}
	}
	return reports.WriteTable(w, rows, fmt.Sprintf("%s%d of %d settings are not the defaults.", notes.String(), changed, len(c.Settings)))
}
