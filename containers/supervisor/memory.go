//go:build linux

package main

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	memoryTick  = 100 * time.Millisecond // between two looks, where the limit is far
	memoryHaste = 5 * time.Millisecond   // and where it is near
	// fastest is how many bytes code may take in a millisecond, about.
	fastest     = 4 << 20
	mostLargest = 5
	roomy       = 512 << 20     // a limit that leaves room for kernels beside those that are used
	memoryError = "MemoryError" // in Python, and for every language where a run is stopped
)

// memoryGuard stops the run that takes the most before the container's limit kills it, so that the variables stay. It looks
// only while a run goes on.
type memoryGuard struct {
	loop
	settings    *settings // nil before init
	browser     *browser.Browser
	consumers   []consumer
	going       func() int // how many runs go on
	stopLargest func()     // interrupts the run that takes the most

	account *procs.Account
	found   bool         // whether there is an account is known
	timer   *timer       // for the next look; nil: none is due
	last    procs.Memory // by the last look
	oomSeen int64        // programs that the system had killed for it when the last run ended
	patient time.Time    // no action until then, as stopped processes may still be ending
	mark    int64        // that the runs that go on may take; 0: not known yet
}

// consumer is a language, whose runs take memory.
type consumer struct {
	name  string
	add   func(table procs.Table, all map[int]bool) // the processes that it is in
	letGo func() bool                               // ends what is only kept ready, and reports whether there was something
}

// beginRun is called when a run gets its kernel. The first look comes a little later: most runs are over by then.
func (g *memoryGuard) beginRun() {
	if g.going() == 1 {
		g.mark = 0
	}
	if g.settings.MemoryBytes > 0 && g.timer == nil {
		g.lookLater()
	}
}

func (g *memoryGuard) lookLater() {
	left := time.Duration((g.limit() - g.last.Bytes()) / fastest)
	g.timer = g.after(min(max(left*time.Millisecond, memoryHaste), memoryTick), g.look)
}

// limit is nine tenths of the container's.
func (g *memoryGuard) limit() int64 { return g.settings.MemoryBytes / 10 * 9 }

func (g *memoryGuard) look() {
	g.timer = nil
	if g.going() == 0 {
		return
	}
	used := g.read().Bytes()
	if g.mark == 0 {
		left := g.settings.MemoryBytes - used
		g.mark = max(g.limit(), used+max(left/2, g.settings.MemoryBytes/50)) // so that it can let variables go
	}
	// Spare kernels go first, and early: it takes a moment until their memory is free.
	letGo := used > g.settings.MemoryBytes/10*8 && g.letGo() || used > g.mark && g.browser.Stop()
	if used > g.mark && !letGo && time.Now().After(g.patient) {
		g.stopLargest()
	}
	g.lookLater()
}

func (g *memoryGuard) letGo() bool {
	return slices.ContainsFunc(g.consumers, func(c consumer) bool { return c.letGo() })
}

// read returns the container's memory: by its account, or else by its processes.
func (g *memoryGuard) read() procs.Memory {
	if !g.found {
		g.account, g.found = procs.FindAccount(g.settings.MemoryBytes), true
	}
	if g.account != nil {
		g.last = g.account.Read()
		return g.last
	}
	table := procs.Read()
	counted := map[int]bool{}
	for _, c := range g.consumers {
		c.add(table, counted)
	}
	maps.Copy(counted, g.browser.Processes(table))
	g.last = procs.Memory{Anonymous: sum(table, counted)}
	return g.last
}

// sum returns the processes' own memory.
func sum(table procs.Table, counted map[int]bool) (all int64) {
	for pid := range counted {
		own := procs.Anonymous(pid)
		if parent := table[pid].Parent; counted[parent] {
			own -= min(own, procs.Anonymous(parent)) // a fork shares its parent's memory
		}
		all += own
	}
	return all
}

// noteKills counts those that are of no run that goes on, so that none is taken for the cause of a later death.
func (g *memoryGuard) noteKills() {
	if g.going() == 0 {
		g.oomSeen = procs.OOMKills()
	}
}

// usage is the container's memory, and the language whose kernels and programs take most of it.
type usage struct {
	procs.Memory
	interpreter string
}

func (g *memoryGuard) usage() usage {
	g.read()
	return g.lastUsage(procs.Read())
}

// lastUsage is usage by the last look.
func (g *memoryGuard) lastUsage(table procs.Table) usage {
	u, most := usage{Memory: g.last}, int64(-1)
	for _, c := range g.consumers {
		counted := map[int]bool{}
		c.add(table, counted)
		if takes := sum(table, counted); takes > most {
			u.interpreter, most = c.name, takes
		}
	}
	return u
}

// hasRoom reports whether kernels may be started that nobody has asked for.
func (g *memoryGuard) hasRoom() bool {
	limit := g.settings.MemoryBytes
	return limit == 0 || limit >= roomy && g.read().Bytes() < limit/2
}

// beside returns the container's memory without a process's, or more than any limit if there is no account.
func (g *memoryGuard) beside(pid int) int64 {
	used := g.read()
	if g.account == nil {
		return math.MaxInt64
	}
	return used.Anonymous - procs.Anonymous(pid)
}

// report returns the memory of a language's run, and the largest variables by its kernel, unless another one took more.
func (g *memoryGuard) report(language string, used usage, largest []protocol.Variable) *protocol.Memory {
	if g.settings.MemoryBytes <= 0 {
		return nil
	}
	if used.interpreter != language {
		largest = nil
	}
	m := &protocol.Memory{UsedBytes: used.Bytes(), LimitBytes: g.settings.MemoryBytes, Interpreter: used.interpreter, Largest: []protocol.Variable{}}
	for _, v := range largest[:min(len(largest), mostLargest)] {
		m.Largest = append(m.Largest, protocol.Variable{Name: clean(v.Name, maxNamed), SizeBytes: max(v.SizeBytes, 0)})
	}
	return m
}

// outOfMemory marks an answer as stopped for memory; the kernel's own error stays.
func (g *memoryGuard) outOfMemory(d *protocol.Done, used procs.Memory) {
	d.Status, d.ExitCode, d.Result, d.Cause = "failed", 1, nil, "memory"
	if d.Error != nil && d.Error.Name == memoryError {
		return
	}
	stopped := &protocol.Error{Name: memoryError, Message: g.describe(used)}
	if d.Error != nil {
		stopped.Traceback = d.Error.Traceback
	}
	d.Error = stopped
}

func (g *memoryGuard) describe(used procs.Memory) string {
	mebibytes := func(n int64) string { return strconv.FormatInt(n>>20, 10) + " MiB" }
	text := "the session took " + mebibytes(used.Bytes()) + " of its " + mebibytes(g.settings.MemoryBytes) + " of memory"
	if used.Shared > used.Bytes()/10 {
		text += ", " + mebibytes(used.Shared) + " of it files in /tmp"
	}
	return text
}
