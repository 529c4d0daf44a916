package tools

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// MinSecret is the shortest value, in bytes, that is masked: shorter ones occur by chance, and
// masking them would garble ordinary output.
const MinSecret = 6

// Masker replaces secret values in text, as they are and base64- or URL-encoded. A nil Masker
// changes nothing. It is safe for use by several goroutines.
type Masker struct {
	replace *strings.Replacer
	forms   []string // what is looked for, the longest first
}

// NewMasker masks the values of secrets, by name. Values under MinSecret bytes are left out.
func NewMasker(secrets map[string]string) *Masker {
	type pair struct{ from, to string }
	var pairs []pair
	for name, value := range secrets {
		if len(value) < MinSecret {
			continue
		}
		for _, form := range encodings(value) {
			pairs = append(pairs, pair{form, "[masked: " + name + "]"})
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	// The longest first: one secret may be part of another.
	slices.SortFunc(pairs, func(a, b pair) int { return len(b.from) - len(a.from) })
	m := &Masker{}
	var flat []string
	for _, p := range pairs {
		flat = append(flat, p.from, p.to)
		m.forms = append(m.forms, p.from)
	}
	m.replace = strings.NewReplacer(flat...)
	return m
}

// encodings gives the forms in which a value is looked for.
func encodings(value string) []string {
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	if quoted, err := json.Marshal(value); err == nil {
		forms = append(forms, strings.Trim(string(quoted), `"`))
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		forms = append(forms, base64Cores(encoding, value)...)
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// base64Cores gives what a value looks like in base64 inside a longer text, for each of the three
// ways it can lie on the groups of three bytes: the characters that depend on it alone.
func base64Cores(encoding *base64.Encoding, value string) []string {
	var cores []string
	for shift := range 3 {
		padded := strings.Repeat("\x00", shift) + value
		text := encoding.EncodeToString([]byte(padded))
		from := (shift*8 + 5) / 6 // characters that hold bits of what stands before
		to := len(padded) * 8 / 6 // and after
		if to-from >= MinSecret {
			cores = append(cores, text[from:to])
		}
	}
	return cores
}

// Mask replaces every secret in the text.
func (m *Masker) Mask(text string) string {
	if m == nil {
		return text
	}
	return m.replace.Replace(text)
}

// MaskHead masks a text whose end was cut off, where a secret may have been cut in two.
func (m *Masker) MaskHead(text string) string {
	if m == nil {
		return text
	}
	text = m.Mask(text) // whole secrets first: one may end the way that it begins
	keep := len(text)
	for _, form := range m.forms {
		for n := min(len(form)-1, len(text)); n >= minFragment; n-- {
			if strings.HasSuffix(text, form[:n]) {
				keep = min(keep, len(text)-n)
				break
			}
		}
	}
	if keep == len(text) {
		return text
	}
	return text[:keep] + "[masked]"
}

// MaskTail masks a text whose beginning was cut off.
func (m *Masker) MaskTail(text string) string {
	if m == nil {
		return text
	}
	text = m.Mask(text)
	drop := 0
	for _, form := range m.forms {
		for n := min(len(form)-1, len(text)); n >= minFragment; n-- {
			if strings.HasPrefix(text, form[len(form)-n:]) {
				drop = max(drop, n)
				break
			}
		}
	}
	if drop == 0 {
		return text
	}
	return "[masked]" + text[drop:]
}

// minFragment is the shortest part of a secret that is masked at a cut.
const minFragment = 3

func (m *Masker) maskContent(content []mcp.Content) []mcp.Content {
	if m == nil {
		return content
	}
	masked := make([]mcp.Content, len(content))
	for i, c := range content {
		switch part := c.(type) {
		case mcp.TextContent:
			part.Text = m.Mask(part.Text)
			c = part
		case mcp.ResourceLink:
			part.URI, part.Name = m.Mask(part.URI), m.Mask(part.Name)
			c = part
		}
		masked[i] = c
	}
	return masked
}

// maskJSON gives fields with every text in them masked; without secrets, the fields themselves.
func (m *Masker) maskJSON(fields any) any {
	if m == nil {
		return fields
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	var tree any
	if json.Unmarshal(text, &tree) != nil {
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
		for name, value := range t {
			delete(t, name)
			t[m.Mask(name)] = m.maskTree(value)
		}
	}
	return tree
}
