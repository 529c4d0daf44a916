// The quota of a manager's sessions together: kernels, memory, processors, files.

package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/link"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/stay"
)

// setQuota replaces the quota. Existing kernels go on, and nothing is removed. A limit of the files below Config.VolumeBytes
// bounds a single session only if it comes by Reconfigure, and then only sessions opened later.
func (m *Manager) setQuota(q Quota) { m.quotas.now.Store(&q) }

// quotas enforce the quota of a manager's sessions. A container counts while it runs a kernel that a session uses. The unused one
// that came with a place does not count.
type quotas struct {
	m        *Manager
	now      atomic.Pointer[Quota]
	starting map[*link.Link]bool // under the manager's lock
	disk     disk
}

func newQuotas(m *Manager, q Quota) *quotas {
	all := &quotas{m: m, starting: make(map[*link.Link]bool)}
	all.now.Store(&q)
	all.disk.quotas = all
	return all
}

// Kernels --------------------------------------------------------------------------

// share is the usage of kernels.
type share struct {
	kernels int
	memory  int64
	cpus    float64
}

func (s share) plus(t share) share {
	return share{s.kernels + t.kernels, s.memory + t.memory, s.cpus + t.cpus}
}

func shareOf(kernels int, each SessionLimits) share {
	return share{kernels, int64(kernels) * each.MemoryBytes, float64(kernels) * each.CPUs}
}

// exceeds returns the name of the first exceeded bound and the reason, if one more kernel would exceed it; empty: none.
func exceeds(q *Quota, have, more share) (name, why string, limit any) {
	all := have.plus(more)
	switch {
	case q.MaxKernels > 0 && all.kernels > q.MaxKernels:
		return "kernels", fmt.Sprintf("There are %d kernels, and there may be %d.", have.kernels, q.MaxKernels), q.MaxKernels
	case q.MemoryBytes > 0 && all.memory > q.MemoryBytes:
		return "memory", fmt.Sprintf("The kernels that there are may take %s of memory, one more would take %s, and all together may take %s.",
			runs.Size(have.memory), runs.Size(more.memory), runs.Size(q.MemoryBytes)), q.MemoryBytes
	case q.CPUs > 0 && all.cpus > q.CPUs+1e-9:
		return "cpus", fmt.Sprintf("The kernels that there are may take %v processors, one more would take %v, and all together may take %v.",
			round(have.cpus), round(more.cpus), q.CPUs), q.CPUs
	}
	return "", "", nil
}

func round(n float64) float64 { return float64(int64(n*100+0.5)) / 100 }

// holder is a session with kernels.
type holder struct {
	id     string
	share  share
	idle   time.Duration
	ending *session // the session, if it closes; nil: it stays
}

