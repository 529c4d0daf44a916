// What there is in the folders, by names, sizes and times, and the files of each skill.

package skills

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// What one skill may have. Files and bytes are what every client takes that reads skills over MCP (SEP-2640).
const (
	maxSkillFiles = 512
	maxSkillBytes = 16 << 20
	maxMainBytes  = 1 << 20
	maxDepth      = 8    // folders within each other
	maxPath       = 400  // bytes of a file's path
	maxEntries    = 1000 // that are looked at in a folder of skills
)

// shared are folders below the home folder that programs link skills of their own to.
var shared = []string{".agents/skills", ".claude/skills", ".codex/skills"}

// candidate is a folder that may be a skill.
type candidate struct {
	name   string // of the folder
	folder string // with no link in its path
	files  []found
	why    string // it is none
}

// found is a file by what the folder says of it.
type found struct {
	path string
	info fs.FileInfo
}

// scanned is what one look finds.
type scanned struct {
	list []candidate
	out  []LeftOut
}

// mark is the same for two looks that found the same.
func (s *scanned) mark() string {
	sum := sha256.New()
	for _, out := range s.out {
		fmt.Fprintf(sum, "%s\x00%s\n", out.Name, out.Why)
	}
	for _, c := range s.list {
		fmt.Fprintf(sum, "%s\x00%s\n", c.name, c.folder)
		for _, f := range c.files {
			fmt.Fprintf(sum, "%s\x00%d %d %o\n", f.path, f.info.Size(), f.info.ModTime().UnixNano(), f.info.Mode())
		}
	}
	return string(sum.Sum(nil))
}

// scan looks into all folders. The first of several skills with one name counts.
func (l *Loader) scan() *scanned {
	s := &scanned{}
	var roots []string
	for _, folder := range l.folders {
		roots = append(roots, resolved(folder.Path))
	}
	for _, name := range shared {
		if l.home != "" {
			roots = append(roots, resolved(filepath.Join(l.home, name)))
		}
	}
	taken := make(map[string]string)
	files, bytes := 0, int64(0)
	for _, folder := range l.folders {
		for _, c := range s.candidates(folder, roots) {
			if c.why == "" {
				c.files, c.why = filesOf(c.folder)
			}
			other, double := taken[c.name]
			size := c.size()
			switch {
			case double && other == c.folder:
				continue
			case double:
				c.why = "a skill of that name is in a folder that was named before"
			case c.why == "" && (files+len(c.files) > MaxFiles || bytes+size > MaxBytes):
				c.why = fmt.Sprintf("with it, all skills would have more than %d files or %d MB", MaxFiles, MaxBytes>>20)
			}
			if c.why != "" {
				s.out = append(s.out, LeftOut{called(c.name), c.why})
				continue
			}
			taken[c.name] = c.folder
			files, bytes = files+len(c.files), bytes+size
			s.list = append(s.list, c)
		}
	}
	return s
}

func (c *candidate) size() (size int64) {
	for _, f := range c.files {
		size += f.info.Size()
	}
	return size
}

// candidates lists what may be skills in a folder. What is no folder and what is hidden is none.
func (s *scanned) candidates(folder Folder, roots []string) (list []candidate) {
	if info, err := os.Stat(filepath.Join(folder.Path, Main)); err == nil && info.Mode().IsRegular() {
		real := resolved(folder.Path)
		return []candidate{{name: filepath.Base(real), folder: real}}
	}
	entries, err := readDir(os.DirFS(folder.Path), ".", maxEntries)
	if err != nil {
		why := "it cannot be read"
		switch {
		case errors.Is(err, fs.ErrNotExist) && folder.Optional:
			return nil
		case errors.Is(err, fs.ErrNotExist):
			why = "there is no such folder"
		case errors.Is(err, errTooMany):
			why = fmt.Sprintf("it has more than %d entries", maxEntries)
		}
		s.out = append(s.out, LeftOut{folder.Name, why})
		return nil
	}
	for _, entry := range entries {
		c := candidate{name: entry.Name(), folder: resolved(filepath.Join(folder.Path, entry.Name()))}
		if info, err := os.Stat(filepath.Join(folder.Path, c.name)); strings.HasPrefix(c.name, ".") || err == nil && !info.IsDir() {
			continue
		} else if err != nil {
			c.why = "it cannot be read"
		} else if entry.Type()&fs.ModeSymlink != 0 && !slices.Contains(roots, filepath.Dir(c.folder)) {
			c.why = "it is a link to a folder that is in none of those with skills"
		}
		list = append(list, c)
	}
	return list
}

// resolved is a path without links, or as it is where it leads nowhere.
func resolved(name string) string {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	return name
}

