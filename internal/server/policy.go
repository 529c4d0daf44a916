// The policy file: what each principal may do, by the names of the settings.

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/proxy"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
)

// policies are what the policy file says: values of settings by their names, for every principal, for those of a group, and for one.
// The zero value says nothing.
type policies struct {
	Default    values            `yaml:"default"`
	Groups     groups            `yaml:"groups"`
	Principals map[string]values `yaml:"principals"`
}

// groups are values by the names of groups, and these in the order of the file.
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

// ofPrincipals are the settings that a policy may have. The others are of the whole server.
var ofPrincipals = []string{
	"memory-limit", "cpu-limit", "pids-limit", "tmp-size", "mount", "skills", "pass-through-env",
	"run-timeout", "max-run-timeout", "soft-wait", "linger", "idle-timeout", "lifetime", "keep", "keep-limit", "keep-variables", "variables-limit",
	"max-sessions", "max-kernels", "memory-total", "cpu-total", "disk-total", "calls-per-minute", "bytes-out-limit",
	"code-limit", "output-limit", "images", "structured-content", "tools", "disable-tools",
	"file-limit", "volume-limit", "volume-files", "upload-limit", "download-limit", "download-timeout", "fetch-urls", "allow-host-dir",
	"artifact-read-limit", "artifact-store", "link-lifetime", "page-scripts",
	"network", "allow-domain", "allow-private", "secret", "network-connections", "network-request-limit", "network-byte-limit", "network-timeout", "network-idle-timeout",
	"packages", "packages-allow", "packages-deny", "packages-deny-set", "packages-minimum", "package-min-age", "packages-allow-sdist", "package-size-limit", "package-cache-limit",
	"databases", "sql-max-inline-rows", "sql-max-rows", "sql-max-bytes", "sql-timeout", "sql-allow-functions", "sql-from-code",
	"mcp-servers", "mcp-allow", "mcp-trust-hints",
}

// readPolicies reads a policy file, and refuses one in which anything is wrong.
func (s *Settings) readPolicies() (policies, error) {
	if s.Policy == "" {
		return policies{}, nil
	}
	text, err := os.ReadFile(s.Policy)
	if err != nil {
		return policies{}, fmt.Errorf("--policy: %w", err)
	}
	var p policies
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&p); err != nil && !errors.Is(err, io.EOF) {
		return policies{}, fmt.Errorf("--policy %s: %w", s.Policy, err)
	}
	var found problems
	said := make(map[string]bool)
	check := func(where string, v values) {
		if _, err := s.withValues(v); err != nil {
			for _, problem := range strings.Split(err.Error(), "\n") {
				found.wrong(!said[problem], "--policy %s: %s: %s", s.Policy, where, problem) // default's are those of all others too
				said[problem] = true
			}
		}
	}
	check("default", p.Default)
	for _, name := range p.Groups.order {
		check("group "+name, p.of(principal.Principal{Groups: []string{name}}))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Principals)) {
		if err := principal.CheckName(name); err != nil {
			found = append(found, fmt.Errorf("--policy %s: %w", s.Policy, err))
		}
		check("principal "+name, p.of(principal.Principal{Name: name}))
	}
	return p, errors.Join(found...)
}

// of returns the values for a principal: its own before those of its groups, and those before everybody's. Of several groups lists
// are joined, and of other values that of the group counts which stands last in the file.
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

// withValues returns settings with other values for some of them, which have a state of their own.
func (s *Settings) withValues(v values) (*Settings, error) {
	own := new(Settings)
	groups := own.table()
	*own = *s // what the table points to has these values now
	own.groups, own.skills, own.policy = groups, nil, policies{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.declare(flags)
	var found problems
	for _, name := range slices.Sorted(maps.Keys(v)) {
		f := flags.Lookup(name)
		switch {
		case f == nil:
			found.wrong(true, "there is no setting %q", name)
			continue
		case !slices.Contains(ofPrincipals, name):
			found.wrong(true, "%s is of the whole server, and no principal's own", name)
			continue
		}
		if err := f.Value.Set(flat(v[name])); err != nil {
			found = append(found, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(found) > 0 {
		return nil, errors.Join(found...)
	}
	if v["network"] == string(proxy.None) { // which is more than a list that others are allowed
		n := &own.Network
		n.AllowDomain, n.AllowPrivate, n.Secret = nil, nil, nil
	}
	return own, own.check()
}

// everySettings returns those of the user and all that the policy file can lead to, for what has to know all their secrets.
func (s *Settings) everySettings() []*Settings {
	all := []*Settings{s}
	add := func(who principal.Principal) {
		if own, err := s.withValues(s.policy.of(who)); err == nil { // which was checked
			all = append(all, own)
		}
	}
	add(principal.Principal{})
	for _, group := range s.policy.Groups.order {
		add(principal.Principal{Groups: []string{group}})
	}
	for name := range s.policy.Principals {
		add(principal.Principal{Name: name})
	}
	return all
}

// reloadOnHangup reads the policy file again at each SIGHUP, until ctx ends.
func (t *tenants) reloadOnHangup(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-hangup:
			t.reload()
		case <-ctx.Done():
			return
		}
	}
}

// again has the policy of now count for a tenant, under the groups that it has.
func (t *tenants) again(known *tenant) (changed bool, err error) {
	known.turn.Lock()
	defer known.turn.Unlock()
	t.mu.Lock()
	groups := known.groups
	t.mu.Unlock()
	return t.apply(known, groups)
}

// reload has what the policy file says now count for what principals have. Where it is wrong nothing changes.
func (t *tenants) reload() {
	log := t.r.log
	now, err := t.r.settings.readPolicies()
	if err != nil {
		log.Error("the policy file was not read again; what it said before still counts", "error", err)
		t.r.audited.record(audit.Event{Kind: audit.KindPolicy, Outcome: "invalid", Detail: map[string]any{"file": t.r.settings.Policy}})
		return
	}
	t.policy.Lock()
	t.r.settings.policy = now
	if mask := t.r.settings.logMask; mask != nil {
		mask.Learn(t.r.settings.everySecret())
	}
	t.policy.Unlock()
	t.mu.Lock()
	t.policies++
	live := slices.Collect(maps.Values(t.live))
	t.mu.Unlock()
	changed := 0
	for _, known := range live {
		did, err := t.again(known)
		if err != nil {
			log.Error("the policy of a principal cannot be changed; nothing more is done for it until it can", "principal", known.of.Name, "error", err)
		}
		if did {
			changed++
		}
	}
	log.Info("the policy file was read again", "principals_changed", changed)
	t.r.audited.record(audit.Event{Kind: audit.KindPolicy, Outcome: audit.Success, Detail: map[string]any{"file": t.r.settings.Policy, "principals_changed": changed}})
}
