// Package door lets the commands and pages of a user ask the user's running servers.
//
// Each server calls Listen, and serves /v1 and its Card on that socket in the state folder. List finds the servers and their cards, and a
// Server sends requests. Only the user's own processes get through a door: the folder and the socket are the user's alone, and both sides
// check whose process the other one is.
package door

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Card describes a server.
type Card struct {
	ID         string    `json:"id"`
	PID        int       `json:"pid"`     // where it runs, which may be a container
	Address    string    `json:"address"` // empty: over stdio
	Version    string    `json:"version"`
	Began      time.Time `json:"began"`
	SessionDir string    `json:"session_dir"` // the name of the folder of its sessions
	Draining   bool      `json:"draining"`
	sandbox.Load
	Tenants []Tenant `json:"tenants,omitempty"` // where they are asked for
}

// Tenant is the owner or a principal of a server, with the sessions that the server has open.
type Tenant struct {
	Key      string                `json:"key"` // empty: the owner
	Name     string                `json:"name"`
	Sessions []sandbox.SessionInfo `json:"sessions"`
}

// The routes of a door beside /v1, and the header of its requests.
const (
	// Path is the path of the card; with WithTenants in the query it has them.
	Path        = "/door"
	WithTenants = "tenants"
	// DrainPath takes a POST of a JSON boolean: whether the server takes no new sessions. It answers with the card.
	DrainPath = "/door/drain"
	// TenantHeader has the Key of the tenant that a request to /v1 is for. Whatever comes through a door has it.
	TenantHeader = "Sandbox-Tenant"

	// AskTime bounds the time for which a server is waited for.
	AskTime = 2 * time.Second

	serversFolder = "servers"
)

func folderOf(stateDir string) string { return filepath.Join(stateDir, serversFolder) }

// Listen opens the door of a server with this ID. Closing it removes the socket.
func Listen(stateDir, id string) (net.Listener, error) {
	dir := folderOf(stateDir)
	if err := state.MakeOwn(dir); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", filepath.Join(dir, id))
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(filepath.Join(dir, id), 0o600); err != nil { // nobody else could enter the folder before
		_ = l.Close()
		return nil, err
	}
	return guarded{l}, nil
}

// guarded accepts connections of the user's own processes alone.
type guarded struct{ net.Listener }

func (g guarded) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil || isOwn(conn) {
			return conn, err
		}
		_ = conn.Close()
	}
}

// sockets returns the sockets in a folder that is the user's alone.
func sockets(dir string) (ids []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !state.IsOwn(dir) {
		err = state.ErrForeign
	}
	if err != nil {
		return nil, &fs.PathError{Op: "use", Path: dir, Err: err}
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().Type() == fs.ModeSocket && !state.IsAnothers(info) && state.ValidID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// settleTime is how old a socket is whose server listens, unless it has ended.
const settleTime = time.Minute

// dial connects to a server, and removes the socket that a killed one has left.
func dial(ctx context.Context, dir, id string) (net.Conn, error) {
	path := filepath.Join(dir, id)
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, errRefused):
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > settleTime {
			_ = os.Remove(path)
		}
		return nil, err
	case err != nil:
		return nil, err
	case !isOwn(conn):
		_ = conn.Close()
		return nil, state.ErrForeign
	}
	return conn, nil
}

// Server is a running server, by its card.
type Server struct {
	Card
	*http.Transport
}

// At returns the server with this ID, of which nothing else is known.
func At(stateDir, id string) Server {
	dir := folderOf(stateDir)
	return Server{Card{ID: id}, &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, dir, id) },
		DisableKeepAlives: true,
	}}
}

