package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// leftover is what one session has on an engine.
type leftover struct {
	containers []string
	volumes    []string
	named      bool
	newest     time.Time
}

// Sweep removes what servers that no longer live left on the engine under this host's label, and
// returns the ids of the sessions that it removed something of. A named session loses its
// containers, which no server can speak to any more, and keeps its volume until nobody has used it
// for idle. Sessions of live servers are passed over.
func Sweep(ctx context.Context, engine Engine, stateDir, host string, idle time.Duration) ([]string, error) {
	inventory, err := engine.List(ctx, LabelHost, host)
	if err != nil {
		return nil, fmt.Errorf("list leftovers: %w", err)
	}
	var swept []string
	var failed []error
	for id, left := range group(inventory) {
		removed, err := left.remove(ctx, engine, stateDir, id, idle)
		if err != nil {
			failed = append(failed, fmt.Errorf("session %s: %w", id, err))
		}
		if removed {
			swept = append(swept, id)
		}
	}
	slices.Sort(swept)
	return swept, errors.Join(failed...)
}

func group(inventory Inventory) map[string]*leftover {
	found := make(map[string]*leftover)
	of := func(labels map[string]string, created time.Time) *leftover {
		id := labels[LabelSession]
		if !sessionID.MatchString(id) {
			return &leftover{} // not made by us: leave it alone
		}
		if found[id] == nil {
			found[id] = &leftover{}
		}
		found[id].named = found[id].named || labels[LabelNamed] == "true"
		if created.After(found[id].newest) {
			found[id].newest = created
		}
		return found[id]
	}
	for _, c := range inventory.Containers {
		l := of(c.Labels, c.Created)
		l.containers = append(l.containers, c.Name)
	}
	for _, v := range inventory.Volumes {
		l := of(v.Labels, v.Created)
		l.volumes = append(l.volumes, v.Name)
	}
	return found
}

func (l *leftover) remove(ctx context.Context, engine Engine, stateDir, id string, idle time.Duration) (bool, error) {
	lock, err := takeLock(stateDir, id)
	if errors.Is(err, errLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lastUsed := lock.lastUsed()
	if !lock.kept() {
		lastUsed = l.newest // the file is one that we have just made, or an unnamed session's
	}
	volumes := l.volumes
	if (l.named || lock.kept()) && time.Since(lastUsed) < idle {
		volumes = nil
	}
	if len(l.containers) == 0 && len(volumes) == 0 {
		lock.release()
		return false, nil
	}
	if err := engine.Remove(ctx, l.containers, volumes); err != nil {
		lock.release()
		return false, err
	}
	if len(volumes) == len(l.volumes) {
		lock.remove()
	} else {
		lock.release()
	}
	return true, nil
}
