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
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
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
	// Project is the root of an untrusted project. It need not exist; links in its path or below it must stay below it. Empty: the folder is
	// the user's own.
	Project string
}

// Skill is one that keeps to the format.
type Skill struct {
	Name        string // letters, digits and hyphens: at most 64
	Description string // at most 1024 characters, as the author wrote it

	at    place
	files []found // by their paths; SKILL.md is among them
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

// read reads the files as they are now. The error is a fault if one became longer or went.
func (s *Set) read() (files []containers.File, err error) {
	for i := range s.Skills {
		k := &s.Skills[i]
		root, err := k.at.open()
		if err == nil {
			for _, f := range k.files {
				var content []byte
				if content, err = readFile(root, f.path, f.info.Size()); err != nil {
					break
				}
				files = append(files, containers.File{Path: k.Name + "/" + f.path, Mode: f.mode(), Content: content})
			}
			_ = root.Close()
		}
		if err != nil {
			return nil, fault.New(fault.NotFound, "Try again.", "The files of the skill %s have just changed.", k.Name).Because(err)
		}
	}
	return files, nil
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
	atStart func() []string

	mu  sync.Mutex
	set *Set // the last
}

// New returns a loader that did not scan anything yet. The skills of a folder may be links to others of these folders, or to those that
// programs share below home.
func New(folders []Folder, home string, log *slog.Logger) *Loader {
	l := &Loader{folders: folders, home: home, log: log}
	l.atStart = sync.OnceValue(func() []string { return l.Now().Names() })
	return l
}

// AtStart lists the names of the skills that there are at its first call.
func (l *Loader) AtStart() []string { return l.atStart() }

// Now returns the present skills. Of their files it reads each SKILL.md.
func (l *Loader) Now() *Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.scan(); l.set == nil || now.hash != l.set.hash {
		l.set = now
		l.report()
	}
	return l.set
}

// report logs the skills. The log is the user's.
func (l *Loader) report() {
	for _, out := range l.set.LeftOut {
		l.log.Warn("skill left out", "skill", out.Name, "why", out.Why)
	}
	l.log.Debug("skills", "names", strings.Join(l.set.Names(), ", "))
}

// hashOf is the same for two looks that found the same, by the files' names, sizes, times and modes.
func hashOf(s *Set) string {
	sum := sha256.New()
	for _, out := range s.LeftOut {
		fmt.Fprintf(sum, "%s\x00%s\n", out.Name, out.Why)
	}
	for _, k := range s.Skills {
		fmt.Fprintf(sum, "%s\x00%s\n", k.Name, k.at.folder)
		for _, f := range k.files {
			fmt.Fprintf(sum, "%s\x00%d %d %o\n", f.path, f.info.Size(), f.info.ModTime().UnixNano(), f.info.Mode())
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
