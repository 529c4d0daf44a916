package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
)

// FileName is the file of what is allowed for good, in a principal's state folder.
const FileName = "allowed.json"

// maxGrants is how many there may be, and maxFile how long the file, in bytes.
const (
	maxGrants = 1000
	maxFile   = 1 << 20
)

// Grant is what a person has allowed for good.
type Grant struct {
	Rule    string    `json:"rule"`       // Question.Rule
	Session string    `json:"session_id"` // that asked
	Time    time.Time `json:"time"`
}

// ReadGrants returns what a file allows; a file that is not there allows nothing.
func ReadGrants(path string) ([]Grant, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s is longer than %d bytes", path, maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Grant
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// RemoveGrant takes what a rule allows out of a file, which servers that run read again, and reports whether it was there.
func RemoveGrant(path, rule string) (removed bool, err error) {
	err = change(path, func(all []Grant) ([]Grant, error) {
		kept := slices.DeleteFunc(slices.Clone(all), func(g Grant) bool { return g.Rule == rule })
		removed = len(kept) < len(all)
		return kept, nil
	})
	return removed, err
}

// lockTime is how long a change waits for another one.
const lockTime = 5 * time.Second

// change replaces the grants of a file, one process at a time.
func change(path string, with func([]Grant) ([]Grant, error)) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|filelock.NoFollow, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	for deadline := time.Now().Add(lockTime); ; time.Sleep(10 * time.Millisecond) {
		if err = filelock.Try(lock); !errors.Is(err, filelock.ErrHeld) || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	all, err := ReadGrants(path)
	if err != nil {
		return err
	}
	if all, err = with(all); err != nil {
		return err
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// grants are those of a file, read again when it has changed. Its methods may be called by any goroutine.
type grants struct {
	path string // empty: there are none

	mu    sync.Mutex
	known os.FileInfo
	rules map[string]bool
}

// have reports whether a rule is allowed for good. A file that cannot be read allows nothing.
func (g *grants) have(rule string) bool {
	if g.path == "" {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	info, err := os.Stat(g.path)
	if err != nil {
		g.known, g.rules = nil, nil
		return false
	}
	if g.known == nil || !os.SameFile(info, g.known) || !info.ModTime().Equal(g.known.ModTime()) || info.Size() != g.known.Size() {
		all, err := ReadGrants(g.path)
		if err != nil {
			return false
		}
		g.known, g.rules = info, make(map[string]bool)
		for _, grant := range all {
			g.rules[grant.Rule] = true
		}
	}
	return g.rules[rule]
}

func (g *grants) add(grant Grant) error {
	return change(g.path, func(all []Grant) ([]Grant, error) {
		if len(all) >= maxGrants {
			return nil, fmt.Errorf("%s has %d entries, the most there may be", g.path, maxGrants)
		}
		return append(all, grant), nil
	})
}
