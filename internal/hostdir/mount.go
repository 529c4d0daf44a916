package hostdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// Mount is a folder of the host that code sees under a name.
type Mount struct {
	Folder   string // absolute, once it is checked
	Name     string
	Writable bool
	Undo     bool // versions of its files are kept
}

// ParseMount reads FOLDER:NAME; without a name, the folder's own is meant.
func ParseMount(text string) (Mount, error) {
	folder, name := text, filepath.Base(text)
	if at := strings.LastIndexByte(text, ':'); at >= 0 && !strings.ContainsRune(text[at:], os.PathSeparator) {
		folder, name = text[:at], text[at+1:]
	}
	m := Mount{Folder: folder, Name: name}
	switch {
	case strings.TrimSpace(folder) == "":
		return m, errors.New("the name of a folder is empty")
	case strings.ContainsFunc(text, unicode.IsControl):
		return m, fmt.Errorf("%q has a control character, such as the end of a line; rename the folder", text)
	case name == "ro" || name == "rw" || name == "undo":
		return m, fmt.Errorf("%s: write %s:NAME, with ,rw behind it where code may write", text, folder)
	case !mountName.MatchString(name):
		return m, fmt.Errorf("%s: %q cannot be the name: up to 64 letters, digits, '.', '-' and '_', the first a letter or a digit; write %s:NAME", text, name, folder)
	}
	return m, nil
}

var mountName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// systemFolders are no data: they, their contents and their parents are never mounted.
var systemFolders = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr/bin", "/usr/lib", "/usr/sbin", "/var",
}

// CheckMounts resolves the folders, links too, and returns why one may not be mounted. Home is this user's; withheld are folders that nobody
// may see, such as the one with the server's state.
func CheckMounts(mounts []Mount, home string, withheld []string) ([]Mount, error) {
	checked := make([]Mount, 0, len(mounts))
	var problems []error
	for _, m := range mounts {
		folder, err := resolveMount(m.Folder, home)
		if err == nil {
			err = refuseMount(folder, home, withheld)
		}
		if err == nil && m.Undo && !m.Writable {
			err = fmt.Errorf("%s: there is nothing to undo where code may not write; write %s:%s,rw,undo", m.Folder, m.Folder, m.Name)
		}
		for _, other := range checked {
			switch {
			case err != nil:
			case other.Name == m.Name:
				err = fmt.Errorf("%s and %s have the same name %s; write FOLDER:NAME", other.Folder, folder, m.Name)
			case other.Writable && below(other.Folder, folder), m.Writable && below(folder, other.Folder):
				// Code could put a link in the inner one's place, which would be followed for the next container.
				err = fmt.Errorf("%s and %s are one inside the other, and the outer one may be written to", other.Folder, folder)
			}
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		m.Folder = folder
		checked = append(checked, m)
	}
	return checked, errors.Join(problems...)
}

func resolveMount(folder, home string) (string, error) {
	d := &Dirs{home: home}
	path := d.expand(folder)
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s: write the whole path, from / or ~/ on: a client starts the server in any folder", folder)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is no folder", folder)
	}
	return real, nil
}

// refuseMount returns why a folder, given by a path without links, may not be mounted.
func refuseMount(folder, home string, withheld []string) error {
	if folder == filepath.Dir(folder) {
		return errors.New("the whole file system cannot be mounted; name a folder")
	}
	for _, one := range append(systemFolders[:len(systemFolders):len(systemFolders)], withheld...) {
		one = real(one)
		switch {
		case below(one, folder):
			return fmt.Errorf("%s is %s or below it, which is not for code to see", folder, one)
		case below(folder, one):
			return fmt.Errorf("%s holds %s, which is not for code to see; name a folder below it", folder, one)
		}
	}
	for _, one := range homesNear(folder, home) {
		if below(folder, one) {
			return fmt.Errorf("%s is a home folder, or holds one, with the keys and passwords in it; name a folder below it", folder)
		}
		if rel, err := filepath.Rel(one, folder); err == nil && strings.HasPrefix(rel, ".") && filepath.IsLocal(rel) {
			return fmt.Errorf("%s is a hidden folder of the home folder, where programs have keys and settings; name another", folder)
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Type()&(fs.ModeSocket|fs.ModeDevice) != 0 {
			return fmt.Errorf("%s holds %s, a socket or a device, by which code could reach a program of this machine", folder, entry.Name())
		}
	}
	return nil
}

// homesNear returns the home folders that a folder may be, hold or be in: this user's, root's, and of the others the one on the
// way to the folder or else the place where all are.
func homesNear(folder, home string) []string {
	homes := []string{real("/root")}
	if home != "" {
		homes = append(homes, real(home))
	}
	for _, place := range []string{"/home", "/Users"} {
		place = real(place)
		if rel, err := filepath.Rel(place, folder); err == nil && rel != "." && filepath.IsLocal(rel) {
			name, _, _ := strings.Cut(rel, string(os.PathSeparator))
			place = filepath.Join(place, name)
		}
		homes = append(homes, place)
	}
	return homes
}

// real is a path without links, or the path itself if there is nothing yet.
func real(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}
