// Settings come from the command line, from variables, and from a file.

package server

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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// New returns a program with these features, whose settings are to be bound and loaded.
func New(features []Feature) *Program {
	return &Program{features: features, engines: enginesOf(features)}
}

// Bind declares the flags of all settings, and those of other systems.
func (p *Program) Bind(fs *pflag.FlagSet) {
	p.bind(fs)
	p.aliasFlags = bindAliases(fs)
}

// bind sets the defaults and declares the flags.
func (p *Program) bind(fs *pflag.FlagSet) {
	p.groups = p.table()
	for _, f := range p.features {
		if f.Settings != nil {
			p.groups = append(p.groups, f.Settings()...)
		}
	}
	declare(fs, p.groups)
	bindGone(fs)
}

// table sets all defaults, and returns the rows that fill fields of the program's Settings.
func (p *Program) table() []SettingGroup {
	groups := p.rows(engineNames(p.engines))
	for _, f := range p.features {
		if f.PrincipalSettings != nil {
			groups = append(groups, f.PrincipalSettings(&p.Settings)...)
		}
	}
	return groups
}

// declare declares the flags, in the order of the table.
func declare(fs *pflag.FlagSet, groups []SettingGroup) {
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
}

// Load completes the command line from the environment and from files, and checks the whole. Its errors are of UsageError.
func (p *Program) Load(fs *pflag.FlagSet) error {
	if err := p.load(fs, os.LookupEnv); err != nil {
		return UsageError{Err: err}
	}
	return nil
}

// Check refuses a command line, and variables beside it, that a program with these features would refuse at its start.
func Check(features []Feature, args []string, env map[string]string) error {
	_, err := Read(features, args, func(name string) (string, bool) {
		value, is := env[name]
		return value, is
	})
	return err
}

// Read returns a program with the settings of a command line and of lookup's variables.
func Read(features []Feature, args []string, lookup func(string) (string, bool)) (*Program, error) {
	p := New(features)
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	p.Bind(fs)
	if err := fs.Parse(args); err != nil {
		return p, err
	}
	if rest := fs.Args(); len(rest) > 1 || len(rest) == 1 && rest[0] != "serve" {
		return p, fmt.Errorf("%q is not a flag", rest[0])
	}
	return p, p.load(fs, lookup)
}

// loading is the reading of a command line's settings.
type loading struct {
	*Program
	flags *pflag.FlagSet
}

// load completes the command line from variables and then from the file, and checks the whole. It looks variables up by lookup, and then in
// the files of variables.
func (p *Program) load(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	p.env, p.origins = variables{own: lookup}, make(map[string]origin)
	fs.Visit(func(f *pflag.Flag) { p.origins[f.Name] = origin{From: fromFlag} })
	l := loading{p, fs}
	problems := l.takeOwn()
	translateWords(&p.Settings)
	l.takeEngine()
	p.HTTP.tokenVariable, _ = p.env.lookup(tokenVariable)
	problems = append(problems, l.takeImage(), p.check(), p.HTTP.check())
	for _, f := range p.features {
		if f.Check != nil {
			problems = append(problems, f.Check(p))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	l.takeStore()
	l.takeAliases()
	if kind := p.engineKind(); kind != nil {
		p.enginePlace = kind.Place()
	}
	return nil
}

// check refuses values that no run could work with.
func (p *Program) check() error {
	var found Problems
	for _, g := range p.groups {
		for _, r := range g.Settings {
			found = append(found, r.check())
		}
	}
	found = append(found, checkEngine(p.engines, &p.Settings), p.Validate(p.engineKind() != nil, p.env.lookup))
	return errors.Join(found...)
}

// takeOwn sets the settings of variables and of the file, by their own names.
func (l loading) takeOwn() (problems []error) {
	// A file of variables can name the configuration file, and that can have another one beside it, which is weaker.
	problems = []error{l.takeVariable(l.flags.Lookup("env-file")), l.env.readFiles(l.EnvFiles), l.takeVariable(l.flags.Lookup("config"))}
	if l.Config != "" {
		problems = append(problems, l.env.readBeside(l.Config))
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

// takeVariable sets a flag to its variable's value, unless the command line sets it.
func (l loading) takeVariable(f *pflag.Flag) error {
	name := VariableOf(f.Name)
	value, file, ok := l.env.find(name)
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

// Flags returns the flags of all settings of a program with these features, with their defaults. They belong to the caller: nothing reads
// them.
func Flags(features []Feature) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	New(features).bind(flags)
	return flags
}

// LookupEnv returns a variable of the environment or of the files of variables.
func (p *Program) LookupEnv(name string) (value string, ok bool) { return p.env.lookup(name) }

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
		if f == nil || f.Hidden && f.Value.Type() != goneType || slices.Contains([]string{"env-file", "config", "help"}, name) {
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
func (p *Program) InForce(flags *pflag.FlagSet) InForce {
	all := InForce{Settings: []settingInForce{}, Variables: []settingInForce{}, Notes: append([]Note{}, p.notes...)}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all.Settings = append(all.Settings, inForceFrom(f.Name, shownValue(f), p.origins[f.Name]))
		}
	})
	names := p.PassThroughEnv
	sources, _ := sql.Sources(p.env.environ(), isSetting) // doctor without --config reports a wrong one
	for _, source := range sources {
		names = append(names[:len(names):len(names)], source.Variable)
	}
	network, _ := p.Network.parse() // as above
	for _, secret := range network.Secrets {
		names = append(names, secret.Name)
	}
	for _, name := range names {
		variable := inForceFrom(name, "", origin{From: fromEnvironment, Variable: name})
		if value, file, ok := p.env.find(name); ok && value != "" {
			variable.Value, variable.File = maskedValue, file
		}
		all.Variables = append(all.Variables, variable)
	}
	return all
}

// With returns a copy of the program with other values for some of them. may reports whether a setting may have another value.
func (p *Program) With(values map[string]any, may func(name string) bool) (*Program, error) {
	own := New(p.features)
	groups := own.table()
	*own = *p // the variables of the table have these values now
	own.groups, own.skills, own.Others, own.OnHangup = groups, nil, nil, nil
	if own.origins = maps.Clone(p.origins); own.origins == nil {
		own.origins = make(map[string]origin)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	declare(flags, groups)
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
func (p *Program) Lists() map[string]bool {
	lists := make(map[string]bool)
	Flags(p.features).VisitAll(func(f *pflag.Flag) { _, lists[f.Name] = f.Value.(pflag.SliceValue) })
	return lists
}

// has reports whether there is a setting of this name.
func (p *Program) has(name string) bool {
	return slices.ContainsFunc(p.groups, func(g SettingGroup) bool {
		return slices.ContainsFunc(g.Settings, func(r Setting) bool { return r.Name == name })
	})
}
