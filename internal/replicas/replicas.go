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
