//go:build linux

// What a container asks of its kernels.

package kernels

import (
	"maps"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/guard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Languages are those of the container.
func (s *Set) Languages() []*Language { return s.languages }

// Language returns the language of that name, or nil.
func (s *Set) Language(name string) *Language {
	for _, l := range s.languages {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// Clear removes the copies that an earlier container has left.
func (s *Set) Clear() {
	for _, l := range s.languages {
		l.snapshots.clear()
	}
}

// Init gives kernels that have started already the settings.
func (s *Set) Init() {
	for _, k := range s.all() {
		k.link.Send(k.l.initMessage())
	}
}

// Bind gives kernels the environment of the session that has got the container.
func (s *Set) Bind() {
	bind := map[string]any{"type": "bind", "env": s.Settings.Env}
	for _, k := range s.all() {
		k.link.Send(bind)
	}
	for _, l := range s.languages {
		if z := l.reserve.zygote; z != nil {
			z.link.Send(bind)
		}
	}
}

// Warm starts the interpreters that are there before the first run, side by side: the first language's, those that have frozen
// variables, and those that the server names. An interpreter takes some tens of milliseconds, so the first one does not wait for the
// settings where it need not.
func (s *Set) Warm() {
	s.languages[0].start()
	for _, l := range s.languages {
		if s.Settings.FreezeBytes > 0 && l.frozen.isThere() {
			l.start()
		}
	}
	for _, name := range s.Settings.Warm {
		if l := s.Language(name); l != nil && l.StartsSlowly && !l.awaitsTrust() {
			l.start()
			l.reserve.want()
		}
	}
}

// StartAhead makes the main kernels that nobody has asked for yet, for a while and once, where they take long to start.
func (s *Set) StartAhead() {
	for _, l := range s.languages {
		if l.StartsSlowly && l.main == nil && l.version == "" && l.missing == "" {
			l.start()
			l.ahead = s.After(aheadTime, func() { l.endAhead() })
		}
	}
}

// Start makes the main kernel for a server that asks for it.
func (l *Language) Start() {
	l.use()
	l.missing = "" // it may be there by now
	l.start()
}

// Freeze answers a server that asks for the variables to be written.
func (l *Language) Freeze(id string) { l.frozen.answer(bounds.Clean(id, 64)) }

// For the guards -----------------------------------------------------------------------

// Consumers are the languages, as what takes memory.
func (s *Set) Consumers() (all []guard.Consumer) {
	for _, l := range s.languages {
		all = append(all, guard.Consumer{Name: l.Name, Add: l.addConsumers, LetGo: l.letGo})
	}
	return all
}

// addConsumers adds the processes that the memory of this language's runs is in.
func (l *Language) addConsumers(table procs.Table, all map[int]bool) {
	maps.Copy(all, l.Programs(table))
	for _, k := range l.kernels() {
		if k == l.main || l.set.of(k) != nil {
			all[k.pid] = true
			maps.Copy(all, table.Owned(k.pid))
		}
	}
}

// letGo ends kernels that are only kept ready, one step at a time, and reports whether there were any.
func (l *Language) letGo() bool {
	return l.endAhead() || l.pins.letGo() || l.twins.release() || l.reserve.letGo()
}

// Holders are the processes that code of the session runs in.
func (s *Set) Holders() []int {
	table := procs.Read()
	holders := s.Programs(table)
	for _, k := range s.all() {
		if k.begun { // before that it ran no code, and a newborn process cannot be read
			holders[k.pid] = true
		}
	}
	var pids []int
	for pid := range holders {
		if _, lives := table[pid]; lives {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Writers are the kernels that may write between runs.
func (s *Set) Writers() (all []guard.Writer) {
	for _, k := range s.mains() {
		all = append(all, guard.Writer{PID: k.pid, MayOwn: k.l.mayOwn, End: k.endAsFull})
	}
	return all
}

// DropHolders drops the copies that hold deleted files.
func (s *Set) DropHolders() bool { return s.ofAll(func(p *past) bool { return p.twins.dropHolders() }) }

// DropSnapshots drops the copies that are files.
func (s *Set) DropSnapshots() bool {
	return s.ofAll(func(p *past) bool { return p.snapshots.giveWay() })
}

// ofAll drops something of each language, and reports whether that freed files.
func (s *Set) ofAll(drop func(*past) bool) (freed bool) {
	for _, l := range s.languages {
		freed = drop(l.past) || freed
	}
	return freed
}

// EndAsFull ends the kernels that may have filled the work directory. Others wait for a run, and hold nothing.
func (s *Set) EndAsFull() {
	for _, k := range s.all() {
		if k.begun || s.of(k) != nil {
			k.endAsFull()
		}
	}
}

// The end ----------------------------------------------------------------------------

// IsRetiring reports whether the container ends in order.
func (s *Set) IsRetiring() bool { return s.retiring }

// Keep keeps the variables of all languages, side by side, and then calls end. As the container ends, runs that go on are stopped
// before, and none begins any more.
func (s *Set) Keep(retire bool, end func()) {
	by := (*frozen).freeze
	if retire {
		s.retiring, by = true, (*frozen).retire
	}
	left := len(s.languages)
	for _, l := range s.languages {
		by(l.frozen, func(answer protocol.Frozen) {
			if answer.Error != "" && answer.Error != noVariables {
				s.Server.Log("warn", "the variables of "+l.Name+" were not kept: "+answer.Error)
			}
			l.pins.behind(func() {
				if left--; left == 0 {
					end()
				}
			})
		})
	}
}
