// What a session has, for who comes to it anew: variables, imports and files, by names that say nothing but what they are.

package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

const (
	mostHeld  = 200 // names in a list
	mostMade  = 50  // files
	nameChars = 40
	pathChars = 60
	cardBytes = 400
)

// Holding is what a session has.
type Holding struct {
	Languages []Variables `json:"languages,omitempty"`
	// Files are those that runs have made or changed, the newest first, as far as is known.
	Files []string `json:"files_made,omitempty"`
	// Checkpoint is the last one by name; empty: there is none.
	Checkpoint string `json:"checkpoint,omitempty"`
	name       string // of a named session
}

// Variables are those of a language, and what is imported there.
type Variables struct {
	Language Language `json:"language"`
	// List has names, kinds and shapes, "df DataFrame 1,204 × 8": by turns the newest and the largest.
	List     []string `json:"variables,omitempty"`
	More     int      `json:"more,omitempty"` // that are not in it
	Imported []string `json:"imported,omitempty"`
	Asleep   bool     `json:"asleep,omitempty"` // in a file, until the language's next run
	Busy     bool     `json:"busy,omitempty"`   // a run goes on, and nothing is known
}

// HasPast reports whether a session is there in which something may have happened before this moment. It asks neither the engine nor a
// kernel.
func (m *Manager) HasPast(id string) bool {
	s := m.find(id)
	if s != nil && s.isOpen() {
		return s.place.IsResumed() || len(s.uses.All()) > 0
	}
	return s != nil || !isDefault(id) && state.IsKept(m.conf().StateDir, id)
}

// TakeTurned reports, once, whether a session's variables came from elsewhere than its last run, or were lost.
func (m *Manager) TakeTurned(id string) bool {
	s := m.find(id)
	return s != nil && s.uses.Turned.Swap(false)
}

// Holding describes what a session has that is open here. It runs none of the code's own methods.
func (m *Manager) Holding(ctx context.Context, id string) *Holding {
	h := &Holding{}
	s := m.find(id)
	if s == nil || !s.isOpen() {
		return h
	}
	if s.named {
		h.name = s.id
	}
	for _, c := range s.containers() {
		for _, l := range c.Describe(ctx) {
			if s.interpreters[Language(l.Language)] != nil {
				h.Languages = append(h.Languages, variablesOf(l))
			}
		}
	}
	slices.SortFunc(h.Languages, func(a, b Variables) int { return a.Language.Place() - b.Language.Place() })
	h.Files = s.filesMade()
	return h
}

// variablesOf bounds a supervisor's list. A name that is none of a variable could be a sentence, and only counts.
func variablesOf(l protocol.Holding) Variables {
	v := Variables{Language: Language(l.Language), Asleep: l.Asleep, Busy: l.Busy}
	for _, held := range l.Holds[:min(len(l.Holds), mostHeld)] {
		name, kind := word(held.Name), word(held.Kind)
		switch {
		case name == "":
			continue
		case kind == "" && held.Kind != "":
			kind = "object"
		}
		var shape []string
		for _, n := range held.Shape[:min(len(held.Shape), 4)] {
			shape = append(shape, humanize.Comma(max(n, 0)))
		}
		v.List = append(v.List, strings.TrimSpace(name+" "+kind+" "+strings.Join(shape, " × ")))
	}
	v.More = max(min(l.Total, 1_000_000)-len(v.List), 0)
	for _, name := range l.Imported[:min(len(l.Imported), mostHeld)] {
		module, as, _ := strings.Cut(name, " as ")
		if module, as = word(module), word(as); module != "" {
			v.Imported = append(v.Imported, strings.TrimSuffix(module+" as "+as, " as "))
		}
	}
	return v
}

// word is a name of the code's if it has nothing but the letters of names; else nothing.
func word(name string) string {
	isOther := func(r rune) bool {
		return r == unicode.ReplacementChar || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && !strings.ContainsRune("_$.@/-", r)
	}
	if strings.ContainsFunc(name, isOther) {
		return ""
	}
	return text.Shorten(name, nameChars)
}

