// Package replicas has several servers, of which each may be a pod, work as one: each session is one server's, and when a server
// dies another goes on with its sessions within 5 s.
//
// Start with Join. Every replica has a Lease of its own, which it renews. Every session has one that says which replica has it, and
// what a server needs to go on with it: that is the session's lock (state.Cluster). It is good as long as its holder's own Lease is
// there.
//
// What it promises:
//
//   - A replica is dead when another one has removed its Lease, which is done where that has not changed for deadAfter by the
//     clock of who looks: no two machines' clocks are compared. It is removed in the version that was seen, so of a renewal and a
//     removal at the same time one fails. Who finds its own Lease gone has no session any more, and must end at once (Options.Lost).
//   - A replica that could not renew its Lease for stopAfter, which is less, does nothing (Ready) until it can again. Where nobody can, as
//     when the API server is restarted, nobody is removed, and all go on afterwards with what they had.
//   - What is written of a session is written where its Lease names this replica, in one step. So one that was paused writes
//     nothing to a session that has another server by now.
package replicas

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// The times that together keep the promise of 5 s. A Lease is renewed at the latest stopAfter-renewEvery after it could have been.
const (
	renewEvery = time.Second
	stopAfter  = 3 * time.Second
	deadAfter  = 4 * time.Second
	// lookEvery is how often others' Leases are looked at, in memory.
	lookEvery = 100 * time.Millisecond
	// blindAfter is when who does not see its own renewals does not judge others.
	blindAfter = 2 * time.Second
	// requestTime is what one request to the API may take.
	requestTime = 2500 * time.Millisecond
	// closeTime is what a request may take that a server's end waits for.
	closeTime = 500 * time.Millisecond
	// againAfter is when what could not be had of the API is asked for again.
	againAfter = 200 * time.Millisecond
)

// Labels and annotations of our Leases. What is in labels is hashed: they take 63 characters of few kinds.
const (
	prefix      = "code-sandbox-mcp."
	labelGroup  = prefix + "replicas"
	labelLease  = prefix + "lease" // which of the two it is
	ofReplica   = "replica"
	ofSession   = "session"
	noteAddress = prefix + "address"
	noteDrains  = prefix + "drains"
	noteKey     = prefix + "key"
	noteGroup   = prefix + "group"
	noteTenant  = prefix + "tenant"
	noteID      = prefix + "session"
)

// parts are what is kept of a session, each in an annotation of its own.
var parts = []string{state.PartMark, state.PartUsed, state.PartRecord, state.PartPinned}

// Lease is what is used of one.
type Lease struct {
	Name, UID, Version  string
	Labels, Annotations map[string]string
	Holder              string
}

// Change is of a Lease. Nothing of it is done where the Lease is not as it says.
type Change struct {
	If          *string           // the holder that it must have; nil: any
	Holder      *string           // that it gets; nil: the same
	Annotations map[string]string // that are set; empty: taken away
}

// Errors of Leases.
var (
	ErrNotFound = errors.New("there is no such Lease")
	ErrExists   = errors.New("there is such a Lease already")
	ErrChanged  = errors.New("the Lease is not as it was") // a Change's If, or a version
)

// Leases are a group's in a namespace, at the API server. Its methods may be called from any goroutine.
type Leases interface {
	Get(ctx context.Context, name string) (*Lease, error)
	Create(ctx context.Context, l *Lease, lasts time.Duration) (*Lease, error)
	// Change changes a Lease that is there, and has it say that it was renewed.
	Change(ctx context.Context, name string, c Change) (*Lease, error)
	// Delete removes a Lease in this version.
	Delete(ctx context.Context, name, version string) error
	// List returns all, and the version that Watch goes on from.
	List(ctx context.Context) (all []Lease, version string, err error)
	// Watch reports changes until ctx ends, or the API server ends it, and returns why it ended.
	Watch(ctx context.Context, version string, each func(l Lease, deleted bool)) error
}

// Options say who a replica is.
type Options struct {
	Leases Leases
	// Group is what all replicas are called together.
	Group string
	// Name tells this process from all others; see NewName.
	Name string
	// Address is where other replicas reach this one, as host:port; empty: it is a command, which serves nothing, and beside which a
	// replica may use the same folder.
	Address string
	// StateDir is the server's own state directory, whose sessions are shared. It must be on no disk that another replica uses.
	StateDir string
	// Counts reports whether a session counts for where its tenant is served. Nil: each does.
	Counts func(tenant, id string) bool
	// Lost is called once, when others have taken over what this replica had. It should end the process.
	Lost   func()
	Logger *slog.Logger
}

