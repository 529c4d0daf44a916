// What is known of the other replicas and their sessions, by a watch.

package replicas

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// follow keeps what is known of the others current until this replica leaves.
func (r *Replicas) follow(version string) {
	for {
		ctx, cancel := context.WithCancel(r.ctx)
		r.mu.Lock()
		r.endWatch = cancel
		r.mu.Unlock()
		err := r.o.Leases.Watch(ctx, version, func(l Lease, deleted bool) {
			r.note(l, deleted)
			r.advance(versionOf(l.Version))
		})
		cancel()
		for {
			if r.ctx.Err() != nil {
				return
			}
			r.o.Logger.Debug("watch the replicas", "error", err)
			select {
			case <-time.After(againAfter):
			case <-r.ctx.Done():
				return
			}
			if version, err = r.list(r.ctx); err == nil {
				break
			}
		}
	}
}

// list looks at all that is there.
func (r *Replicas) list(ctx context.Context) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	r.mu.Lock()
	before := slices.Collect(maps.Keys(r.sessions))
	was := slices.Collect(maps.Keys(r.peers))
	r.mu.Unlock()
	all, version, err := r.o.Leases.List(ctx)
	if err != nil {
		return "", err
	}
	there := make(map[string]bool)
	for _, l := range all {
		there[l.Name] = true
		r.note(l, false)
	}
	defer r.advance(versionOf(version)) // not before all of the list is noted
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range was {
		if !there[leaseOf(r.o.Group, name)] {
			r.drop(name)
		}
	}
	for _, name := range before {
		if s, known := r.sessions[name]; known && !there[name] && !r.isNewer(name, s.uid, versionOf(version)) {
			r.forget(name, s)
		}
	}
	return version, nil
}

func versionOf(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

// advance notes that all until a version has been seen.
func (r *Replicas) advance(version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = max(r.version, version)
	r.seen.Broadcast()
}

// isNewer reports whether this replica has written a Lease later than in a version, or removed it. The caller holds r.mu.
func (r *Replicas) isNewer(name, uid string, version uint64) bool {
	w, own := r.wrote[name]
	return own && w.uid == uid && (w.removed || version < w.version)
}

// note takes in a Lease as it is, or was when it was removed.
func (r *Replicas) note(l Lease, deleted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case l.Labels[labelLease] == ofReplica && deleted:
		r.drop(l.Holder)
	case l.Labels[labelLease] == ofReplica:
		p := r.peers[l.Holder]
		if p == nil {
			p = &peer{name: l.Holder, gone: make(chan struct{})}
			r.peers[l.Holder] = p
		}
		if p.version != l.Version {
			p.version, p.changed = l.Version, time.Now()
		}
		p.address, p.key, p.drains = l.Annotations[noteAddress], l.Annotations[noteKey], l.Annotations[noteDrains] != ""
	case l.Labels[labelLease] != ofSession:
	case deleted:
		if w := r.wrote[l.Name]; w.uid == l.UID {
			delete(r.wrote, l.Name)
		}
		if s, known := r.sessions[l.Name]; known && s.uid == l.UID {
			r.forget(l.Name, s)
		}
	case !r.isNewer(l.Name, l.UID, versionOf(l.Version)):
		s := session{l.Annotations[noteTenant], l.Annotations[noteID], l.Holder, l.UID}
		if !state.ValidID(s.id) || s.tenant != "" && !state.ValidTenant(s.tenant) || r.leaseOf(s.tenant, s.id) != l.Name {
			return // it is not one of ours, whatever its labels are
		}
		r.sessions[l.Name] = s
		if r.isCommand() {
			return
		}
		if err := state.Show(r.o.StateDir, s.tenant, s.id, kept(&l)); err != nil {
			r.o.Logger.Warn("session of another replica", "session", s.id, "error", err)
		}
	}
}

// forget drops a session that has ended. The caller holds r.mu.
func (r *Replicas) forget(name string, s session) {
	delete(r.sessions, name)
	if r.isCommand() {
		return
	}
	if err := state.Hide(r.o.StateDir, s.tenant, s.id); err != nil {
		r.o.Logger.Warn("session of another replica", "session", s.id, "error", err)
	}
}

// drop forgets a replica. The caller holds r.mu.
func (r *Replicas) drop(name string) {
	if p := r.peers[name]; p != nil {
		close(p.gone)
		delete(r.peers, name)
	}
}

// awaitVersion waits until all that was written before a version has been seen.
func (r *Replicas) awaitVersion(ctx context.Context, version uint64) error {
	defer context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen.Broadcast()
	})()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.version < version {
		if ctx.Err() != nil {
			return errors.New("what other replicas have written is not known: " + ctx.Err().Error())
		}
		r.seen.Wait()
	}
	return nil
}
