package runs

import (
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// Secrets are masked as soon as a run's texts arrive, even if the supervisor cut them: answers, histories and notebooks are made
// of masked texts, however they are cut later.

// mask masks the secrets in a result, except in its displays.
func (r *Result) mask(config *Config) {
	m := config.Mask
	if m == nil {
		return
	}
	r.Stdout, r.Stderr = maskedStream(config, r.Stdout, r.Status), maskedStream(config, r.Stderr, r.Status)
	if r.Value != nil {
		value := maskedText(config, *r.Value)
		r.Value = &value
	}
	if r.Error != nil {
		r.Error = &RunError{Name: maskedText(config, r.Error.Name), Message: maskedText(config, r.Error.Message), Traceback: maskedText(config, r.Error.Traceback)}
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
	for _, list := range [][]string{r.GoesOn, r.Notes} {
		for i := range list {
			list[i] = m.Mask(list[i])
		}
	}
	r.Cause = m.Mask(r.Cause)
}

// maskedStream returns a run's stream without secrets. While the run goes on, its code may be about to write the rest of a secret.
func maskedStream(config *Config, s Stream, status Status) Stream {
	m := config.Mask
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

func (d Display) masked(config *Config) Display {
	d.Saved = config.Mask.Mask(d.Saved)
	d.Path, d.Alt = config.Mask.Mask(d.Path), config.Mask.MaskHead(d.Alt) // every alt text may be a cut one
	data := make(map[string][]byte, len(d.Data))
	for mime, content := range d.Data {
		if !isImageData(mime) {
			content = []byte(maskedText(config, string(content)))
		}
		data[config.Mask.Mask(mime)] = content
	}
	d.Data = data
	return d
}

// maskedText masks a text with an end that the supervisor may have cut off.
func maskedText(config *Config, s string) string {
	whole := strings.TrimSuffix(s, "…")
	if len(whole) == len(s) && len(s) < config.OutputBytes-4 {
		return config.Mask.Mask(s)
	}
	return config.Mask.MaskHead(whole) + s[len(whole):]
}

func maskedFault(config *Config, err error) error {
	if err == nil || config.Mask == nil {
		return err
	}
	f := *fault.From(err) // a copy: some are shared
	f.Message, f.Hint = config.Mask.Mask(f.Message), config.Mask.Mask(f.Hint)
	return &f
}
