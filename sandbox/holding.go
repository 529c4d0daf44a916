// What a session has, for who comes to it anew.

package sandbox

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Bounds of what comes from the code, in characters, and of the sentence about it.
const (
	nameChars = 40
	pathBytes = 60
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
	var gone []string
	for _, c := range s.containers() {
		for _, l := range c.Describe(ctx) {
			if s.interpreters[Language(l.Language)] != nil {
				h.Languages = append(h.Languages, variablesOf(l))
			}
		}
		if v := c.Versions(); v != nil {
			did, gone = v.Did, v.Gone
			if n := len(v.Checkpoints); n > 0 {
				h.Checkpoint = v.Checkpoints[n-1].Name
			}
		}
	}
	h.Files = filesMade(did, runs.Marks(s.config.StateDir, s.id).Now().Files, gone)
	return h
}

// variablesOf bounds a supervisor's list.
func variablesOf(l protocol.Holding) Variables {
	v := Variables{Language: Language(l.Language), List: names(l.Holds), Imported: names(l.Imported), Asleep: l.Asleep, Busy: l.Busy}
	v.More = max(min(l.Total, 1e6)-len(v.List), 0)
	return v
}

// held is a variable with its kind and dimensions, or an import. What has more words than that could be a sentence.
var held = regexp.MustCompile(`^[\pL\pM\pN_$.@/-]+( as)?( [\pL\pM\pN_$.]+( [0-9,]+( × [0-9,]+){0,3})?)?$`)

// names returns the texts of that form, with long words shortened.
func names(list []string) (clean []string) {
	for _, said := range list[:min(len(list), protocol.MaxHeld)] {
		if held.MatchString(said) {
			words := strings.Split(said, " ")
			for i, w := range words {
				words[i] = text.Shorten(w, nameChars)
			}
			clean = append(clean, strings.Join(words, " "))
		}
	}
	return clean
}

// filesMade lists the files of runs that are there, and were not undone since, the newest first.
func filesMade(did []protocol.Did, undone map[string]bool, gone []string) (files []string) {
	seen := make(map[string]bool)
	for _, path := range gone {
		seen[path] = true
	}
	for _, d := range slices.Backward(did) {
		if slices.ContainsFunc(d.Runs, func(run string) bool { return undone[run] }) {
			continue
		}
		for _, t := range d.Paths {
			isMade := !seen[t.Path] && t.How != "removed" && !strings.Contains("/"+t.Path, "/.") && !strings.HasPrefix(t.Path, "input/")
			if seen[t.Path] = true; isMade && len(files) < mostFiles && isShown(t.Path) {
				files = append(files, t.Path)
			}
		}
	}
	return files
}

// isShown reports whether a name goes on a card: whole, as a masker knows no part of a secret, and with nothing that could end its quotation
// or hide in it.
func isShown(name string) bool {
	return len(name) <= pathBytes && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == '`' })
}

// part is a list on a card, of so many in all; negative: there is no list.
type part struct {
	title string
	items []string
	total int
}

// Card is the beginning of it in a sentence of at most 400 bytes, each name quoted as code, and end; empty: there is nothing.
func (h *Holding) Card(end string) string {
	var parts []part
	for _, v := range h.Languages {
		title, state, total := v.Language.Info().Title, " variables", len(v.List)+v.More
		switch {
		case v.Asleep:
			state = " variables asleep"
		case v.Busy:
			state = " at work"
		}
		if total == 0 && (v.Asleep || v.Busy) {
			total = -1
		}
		parts = append(parts, part{title + state, v.List, total}, part{title + " imports", v.Imported, len(v.Imported)})
	}
	parts = append(parts, part{"files", h.Files, len(h.Files)})
	if h.Checkpoint != "" && isShown(h.Checkpoint) {
		parts = append(parts, part{"the checkpoint", []string{h.Checkpoint}, 1})
	}
	if parts = slices.DeleteFunc(parts, func(p part) bool { return p.total == 0 }); len(parts) == 0 {
		return ""
	}
	begin := "Note: this session has "
	if h.name != "" {
		begin = "Note: session " + h.name + " has "
	}
	list, left := make([]string, len(parts)), cardBytes-len(begin)-len(end)
	for i, p := range slices.Backward(parts) { // the first has what others leave
		const around, most = len("`, `"), len("` +1000000; ")
		shown, bytes := 0, len(p.title)+most
		for shown < len(p.items) && bytes+around+len(p.items[shown]) <= left/(i+1) {
			bytes += around + len(p.items[shown])
			shown++
		}
		if shown > 0 {
			p.title += " `" + strings.Join(p.items[:shown], "`, `") + "`"
		}
		if more := p.total - shown; more > 0 {
			p.title += fmt.Sprintf(" +%d", more)
		}
		list[i] = p.title
		left -= len(p.title) + len("; ")
	}
	return begin + strings.Join(list, "; ") + end
}
