// The sessions that this replica has: their Leases are taken, changed and let go of.

package replicas

import (
	"context"
	"errors"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Take implements state.Cluster. When it returns, what others had written before is known here.
func (r *Replicas) Take(tenant, id string) (state.Parts, bool, error) {
	ctx, cancel := context.WithTimeout(r.ctx, requestTime)
	defer cancel()
	name := r.leaseOf(tenant, id)
	r.letting.Lock()
	delete(r.undone, name)
	r.letting.Unlock()
	l, err := r.o.Leases.Get(ctx, name)
	found := err == nil
	switch {
	case errors.Is(err, ErrNotFound):
		l, err = r.o.Leases.Create(ctx, &Lease{
			Name: name, Holder: r.o.Name, Labels: r.labels(ofSession), Annotations: map[string]string{noteTenant: tenant, noteID: id, noteGroup: r.o.Group},
		}, 0)
	case err == nil:
		if err = r.isFree(ctx, l.Holder); err == nil {
			l, err = r.o.Leases.Change(ctx, name, Change{If: &l.Holder, Holder: &r.o.Name})
		}
	}
	switch {
	case errors.Is(err, ErrExists), errors.Is(err, ErrChanged), errors.Is(err, ErrNotFound):
		return nil, false, state.ErrLocked // a moment ago another took it, or it ended there
	case err != nil:
		return nil, false, err
	}
	r.own(l)
	if err := r.awaitVersion(ctx, versionOf(l.Version)); err != nil {
		if found {
			r.Release(tenant, id, nil)
		} else {
			r.Remove(tenant, id)
		}
		return nil, false, err
	}
	return kept(l), found, nil
}

// isFree returns state.ErrLocked where the holder of a session is another replica that lives.
func (r *Replicas) isFree(ctx context.Context, holder string) error {
	if holder == "" || holder == r.o.Name { // that was not taken here; a release was not done
		return nil
	}
	r.mu.Lock()
	lives := r.peers[holder] != nil
	r.mu.Unlock()
	if !lives { // or nothing was heard of it yet
		_, err := r.o.Leases.Get(ctx, leaseOf(r.o.Group, holder))
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return state.ErrLocked
}

// own notes a Lease that this replica has written.
func (r *Replicas) own(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrote[l.Name] = written{uid: l.UID, version: versionOf(l.Version)}
	r.sessions[l.Name] = session{l.Annotations[noteTenant], l.Annotations[noteID], l.Holder, l.UID}
}

// change changes a session's Lease where this replica has the session.
func (r *Replicas) change(ctx context.Context, name string, holder *string, changed state.Parts) error {
	c := Change{If: &r.o.Name, Holder: holder, Annotations: make(map[string]string)}
	for part, content := range changed {
		c.Annotations[prefix+part] = content
	}
	l, err := r.o.Leases.Change(ctx, name, c)
	if err == nil {
		r.own(l)
	}
	return err
}

// Put implements state.Cluster.
func (r *Replicas) Put(tenant, id string, changed state.Parts) error {
	ctx, cancel := context.WithTimeout(r.ctx, requestTime)
	defer cancel()
	return r.change(ctx, r.leaseOf(tenant, id), nil, changed)
}

// Pin implements state.Cluster.
func (r *Replicas) Pin(tenant, id string, pinned bool) error {
	ctx, cancel := context.WithTimeout(r.ctx, requestTime)
	defer cancel()
	content := ""
	if pinned {
		content = "true"
	}
	_, err := r.o.Leases.Change(ctx, r.leaseOf(tenant, id), Change{Annotations: map[string]string{prefix + state.PartPinned: content}})
	return err
}

// Release implements state.Cluster. Where it cannot be done it is done later, or is as if done when this replica ends.
func (r *Replicas) Release(tenant, id string, last state.Parts) {
	nobody, name := "", r.leaseOf(tenant, id)
	r.do(name, func(ctx context.Context) error { return r.change(ctx, name, &nobody, last) })
}

// Remove implements state.Cluster, as Release is.
func (r *Replicas) Remove(tenant, id string) {
	name := r.leaseOf(tenant, id)
	r.do(name, func(ctx context.Context) error { return r.delete(ctx, name) })
}

// delete removes a Lease that this replica holds; it is no error where there is none, or another has it.
func (r *Replicas) delete(ctx context.Context, name string) error {
	for {
		l, err := r.o.Leases.Get(ctx, name)
		switch {
		case errors.Is(err, ErrNotFound), err == nil && l.Holder != r.o.Name:
			return nil
		case err == nil:
			err = r.o.Leases.Delete(ctx, name, l.Version)
		}
		if errors.Is(err, ErrChanged) {
			continue // a renewal, or a pin
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		r.mu.Lock()
		r.wrote[name] = written{uid: l.UID, removed: true}
		delete(r.sessions, name)
		r.mu.Unlock()
		return nil
	}
}

// do does what lets go of a Lease, now or with a later renewal.
func (r *Replicas) do(name string, what func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), requestTime)
	defer cancel()
	if err := what(ctx); err != nil && !isOver(err) {
		r.o.Logger.Warn("let go of a session", "error", err)
		r.letting.Lock()
		r.undone[name] = what
		r.letting.Unlock()
	}
}

// isOver reports whether an error says that a Lease is this replica's no longer.
func isOver(err error) bool { return errors.Is(err, ErrNotFound) || errors.Is(err, ErrChanged) }

// catchUp does what could not be done before.
func (r *Replicas) catchUp(ctx context.Context) {
	r.letting.Lock()
	defer r.letting.Unlock()
	for name, what := range r.undone {
		if err := what(ctx); err == nil || isOver(err) {
			delete(r.undone, name)
		}
	}
}

// kept returns what a Lease keeps of its session.
func kept(l *Lease) state.Parts {
	kept := make(state.Parts)
	for _, part := range parts {
		kept[part] = l.Annotations[prefix+part]
	}
	return kept
}
