package runs

import (
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// Secrets are masked as soon as a run's texts arrive, even if the supervisor cut them: answers, histories and notebooks are made
// of masked texts, however they are cut later.

// mask masks the secrets in a result, except in its displays.
func (r *Result) mask(rules *Rules) {
	m := rules.Mask
	if m == nil {
		return
	}
	r.Stdout, r.Stderr = maskedStream(rules, r.Stdout, r.Status), maskedStream(rules, r.Stderr, r.Status)
	if r.Value != nil {
		value := maskedText(rules, *r.Value)
		r.Value = &value
	}
	if r.Error != nil {
		r.Error = &RunError{Name: maskedText(rules, r.Error.Name), Message: maskedText(rules, r.Error.Message), Traceback: maskedText(rules, r.Error.Traceback)}
	}
	for i := range r.Artifacts {
		r.Artifacts[i].Path = m.Mask(r.Artifacts[i].Path)
	}
	for i, b := range r.Background {
		text := m.MaskHead(b.Text)
		if b.OmittedBytes > 0 {
			text = m.MaskPart(b.Text)
		}
		r.Background[i].Path, r.Background[i].Text = m.Mask(b.Path), text
	}
	for _, list := range [][]string{r.GoesOn, r.Notes, r.Removed} {
		for i := range list {
			list[i] = m.Mask(list[i])
		}
	}
	r.Cause = m.Mask(r.Cause)
}

// maskedStream returns a run's stream without secrets. While the run goes on, its code may be about to write the rest of a secret.
func maskedStream(rules *Rules, s Stream, status Status) Stream {
	m := rules.Mask
	s.Path = m.Mask(s.Path)
	switch {
	case status == Running:
		s.Head, s.Tail = m.MaskHead(s.Head), m.MaskPart(s.Tail)
	case s.Truncated():
		s.Head, s.Tail = m.MaskHead(s.Head), m.MaskTail(s.Tail)
	default:
		s.Head = m.Mask(s.Head)
	}
	return s
}

func (d Display) masked(rules *Rules) Display {
	d.Saved = rules.Mask.Mask(d.Saved)
	d.Path, d.Alt = rules.Mask.Mask(d.Path), rules.Mask.MaskHead(d.Alt) // every alt text may be a cut one
	data := make(map[string][]byte, len(d.Data))
	for mime, content := range d.Data {
		if !isImageData(mime) {
			content = []byte(maskedText(rules, string(content)))
		}
		data[rules.Mask.Mask(mime)] = content
	}
	d.Data = data
	return d
}

// maskedText masks a text with an end that the supervisor may have cut off.
func maskedText(rules *Rules, s string) string {
	whole := strings.TrimSuffix(s, "…")
	if len(whole) == len(s) && len(s) < rules.OutputBytes-4 {
		return rules.Mask.Mask(s)
	}
	return rules.Mask.MaskHead(whole) + s[len(whole):]
}

func maskedFault(rules *Rules, err error) error {
	if err == nil || rules.Mask == nil {
		return err
	}
	f := *fault.From(err) // a copy: some are shared
	f.Message, f.Hint = rules.Mask.Mask(f.Message), rules.Mask.Mask(f.Hint)
	return &f
}
