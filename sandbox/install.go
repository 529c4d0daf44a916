package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// Package is an installed package of a session.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// InstallLog is the path of a language's last installation log, relative to WorkDir.
func InstallLog(language Language) string { return ".packages/" + string(language) + ".log" }

// Install installs packages into a session; the caller checked their names, which the language's installer takes. It is a run in
// an interpreter of its own, and not in the history; o sets everything but the code. Installed reads the outcome.
func (m *Manager) Install(o RunOptions, packages []string) (*Run, error) {
	program := m.conf().Kernels[o.Language].Install
	list, err := json.Marshal(packages)
	if err != nil {
		return nil, err
	}
	log := engine.WorkDir + "/" + InstallLog(o.Language)
	o.Code = fmt.Sprintf("exec(compile(open(%q).read(), %[1]q, 'exec'))\ninstall(%s, %q)", program, list, log)
	if o.Language == JavaScript {
		o.Code = fmt.Sprintf("await require(%q).install(%s, %q)", program, list, log)
	}
	o.Fresh, o.Unlisted = true, true
	return m.Run(o)
}

// Installation is the outcome of an installation.
type Installation struct {
	Installed []Package // sorted
	Already   []string  // requirements already met
	Needless  []string  // requirements with markers that are false here
	Broken    []string  // unmet needs of installed packages, in the installer's words
}

// Installed reads the outcome of a completed installation.
func Installed(res *Result) (i Installation) {
	var said struct {
		Installed                 map[string]string
		Already, Needless, Broken []string
	}
	if res.Value == nil || json.Unmarshal([]byte(*res.Value), &said) != nil {
		return i
	}
	for _, name := range slices.Sorted(maps.Keys(said.Installed)) {
		i.Installed = append(i.Installed, Package{text.Safe(name, runs.MaxName), text.Safe(said.Installed[name], runs.MaxName)})
	}
	i.Already, i.Needless, i.Broken = said.Already, said.Needless, said.Broken
	return i
}

const (
	npmLock     = "node_modules/.package-lock.json" // npm's own list of installed packages
	npmLockSize = 4 << 20
	mostListed  = 2000 // packages of a language
)

// Packages lists the packages that pip and npm installed into an existing session, sorted. It reads the traces of those programs,
// which the session's code can forge.
func (m *Manager) Packages(ctx context.Context, sessionID string) (map[Language][]Package, error) {
	found := make(map[Language][]Package)
	hasNPM := false
	_, err := m.WalkFiles(ctx, sessionID, true, func(e Entry) error {
		hasNPM = hasNPM || e.Path == npmLock
		if p, ok := pipPackage(e.Path); ok && e.Kind == 'd' && len(found[Python]) < mostListed {
			found[Python] = append(found[Python], p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if hasNPM {
		found[JavaScript] = m.npmPackages(ctx, sessionID)
	}
	for _, list := range found {
		slices.SortFunc(list, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	}
	return found, nil
}

// pipPackage reads the name of a folder that pip leaves for each package.
func pipPackage(entry string) (p Package, ok bool) {
	dir, name := path.Split(entry)
	base, ok := strings.CutSuffix(name, ".dist-info")
	if !ok || !strings.HasPrefix(dir, ".local/lib/python") || !strings.HasSuffix(dir, "/site-packages/") {
		return Package{}, false
	}
	p.Name, p.Version, ok = strings.Cut(text.Safe(base, runs.MaxName), "-")
	return p, ok
}

// npmPackages reads npm's list; nil if it makes no sense.
func (m *Manager) npmPackages(ctx context.Context, sessionID string) (list []Package) {
	file, err := m.OpenFile(ctx, sessionID, npmLock, ReadOptions{Limit: npmLockSize})
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	var lock struct {
		Packages map[string]struct{ Version string }
	}
	if json.NewDecoder(file).Decode(&lock) != nil {
		return nil
	}
	for place, p := range lock.Packages {
		if name, ok := strings.CutPrefix(place, "node_modules/"); ok && !strings.Contains(name, "/node_modules/") && len(list) < mostListed {
			list = append(list, Package{text.Safe(name, runs.MaxName), text.Safe(p.Version, runs.MaxName)})
		}
	}
	return list
}
