package secrets

import (
	"bytes"
	"io"
)

// Stream masks writes on their way to another writer, also secrets split over several writes. It holds back no more than a possible
// beginning of a secret, so that a stream of events arrives as it comes. It is for one goroutine.
type Stream struct {
	masker    *Masker // nil: nothing is masked
	to        io.Writer
	keepsSize bool
	held      []byte
	covered   int // how much of held belongs to a secret whose replacement was written
}

// Stream returns a stream to w that replaces secrets as Mask does. Close it to write the held part.
func (m *Masker) Stream(w io.Writer) *Stream {
	return &Stream{masker: m, to: w}
}

// StreamBytes returns a stream to w that writes an asterisk for each byte of a secret, so that lengths stay.
func (m *Masker) StreamBytes(w io.Writer) *Stream {
	s := m.Stream(w)
	s.keepsSize = true
	return s
}

// Write masks p and writes all bytes that can no longer be a part of a secret. The error is the other writer's.
func (s *Stream) Write(p []byte) (int, error) {
	if s.masker == nil {
		return s.to.Write(p)
	}
	s.held = append(s.held, p...)
	if err := s.release(s.masker.unfinished(string(s.held))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes the held bytes: at the end of a text, the beginning of a secret is none. It does not close the other writer.
func (s *Stream) Close() error { return s.release(len(s.held)) }

// release writes the held bytes up to a place, with the secrets replaced. It replaces a secret that goes on behind the place now, and
// remembers its rest.
func (s *Stream) release(upTo int) error {
	if upTo == 0 {
		return nil
	}
	covered := span{to: s.covered}
	spans := s.masker.find(string(s.held), whole, upTo)
	for len(spans) > 0 && spans[0].from < covered.to {
		covered.to = max(covered.to, spans[0].to)
		spans = spans[1:]
	}
	out := s.put(nil, min(covered.to, upTo), covered, true)
	at := covered.to
	for _, span := range spans {
		out = append(out, s.held[at:span.from]...)
		out = s.put(out, min(span.to, upTo)-span.from, span, false)
		at = span.to
	}
	if at < upTo {
		out = append(out, s.held[at:upTo]...)
	}
	s.covered = max(0, at-upTo)
	s.held = append(s.held[:0], s.held[upTo:]...)
	if len(out) == 0 {
		return nil
	}
	_, err := s.to.Write(out)
	return err
}

// put adds the replacement of some bytes of a secret. continued: the secret began earlier.
func (s *Stream) put(out []byte, length int, secret span, continued bool) []byte {
	switch {
	case s.keepsSize:
		return append(out, bytes.Repeat([]byte("*"), length)...)
	case continued:
		return out
	}
	return append(out, secret.replacement()...)
}

// unfinished returns the first place of a possible secret that goes on behind the text's end, or the text's length.
func (m *Masker) unfinished(text string) int {
	first := len(text)
	for _, a := range m.all() {
		_, at := a.find(text, whole)
		first = min(first, at)
	}
	return first
}
