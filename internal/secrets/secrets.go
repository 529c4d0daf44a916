// Package secrets masks the values of secrets in the sandbox's output.
package secrets

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Masker replaces secret values in text: as they are, and as encoders write them (base64, hex, in URLs, in JSON, in HTML, as a language
// quotes its strings). A nil Masker changes nothing. It is safe for several goroutines.
//
// It keeps a secret from slipping into a conversation. Code that means to get one out can always write it in a form of its own.
type Masker struct {
	automata atomic.Pointer[[]*automaton]

	learning sync.Mutex
	learned  map[string]bool // values
}

// New masks the values of secrets, by name, except for those that are not Maskable. It returns nil if none are left.
func New(secrets map[string]string) *Masker {
	automata := automataOf(secrets)
	if automata == nil {
		return nil
	}
	return masking(automata)
}

// Growing is New for a Masker that may learn more; it is never nil.
func Growing(secrets map[string]string) *Masker {
	m := masking(nil)
	m.Learn(secrets)
	return m
}

func masking(automata []*automaton) *Masker {
	m := &Masker{}
	m.automata.Store(&automata)
	return m
}

// Learn adds secrets to a Masker of Growing.
func (m *Masker) Learn(secrets map[string]string) {
	m.learning.Lock()
	defer m.learning.Unlock()
	news := make(map[string]string)
	for name, value := range secrets {
		if !m.learned[value] {
			news[name] = value
		}
	}
	if m.learned == nil {
		m.learned = make(map[string]bool)
	}
	for _, value := range news {
		m.learned[value] = true
	}
	if more := automataOf(news); more != nil {
		all := slices.Concat(m.all(), more)
		m.automata.Store(&all)
	}
}

func (m *Masker) all() []*automaton { return *m.automata.Load() }

func automataOf(secrets map[string]string) []*automaton {
	var texts, digits []pattern
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		t, d := patternsOf(name, secrets[name])
		texts, digits = append(texts, t...), append(digits, d...)
	}
	if len(texts) == 0 {
		return nil
	}
	return []*automaton{newAutomaton(texts, false), newAutomaton(digits, true)}
}

// And returns a Masker of the secrets of both.
func (m *Masker) And(other *Masker) *Masker {
	if m == nil || other == nil {
		return cmp.Or(m, other)
	}
	return masking(slices.Concat(m.all(), other.all()))
}

// Mask replaces every secret in the text.
func (m *Masker) Mask(text string) string { return m.mask(text, whole) }

// MaskHead masks a text with a cut-off end, which may have split a secret.
func (m *Masker) MaskHead(text string) string { return m.mask(text, cut{end: true}) }

// MaskTail masks a text with a cut-off beginning.
func (m *Masker) MaskTail(text string) string { return m.mask(text, cut{beginning: true}) }

// MaskPart masks a part of a longer text. It may be no more than a part of a secret.
func (m *Masker) MaskPart(text string) string { return m.mask(text, cut{beginning: true, end: true}) }

// MaskBytes returns the bytes with an asterisk for each byte of a secret, or the same slice if there is none.
func (m *Masker) MaskBytes(data []byte) []byte {
	if m == nil {
		return data
	}
	spans := m.find(string(data), cut{beginning: true, end: true}, len(data))
	if len(spans) == 0 {
		return data
	}
	data = slices.Clone(data)
	for _, s := range spans {
		for i := s.from; i < s.to; i++ {
			data[i] = '*'
		}
	}
	return data
}

// In reports whether the bytes contain a secret.
func (m *Masker) In(data []byte) bool {
	return m != nil && len(m.find(string(data), whole, len(data))) > 0
}

// Writer masks what is written to w, each Write for itself: a logger writes a record at once.
func (m *Masker) Writer(w io.Writer) io.Writer {
	if m == nil {
		return w
	}
	return maskedWriter{m, w}
}

type maskedWriter struct {
	masker *Masker
	to     io.Writer
}

func (w maskedWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, w.masker.Mask(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// cut reports where a text was cut off.
type cut struct{ beginning, end bool }

var whole cut

// span is the place of a secret, or of a part of one, in a text.
type span struct {
	from, to int
	name     string // of the secret; empty for a part
}

func (s span) replacement() string {
	if s.name == "" {
		return "[masked]"
	}
	return "[masked: " + s.name + "]"
}

func (m *Masker) mask(text string, where cut) string {
	if m == nil {
		return text
	}
	spans := m.find(text, where, len(text))
	if len(spans) == 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(text[at:s.from])
		b.WriteString(s.replacement())
		at = s.to
	}
	b.WriteString(text[at:])
	return b.String()
}

// find returns the spans to mask that begin before a place, in order. Overlapping ones, such as a secret that begins in the middle of
// another, become one span.
func (m *Masker) find(text string, where cut, before int) (spans []span) {
	var all []span
	for _, a := range m.all() {
		if where.beginning {
			if to := a.rest(text, where.end); to > 0 {
				all = append(all, span{to: to})
			}
		}
		found, _ := a.find(text, where)
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	for i, s := range all {
		if s.from < before && (i == 0 || s.from > all[i-1].from) { // the first of several at one place is the longest
			spans = join(spans, s)
		}
	}
	return spans
}

// join adds a span that begins no earlier than the others.
func join(spans []span, s span) []span {
	if len(spans) == 0 || s.from >= spans[len(spans)-1].to {
		return append(spans, s)
	}
	last := &spans[len(spans)-1]
	if last.name == "" {
		last.name = s.name
	}
	last.to = max(last.to, s.to)
	return spans
}

// MaskJSON returns fields with every text in them masked; without secrets, the fields themselves.
func (m *Masker) MaskJSON(fields any) any {
	if m == nil {
		return fields
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // numbers keep their digits
	if decoder.Decode(&tree) != nil {
		return nil
	}
	return m.maskTree(tree)
}

func (m *Masker) maskTree(tree any) any {
	switch t := tree.(type) {
	case string:
		return m.Mask(t)
	case []any:
		for i := range t {
			t[i] = m.maskTree(t[i])
		}
	case map[string]any:
		masked := make(map[string]any, len(t))
		for name, value := range t {
			masked[m.Mask(name)] = m.maskTree(value)
		}
		return masked
	}
	return tree
}