// filesMade lists the files that runs have made or changed and that are there, as far as this server or the container knows of them.
func (s *session) filesMade() (files []string) {
	undone, seen := runs.UndoneMarks(s.config.StateDir, s.id), make(map[string]bool)
	note := func(run, path, how string) {
		if seen[path] || undone[runs.FilesOf+run] || len(files) == mostMade {
			return
		}
		seen[path] = true
		isHidden := strings.HasPrefix(path, ".") || strings.Contains(path, "/.") || strings.HasPrefix(path, "input/")
		if how != "removed" && !isHidden {
			files = append(files, shownPath(path))
		}
	}
	for _, run := range slices.Backward(s.uses.All()) {
		if res, _ := run.Result(); res != nil {
			for _, path := range res.Removed {
				note(run.ID, path, "removed")
			}
			for _, a := range res.Artifacts {
				note(run.ID, a.Path, "added")
			}
		}
	}
	for _, c := range s.containers() {
		if v := c.Versions(); v != nil {
			for _, d := range slices.Backward(v.Did) {
				for _, t := range d.Paths {
					note(strings.Join(d.Runs[:min(len(d.Runs), 1)], ""), t.Path, t.How)
				}
			}
		}
	}
	return files
}

// shownPath is a path without what could end a quotation or hide in it, and the end of a long one.
func shownPath(path string) string {
	path = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == '`' {
			return '?'
		}
		return r
	}, path)
	if all := []rune(path); len(all) > pathChars {
		return "…" + string(all[len(all)-pathChars+1:])
	}
	return path
}

// Longest is the length of its longest list.
func (h *Holding) Longest() int {
	most := len(h.Files)
	for _, v := range h.Languages {
		most = max(most, len(v.List), len(v.Imported))
	}
	return most
}

// First returns it with at most so many things in each list.
func (h *Holding) First(most int) *Holding {
	first := *h
	first.Files, first.Languages = h.Files[:min(len(h.Files), most)], slices.Clone(h.Languages)
	for i, v := range h.Languages {
		l := &first.Languages[i]
		l.List, l.Imported = v.List[:min(len(v.List), most)], v.Imported[:min(len(v.Imported), most)]
		l.More += len(v.List) - len(l.List)
	}
	return &first
}

// part is a list on a card.
type part struct {
	title string
	items []string
	total int
	busy  bool
}

// Card is the beginning of it in a sentence of at most 400 bytes, each name quoted as code, with end at its end; empty: there is nothing.
func (h *Holding) Card(end string) string {
	var parts []part
	for _, v := range h.Languages {
		title, what := v.Language.Info().Title, " variables"
		if v.Asleep {
			what += " asleep"
		}
		parts = append(parts, part{title: title + what, items: v.List, total: len(v.List) + v.More}, part{title: title + " imports", items: v.Imported, total: len(v.Imported)})
		if v.Busy {
			parts = append(parts, part{title: "a " + title + " kernel that is busy", busy: true})
		}
	}
	parts = append(parts, part{title: "files", items: h.Files, total: len(h.Files)})
	if h.Checkpoint != "" {
		parts = append(parts, part{title: "the checkpoint", items: []string{shownPath(h.Checkpoint)}, total: 1})
	}
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.total == 0 && !p.busy })
	if len(parts) == 0 {
		return ""
	}
	begin := "Note: this session has "
	if h.name != "" {
		begin = "Note: session " + h.name + " has "
	}
	shown, full := make([]int, len(parts)), make([]bool, len(parts))
	card := cardOf(begin, parts, shown, end)
	for grew := true; grew; {
		grew = false
		for i, p := range parts {
			if full[i] = full[i] || shown[i] == len(p.items); full[i] {
				continue
			}
			shown[i]++
			if longer := cardOf(begin, parts, shown, end); len(longer) <= cardBytes {
				card, grew = longer, true
			} else {
				shown[i]--
				full[i] = true // no shorter one takes its place
			}
		}
	}
	return card
}

// cardOf writes a card with so many items of each part.
func cardOf(begin string, parts []part, shown []int, end string) string {
	var list []string
	for i, p := range parts {
		said := p.title
		if shown[i] > 0 {
			said += " `" + strings.Join(p.items[:shown[i]], "`, `") + "`"
		}
		if more := p.total - shown[i]; more > 0 {
			said += fmt.Sprintf(" +%d", more)
		}
		list = append(list, said)
	}
	return begin + strings.Join(list, "; ") + end
}
