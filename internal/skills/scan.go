// The folders' contents, by names, sizes and times, and the files of each skill.

package skills

import (
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

// The limits of one skill.
const (
	maxSkillFiles = 512
	maxSkillBytes = 16 << 20
	maxMainBytes  = 1 << 20
	maxDepth      = 8            // folders within each other
	maxPath       = 400          // bytes of a file's path
	maxEntries    = 1000         // that are looked at in a folder of skills
	maxLooked     = 2 * maxFiles // entries that are looked at in all skills, those that are left out too
)

// shared are folders below the home folder that programs link skills of their own to.
var shared = []string{".agents/skills", ".claude/skills", ".codex/skills"}

// candidate is a folder that may be a skill.
type candidate struct {
	Skill
	why string // it is none
}

// place is a folder, with no link in its path when it was looked at.
type place struct {
	project string // that it may not lie outside of; empty: it may lie anywhere
	folder  string
}

// outside is the message for all that does not open, so that it reveals nothing of the files elsewhere.
const outside = "it is a link that leads out of the project, or cannot be read"

// placeOf follows the links of a path. A project's path is the beginning of those in it.
func placeOf(name, project string) place {
	if project == "" {
		return place{folder: resolved(name)}
	}
	at := place{project: resolved(project)}
	at.folder = resolved(at.project + strings.TrimPrefix(name, project))
	return at
}

// open opens the folder. In a project that holds whatever becomes of the path meanwhile: its code may run beside this.
func (p place) open() (*os.Root, error) {
	if p.project == "" {
		return os.OpenRoot(p.folder)
	}
	if !p.inside() {
		return nil, errors.New(outside)
	}
	project, err := os.OpenRoot(p.project)
	if err != nil {
		return nil, err
	}
	defer func() { _ = project.Close() }()
	below, err := filepath.Rel(p.project, p.folder)
	if err != nil {
		return nil, err
	}
	return project.OpenRoot(below)
}

// inside reports whether the folder is not outside of the project that it may not leave.
func (p place) inside() bool {
	below, err := filepath.Rel(p.project, p.folder)
	return p.project == "" || err == nil && filepath.IsLocal(below)
}

// found is a file, by its entry in the folder.
type found struct {
	path string
	info fs.FileInfo
}

// mode is that of the file for code.
func (f found) mode() fs.FileMode {
	if f.info.Mode()&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// scan looks into all folders. The first of several skills with one name counts.
func (l *Loader) scan() *Set {
	s := &Set{}
	var roots []string
	for _, folder := range l.folders {
		if at := placeOf(folder.Path, folder.Project); at.inside() {
			roots = append(roots, at.folder)
		}
	}
	for _, name := range shared {
		if l.home != "" {
			roots = append(roots, resolved(filepath.Join(l.home, name)))
		}
	}
	taken := make(map[string]string)
	looked, files, bytes := 0, 0, int64(0)
	full := fmt.Sprintf("with it, all skills would have more than %d files or %d MB", maxFiles, maxBytes>>20)
	for _, folder := range l.folders {
		for _, c := range s.candidates(folder, roots) {
			other, double := taken[c.Name]
			switch {
			case double && other == c.at.folder:
				continue
			case double:
				c.why = "a skill of that name is in a folder that was named before"
			case c.why == "" && looked > maxLooked:
				c.why = full
			case c.why == "":
				looked += c.look()
				if size := c.size(); c.why == "" && (files+len(c.files) > maxFiles || bytes+size > maxBytes) {
					c.why, looked = full, maxLooked+1 // no other is looked at
				} else if c.why == "" {
					files, bytes = files+len(c.files), bytes+size
				}
			}
			if c.why != "" {
				s.LeftOut = append(s.LeftOut, LeftOut{called(c.Name), c.why})
				continue
			}
			taken[c.Name] = c.at.folder
			s.Skills = append(s.Skills, c.Skill)
		}
	}
	slices.SortFunc(s.Skills, func(a, b Skill) int { return strings.Compare(a.Name, b.Name) })
	s.hash = hashOf(s)
	return s
}

func (c *candidate) size() (size int64) {
	for _, f := range c.files {
		size += f.info.Size()
	}
	return size
}

// candidates lists a folder's possible skills: folders that are not hidden.
func (s *Set) candidates(folder Folder, roots []string) (list []candidate) {
	at := placeOf(folder.Path, folder.Project)
	root, err := at.open()
	var entries []fs.DirEntry
	if err == nil {
		defer func() { _ = root.Close() }()
		if info, err := root.Stat(Main); err == nil && info.Mode().IsRegular() {
			return []candidate{{Skill: Skill{Name: filepath.Base(at.folder), at: at}}}
		}
		entries, err = readDir(root.FS(), ".", maxEntries)
	}
	if err != nil {
		why := "it cannot be read"
		switch {
		case errors.Is(err, fs.ErrNotExist) && folder.Project != "":
			return nil
		case errors.Is(err, fs.ErrNotExist):
			why = "there is no such folder"
		case errors.Is(err, errTooMany):
			why = fmt.Sprintf("it has more than %d entries", maxEntries)
		case folder.Project != "":
			why = outside
		}
		s.LeftOut = append(s.LeftOut, LeftOut{folder.Name, why})
		return nil
	}
	for _, entry := range entries {
		c := candidate{Skill: Skill{Name: entry.Name(), at: placeOf(filepath.Join(at.folder, entry.Name()), at.project)}}
		if strings.HasPrefix(c.Name, ".") {
			continue
		}
		link := entry.Type()&fs.ModeSymlink != 0
		switch info, err := os.Stat(filepath.Join(at.folder, c.Name)); {
		case link && folder.Project != "" && (err != nil || !c.at.inside()):
			c.why = outside
		case err != nil:
			c.why = "it cannot be read"
		case !info.IsDir():
			continue
		case link && !slices.Contains(roots, filepath.Dir(c.at.folder)):
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
	if err != nil && !errors.Is(err, io.EOF) { // which an empty folder gives
		return nil, err
	}
	if len(entries) > most {
		return nil, errTooMany
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// look lists the candidate's files and reads its SKILL.md, or finds why it is none. It returns how many entries that took.
func (c *candidate) look() int {
	root, err := c.at.open()
	if err != nil {
		c.why = "it cannot be read"
		return 0
	}
	defer func() { _ = root.Close() }()
	main, err := root.Stat(Main)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.why = "it has no SKILL.md"
		return 1
	case err != nil:
		c.why = quoted(Main) + " is a link that leads out of the skill, or cannot be read"
		return 1
	case main.Size() > maxMainBytes:
		c.why = fmt.Sprintf("its SKILL.md is larger than %d MB", maxMainBytes>>20)
		return 1
	}
	w := walker{root: root}
	w.walk(".", 0)
	if c.files, c.why = w.files, w.why; c.why == "" {
		content, err := readFile(root, Main, main.Size())
		if c.Description, c.why = parse(content, c.Name); err != nil {
			c.why = quoted(Main) + " cannot be read, or is just being written"
		}
	}
	return w.entries
}

// walker goes through a skill, and stops at the first thing that may not be in one.
type walker struct {
	root    *os.Root
	files   []found
	entries int // folders and hidden files too
	bytes   int64
	why     string
}

func (w *walker) walk(dir string, depth int) {
	entries, err := readDir(w.root.FS(), dir, maxSkillFiles-w.entries)
	w.entries += len(entries)
	switch {
	case errors.Is(err, errTooMany):
		w.entries = maxSkillFiles
		w.why = fmt.Sprintf("it has more than %d files and folders", maxSkillFiles)
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
		if isPassedOver(entry.Name()) {
			continue
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
	case w.leadsToHidden(name):
		w.why = quoted(name) + " is a link to a hidden file"
	case !info.Mode().IsRegular():
		w.why = quoted(name) + " is no regular file"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || len(name) > maxPath || strings.Contains(name, `\`):
		w.why = "the path " + quoted(name) + " is too long or has characters that no path should have"
	default:
		w.files = append(w.files, found{name, info})
		w.bytes += info.Size()
	}
	if w.bytes > maxSkillBytes {
		w.why = fmt.Sprintf("its files are larger than %d MB", maxSkillBytes>>20)
	}
}

// leadsToHidden reports whether a link ends at a file that the walk skips.
func (w *walker) leadsToHidden(name string) bool {
	if info, err := w.root.Lstat(filepath.FromSlash(name)); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return false
	}
	top, err := filepath.EvalSymlinks(w.root.Name())
	file, fileErr := filepath.EvalSymlinks(filepath.Join(w.root.Name(), filepath.FromSlash(name)))
	inside, relErr := filepath.Rel(top, file)
	return errors.Join(err, fileErr, relErr) != nil || slices.ContainsFunc(strings.Split(filepath.ToSlash(inside), "/"), isPassedOver)
}

// isPassedOver recognizes a repository, an editor's leftovers, and a file of secrets.
func isPassedOver(name string) bool { return strings.HasPrefix(name, ".") || name == "__pycache__" }

// quoted quotes a name that somebody else gave.
func quoted(name string) string { return fmt.Sprintf("%q", text.Shorten(name, 80)) }