// NewName returns a name for this process in a pod.
func NewName(pod string) string { return state.NewID(pod + "_") }

// Replicas are those of a group, as one of them sees them. Its methods may be called from any goroutine.
type Replicas struct {
	o       Options
	key     string // that other replicas show with what they hand on to this one
	began   time.Time
	renewed atomic.Int64 // when the last renewal that was done had begun, after began
	drains  atomic.Bool
	ctx     context.Context
	stop    context.CancelFunc
	working sync.WaitGroup

	mu       sync.Mutex
	seen     *sync.Cond // an event has come
	version  uint64     // of the newest event
	endWatch func()     // has all listed again
	peers    map[string]*peer
	sessions map[string]session // by their Leases' names
	wrote    map[string]written // by the same

	// What could not be let go of yet, by the Leases' names.
	letting sync.Mutex
	undone  map[string]func(context.Context) error
}

// peer is a replica that lives.
type peer struct {
	name, address, key string
	drains             bool
	version            string
	changed            time.Time     // when this was seen
	gone               chan struct{} // closed when it is dead, or has ended
}

// session is one that has a Lease.
type session struct {
	tenant, id, holder string
	uid                string
}

// written is what this replica has written last of a Lease. What a watch tells of earlier ones is old.
type written struct {
	uid     string
	version uint64
	removed bool
}

// Join makes this process one of a group's replicas, and has the sessions of its state directory taken there.
func Join(ctx context.Context, o Options) (*Replicas, error) {
	r := &Replicas{
		o: o, key: rand.Text(), began: time.Now(), peers: make(map[string]*peer), sessions: make(map[string]session),
		wrote: make(map[string]written), endWatch: func() {}, undone: make(map[string]func(context.Context) error),
	}
	r.seen = sync.NewCond(&r.mu)
	asked, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if _, err := o.Leases.Create(asked, &Lease{
		Name: leaseOf(o.Group, o.Name), Holder: o.Name,
		Labels: r.labels(ofReplica), Annotations: map[string]string{noteGroup: o.Group, noteAddress: o.Address, noteKey: r.key},
	}, deadAfter); err != nil {
		return nil, err
	}
	r.ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	// What an earlier process of this folder knew, and nobody does any more.
	old := make(map[string][]string)
	for _, tenant := range append(state.Tenants(o.StateDir), "") {
		if r.isCommand() {
			break
		}
		old[tenant] = state.IDs(state.TenantDir(o.StateDir, tenant))
	}
	version, err := r.list(asked)
	if err != nil {
		r.Leave(ctx)
		return nil, err
	}
	for tenant, ids := range old {
		for _, id := range ids {
			if _, there := r.sessions[r.leaseOf(tenant, id)]; !there {
				err = errors.Join(err, state.Hide(o.StateDir, tenant, id))
			}
		}
	}
	if err != nil {
		r.Leave(ctx)
		return nil, err
	}
	r.working.Go(r.renew)
	r.working.Go(func() { r.follow(version) })
	r.working.Go(r.judge)
	state.Share(o.StateDir, r)
	return r, nil
}

func (r *Replicas) isCommand() bool { return r.o.Address == "" }

func (r *Replicas) labels(of string) map[string]string {
	return map[string]string{labelGroup: hash(r.o.Group), labelLease: of}
}

func hash(texts ...string) string {
	sum := sha256.New()
	for _, text := range texts {
		sum.Write([]byte(text + "\x00"))
	}
	return hex.EncodeToString(sum.Sum(nil))[:32]
}

func leaseOf(group, replica string) string { return "csm-replica-" + hash(group, replica) }

// leaseOf returns the name of a session's Lease.
func (r *Replicas) leaseOf(tenant, id string) string {
	return "csm-session-" + hash(r.o.Group, tenant, id)
}

// Leave takes this replica out of the group: what it has not released is free at once.
func (r *Replicas) Leave(ctx context.Context) {
	state.Share(r.o.StateDir, nil)
	r.stop()
	r.working.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	r.catchUp(ctx)
	if err := r.delete(ctx, leaseOf(r.o.Group, r.o.Name)); err != nil {
		r.o.Logger.Warn("leave the other replicas", "error", err)
	}
}

// Withdraw removes this replica's address, so other replicas route no requests here.
func (r *Replicas) Withdraw() { _ = r.say(noteAddress, "", closeTime) }

// Drain stops (or resumes) accepting tenants without a session here.
func (r *Replicas) Drain(on bool) {
	text := ""
	if on {
		text = "true"
	}
	if on != r.drains.Load() && r.say(noteDrains, text, requestTime) == nil {
		r.drains.Store(on)
	}
}