// List returns the servers that answer within AskTime, the one that began last first. If all is set, their cards have the tenants.
func List(ctx context.Context, stateDir string, all bool) ([]Server, error) {
	dir := folderOf(stateDir)
	ids, err := sockets(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, AskTime)
	defer cancel()
	var list []Server
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, id := range ids {
		asking.Go(func() {
			s, path := At(stateDir, id), Path
			if all {
				path += "?" + WithTenants
			}
			if s.ask(ctx, http.MethodGet, path, nil) == nil {
				mu.Lock()
				list = append(list, s)
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	slices.SortFunc(list, func(a, b Server) int { return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.ID, b.ID)) })
	return list, nil
}

// HasEnded reports whether a server could not be asked because it has ended.
func HasEnded(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errRefused) }

// Look reads the server's card again.
func (s *Server) Look(ctx context.Context) error { return s.ask(ctx, http.MethodGet, Path, nil) }

// Drain has the server take no new sessions, or take some again.
func (s *Server) Drain(ctx context.Context, on bool) error {
	return s.ask(ctx, http.MethodPost, DrainPath, on)
}

func (s *Server) ask(ctx context.Context, method, path string, value any) error {
	card := Card{}
	err := ask(ctx, s, method, path, value, &card)
	if card.ID = s.ID; err == nil {
		s.Card = card
	}
	return err
}

// maxAnswer bounds an answer.
const maxAnswer = 64 << 20

// ask sends a request and reads the value in its answer.
func ask(ctx context.Context, to http.RoundTripper, method, path string, value, into any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://door"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := to.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s", answer.Status)
	}
	return json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(into)
}

// Neighbour is a session with the server that has it open.
type Neighbour struct {
	Info   sandbox.SessionInfo
	server Server
	tenant string
}

// RoundTrip sends a request to the server.
func (n *Neighbour) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = "http", "door", "door"
	r.Header.Set(TenantHeader, n.tenant)
	for _, name := range []string{"Authorization", "Cookie", "Origin"} {
		r.Header.Del(name)
	}
	return n.server.RoundTrip(r)
}

// Live asks the server for what it alone knows of the session and of runs that go on.
func (n *Neighbour) Live(ctx context.Context, going []string) (now any, err error) {
	ctx, cancel := context.WithTimeout(ctx, AskTime)
	defer cancel()
	err = ask(ctx, n, http.MethodGet, "/v1/sessions/"+n.Info.ID+"/live?"+url.Values{"run": going}.Encode(), nil, &now)
	return now, err
}

// Of returns the sessions of a tenant that servers have open, by their ids. sessionDir is the folder of the sessions.
func Of(servers []Server, sessionDir, tenant string) map[string]*Neighbour {
	found := make(map[string]*Neighbour)
	for _, s := range servers {
		for _, t := range s.Tenants {
			for _, info := range t.Sessions {
				if s.SessionDir == filepath.Base(sessionDir) && t.Key == tenant {
					info.Owner = sandbox.OwnerOther
					found[info.ID] = &Neighbour{info, s, t.Key}
				}
			}
		}
	}
	return found
}

// Known is a session that is open here, asleep, or in another server.
type Known struct {
	sandbox.SessionInfo
	At *Neighbour // nil: in no other server that answers
}

// Join adds to a list of sessions what their servers say of them.
func Join(list []sandbox.SessionInfo, others map[string]*Neighbour) (known []Known) {
	for _, info := range list {
		k := Known{SessionInfo: info}
		if at := others[info.ID]; at != nil && info.Owner == sandbox.OwnerOther {
			k = Known{at.Info, at}
		}
		known = append(known, k)
	}
	return known
}

// Use is what a session takes, for the operator: nothing of what is in it.
type Use struct {
	Principal string    `json:"principal,omitempty"` // empty: the owner
	SessionID string    `json:"session_id"`
	Memory    int64     `json:"memory_limit_bytes"`
	CPUs      float64   `json:"cpu_limit"`
	Disk      *int64    `json:"size_bytes"` // null: it is not known
	Going     int       `json:"runs_now"`
	LastHour  int       `json:"runs_last_hour"`
	LastUsed  time.Time `json:"last_used"`
}

// UseOf returns what a session takes.
func UseOf(principal string, i *sandbox.SessionInfo) Use {
	return Use{principal, i.ID, i.Limits.MemoryBytes, i.Limits.CPUs, i.SizeBytes, i.Going, i.LastHour, i.LastUsed.UTC()}
}

// Uses returns what the sessions take that the servers of a state folder have open, of all principals.
func Uses(ctx context.Context, stateDir string) ([]Use, error) {
	servers, err := List(ctx, stateDir, true)
	list := []Use{}
	for _, s := range servers {
		for _, t := range s.Tenants {
			for i := range t.Sessions {
				list = append(list, UseOf(t.Name, &t.Sessions[i]))
			}
		}
	}
	slices.SortFunc(list, func(a, b Use) int { return b.LastUsed.Compare(a.LastUsed) })
	return list, err
}
