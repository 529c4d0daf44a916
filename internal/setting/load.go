// Settings come from the command line, from variables, and from a file.

package setting

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/proxy"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// Set is a command line's settings: values, rows, and where they came from. Several goroutines may read it once it is loaded.
type Set struct {
	Settings
	Parts
	Groups []Group
	Env    Variables

	origins map[string]origin // by setting; absent: the default
}

// Parts are what a program adds to the core's settings.
type Parts struct {
	Rows    []func() []Group          // of the whole server
	OwnRows []func(*Settings) []Group // of each principal
	Engines []Engine                  // beside Podman
	Checks  []func() error            // read secrets from the environment, and refuse settings that no server could work with
}

// Engine is a value of --engine. It makes containers on other machines.
type Engine struct {
	Name  string
	Check func(*Settings) error // refuses settings without effect on the engine
}

// Podman is the engine of the core.
const Podman = "podman"

// New returns the defaults, to be bound and loaded.
func New(parts Parts) *Set { return &Set{Settings: newSettings(), Parts: parts} }

// Bind lists the settings and declares their flags.
func (p *Set) Bind(fs *pflag.FlagSet) {
	p.Groups = p.table()
	for _, rows := range p.Rows {
		p.Groups = append(p.Groups, rows()...)
	}
	declare(fs, p.Groups)
	bindRefused(fs)
}

// table returns the rows that fill fields of Settings.
func (p *Set) table() []Group {
	groups := p.rows(p.engineNames())
	for _, rows := range p.OwnRows {
		groups = append(groups, rows(&p.Settings)...)
	}
	return groups
}

func (p *Set) engineNames() []string {
	names := []string{Podman}
	for _, e := range p.Engines {
		names = append(names, e.Name)
	}
	return names
}

// isRemote reports whether the engine makes containers on other machines.
func (p *Set) isRemote() bool {
	return slices.ContainsFunc(p.Engines, func(e Engine) bool { return e.Name == p.EngineName })
}

// declare declares the flags, in the order of the table.
func declare(fs *pflag.FlagSet, groups []Group) {
	for _, g := range groups {
		for _, r := range g.Settings {
			switch to := r.Value.(type) {
			case *string:
				fs.StringVar(to, r.Name, *to, r.Help)
			case *bool:
				fs.BoolVar(to, r.Name, *to, r.Help)
			case *int:
				fs.IntVar(to, r.Name, *to, r.Help)
			case *int64:
				fs.Int64Var(to, r.Name, *to, r.Help)
			case *float64:
				fs.Float64Var(to, r.Name, *to, r.Help)
			case *[]string:
				fs.StringSliceVar(to, r.Name, *to, r.Help)
			case pflag.Value:
				fs.Var(to, r.Name, r.Help)
			}
			fs.Lookup(r.Name).Annotations = map[string][]string{GroupAnnotation: {g.Title}, KindAnnotation: {r.Kind}}
		}
	}
	fs.Lookup("prewarm").NoOptDefVal = prewarmAll
	fs.Lookup("project").NoOptDefVal = "ro"
}

// loading is the reading of a command line's settings.
type loading struct {
	*Set
	flags *pflag.FlagSet
}

// Load completes the command line from variables and then from the file, and checks the whole. It looks variables up by lookup, and then in
// the files of variables.
func (p *Set) Load(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	p.Env, p.origins = Variables{own: lookup}, make(map[string]origin)
	fs.Visit(func(f *pflag.Flag) { p.origins[f.Name] = origin{From: fromFlag} })
	l := loading{p, fs}
	problems := l.takeOwn()
	l.takeEngine()
	p.HTTP.Token, _ = p.Env.Lookup(TokenVariable)
	problems = append(problems, l.takeImage(), p.check(), p.HTTP.check())
	for _, check := range p.Checks {
		problems = append(problems, check())
	}
	return errors.Join(problems...)
}

// check refuses values that no run could work with.
func (p *Set) check() error {
	var found Problems
	for _, g := range p.Groups {
		for _, r := range g.Settings {
			found = append(found, r.check())
		}
	}
	if names := p.engineNames(); !slices.Contains(names, p.EngineName) {
		found.Wrong(len(names) == 1, "--engine %q: this program has %s alone, and %s every engine", p.EngineName, Podman, ServerProgram)
		found.Wrong(len(names) > 1, "--engine %q is not %s", p.EngineName, strings.Join(names, " or "))
	}
	for _, e := range p.Engines {
		found = append(found, e.Check(&p.Settings))
	}
	return errors.Join(append(found, p.validate(p.isRemote(), p.Env.Lookup))...)
}

// takeOwn sets the settings of variables and of the file, by their own names.
func (l loading) takeOwn() (problems []error) {
	// A file of variables can name the configuration file, and that can have another one beside it, which is weaker.
	problems = []error{l.takeVariable(l.flags.Lookup("env-file")), l.Env.readFiles(l.EnvFiles), l.takeVariable(l.flags.Lookup("config"))}
	if l.Config != "" {
		problems = append(problems, l.Env.readBeside(l.Config))
	}
	l.flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"env-file", "config", "help"}, f.Name) {
			problems = append(problems, l.takeVariable(f))
		}
	})
	if l.Config != "" {
		problems = append(problems, l.loadFile())
	}
	return problems
}

