// Package install writes this server into the configurations of MCP clients, and takes it out of them. Start with Find and Options.Install.
// Everything else in a configuration keeps its bytes: comments, order, indentation, line ends; only blanks around the entry may change. A
// file that cannot be changed so is left alone, and the error says where and why.
package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Options say which server to install, and where.
type Options struct {
	System System
	// Dir is the project's folder.
	Dir   string
	Scope Scope
	// Name is the server's name in the configurations.
	Name   string
	Server Server
	// Force writes for a client that is not found, too.
	Force bool
	// DryRun changes nothing.
	DryRun bool
}

// Done is the result for a file.
type Done string

// Results for a file.
const (
	Added   Done = "added"
	Updated Done = "updated"
	Present Done = "present" // it was there already, unchanged
	Removed Done = "removed"
	Absent  Done = "absent"
)

// Outcome is the change of one file, done or planned.
type Outcome struct {
	Client *Client
	File   string
	Done   Done
	// Backup holds the old file; "": there was no file, or the file is again as its backup.
	Backup string
	// Diff is the change, as a unified diff.
	Diff []byte
	// Others are other names of this server in the file.
	Others []string
}

// ThisSystem returns the system that the program runs on.
func ThisSystem(home string) System {
	return System{OS: runtime.GOOS, Home: home, Env: os.Getenv}
}

// Found returns the client's files on this machine; none: it is not found.
func (o Options) Found(c *Client) []string {
	if o.Scope == Project {
		return nil
	}
	var found []string
	for _, p := range o.places(c) {
		if p.isThere() {
			found = append(found, p.file())
		}
	}
	if len(found) == 0 && c.isOnMachine(o.System) {
		return []string{o.places(c)[0].file()}
	}
	return found
}

// places returns those of the user's configuration, with every * resolved.
func (o Options) places(c *Client) []place {
	var places []place
	for _, p := range o.System.places(c) {
		if !strings.Contains(p.root, "*") {
			places = append(places, p)
			continue
		}
		roots, _ := filepath.Glob(p.root)
		for _, root := range roots {
			places = append(places, place{root: root, files: p.files})
		}
	}
	return places
}

