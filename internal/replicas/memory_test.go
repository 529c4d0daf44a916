package replicas_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/replicas"
)

// memory is a namespace's Leases.
type memory struct {
	mu      sync.Mutex
	version int
	leases  map[string]replicas.Lease
	events  []event
	changed chan struct{}
}

type event struct {
	replicas.Lease

	deleted bool
}

func newMemory() *memory {
	return &memory{leases: make(map[string]replicas.Lease), changed: make(chan struct{})}
}

// keyOf returns the key of a replica.
func (m *memory) keyOf(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.leases {
		if key := l.Annotations["code-sandbox-mcp.key"]; l.Holder == name && key != "" {
			return key
		}
	}
	panic("no replica " + name)
}

// view is how one replica reaches them.
type view struct {
	*memory

	cut     chan struct{} // nil: it reaches them
	stalled int           // watches that began before so many stalls tell of nothing
	noLists bool
}

func (v *view) reach(ctx context.Context) error {
	v.mu.Lock()
	cut := v.cut
	v.mu.Unlock()
	if cut == nil {
		return ctx.Err()
	}
	<-ctx.Done()
	return ctx.Err()
}

// cutOff has requests go nowhere, and what is watched end, until the returned function is called.
func (v *view) cutOff() (restore func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cut = make(chan struct{})
	v.tell()
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.cut = nil
	}
}

func (m *memory) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// put stores a Lease in a new version. The caller holds m.mu.
func (m *memory) put(l replicas.Lease) *replicas.Lease {
	m.version++
	l.Version = strconv.Itoa(m.version)
	m.leases[l.Name] = l
	m.events = append(m.events, event{l, false})
	m.tell()
	l.Annotations = maps.Clone(l.Annotations)
	return &l
}

func (v *view) Get(ctx context.Context, name string) (*replicas.Lease, error) {
	if err := v.reach(ctx); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	l, there := v.leases[name]
	if !there {
		return nil, replicas.ErrNotFound
	}
	return &l, nil
}

func (v *view) Create(ctx context.Context, l *replicas.Lease, _ time.Duration) (*replicas.Lease, error) {
	if err := v.reach(ctx); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, there := v.leases[l.Name]; there {
		return nil, replicas.ErrExists
	}
	made := *l
	made.UID = fmt.Sprint("uid-", v.version)
	return v.put(made), nil
}

func (v *view) Change(ctx context.Context, name string, c replicas.Change) (*replicas.Lease, error) {
	if err := v.reach(ctx); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	l, there := v.leases[name]
	switch {
	case !there:
		return nil, replicas.ErrNotFound
	case c.If != nil && *c.If != l.Holder:
		return nil, replicas.ErrChanged
	}
	if c.Holder != nil {
		l.Holder = *c.Holder
	}
	l.Annotations = maps.Clone(l.Annotations)
	maps.Copy(l.Annotations, c.Annotations)
	return v.put(l), nil
}

func (v *view) Delete(ctx context.Context, name, version string) error {
	if err := v.reach(ctx); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	l, there := v.leases[name]
	switch {
	case !there:
		return replicas.ErrNotFound
	case l.Version != version:
		return replicas.ErrChanged
	}
	v.version++
	delete(v.leases, name)
	l.Version = strconv.Itoa(v.version)
	v.events = append(v.events, event{l, true})
	v.tell()
	return nil
}

func (v *view) List(ctx context.Context) ([]replicas.Lease, string, error) {
	if err := v.reach(ctx); err != nil {
		return nil, "", err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.noLists {
		return nil, "", errors.New("there are no lists")
	}
	return slices.Collect(maps.Values(v.leases)), strconv.Itoa(v.version), nil
}

// stall has what is watched by now tell of nothing more, as if nothing happened.
func (v *view) stall(noLists bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stalled++
	v.noLists = noLists
}

func (v *view) Watch(ctx context.Context, version string, each func(replicas.Lease, bool)) error {
	seen, _ := strconv.Atoi(version)
	v.mu.Lock()
	began := v.stalled
	v.mu.Unlock()
	for {
		v.mu.Lock()
		cut, changed, events, stalled := v.cut, v.changed, v.events, v.stalled > began
		v.mu.Unlock()
		if stalled {
			<-ctx.Done()
			return ctx.Err()
		}
		if cut != nil {
			return errors.New("cut off")
		}
		for _, e := range events {
			if n, _ := strconv.Atoi(e.Version); n > seen {
				seen = n
				each(e.Lease, e.deleted)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