// admit waits until the quota allows the link a kernel, and makes room for it: the longest idle named session goes first, as with
// too many sessions. leave is called once the kernel started or failed. The error is a fault, or says why ctx ended.
func (q *quotas) admit(ctx context.Context, l *link.Link) (leave func(), err error) {
	q.m.mu.Lock()
	defer q.m.mu.Unlock()
	for {
		most := *q.now.Load()
		if most.MaxKernels == 0 && most.MemoryBytes == 0 && most.CPUs == 0 {
			break
		}
		holders := q.holders(time.Now())
		all, staying := share{}, share{}
		var ending *session
		for _, h := range holders {
			all = all.plus(h.share)
			if h.ending != nil && h.id == l.Place.ID {
				return nil, runs.ErrBeingClosed(h.id)
			}
			if h.ending == nil {
				staying = staying.plus(h.share)
			} else {
				ending = h.ending
			}
		}
		container := l.Place.Limits.Container()
		wants := shareOf(1, SessionLimits{MemoryBytes: container.MemoryBytes, CPUs: container.CPUs})
		if name, _, _ := exceeds(&most, all, wants); name == "" {
			break
		}
		if name, why, limit := exceeds(&most, staying, wants); name != "" {
			if !q.makeRoom(holders, l.Place.ID) {
				return nil, errTooMuch(name, why, limit, holders)
			}
			continue
		}
		q.m.mu.Unlock()
		select {
		case <-ending.gone:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-l.Place.Ctx.Done():
			err = context.Cause(l.Place.Ctx)
		}
		q.m.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	q.starting[l] = true
	return func() {
		q.m.mu.Lock()
		defer q.m.mu.Unlock()
		delete(q.starting, l)
	}, nil
}

// holders returns the sessions with kernels, unordered: open ones of this server, and those that wait for a server. The caller
// holds the manager's lock.
func (q *quotas) holders(now time.Time) []holder {
	var list []holder
	add := func(h holder) {
		if h.share.kernels > 0 {
			list = append(list, h)
		}
	}
	config := q.m.conf()
	for _, s := range q.m.sessions {
		for of := s; of != nil; of = of.before {
			h := holder{id: of.id, share: q.shareOf(of)}
			if of.uses.IsClosing() {
				h.ending = of
			} else {
				h.idle = of.uses.IdleFor(now)
			}
			add(h)
		}
	}
	for id, unused := range q.m.waiting(now) {
		if q.m.sessions[id] != nil || state.OpenElsewhere(config.StateDir, id) {
			continue
		}
		if r := state.LoadRecord(config.StateDir, id); r != nil {
			own := runs.Limits{Rules: &config.Rules}
			own.Restore(r)
			add(holder{id: id, share: shareOf(awake(r, config, nil), runs.InForce(own.Own, &config.Rules)), idle: unused})
		}
	}
	return list
}

// shareOf returns the usage of an open session: its kernels, starting ones, and earlier servers' kernels that are not reached yet.
func (q *quotas) shareOf(s *session) share {
	kernels := 0
	for _, l := range s.links {
		if l.Live() != nil || q.starting[l] {
			kernels++
		}
	}
	if s.named {
		kernels += awake(state.LoadRecord(s.config.StateDir, s.id), s.config, s.interpreters)
	}
	container := s.limits.Container()
	return shareOf(kernels, SessionLimits{MemoryBytes: container.MemoryBytes, CPUs: container.CPUs})
}

// awake counts the containers that earlier servers left, except those of links that once had one. The record may be nil.
func awake(r *state.Record, config *Config, known map[Language]*link.Interpreter) int {
	if r == nil {
		return 0
	}
	names := make(map[Language]bool)
	for language, key := range r.Settings {
		if i := known[Language(language)]; key != "" && (i == nil || !i.Link.Had.Load()) {
			names[config.ContainerOf(Language(language))[0]] = true
		}
	}
	return len(names)
}

// makeRoom begins to end the kernels of a session other than but, and reports whether there was one. The caller holds the
// manager's lock.
func (q *quotas) makeRoom(holders []holder, but string) bool {
	idle := make(map[string]time.Duration)
	for _, h := range holders {
		if h.ending == nil && h.id != but {
			idle[h.id] = h.idle
		}
	}
	longest := slices.SortedFunc(maps.Keys(idle), func(a, b string) int {
		return cmp.Or(cmp.Compare(idle[b], idle[a]), cmp.Compare(a, b))
	})
	return q.m.makeRoom(time.Now()) || q.m.freezeOne(longest, idle)
}

func errTooMuch(name, why string, limit any, holders []holder) *fault.Error {
	slices.SortFunc(holders, func(a, b holder) int { return cmp.Or(cmp.Compare(b.idle, a.idle), cmp.Compare(a.id, b.id)) })
	var names []string
	for _, h := range holders[:min(len(holders), hintedSessions)] {
		names = append(names, fmt.Sprintf("%s (kernels: %d, idle %d s)", h.id, h.share.kernels, int(h.idle.Seconds())))
	}
	hint := "Close one of these with close_session, or use one of them: " + strings.Join(names, ", ") + "."
	if name != "kernels" {
		hint += " A session that begins with lower limits takes less."
	}
	return fault.New(fault.QuotaExceeded, hint, "%s", why).With("quota", name).With("limit", limit)
}

// Files ----------------------------------------------------------------------------

// diskAge is the age at which the sizes of files are outdated: they are measured anew beside a call, not before it.
const diskAge = 5 * time.Second

// disk knows the sizes of the sessions' files.
type disk struct {
	quotas *quotas

	measuring sync.Mutex // held by the one that measures
	mu        sync.Mutex
	sizes     map[string]int64 // nil: not measured yet
	asked     time.Time
}

// checkDisk refuses a possible write of a session while the files of all sessions exceed the bound. The only session with files is
// bounded by its own limit.
func (q *quotas) checkDisk(ctx context.Context, id string) error {
	most := q.now.Load().DiskBytes
	if most == 0 {
		return nil
	}
	d := &q.disk
	sizes, asked := d.known()
	if sizes == nil || !fits(sizes, id, most) {
		began := time.Now()
		d.measuring.Lock()
		if sizes, asked = d.known(); asked.Before(began) {
			sizes = d.measure(ctx)
		}
		d.measuring.Unlock()
	} else {
		d.refresh(asked)
	}
	if fits(sizes, id, most) {
		return nil
	}
	largest := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b))
	})
	var names []string
	for _, id := range largest[:min(len(largest), hintedSessions)] {
		names = append(names, fmt.Sprintf("%s (%s)", id, runs.Size(sizes[id])))
	}
	return fault.New(fault.QuotaExceeded, "Close one of these with close_session, which removes its files; read_artifact still reads what is needed: "+strings.Join(names, ", ")+".",
		"The files and histories of all sessions take %s, and may take %s.", runs.Size(total(sizes)), runs.Size(most)).
		With("quota", "disk").With("limit", most).With("used", total(sizes))
}

// isFull is checkDisk by the last sizes, for callers that cannot wait.
func (q *quotas) isFull(id string) bool {
	if q.now.Load().DiskBytes == 0 {
		return false
	}
	sizes, asked := q.disk.known()
	q.disk.refresh(asked)
	return !fits(sizes, id, q.now.Load().DiskBytes)
}

// refresh measures outdated sizes anew, beside the call.
func (d *disk) refresh(asked time.Time) {
	if time.Since(asked) < diskAge || !d.measuring.TryLock() {
		return
	}
	go func() {
		defer d.measuring.Unlock()
		d.measure(d.quotas.m.ctx)
	}()
}

func total(sizes map[string]int64) (sum int64) {
	for _, n := range sizes {
		sum += n
	}
	return sum
}

func fits(sizes map[string]int64, id string, most int64) bool {
	sum := total(sizes)
	return sum <= most || sum == sizes[id]
}

func (d *disk) known() (map[string]int64, time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sizes, d.asked
}

// measure measures the files. For a session that does not answer it keeps the last size. The caller holds d.measuring.
func (d *disk) measure(ctx context.Context) map[string]int64 {
	before, _ := d.known()
	m := d.quotas.m
	now := make(map[string]int64)
	for id := range state.Uses(m.conf().StateDir) {
		now[id] = stay.Taken(state.LoadRecord(m.conf().StateDir, id))
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, s := range m.all() {
		if !s.isOpen() {
			continue
		}
		asking.Go(func() {
			files := s.size(ctx)
			mu.Lock()
			defer mu.Unlock()
			if files != nil {
				now[s.id] = stay.NameBytes + *files + s.uses.History.Bytes()
			} else if was := before[s.id]; was > 0 {
				now[s.id] = was
			}
		})
	}
	asking.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sizes, d.asked = now, time.Now()
	return now
}
