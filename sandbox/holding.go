// What a session has, for who comes to it anew.

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

// Bounds of what comes from the code, in characters, and of the sentence about it.
const (
	nameChars = 40
	pathChars = 60
	mostFiles = 20
	cardBytes = 400
)

// Holding is what a session has.
type Holding struct {
	Languages []Variables `json:"languages,omitempty"`
	// Files are those that the last runs have made or changed, the newest first.
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
	More     int      `json:"more,omitempty"`     // variables
	Imported []string `json:"imported,omitempty"` // "pandas as pd"
	Asleep   bool     `json:"asleep,omitempty"`   // they are in a file until the next run, and their kinds are not known
	Busy     bool     `json:"busy,omitempty"`     // with a run, and nothing is known
}

// HasPast reports whether something may have happened in a session. It asks neither the engine nor a kernel.
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

// Holding describes what a session that is open here has. None of it runs a method of the code's.
func (m *Manager) Holding(ctx context.Context, id string) *Holding {
	h, s := &Holding{}, m.find(id)
	if s == nil || !s.isOpen() {
		return h
	}
	if s.named {
		h.name = s.id
	}
	var did []protocol.Did
	for _, c := range s.containers() {
		for _, l := range c.Describe(ctx) {
			if s.interpreters[Language(l.Language)] != nil {
				h.Languages = append(h.Languages, variablesOf(l))
			}
		}
		if v := c.Versions(); v != nil {
			did = v.Did
		}
	}
	h.Files = filesMade(s.uses.All(), did, runs.UndoneMarks(s.config.StateDir, s.id))
	return h
}

// variablesOf bounds a supervisor's list. What is no name could be a sentence, and only counts.
func variablesOf(l protocol.Holding) Variables {
	v := Variables{Language: Language(l.Language), Asleep: l.Asleep, Busy: l.Busy}
	for _, held := range l.Holds[:min(len(l.Holds), protocol.MaxHeld)] {
		words := []string{word(held.Name), word(held.Kind)}
		for i, n := range held.Shape[:min(len(held.Shape), 4)] {
			words = append(words, []string{"", "×"}[min(i, 1)], humanize.Comma(max(n, 0)))
		}
		if words[0] != "" {
			v.List = append(v.List, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
		}
	}
	v.More = max(min(l.Total, 1e6)-len(v.List), 0)
	for _, name := range l.Imported[:min(len(l.Imported), protocol.MaxHeld)] {
		module, as, _ := strings.Cut(name, " as ")
		if module, as = word(module), word(as); module != "" {
			v.Imported = append(v.Imported, strings.TrimSuffix(module+" as "+as, " as "))
		}
	}
	return v
}

// word is a name, shortened; empty: it has more than the letters of names.
func word(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && !strings.ContainsRune("_$.@/-", r)
	}) {
		return ""
	}
	return text.Shorten(name, nameChars)
}

// filesMade lists the files of runs that are there, as far as their results, and then their container, tell.
func filesMade(last []*Run, did []protocol.Did, undone map[string]bool) (files []string) {
	seen := make(map[string]bool)
	note := func(run, path, how string) {
		if !seen[path] && !undone[runs.FilesOf+run] && how != "removed" && len(files) < mostFiles && !strings.Contains("/"+path, "/.") && !strings.HasPrefix(path, "input/") {
			files = append(files, shownPath(path))
		}
		seen[path] = seen[path] || !undone[runs.FilesOf+run]
	}
	for _, run := range slices.Backward(last) {
		if res, _ := run.Result(); res != nil {
			for _, path := range res.Removed {
				note(run.ID, path, "removed")
			}
			for _, a := range res.Artifacts {
				note(run.ID, a.Path, "")
			}
		}
	}
	for _, d := range slices.Backward(did) {
		for _, t := range d.Paths {
			note(strings.Join(d.Runs[:min(len(d.Runs), 1)], ""), t.Path, t.How)
		}
	}
	return files
}

// shownPath is a text without what could end its quotation or hide in it, and of a long one the end.
func shownPath(path string) string {
	shown := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == '`' {
			return '?'
		}
		return r
	}, path))
	if more := len(shown) - pathChars; more > 0 {
		return "…" + string(shown[more+1:])
	}
	return string(shown)
}

// part is a list on a card.
type part struct {
	title string
	items []string
	total int
}

// Card is the beginning of it in a sentence of at most 400 bytes, each name quoted as code, and end; empty: there is nothing.
func (h *Holding) Card(end string) string {
	var parts []part
	for _, v := range h.Languages {
		title := v.Language.Info().Title
		switch {
		case v.Busy:
			parts = append(parts, part{title + " at work", nil, -1})
		case v.Asleep:
			parts = append(parts, part{title + " variables asleep", v.List, len(v.List) + v.More})
		default:
			parts = append(parts, part{title + " variables", v.List, len(v.List) + v.More}, part{title + " imports", v.Imported, len(v.Imported)})
		}
	}
	parts = append(parts, part{"files", h.Files, len(h.Files)})
	if h.Checkpoint != "" {
		parts = append(parts, part{"the checkpoint", []string{shownPath(h.Checkpoint)}, 1})
	}
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.total == 0 })
	if len(parts) == 0 {
		return ""
	}
	begin := "Note: this session has "
	if h.name != "" {
		begin = "Note: session " + h.name + " has "
	}
	shown := make([]int, len(parts)) // items of each
	card := cardOf(begin, parts, shown, end)
	for grew := true; grew; {
		grew = false
		for i := range parts {
			if shown[i]++; shown[i] <= len(parts[i].items) {
				if longer := cardOf(begin, parts, shown, end); len(longer) <= cardBytes {
					card, grew = longer, true
					continue
				}
				parts[i].items = parts[i].items[:shown[i]-1] // no shorter one takes its place
			}
			shown[i]--
		}
	}
	return card
}

func cardOf(begin string, parts []part, shown []int, end string) string {
	var list []string
	for i, p := range parts {
		if shown[i] > 0 {
			p.title += " `" + strings.Join(p.items[:shown[i]], "`, `") + "`"
		}
		if more := p.total - shown[i]; more > 0 {
			p.title += fmt.Sprintf(" +%d", more)
		}
		list = append(list, p.title)
	}
	return begin + strings.Join(list, "; ") + end
}
