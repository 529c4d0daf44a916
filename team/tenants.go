// Principals' services: made at the first request, changed with the policy, forgotten when idle.

package team

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

const (
	// forgetAfter is how long a principal's services stay without an open session or a request.
	forgetAfter = time.Hour
	// changesEach bounds one principal's setting changes, per second and at once.
	changesEach = 10
)

// tenant is one principal with its services.
type tenant struct {
	*server.Services

	turn    sync.Mutex    // held while the settings change; only that waits for it
	changes *rate.Limiter // of the settings; a change costs more than most requests

	// Under the lock of tenants.
	values  values    // of the policy
	groups  []string  // of its policy
	used    time.Time // last
	refused error     // why every request is refused; nil: none is
}

// tenants holds all principals but the owner. Methods are safe for several goroutines.
type tenants struct {
	running *server.Running
	policy  *policy
	making  singleflight.Group // of new principals' services

	mu       sync.Mutex
	live     map[string]*tenant // by principal.Principal.Key
	policies int                // counts the policy's reloads
	closed   bool
}

func newTenants(r *server.Running, p *policy) *tenants {
	return &tenants{running: r, policy: p, live: make(map[string]*tenant)}
}

// settingsOf returns a principal's settings under the present policy, and the policy's values.
func (t *tenants) settingsOf(p principal.Principal) (*server.Program, values, error) {
	t.policy.mu.RLock()
	v := t.policy.now.of(p)
	t.policy.mu.RUnlock()
	s := t.running.Program
	own, err := with(s, v)
	if err != nil {
		return nil, nil, err
	}
	own, err = s.For(p, own)
	return own, v, err
}

// Get implements server.Principals.
func (t *tenants) Get(p principal.Principal) (*server.Services, error) {
	known, isNow := t.known(p)
	if known == nil {
		var err error
		if known, err = t.makeOnce(p); err != nil {
			return nil, err
		}
	} else if isNow {
		return known.Services, nil
	}
	known.turn.Lock()
	defer known.turn.Unlock()
	if _, isNow = t.known(p); !isNow { // another request may have applied it meanwhile
		if t.isClosed() {
			return nil, context.Canceled
		}
		time.Sleep(known.changes.Reserve().Delay())
		if _, err := t.apply(known, p.Groups); err != nil {
			return nil, err
		}
	}
	return known.Services, nil
}

// ByKey implements server.Principals.
func (t *tenants) ByKey(key string) *server.Services {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.live[key]; known != nil {
		return known.Services
	}
	return nil
}

// known returns a principal, nil if it is without services, and reports whether their groups are p's.
func (t *tenants) known(p principal.Principal) (known *tenant, isNow bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known = t.live[p.Key()]; known != nil {
		known.used = time.Now()
		isNow = known.refused == nil && slices.Equal(known.groups, p.Groups)
	}
	return known, isNow
}

func (t *tenants) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// makeOnce is make, shared by simultaneous requests.
func (t *tenants) makeOnce(p principal.Principal) (*tenant, error) {
	made, err, _ := t.making.Do(p.Key(), func() (any, error) { return t.make(p) })
	if err != nil {
		return nil, err
	}
	return made.(*tenant), nil
}

// make makes a principal's first services.
func (t *tenants) make(p principal.Principal) (*tenant, error) {
	key := p.Key()
	t.mu.Lock()
	t.forgetIdle(time.Now())
	known, closed, policies := t.live[key], t.closed, t.policies
	t.mu.Unlock()
	switch {
	case known != nil:
		return known, nil
	case closed:
		return nil, context.Canceled
	}
	s, v, err := t.settingsOf(p)
	if err != nil {
		return nil, err
	}
	services, err := t.running.NewServices(p, s)
	if err != nil {
		return nil, err
	}
	made := &tenant{Services: services, values: v, groups: p.Groups, changes: rate.NewLimiter(changesEach, changesEach), used: time.Now()}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		t.end(made)
		return nil, context.Canceled
	}
	if t.policies != policies { // the policy was reloaded meanwhile
		made.groups, made.refused = nil, errOldPolicy
	}
	t.live[key] = made
	return made, nil
}

var errOldPolicy = errors.New("the policy has changed since")

// end ends a principal's sessions in the background.
func (t *tenants) end(known *tenant) {
	t.running.Close(func() { known.Close(context.WithoutCancel(t.running.Ending)) })
}

// forgetIdle drops principals without an open session or a recent request: a sleeping session needs none. The caller holds t.mu.
func (t *tenants) forgetIdle(now time.Time) {
	for key, known := range t.live {
		stay := max(forgetAfter, server.LinkLifetime) // its links stay good for so long
		if now.Sub(known.used) > stay && len(known.Manager().Known()) == 0 {
			delete(t.live, key)
			t.end(known)
		}
	}
}

// all returns the principals with services.
func (t *tenants) all() []*tenant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.live))
}

// All implements server.Principals.
func (t *tenants) All() []*server.Services {
	var list []*server.Services
	for _, known := range t.all() {
		list = append(list, known.Services)
	}
	return list
}

// Close implements server.Principals.
func (t *tenants) Close(ctx context.Context) bool {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	all := t.all()
	left := make(chan bool, len(all))
	for _, known := range all {
		go func() {
			known.turn.Lock() // until its last change of settings is over
			defer known.turn.Unlock()
			left <- !known.Close(ctx)
		}()
	}
	nothingLeft := true
	for range all {
		nothingLeft = !<-left && nothingLeft
	}
	return nothingLeft
}

// apply applies these groups' policy to a principal, and reports whether it changed. A principal whose policy cannot be applied is
// refused. The caller holds known.turn.
func (t *tenants) apply(known *tenant, groups []string) (changed bool, err error) {
	who := known.Of()
	who.Groups = groups
	s, v, err := t.settingsOf(who)
	if changed = err == nil && !reflect.DeepEqual(v, known.values); changed {
		err = known.Change(s)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known.refused = err; err == nil {
		known.groups, known.values = groups, v
	}
	return changed && err == nil, err
}

// again applies the present policy to a principal, under its present groups.
func (t *tenants) again(known *tenant) (changed bool, err error) {
	known.turn.Lock()
	defer known.turn.Unlock()
	t.mu.Lock()
	groups := known.groups
	t.mu.Unlock()
	return t.apply(known, groups)
}

// reload applies the policy file to all principals. A wrong one has no effect.
func (t *tenants) reload() {
	log, s := t.running.Log, t.running.Program
	now, err := t.policy.read(s)
	if err != nil {
		log.Error("the policy file was not read again; what it said before still counts", "error", err)
		t.record("invalid", map[string]any{})
		return
	}
	s.LearnSecrets(now.everySettings(s)) // before anything uses them
	t.policy.mu.Lock()
	t.policy.now = now
	t.policy.mu.Unlock()
	t.mu.Lock()
	t.policies++
	t.mu.Unlock()
	changed := 0
	for _, known := range t.all() {
		did, err := t.again(known)
		if err != nil {
			log.Error("the policy of a principal cannot be changed; nothing more is done for it until it can", "principal", known.Of().Name, "error", err)
		}
		if did {
			changed++
		}
	}
	log.Info("the policy file was read again", "principals_changed", changed)
	t.record(audit.Success, map[string]any{"principals_changed": changed})
}

// record records that the policy file was read again.
func (t *tenants) record(outcome string, detail map[string]any) {
	detail["file"] = t.policy.file
	if recorder := t.running.Recorder(); recorder != nil {
		recorder.Record(audit.Event{Kind: audit.KindPolicy, Outcome: outcome, Detail: detail})
	}
}