var errTooMany = errors.New("too many entries")

// readDir lists a folder by name.
func readDir(in fs.FS, name string, most int) ([]fs.DirEntry, error) {
	file, err := in.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	dir, ok := file.(fs.ReadDirFile)
	if !ok {
		return nil, fs.ErrInvalid
	}
	entries, err := dir.ReadDir(most + 1)
	if err != nil && !errors.Is(err, io.EOF) { // which an empty folder has
		return nil, err
	}
	if len(entries) > most {
		return nil, errTooMany
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// filesOf lists the files of a skill, or returns why it is none.
func filesOf(folder string) (files []found, why string) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, "it cannot be read"
	}
	defer func() { _ = root.Close() }()
	w := walker{root: root}
	w.walk(".", 0)
	switch main := slices.IndexFunc(w.files, func(f found) bool { return f.path == Main }); {
	case w.why != "":
	case main < 0:
		w.why = "it has no SKILL.md"
	case w.files[main].info.Size() > maxMainBytes:
		w.why = fmt.Sprintf("its SKILL.md is larger than %d MB", maxMainBytes>>20)
	}
	return w.files, w.why
}

// walker goes through a skill, and stops at the first thing that may not be in one.
type walker struct {
	root  *os.Root
	files []found
	bytes int64
	why   string
}

func (w *walker) walk(dir string, depth int) {
	entries, err := readDir(w.root.FS(), dir, maxSkillFiles)
	switch {
	case errors.Is(err, errTooMany):
		w.why = fmt.Sprintf("it has more than %d files", maxSkillFiles)
	case err != nil:
		w.why = "its folder " + quoted(dir) + " cannot be read"
	case depth > maxDepth:
		w.why = fmt.Sprintf("its folders are more than %d deep", maxDepth)
	}
	for _, entry := range entries {
		if w.why != "" {
			return
		}
		name := path.Join(dir, entry.Name())
		if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "__pycache__" {
			continue // a repository, what an editor left, or a file of secrets
		}
		if entry.IsDir() {
			w.walk(name, depth+1)
			continue
		}
		w.add(name)
	}
}

// add takes a file. A link is followed where it stays in the skill.
func (w *walker) add(name string) {
	info, err := w.root.Stat(filepath.FromSlash(name))
	switch {
	case err != nil:
		w.why = quoted(name) + " is a link that leads out of the skill, or cannot be read"
	case info.IsDir():
		w.why = quoted(name) + " is a link to a folder"
	case !info.Mode().IsRegular():
		w.why = quoted(name) + " is no regular file"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || len(name) > maxPath || strings.Contains(name, `\`):
		w.why = "the path " + quoted(name) + " is too long or has characters that no path should have"
	default:
		w.files = append(w.files, found{name, info})
		w.bytes += info.Size()
	}
	if len(w.files) > maxSkillFiles {
		w.why = fmt.Sprintf("it has more than %d files", maxSkillFiles)
	} else if w.bytes > maxSkillBytes {
		w.why = fmt.Sprintf("its files are larger than %d MB", maxSkillBytes>>20)
	}
}

// quoted is a name that somebody else has given.
func quoted(name string) string { return fmt.Sprintf("%q", text.Shorten(name, 80)) }

// load reads what was found.
func (s *scanned) load() *Set {
	set := &Set{LeftOut: s.out}
	for _, c := range s.list {
		k, why := c.load()
		if why != "" {
			set.LeftOut = append(set.LeftOut, LeftOut{called(c.name), why})
			continue
		}
		set.Skills = append(set.Skills, k)
	}
	slices.SortFunc(set.Skills, func(a, b Skill) int { return strings.Compare(a.Name, b.Name) })
	set.hash = hashOf(set.Skills)
	return set
}

func (c *candidate) load() (k Skill, why string) {
	root, err := os.OpenRoot(c.folder)
	if err != nil {
		return k, "it cannot be read"
	}
	defer func() { _ = root.Close() }()
	k = Skill{Name: c.name, folder: c.folder}
	for _, f := range c.files {
		content, err := readFile(root, f.path, f.info.Size())
		if err != nil {
			return k, quoted(f.path) + " cannot be read, or is just being written"
		}
		mode := fs.FileMode(0o644)
		if f.info.Mode()&0o111 != 0 {
			mode = 0o755
		}
		k.Files = append(k.Files, File{Path: f.path, Size: int64(len(content)), Digest: digest(content), mode: mode})
		if f.path != Main {
			continue
		}
		if k.Description, k.FrontMatter, why = parse(content, c.name); why != "" {
			return k, why
		}
	}
	return k, ""
}
