// Package skills finds the user's skills on this machine: folders with instructions for models in SKILL.md (agentskills.io), and
// with the scripts and files that those name.
//
// New names the folders with skills, and Loader.Now returns the present skills. Nothing of it is trusted: a skill that breaks the
// format or its bounds is left out, with the reason, and the others are used.
package skills

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// Main is the file of a skill that a model reads first.
const Main = "SKILL.md"

// The limits of all skills together. Those of one are in scan.go.
const (
	maxBytes = 50 << 20
	maxFiles = 5000
)

// Folder is a place with skills, or a skill itself.
type Folder struct {
	Name string // as the user calls it
	Path string // absolute
	// Project is the project's folder if the folder belongs to one that somebody else may have written: it need not exist, and no link in
	// its path or in it may lead out of there. Empty: it is the user's own.
	Project string
}

// Skill is one that keeps to the format.
type Skill struct {
	Name        string          // letters, digits and hyphens: at most 64
	Description string          // at most 1024 characters, as the author wrote it
	FrontMatter json.RawMessage // all that stands before the text, an object
	Files       []File          // by their paths; SKILL.md is among them

	at     place
	forget func() // makes the next scan read all files again
}

// File is one of a skill's.
type File struct {
	Path   string // below the skill's folder, with / between names
	Size   int64
	Digest string // SHA-256 of its content, in hex

	mode fs.FileMode
}

// LeftOut is a folder that was to be a skill, and why it is none.
type LeftOut struct {
	Name string // of the folder, quoted where it could not be that of a skill
	Why  string
}

// Set is all skills at a moment. It does not change.
type Set struct {
	Skills  []Skill // by name
	LeftOut []LeftOut
	hash    string
}

// Find returns a skill by its name, or nil.
func (s *Set) Find(name string) *Skill {
	if i := slices.IndexFunc(s.Skills, func(k Skill) bool { return k.Name == name }); i >= 0 {
		return &s.Skills[i]
	}
	return nil
}

// Names lists the names of the skills.
func (s *Set) Names() []string {
	names := make([]string, 0, len(s.Skills))
	for _, k := range s.Skills {
		names = append(names, k.Name)
	}
	return names
}

// Bring returns the files that an engine puts into containers; nil: there are no skills.
func (s *Set) Bring() *engine.Files {
	if len(s.Skills) == 0 {
		return nil
	}
	return &engine.Files{Hash: s.hash, Read: s.read}
}

func (s *Set) read() ([]containers.File, error) {
	var files []containers.File
	for i := range s.Skills {
		k := &s.Skills[i]
		for _, f := range k.Files {
			content, err := k.Read(f)
			if err != nil {
				return nil, err
			}
			files = append(files, containers.File{Path: k.Name + "/" + f.Path, Mode: f.mode, Content: content})
		}
	}
	return files, nil
}

// Read returns the content of one of the skill's files. The error is a fault if the file changed since.
func (k *Skill) Read(f File) ([]byte, error) {
	root, err := k.at.open()
	if err != nil {
		return nil, k.changed(err)
	}
	defer func() { _ = root.Close() }()
	content, err := readFile(root, f.Path, f.Size)
	if err == nil && digest(content) != f.Digest {
		err = errors.New("its content has changed")
	}
	if err != nil {
		return nil, k.changed(err)
	}
	return content, nil
}

func (k *Skill) changed(err error) error {
	k.forget()
	return fault.New(fault.NotFound, "Try again.", "The files of the skill %s have just changed.", k.Name).Because(err)
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// readFile reads a regular file to its end, and fails where it is longer than size.
func readFile(root *os.Root, path string, size int64) ([]byte, error) {
	// Without O_NONBLOCK a fifo that just appeared would wait for a writer.
	file, err := root.OpenFile(filepath.FromSlash(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, errors.New("it is no regular file"))
	}
	content := make([]byte, size+1)
	n, err := io.ReadFull(file, content)
	switch {
	case err == nil:
		return nil, errors.New("it has become longer")
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, err
	}
	return content[:n], nil
}

// Loader knows the skills of some folders. It is safe for use by several goroutines.
type Loader struct {
	folders []Folder
	home    string
	log     *slog.Logger

	mu      sync.Mutex
	seen    string // the state of the files that the set was made of
	set     *Set
	atStart []string
	watched []func(*Set)
}

// New returns a loader that did not scan anything yet. The skills of a folder may be links to others of these folders, or to those that
// programs share below home.
func New(folders []Folder, home string, log *slog.Logger) *Loader {
	return &Loader{folders: folders, home: home, log: log}
}

// Watch calls changed with the present set, if there is one, and with each set that differs from the one before, in order. It must not use
// the loader.
func (l *Loader) Watch(changed func(*Set)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = append(l.watched, changed)
	if l.set != nil {
		changed(l.set)
	}
}

// AtStart lists the names of the skills that there are at its first call, or Now's. Of the files it reads each SKILL.md alone.
func (l *Loader) AtStart() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.atStart == nil {
		set := l.set
		if set == nil {
			set = l.scan().load(true)
		}
		l.atStart = set.Names()
	}
	return l.atStart
}

// Now returns the present skills. It compares names, sizes and times, and reads files only if one of those changed.
func (l *Loader) Now() *Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.scan()
	if seen := found.mark(); l.set == nil || seen != l.seen {
		set := found.load(false)
		for i := range set.Skills {
			set.Skills[i].forget = func() { l.forget(set) }
		}
		l.set, l.seen = set, seen
		l.report()
		for _, changed := range l.watched {
			changed(set)
		}
	}
	return l.set
}

// forget makes the next scan read all files: one changed, though its size and its time did not.
func (l *Loader) forget(set *Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set == set {
		l.seen = ""
	}
}

// report logs the skills. The log is the user's.
func (l *Loader) report() {
	for _, out := range l.set.LeftOut {
		l.log.Warn("skill left out", "skill", out.Name, "why", out.Why)
	}
	l.log.Debug("skills", "names", strings.Join(l.set.Names(), ", "))
}

// hashOf tells one content from others.
func hashOf(list []Skill) string {
	sum := sha256.New()
	for _, k := range list {
		for _, f := range k.Files {
			fmt.Fprintf(sum, "%s/%s\x00%o\x00%s\n", k.Name, f.Path, f.mode, f.Digest)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:32]
}

// called returns how a folder is named: as it is where it could be a skill's name, and quoted where not.
func called(name string) string {
	if nameForm.MatchString(name) && len(name) <= maxName {
		return name
	}
	return fmt.Sprintf("%q", text.Shorten(name, maxName))
}