// takeVariable sets a flag to the value of its variable, unless the command line sets it.
func (l loading) takeVariable(f *pflag.Flag) error {
	value, name, file, ok := l.findVariable(f.Name)
	if !ok || f.Changed || value == "" && !mayBeEmpty(f) {
		return nil
	}
	l.origins[f.Name] = origin{From: fromEnvironment, Variable: name, File: file}
	if err := f.Value.Set(value); err != nil {
		return fmt.Errorf("%s=%q: %w", name, value, err)
	}
	return nil
}

// mayBeEmpty reports whether an empty text is a value of the flag. It is none of a size or a number: there an empty variable, which clients
// set for a field that was left blank, counts as unset.
func mayBeEmpty(f *pflag.Flag) bool {
	return slices.Contains([]string{"string", "stringSlice"}, f.Value.Type())
}

// IsSet reports whether anything but its default sets a setting.
func (p *Set) IsSet(name string) bool {
	_, is := p.origins[name]
	return is
}

// loadFile reads the configuration file into the flags that are still unset.
func (l loading) loadFile() error {
	text, err := os.ReadFile(l.Config)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	values := make(map[string]any)
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", l.Config, err)
	}
	var problems []error
	for name, value := range values {
		f := l.flags.Lookup(name)
		if f == nil || f.Hidden && f.Value.Type() != refusedType || slices.Contains([]string{"env-file", "config", "help"}, name) {
			problems = append(problems, fmt.Errorf("%s: there is no setting %q", l.Config, name))
			continue
		}
		if value == nil || l.origins[name].beatsFile() { // a key that was left blank is not set
			continue
		}
		l.origins[name] = origin{From: fromFile, File: l.Config}
		if err := f.Value.Set(flat(value)); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", l.Config, name, err))
		}
	}
	return errors.Join(problems...)
}

// flat writes a YAML value in the form of a flag's value.
func flat(value any) string {
	if items, ok := value.([]any); ok {
		var parts []string
		for _, item := range items {
			if item != nil {
				parts = append(parts, fmt.Sprint(item))
			}
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(value)
}

// InForce returns all settings of a command line, and the variables that code, databases or other hosts get.
func (p *Set) InForce(flags *pflag.FlagSet) InForce {
	all := InForce{Settings: []settingInForce{}, Variables: []settingInForce{}}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all.Settings = append(all.Settings, inForceFrom(f.Name, shownValue(f), p.origins[f.Name]))
		}
	})
	names := p.PassThroughEnv
	sources, _ := sql.Sources(p.Env.Environ(), IsSetting) // doctor without --config reports a wrong one
	for _, source := range sources {
		names = append(names[:len(names):len(names)], source.Variable)
	}
	network, _ := p.Network.Parse() // as above
	for _, secret := range network.Secrets {
		names = append(names, secret.Name)
	}
	for _, name := range names {
		variable := inForceFrom(name, "", origin{From: fromEnvironment, Variable: name})
		if value, file, ok := p.Env.find(name); ok && value != "" {
			variable.Value, variable.File = maskedValue, file
		}
		all.Variables = append(all.Variables, variable)
	}
	return all
}

// With returns a copy with other values for some of them. may reports whether a setting may have another value.
func (p *Set) With(values map[string]any, may func(name string) bool) (*Set, error) {
	copied := *p
	own := &copied
	own.LanguageImages = make(map[sandbox.Language]*string)
	for language, image := range p.LanguageImages {
		its := *image
		own.LanguageImages[language] = &its
	}
	own.Groups = own.table()
	if own.origins = maps.Clone(p.origins); own.origins == nil {
		own.origins = make(map[string]origin)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	declare(flags, own.Groups)
	var found Problems
	for _, name := range slices.Sorted(maps.Keys(values)) {
		f := flags.Lookup(name)
		switch {
		case f == nil && !p.has(name):
			found.Wrong(true, "there is no setting %q", name)
			continue
		case values[name] == nil:
			continue
		case f == nil || !may(name):
			found.Wrong(true, "%s is of the whole server, and no principal's own", name)
			continue
		}
		own.origins[name] = origin{From: fromPolicy}
		value := flat(values[name])
		if list, is := f.Value.(*mountList); is { // which a flag adds to
			if *list = nil; value == "" {
				continue
			}
		}
		if err := f.Value.Set(value); err != nil {
			found = append(found, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(found) > 0 {
		return nil, errors.Join(found...)
	}
	if values["network"] == string(proxy.None) { // overrides the server's allowed hosts
		n := &own.Network
		n.AllowDomain, n.AllowPrivate, n.Secret, n.Ask, n.PrivateCA = nil, nil, nil, false, ""
	}
	return own, own.check()
}

// Lists returns the settings that are lists.
func (p *Set) Lists() map[string]bool {
	lists := make(map[string]bool)
	for _, g := range p.Groups {
		for _, r := range g.Settings {
			switch r.Value.(type) {
			case *[]string, pflag.SliceValue:
				lists[r.Name] = true
			}
		}
	}
	return lists
}

func (p *Set) has(name string) bool {
	return slices.ContainsFunc(p.Groups, func(g Group) bool {
		return slices.ContainsFunc(g.Settings, func(r Setting) bool { return r.Name == name })
	})
}
