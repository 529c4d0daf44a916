//go:build linux

package guard

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	memoryTick  = 100 * time.Millisecond // between two looks, where the limit is far
	memoryHaste = 5 * time.Millisecond   // and where it is near
	// fastest is how many bytes code may take in a millisecond, about.
	fastest     = 4 << 20
	mostLargest = 5
	roomy       = 512 << 20 // a limit that leaves room for kernels beside those that are used
	// MemoryError is the error's name in Python, and in every language where a run is stopped.
	MemoryError = "MemoryError"
)

// Memory stops the run or program that has taken the most before the container's limit kills something, so that the variables stay.
// It looks only while one goes on.
type Memory struct {
	loop      loop.Loop
	settings  *bounds.Settings
	browser   *browser.Browser
	session   Session
	consumers []Consumer

	account *procs.Account
	found   bool         // whether there is an account is known
	timer   *loop.Timer  // for the next look; nil: none is due
	last    procs.Memory // by the last look
	oomSeen int64        // programs that the system had killed for it when the last run ended
	patient time.Time    // no action until then, as stopped processes may still be ending
	mark    int64        // that the runs that go on may take; 0: not known yet
}

// Consumer is a language, whose runs take memory, or what takes it beside them.
type Consumer struct {
	Name  string
	Add   func(table procs.Table, all map[int]bool) // the processes that it is in
	LetGo func() bool                               // ends what is only kept ready, and reports whether there was something
}

// NewMemory guards nothing yet.
func NewMemory(l loop.Loop, settings *bounds.Settings, pages *browser.Browser) *Memory {
	return &Memory{loop: l, settings: settings, browser: pages, oomSeen: procs.OOMKills()}
}

// Guard begins to guard a session.
func (g *Memory) Guard(session Session, consumers []Consumer) {
	g.session, g.consumers = session, consumers
}

// Begin is called when a run gets its kernel, or a program begins; alone: no other run goes on. The first look comes a little later: most
// are over by then.
func (g *Memory) Begin(alone bool) {
	if alone {
		g.mark = 0
	}
	if g.settings.MemoryBytes > 0 && g.timer == nil {
		g.lookLater()
	}
}

func (g *Memory) lookLater() {
	left := time.Duration((g.limit() - g.last.Bytes()) / fastest)
	g.timer = g.loop.After(min(max(left*time.Millisecond, memoryHaste), memoryTick), g.look)
}

// limit is nine tenths of the container's.
func (g *Memory) limit() int64 { return g.settings.MemoryBytes / 10 * 9 }

func (g *Memory) look() {
	g.timer = nil
	if g.session.IsIdle() {
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
		g.patient = time.Now().Add(g.session.StopLargest())
	}
	g.lookLater()
}

func (g *Memory) letGo() bool {
	return slices.ContainsFunc(g.consumers, func(c Consumer) bool { return c.LetGo() })
}

// read returns the container's memory: by its account, or else by its processes.
func (g *Memory) read() procs.Memory {
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
		c.Add(table, counted)
	}
	maps.Copy(counted, g.browser.Processes(table))
	g.last = procs.Memory{Anonymous: table.Anonymous(counted)}
	return g.last
}

// NoteKills counts those that are of no run that goes on, so that none is taken for the cause of a later death.
func (g *Memory) NoteKills() {
	if !g.session.HasRuns() {
		g.oomSeen = procs.OOMKills()
	}
}

// HasKilled reports whether the system killed a program since the last run ended.
func (g *Memory) HasKilled() bool { return procs.OOMKills() > g.oomSeen }

// Usage is the container's memory, and the language whose kernels and programs take most of it.
type Usage struct {
	procs.Memory
	interpreter string
}

// Usage looks at the memory.
func (g *Memory) Usage() Usage {
	g.read()
	return g.LastUsage(procs.Read())
}

// LastUsage is Usage by the last look.
func (g *Memory) LastUsage(table procs.Table) Usage {
	u, most := Usage{Memory: g.last}, int64(-1)
	for _, c := range g.consumers {
		counted := map[int]bool{}
		c.Add(table, counted)
		if takes := table.Anonymous(counted); takes > most {
			u.interpreter, most = c.Name, takes
		}
	}
	return u
}

// UsageOf is the usage that a language's run was killed over: by the last look, or all, where the system reached the limit first.
func (g *Memory) UsageOf(language string, all bool) Usage {
	last := g.last
	if all {
		last = procs.Memory{Anonymous: g.settings.MemoryBytes}
	}
	return Usage{last, language}
}

// HasRoom reports whether kernels may be started that nobody has asked for.
func (g *Memory) HasRoom() bool {
	limit := g.settings.MemoryBytes
	return limit == 0 || limit >= roomy && g.read().Bytes() < limit/2
}

// Beside returns the container's memory without a process's, or more than any limit if there is no account.
func (g *Memory) Beside(pid int) int64 {
	used := g.read()
	if g.account == nil {
		return math.MaxInt64
	}
	return used.Anonymous - procs.Anonymous(pid)
}

// Report returns the memory of a language's run, and the largest variables by its kernel, unless another one took more.
func (g *Memory) Report(language string, used Usage, largest []protocol.Variable) *protocol.Memory {
	if g.settings.MemoryBytes <= 0 {
		return nil
	}
	if used.interpreter != language {
		largest = nil
	}
	m := &protocol.Memory{UsedBytes: used.Bytes(), LimitBytes: g.settings.MemoryBytes, Interpreter: used.interpreter, Largest: []protocol.Variable{}}
	for _, v := range largest[:min(len(largest), mostLargest)] {
		m.Largest = append(m.Largest, protocol.Variable{Name: bounds.Clean(v.Name, bounds.MaxNamed), SizeBytes: max(v.SizeBytes, 0)})
	}
	return m
}

// OutOfMemory marks an answer as stopped for memory; the kernel's own error stays.
func (g *Memory) OutOfMemory(d *protocol.Done, used Usage) {
	d.Status, d.ExitCode, d.Result, d.Cause = "failed", 1, nil, "memory"
	if d.Error != nil && d.Error.Name == MemoryError {
		return
	}
	stopped := &protocol.Error{Name: MemoryError, Message: g.describe(used.Memory)}
	if d.Error != nil {
		stopped.Traceback = d.Error.Traceback
	}
	d.Error = stopped
}

func (g *Memory) describe(used procs.Memory) string {
	mebibytes := func(n int64) string { return strconv.FormatInt(n>>20, 10) + " MiB" }
	text := "the session took " + mebibytes(used.Bytes()) + " of its " + mebibytes(g.settings.MemoryBytes) + " of memory"
	if used.Shared > used.Bytes()/10 {
		text += ", " + mebibytes(used.Shared) + " of it files in /tmp"
	}
	return text
}
