// Package roster says which servers there are of a state folder, and tells one to drain.
//
// A server that others can replace calls Join, and tells now and then what it has. It has a lock and a folder in servers/ of the
// state folder, as a session has, so that whether it lives is known by its lock, on every system, and nobody but the user whose
// state folder it is can ask it for anything. List finds the servers, and Ask asks one.
package roster

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Server is what one says of itself.
type Server struct {
	ID      string    `json:"id"`
	PID     int       `json:"pid"` // where it runs, which may be a container
	Address string    `json:"address"`
	Version string    `json:"version"`
	Began   time.Time `json:"began"`
	Now
}

// Now is what a server has at the moment.
type Now struct {
	Draining bool `json:"draining"`
	Sessions int  `json:"sessions"` // that it has open
	Busy     int  `json:"busy"`     // of them in which something goes on
	// Clients are the sessions without a name whose clients are there: they end with the server.
	Clients int `json:"clients"`
}

const (
	serversFolder = "servers"
	cardFile      = "server.json"
	drainFile     = "drain"
)

func folderOf(stateDir string) string { return filepath.Join(stateDir, serversFolder) }

// Entry is a server's own place. Its methods are called by one goroutine.
type Entry struct {
	dir  string
	lock *state.Lock
	card Server
}

// Join enters a server. Its ID and process number are filled in.
func Join(stateDir string, s Server) (*Entry, error) {
	s.ID, s.PID = state.NewID(""), os.Getpid()
	e := &Entry{dir: folderOf(stateDir), card: s}
	var err error
	if e.lock, err = state.Take(e.dir, s.ID); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(state.Folder(e.dir, s.ID), 0o700); err != nil {
		e.lock.Remove()
		return nil, err
	}
	if err := e.write(); err != nil {
		e.lock.Remove()
		return nil, err
	}
	return e, nil
}

func (e *Entry) path(file string) string { return filepath.Join(state.Folder(e.dir, e.card.ID), file) }

func (e *Entry) write() error {
	text, err := json.Marshal(e.card)
	if err != nil {
		return err
	}
	return state.WriteFile(e.path(cardFile), text)
}

// IsAsked reports whether the server is asked to drain.
func (e *Entry) IsAsked() bool {
	_, err := os.Lstat(e.path(drainFile))
	return err == nil
}

// Tell tells what the server has now, where that has changed.
func (e *Entry) Tell(now Now) error {
	if e.card.Now == now {
		return nil
	}
	before := e.card.Now
	e.card.Now = now
	err := e.write()
	if err != nil {
		e.card.Now = before // so that the next one tries again
	}
	return err
}

// Leave takes the server out.
func (e *Entry) Leave() { e.lock.Remove() }

// List returns the servers that live, the one that began last first. What killed ones have left is removed.
func List(stateDir string) ([]Server, error) {
	dir := folderOf(stateDir)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Server
	for _, id := range state.IDs(dir) {
		lock, err := state.Take(dir, id)
		switch {
		case err == nil:
			lock.Remove()
			continue
		case !errors.Is(err, state.ErrLocked):
			return nil, err
		}
		var s Server
		text, err := os.ReadFile(filepath.Join(state.Folder(dir, id), cardFile))
		if err != nil || json.Unmarshal(text, &s) != nil || s.ID != id {
			continue // it begins, or ends
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Server) int { return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.ID, b.ID)) })
	return list, nil
}

// Ask asks a server to drain, or not to any longer. It learns of that within a moment.
func Ask(stateDir, id string, drain bool) error {
	path := filepath.Join(state.Folder(folderOf(stateDir), id), drainFile)
	if drain {
		return os.WriteFile(path, nil, 0o600)
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