// say has this replica's own Lease say something.
func (r *Replicas) say(note, text string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(r.ctx, within)
	defer cancel()
	l, err := r.o.Leases.Change(ctx, leaseOf(r.o.Group, r.o.Name), Change{If: &r.o.Name, Annotations: map[string]string{note: text}})
	if err == nil {
		r.note(*l, false)
	}
	return err
}

// Staying alive ----------------------------------------------------------------------

// isReady reports whether no other replica can have what this one has.
func (r *Replicas) isReady() bool {
	return time.Since(r.began)-time.Duration(r.renewed.Load()) < stopAfter
}

// Ready waits until no other replica can have what this one has, for as long as ctx lasts: what is done for a session comes after it.
func (r *Replicas) Ready(ctx context.Context) error {
	for !r.isReady() {
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return errors.New("this replica cannot renew its Lease: " + ctx.Err().Error())
		}
	}
	return nil
}

// renew renews this replica's Lease until it leaves.
func (r *Replicas) renew() {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return
		}
		began := time.Since(r.began)
		ctx, cancel := context.WithTimeout(r.ctx, requestTime)
		_, err := r.o.Leases.Change(ctx, leaseOf(r.o.Group, r.o.Name), Change{If: &r.o.Name})
		switch {
		case err == nil:
			if !r.isReady() {
				r.o.Logger.Info("this replica goes on: its Lease is renewed")
			}
			r.renewed.Store(int64(began))
			r.catchUp(ctx)
		case r.ctx.Err() != nil:
		case isOver(err):
			cancel()
			r.o.Logger.Error("other replicas have taken over what this one had, because it did not renew its Lease in time: it ends")
			r.o.Lost()
			return
		default:
			r.o.Logger.Warn("renew this replica's Lease", "serves", r.isReady(), "error", err)
		}
		cancel()
	}
}

// judge removes the Leases of replicas that are dead until this one leaves.
func (r *Replicas) judge() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	blind, looked := false, time.Time{}
	for {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return
		}
		r.mu.Lock()
		now := time.Now()
		var dead []peer
		if own := r.peers[r.o.Name]; own == nil || now.Sub(own.changed) > blindAfter {
			if now.Sub(looked) > blindAfter {
				looked = now
				r.endWatch() // it may have stalled; all are listed again
			}
			blind = true
		} else if blind {
			blind = false
			for _, p := range r.peers {
				p.changed = now // how long it has been so is not known
			}
		} else {
			for _, p := range r.peers {
				if p.name != r.o.Name && now.Sub(p.changed) >= deadAfter {
					p.changed = now.Add(againAfter - deadAfter)
					dead = append(dead, *p)
				}
			}
		}
		r.mu.Unlock()
		for _, p := range dead {
			r.bury(p)
		}
	}
}

func (r *Replicas) bury(p peer) {
	ctx, cancel := context.WithTimeout(r.ctx, requestTime)
	defer cancel()
	name := leaseOf(r.o.Group, p.name)
	switch err := r.o.Leases.Delete(ctx, name, p.version); {
	case err == nil:
		r.o.Logger.Warn("a replica is dead", "replica", p.name, "address", p.address)
		fallthrough
	case errors.Is(err, ErrNotFound):
		r.mu.Lock()
		r.drop(p.name)
		r.mu.Unlock()
	case errors.Is(err, ErrChanged): // it lives; a watch will tell
	default:
		r.o.Logger.Warn("remove the Lease of a replica that is dead", "replica", p.name, "error", err)
	}
}

// drop forgets a replica. The caller holds r.mu.
func (r *Replicas) drop(name string) {
	if p := r.peers[name]; p != nil {
		close(p.gone)
		delete(r.peers, name)
	}
}

// Seeing the others -------------------------------------------------------------------

// follow keeps what is known of the others current until this replica leaves.
func (r *Replicas) follow(version string) {
	for {
		ctx, cancel := context.WithCancel(r.ctx)
		r.mu.Lock()
		r.endWatch = cancel
		r.mu.Unlock()
		err := r.o.Leases.Watch(ctx, version, r.note)
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
	r.advance(versionOf(version))
	return version, nil
}

func versionOf(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

// advance notes that all until a version has been seen. The caller holds r.mu.
func (r *Replicas) advance(version uint64) {
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
	version := versionOf(l.Version)
	defer r.advance(version)
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
	case !r.isNewer(l.Name, l.UID, version):
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

// kept returns what a Lease keeps of its session.
func kept(l *Lease) state.Parts {
	kept := make(state.Parts)
	for _, part := range parts {
		kept[part] = l.Annotations[prefix+part]
	}
	return kept
}

// Sessions -----------------------------------------------------------------------------

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