func (p place) isThere() bool {
	return slices.ContainsFunc(p.signs, exists) || exists(p.file()) || len(p.signs) == 0 && exists(p.root)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// file returns the existing one of the place's files, or the one to make.
func (p place) file() string {
	for _, name := range p.files {
		if path := filepath.Join(p.root, name); exists(path) {
			return path
		}
	}
	return filepath.Join(p.root, p.files[0])
}

// isOnMachine reports whether the client's program or application is there.
func (c *Client) isOnMachine(s System) bool {
	if _, err := exec.LookPath(c.program); c.program != "" && err == nil {
		return true
	}
	return s.OS == "darwin" && c.app != "" && (exists("/Applications/"+c.app) || exists(s.home("Applications", c.app)))
}

func (o Options) targets(c *Client) ([]string, error) {
	if o.Scope == Project {
		if c.project == "" {
			return nil, errors.New("it has no configuration for one project; leave --scope project out")
		}
		path := filepath.Join(o.Dir, filepath.FromSlash(c.project))
		return []string{path}, o.checkInProject(path)
	}
	if found := o.Found(c); len(found) > 0 {
		return found, nil
	}
	first := o.places(c)[0]
	if o.Force || o.DryRun {
		return []string{first.file()}, nil
	}
	what := "there is no " + first.root
	if c.program != "" {
		what += ", and no program " + c.program + " on the PATH"
	}
	return nil, fmt.Errorf("not found on this machine: %s. With --force %s is written all the same", what, first.file())
}

// checkInProject refuses a path that leaves the project by a link, which may have come with it from elsewhere.
func (o Options) checkInProject(path string) error {
	project, err := filepath.EvalSymlinks(o.Dir)
	for part := path; err == nil; part = filepath.Dir(part) {
		target, missing := filepath.EvalSymlinks(part)
		if errors.Is(missing, fs.ErrNotExist) {
			continue
		}
		rest, err := filepath.Rel(project, target)
		if missing != nil || err != nil || !filepath.IsLocal(rest) {
			return fmt.Errorf("%s leads out of the project, to %s; replace the link by a file, or leave --scope project out", part, target)
		}
		return nil
	}
	return err
}

// Files returns the files that an installation writes; for a client that is not found, those that it would use.
func (o Options) Files(c *Client) ([]string, error) {
	o.Force = true
	return o.targets(c)
}

// State reports in words whether the server is in a file.
func (o Options) State(c *Client, path string) string {
	f, err := readFile(path)
	if err != nil {
		return err.Error()
	}
	values, err := c.format.parse(f.text)
	names := others(o.address(c).entries(values), "", o.Server.Command)
	switch {
	case err != nil:
		return "it cannot be read: " + err.Error()
	case len(names) > 0:
		return "yes, as " + strings.Join(names, ", ")
	}
	return "no"
}

func (o Options) address(c *Client) address { return address{key: c.key, name: o.Name, list: c.list} }

// Install writes the server into the files of a client. With an error it returns the outcomes before it.
func (o Options) Install(c *Client) ([]Outcome, error) {
	targets, err := o.targets(c)
	if err != nil {
		return nil, err
	}
	var outcomes []Outcome
	for _, path := range targets {
		outcome, err := settled(path, c, func() (Outcome, error) { return o.installIn(c, path) })
		if err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// attempts is how often a file is read again while another program changes it.
const attempts = 3

func settled(path string, c *Client, change func() (Outcome, error)) (outcome Outcome, err error) {
	for range attempts {
		if outcome, err = change(); !errors.Is(err, errChanged) {
			return outcome, err
		}
	}
	return outcome, fmt.Errorf("%s %w, %d times; end %s and try again", path, err, attempts, c.Title)
}

// explain returns the place of an error of a format, and the user's way to do it by hand.
func explain(path string, err error, byHand string) error {
	var where *syntaxError
	switch {
	case errors.Is(err, errUnsafe):
		return fmt.Errorf("%s %w. It is left as it is; %s", path, err, byHand)
	case !errors.As(err, &where):
		path += ": "
	default:
		path += ":"
	}
	return fmt.Errorf("%s%w\nThe file is left as it is. Correct it there, or %s", path, err, byHand)
}

// addByHand describes how a user does Install's work by hand.
func (o Options) addByHand(c *Client) string {
	return "add by hand what belongs into it:\n" + o.Snippet(c)
}

func (o Options) installIn(c *Client, path string) (Outcome, error) {
	outcome := Outcome{Client: c, File: path}
	f, err := readFile(path)
	if err != nil {
		return outcome, err
	}
	text := f.text
	if len(text) == 0 {
		text = []byte(c.fresh)
	}
	at, entry := o.address(c), c.entry(o.Name, o.Server)
	values, err := c.format.parse(text)
	if err != nil {
		return outcome, explain(path, err, o.addByHand(c))
	}
	entries := at.entries(values)
	outcome.Others = others(entries, o.Name, o.Server.Command)
	old, there := entries[o.Name]
	if there && entry.sameAs(old) {
		outcome.Done = Present
		return outcome, nil
	}
	after, err := c.format.with(text, values, at, entry)
	if err != nil {
		return outcome, explain(path, err, o.addByHand(c))
	}
	if err := f.checkWritable(); err != nil {
		return outcome, err
	}
	outcome.Done = Added
	if there {
		outcome.Done = Updated
	}
	outcome.Diff = changes(f, after)
	if o.DryRun {
		return outcome, nil
	}
	if outcome.Backup, err = f.backUp(after, there); err != nil {
		return outcome, err
	}
	if err := f.write(after, o.newMode()); err != nil {
		if outcome.Backup != "" && !there {
			_ = os.Remove(outcome.Backup)
		}
		return outcome, err
	}
	return outcome, nil
}

// newMode returns the mode of a new file: a user's configuration may come to hold secrets, a project's is for others to read.
func (o Options) newMode() os.FileMode {
	if o.Scope == Project {
		return 0o644
	}
	return 0o600
}

// changes returns the diff of a file to its new text.
func changes(f file, after []byte) []byte {
	old := f.path
	if !f.exists {
		old = os.DevNull
	}
	text := diff.Diff(old, f.text, f.path, after)
	_, text, _ = bytes.Cut(text, []byte("\n")) // the header of the diff
	return text
}

// others returns the other names of this server among the entries.
func others(entries map[string]any, name, command string) []string {
	var names []string
	for other, entry := range entries {
		if started := startedBy(entry); other != name && (started == command || program(started) == program(command)) && started != "" {
			names = append(names, other)
		}
	}
	slices.Sort(names)
	return names
}

func startedBy(entry any) string {
	m, _ := entry.(map[string]any)
	for _, key := range []string{"command", "cmd"} {
		switch v := m[key].(type) {
		case string:
			return v
		case []any:
			if len(v) > 0 {
				return fmt.Sprint(v[0])
			}
		}
	}
	return ""
}

func program(path string) string {
	name := path[strings.LastIndexAny(path, `/\`)+1:]
	return strings.TrimSuffix(strings.ToLower(name), ".exe")
}

// Uninstall removes the server from all files of a client.
func (o Options) Uninstall(c *Client) ([]Outcome, error) {
	var outcomes []Outcome
	for _, path := range o.filesThere(c) {
		outcome, err := settled(path, c, func() (Outcome, error) { return o.uninstallFrom(c, path) })
		if err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, outcome)
	}
	if o.Scope == Project && c.project == "" {
		_, err := o.targets(c)
		return nil, err
	}
	return outcomes, nil
}

// filesThere returns the existing files of a client, of all its places.
func (o Options) filesThere(c *Client) []string {
	var candidates []string
	if o.Scope == Project && c.project != "" {
		if path := filepath.Join(o.Dir, filepath.FromSlash(c.project)); o.checkInProject(path) == nil {
			candidates = append(candidates, path)
		}
	} else if o.Scope == User {
		for _, p := range o.places(c) {
			for _, name := range p.files {
				candidates = append(candidates, filepath.Join(p.root, name))
			}
		}
	}
	return slices.DeleteFunc(candidates, func(path string) bool {
		_, err := os.Lstat(path)
		return err != nil
	})
}

func (o Options) uninstallFrom(c *Client, path string) (Outcome, error) {
	outcome := Outcome{Client: c, File: path, Done: Absent}
	f, err := readFile(path)
	if err != nil {
		return outcome, err
	}
	at := o.address(c)
	values, err := c.format.parse(f.text)
	if err != nil {
		return outcome, explain(path, err, fmt.Sprintf("take %q out by hand", o.Name))
	}
	entries := at.entries(values)
	outcome.Others = others(entries, o.Name, o.Server.Command)
	if entries[o.Name] == nil {
		return outcome, nil
	}
	outcome.Done = Removed
	has := func(text []byte) bool {
		values, err := c.format.parse(text)
		return err != nil || at.entries(values)[o.Name] != nil
	}
	after, backups := f.before(has)
	if was, err := c.format.parse(after); err != nil || !sameOthers(entries, at.entries(was), o.Name) {
		backups = nil // it would take another server out, or bring one back
	}
	if backups == nil {
		if after, err = c.format.without(f.text, values, at); err != nil {
			return outcome, explain(path, err, fmt.Sprintf("take %q out by hand", o.Name))
		}
	}
	gone := backups == nil && o.isLeftOver(c, after)
	if outcome.Diff = changes(f, after); o.DryRun {
		return outcome, nil
	}
	if err := f.checkWritable(); err != nil {
		return outcome, err
	}
	if backups == nil && !gone {
		if outcome.Backup, err = f.backUp(after, true); err != nil {
			return outcome, err
		}
	}
	if gone {
		if !f.isAsItWas() {
			return outcome, errChanged
		}
		if err := os.Remove(f.target); err != nil {
			return outcome, err
		}
		for dir := filepath.Dir(f.target); dir != o.System.Home && dir != o.Dir && os.Remove(dir) == nil; dir = filepath.Dir(dir) {
			continue // an empty folder, which Install may have made
		}
		return outcome, nil
	}
	if err := f.write(after, f.mode); err != nil {
		return outcome, err
	}
	for _, name := range backups {
		_ = os.Remove(name) // the file is again as before
	}
	return outcome, nil
}

// sameOthers reports whether two files have the same servers beside one.
func sameOthers(a, b map[string]any, name string) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	delete(a, name)
	delete(b, name)
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// isLeftOver reports whether a text contains only the parts of a new file of ours without the server.
func (o Options) isLeftOver(c *Client, text []byte) bool {
	fresh := o.newFile(c, c.fresh)
	values, err := c.format.parse(fresh)
	if err != nil {
		return false
	}
	left, err := c.format.without(fresh, values, o.address(c))
	return err == nil && bytes.Equal(left, text)
}

// newFile returns a file with only this server, after its beginning.
func (o Options) newFile(c *Client, begin string) []byte {
	values, err := c.format.parse([]byte(begin))
	if err != nil {
		panic(err) // it is of the table
	}
	text, err := c.format.with([]byte(begin), values, o.address(c), c.entry(o.Name, o.Server))
	if err != nil {
		panic(err) // nothing was there to be in the way
	}
	return text
}

// Snippet returns the entry for a configuration.
func (o Options) Snippet(c *Client) string { return string(o.newFile(c, "")) }

// Link returns an address that installs the server by a click; "": the client knows none.
func (o Options) Link(c *Client) string {
	if c.link == nil {
		return ""
	}
	return c.link(o.Name, o.Server)
}

// Next returns the user's next step in a client after a change.
func (c *Client) Next() string { return c.next }
