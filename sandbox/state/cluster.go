// Sessions of servers on several machines: a Cluster says whose each is, and the files here show what it keeps of them.

package state

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Cluster is what servers on several machines share of their sessions. Where a state directory has one, a session's lock is taken
// there, and what its holder writes is written there too, so that no folder has to be shared. Its methods may be called from any
// goroutine, and each takes a bounded time.
type Cluster interface {
	// Take makes a session this server's, and returns what is kept of it; found: there was such a session. ErrLocked: a server
	// that lives has it.
	Take(tenant, id string) (kept Parts, found bool, err error)
	// Put replaces parts of what is kept of a session that this server has.
	Put(tenant, id string, parts Parts) error
	// Release lets go of a session that goes on, with a last change of its parts.
	Release(tenant, id string, parts Parts)
	// Remove lets go of a session that has ended.
	Remove(tenant, id string)
	// Pin puts PartPinned of a session, whoever has it.
	Pin(tenant, id string, pinned bool) error
}

// Parts are what is kept of a session, by the names below. One that is empty is not there.
type Parts map[string]string

// The names of the parts.
const (
	PartMark   = "mark"   // the content of the lock file
	PartUsed   = "used"   // the last use
	PartRecord = "record" // Record as JSON
	PartPinned = "pinned"
)

// touchEvery is how often a use is told to others, who only need it to see which sessions nobody uses.
const touchEvery = 30 * time.Second

// shared are the state directories with a cluster, and the sessions in them that this process has.
var shared = struct {
	sync.Mutex

	clusters map[string]Cluster // by the server's own directory
	taken    map[string]bool    // by the path of the lock file
}{clusters: make(map[string]Cluster), taken: make(map[string]bool)}

// Share has the sessions of a server's own state directory, and of its tenants', taken in a cluster. Nil: in none any longer.
func Share(dir string, c Cluster) {
	shared.Lock()
	defer shared.Unlock()
	if shared.clusters[dir] = c; c == nil {
		delete(shared.clusters, dir)
	}
}

// clusterOf returns the cluster of a state directory, and the tenant whose it is; nil: it has none.
func clusterOf(dir string) (c Cluster, tenant string) {
	shared.Lock()
	defer shared.Unlock()
	if c := shared.clusters[dir]; c != nil || len(shared.clusters) == 0 {
		return c, ""
	}
	folder := filepath.Dir(dir)
	key := filepath.Base(folder)
	own := filepath.Join(filepath.Dir(filepath.Dir(folder)), filepath.Base(dir))
	if TenantDir(own, key) != dir {
		return nil, ""
	}
	return shared.clusters[own], key
}

func enter(path string) bool {
	shared.Lock()
	defer shared.Unlock()
	if shared.taken[path] {
		return false
	}
	shared.taken[path] = true
	return true
}

func leave(path string) {
	shared.Lock()
	defer shared.Unlock()
	delete(shared.taken, path)
}

// Show has the files of a state directory say what a cluster keeps of a session, for who looks without the lock. Of a session that
// this process has, they say it already.
func Show(dir, tenant, id string, kept Parts) error {
	dir = TenantDir(dir, tenant)
	shared.Lock()
	defer shared.Unlock()
	if shared.taken[lockPath(dir, id)] {
		return nil
	}
	if err := makeOwn(dir); err != nil {
		return err
	}
	return bring(dir, id, kept)
}

// Hide is Show of a session that has ended.
func Hide(dir, tenant, id string) error {
	dir = TenantDir(dir, tenant)
	path := lockPath(dir, id)
	shared.Lock()
	defer shared.Unlock()
	if shared.taken[path] {
		return nil
	}
	err := errors.Join(os.RemoveAll(Folder(dir, id)), os.Remove(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// bring writes a session's files as a cluster keeps them. Each is whole at any time.
func bring(dir, id string, kept Parts) error {
	path, folder := lockPath(dir, id), Folder(dir, id)
	if _, err := os.Lstat(path); err != nil || markOf(dir, id) != kept[PartMark] {
		if err := WriteFile(path, []byte(kept[PartMark])); err != nil {
			return err
		}
	}
	if used, err := time.Parse(time.RFC3339Nano, kept[PartUsed]); err == nil {
		if err := os.Chtimes(path, used, used); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{recordFile: kept[PartRecord], pinFile: kept[PartPinned]} {
		file := filepath.Join(folder, name)
		if content == "" {
			_ = os.Remove(file)
			continue
		}
		if text, err := os.ReadFile(file); err == nil && string(text) == content {
			continue
		}
		if err := errors.Join(os.MkdirAll(folder, 0o700), WriteFile(file, []byte(content))); err != nil {
			return err
		}
	}
	return nil
}

// Forget removes a session's folder, of which the caller has the lock, and what is kept of it elsewhere.
func Forget(dir, id string) error {
	if err := os.RemoveAll(Folder(dir, id)); err != nil {
		return err
	}
	if c, tenant := clusterOf(dir); c != nil {
		return c.Put(tenant, id, Parts{PartRecord: "", PartPinned: ""})
	}
	return nil
}

// part is a Lock's place in a cluster.
type part struct {
	cluster    Cluster
	tenant, id string

	mu   sync.Mutex
	told time.Time // the last use that others know
}

// takeIn is Look in a cluster.
func takeIn(c Cluster, tenant, dir, id string) (*Lock, error) {
	path := lockPath(dir, id)
	if !enter(path) {
		return nil, ErrLocked
	}
	kept, found, err := c.Take(tenant, id)
	if err != nil {
		leave(path)
		return nil, err
	}
	l := &Lock{Found: found, path: path, in: &part{cluster: c, tenant: tenant, id: id}}
	if err = bring(dir, id, kept); err == nil {
		l.file, err = os.OpenFile(path, os.O_RDWR, 0o600)
	}
	if err != nil {
		c.Release(tenant, id, nil)
		leave(path)
		return nil, err
	}
	return l, nil
}

func (p *part) put(parts Parts) error {
	if p == nil {
		return nil
	}
	return p.cluster.Put(p.tenant, p.id, parts)
}

// touch publishes the last use at most every touchEvery, asynchronously.
func (p *part) touch(until time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.Sub(p.told) >= touchEvery {
		p.told = until
		go func() { _ = p.put(Parts{PartUsed: stamp(until)}) }()
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
