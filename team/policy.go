// The policy file: each principal's rights, by the settings' names.

package team

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
)

// policies is the policy file's content: setting values by name, for every principal, for groups, and for single ones.
// The zero value is empty.
type policies struct {
	Default    values            `yaml:"default"`
	Groups     groups            `yaml:"groups"`
	Principals map[string]values `yaml:"principals"`
}

// groups maps group names to values, with the names in the file's order.
type groups struct {
	of    map[string]values
	order []string
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (g *groups) UnmarshalYAML(node *yaml.Node) error {
	if err := node.Decode(&g.of); err != nil {
		return err
	}
	for at := 0; at < len(node.Content); at += 2 {
		g.order = append(g.order, node.Content[at].Value)
	}
	for _, name := range slices.Sorted(maps.Keys(g.of)) {
		if !slices.Contains(g.order, name) { // it was merged in
			g.order = append([]string{name}, g.order...)
		}
	}
	return nil
}

type values map[string]any

// policy is the feature's state: the file and its present content.
type policy struct {
	file string

	mu  sync.RWMutex
	now policies
}

// policyFeature gives each principal its own services under a policy.
func policyFeature() server.Feature { return new(policy).feature() }

func (p *policy) feature() server.Feature {
	return server.Feature{
		Name: "policy",
		PrincipalSettings: func(s *setting.Settings) []setting.Group {
			return []setting.Group{{Title: "Policy", Settings: []setting.Setting{
				setting.Row("metrics-principals", "BY", &s.MetricsPrincipals, 0, 0, "what figures call a principal: its name, its key, or off for nothing"),
			}}}
		},
		Settings: func() []setting.Group {
			return []setting.Group{{Title: "Policy", Settings: []setting.Setting{
				setting.Row("policy", "FILE", &p.file, 0, 0, "YAML file of what principals may do: settings by their names, below default, groups and principals; SIGHUP has it read again"),
			}}}
		},
		Check: p.check, Principals: p.open,
	}
}

// check reads the policy file, and refuses it if anything is wrong.
func (p *policy) check(s *server.Program) (err error) {
	if p.file == "" {
		return nil
	}
	if p.now, err = p.read(s); err != nil {
		return err
	}
	now := p.now
	s.Others = func() []*server.Program { return now.everySettings(s) }
	s.OnHangup = func() {}
	return nil
}

// open returns principals' services. It makes each at its first use.
func (p *policy) open(r *server.Running) (server.Principals, error) {
	if r.Web == nil {
		if p.file != "" {
			return nil, setting.UsageError{Err: fmt.Errorf("--policy %s has no effect without --http: over stdin and stdout there is one user", p.file)}
		}
		return nil, nil
	}
	t := newTenants(r, p)
	if p.file != "" {
		r.Program.OnHangup = t.reload
	}
	return t, nil
}

// ofPrincipals are the settings allowed in a policy. The others belong to the whole server.
var ofPrincipals = []string{
	"memory-limit", "cpu-limit", "pids-limit", "mount", "pass-through-env",
	"run-timeout", "max-run-timeout", "soft-wait", "linger", "idle-timeout", "lifetime", "keep", "keep-limit", "keep-variables",
	"max-sessions", "max-kernels", "memory-total", "cpu-total", "disk-total", "calls-per-minute", "bytes-out-limit",
	"output-limit", "images", "structured-content", "tools", "disable-tools",
	"file-limit", "volume-limit", "volume-files", "upload-limit", "download-limit", "fetch-urls", "allow-host-dir",
	"artifact-store", "page-scripts",
	"network", "allow-domain", "allow-private", "secret",
	"packages", "packages-allow", "packages-deny", "packages-deny-set", "packages-minimum", "package-min-age", "packages-allow-sdist", "package-size-limit",
	"databases", "sql-max-inline-rows", "sql-timeout", "sql-allow-functions", "sql-from-code",
	"mcp-servers", "mcp-allow", "mcp-trust-hints",
}

// read reads the file.
func (p *policy) read(s *server.Program) (policies, error) {
	text, err := os.ReadFile(p.file)
	if err != nil {
		return policies{}, fmt.Errorf("--policy: %w", err)
	}
	var said policies
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&said); err != nil && !errors.Is(err, io.EOF) {
		return policies{}, fmt.Errorf("--policy %s: %w", p.file, err)
	}
	lists := s.Lists()
	for _, v := range slices.Concat([]values{said.Default}, slices.Collect(maps.Values(said.Groups.of)), slices.Collect(maps.Values(said.Principals))) {
		v.list(lists)
	}
	var found setting.Problems
	told := make(map[string]bool)
	check := func(where string, v values) {
		if _, err := with(s, v); err != nil {
			for _, problem := range strings.Split(err.Error(), "\n") {
				found.Wrong(!told[problem], "--policy %s: %s: %s", p.file, where, problem) // a mistake in default is a mistake of all others too
				told[problem] = true
			}
		}
	}
	check("default", said.Default)
	for _, name := range said.Groups.order {
		check("group "+name, said.of(principal.Principal{Groups: []string{name}}))
	}
	for _, name := range slices.Sorted(maps.Keys(said.Principals)) {
		if err := principal.CheckName(name); err != nil {
			found = append(found, fmt.Errorf("--policy %s: %w", p.file, err))
		}
		check("principal "+name, said.of(principal.Principal{Name: name}))
	}
	return said, errors.Join(found...)
}

// list splits texts with commas into lists, so that several groups' lists can be joined.
func (v values) list(lists map[string]bool) {
	for name, value := range v {
		if text, is := value.(string); is && lists[name] {
			parts := []any{}
			for part := range strings.SplitSeq(text, ",") {
				if text != "" {
					parts = append(parts, part)
				}
			}
			v[name] = parts
		}
	}
}

// of returns the values for a principal: its own before those of its groups, and those before everybody's. Of several groups lists are
// joined; of other values the last group in the file counts.
func (p policies) of(who principal.Principal) values {
	all := maps.Clone(p.Default)
	if all == nil {
		all = make(values)
	}
	joined := make(values)
	for _, group := range p.Groups.order {
		if !slices.Contains(who.Groups, group) {
			continue
		}
		for name, value := range p.Groups.of[group] {
			had, is := joined[name].([]any)
			if more, isList := value.([]any); is && isList {
				value = slices.Concat(had, more)
			}
			joined[name] = value
		}
	}
	maps.Copy(all, joined)
	maps.Copy(all, p.Principals[who.Name])
	return all
}

// with returns a principal's settings under a policy's values.
func with(s *server.Program, v values) (*server.Program, error) {
	return s.With(v, func(name string) bool { return slices.Contains(ofPrincipals, name) })
}

// everySettings returns all principals' settings that the policy can lead to: a log masks all their secrets.
func (p policies) everySettings(s *server.Program) []*server.Program {
	var all []*server.Program
	add := func(who principal.Principal) {
		if own, err := with(s, p.of(who)); err == nil { // it was checked
			all = append(all, own)
		}
	}
	add(principal.Principal{})
	for _, group := range p.Groups.order {
		add(principal.Principal{Groups: []string{group}})
	}
	for name := range p.Principals {
		add(principal.Principal{Name: name})
	}
	return all
}
