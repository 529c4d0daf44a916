package packages

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	temporary    = "filling-" // how the names of files begin that are not whole
	abandonedFor = 24 * time.Hour
)

// store keeps whole files in a folder, which several processes may share: a file comes by a rename, is never changed,
// and goes when the limit asks for it, the one that was not used for longest first.
type store struct {
	folder string
	limit  int64
}

// place returns the path of the file with this identity.
func (s *store) place(identity string) string {
	sum := sha256.Sum256([]byte(identity))
	return filepath.Join(s.folder, hex.EncodeToString(sum[:]))
}

// open opens a file that is kept, which counts as a use. The error is fs.ErrNotExist if there is none.
func (s *store) open(identity string) (*os.File, error) {
	place := s.place(identity)
	f, err := os.Open(place)
	if err == nil {
		now := time.Now()
		_ = os.Chtimes(place, now, now) // at worst it goes earlier
	}
	return f, err
}

// create makes a file to be filled, which ends by keep or discard.
func (s *store) create() (*os.File, error) {
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return nil, err
	}
	return os.CreateTemp(s.folder, temporary)
}

func (s *store) discard(f *os.File) {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

// keep makes a whole file of one that create made.
func (s *store) keep(f *os.File, identity string) error {
	name := f.Name()
	err := f.Close()
	// Written files carry the time of a coarser clock, by which they would be older than a file that was opened right before.
	now := time.Now()
	_ = os.Chtimes(name, now, now)
	if err == nil {
		err = os.Rename(name, s.place(identity))
	}
	if err != nil {
		_ = os.Remove(name)
		return err
	}
	s.shrink()
	return nil
}

// shrink removes files until the limit is kept. It ignores files that another process removed already.
func (s *store) shrink() {
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		return
	}
	var kept []fs.FileInfo
	var total int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if strings.HasPrefix(info.Name(), temporary) {
			if time.Since(info.ModTime()) > abandonedFor { // its process was killed
				_ = os.Remove(filepath.Join(s.folder, info.Name()))
			}
			continue
		}
		kept, total = append(kept, info), total+info.Size()
	}
	slices.SortFunc(kept, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range kept {
		if total <= s.limit {
			return
		}
		_ = os.Remove(filepath.Join(s.folder, info.Name()))
		total -= info.Size()
	}
}
