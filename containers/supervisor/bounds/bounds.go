//go:build linux

// Package bounds bounds what comes from a server and what goes to it: settings, texts, paths, the length of an answer.
package bounds

import (
	"encoding/json"
	"io/fs"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Settings are the bounded values of `init`. All parts of a supervisor share them.
type Settings struct {
	protocol.Init
	known bool
}

// Read reads the message `init`, or `bind`.
func (s *Settings) Read(frame []byte) error {
	read := protocol.Init{}
	if err := json.Unmarshal(frame, &read); err != nil {
		return err
	}
	s.Init, s.known = read, true
	if s.WorkDir == "" {
		s.WorkDir = "/mnt/data"
	}
	if s.Env == nil { // a kernel is given no null
		s.Env = map[string]string{}
	}
	// Six bytes of JSON may stand for one of output, and a frame holds five such texts.
	s.OutputBytes = bounded(s.OutputBytes, 256, 200<<10)
	s.SpoolBytes = bounded(s.SpoolBytes, 1, 1<<40)
	s.ImageBytes = bounded(s.ImageBytes, 1, 6<<20-64<<10)
	s.MaxDisplays = bounded(s.MaxDisplays, 1, 1000)
	s.MaxArtifacts = bounded(s.MaxArtifacts, 1, 1000)
	s.Twins = bounded(s.Twins, 0, 16)
	return nil
}

// Bind gives a spare container to a session. The place and the limits of its files stay.
func (s *Settings) Bind(frame []byte) error {
	before := s.Init
	err := s.Read(frame)
	s.WorkDir, s.VolumeBytes, s.VolumeFiles, s.Spare = before.WorkDir, before.VolumeBytes, before.VolumeFiles, false
	return err
}

// bounded returns the number that is nearest to n within the bounds that a supervisor can keep.
func bounded[T int | int64](n, low, high T) T { return min(max(n, low), high) }

// AreKnown reports whether they were read: before that no run begins.
func (s *Settings) AreKnown() bool { return s.known }

// Idle is how long the container stays without a message and a run.
func (s *Settings) Idle() time.Duration { return time.Duration(s.IdleSeconds) * time.Second }

// HasVolumeLimit reports whether the files of the session are limited.
func (s *Settings) HasVolumeLimit() bool { return s.VolumeBytes > 0 || s.VolumeFiles > 0 }

// MaxNamed is the length of a name or a reason.
const MaxNamed = 200

// Clean makes a hostile text one of at most limit bytes of valid UTF-8.
func Clean(said string, limit int) string {
	said = strings.ToValidUTF8(said, "\uFFFD")
	if len(said) <= limit {
		return said
	}
	return text.Clip(said, limit-len("…")) + "…"
}

// Path returns a path that a kernel named, when it is one that may be passed on.
func Path(path string) string {
	if len(path) > 1024 || path == "." || !fs.ValidPath(path) || strings.IndexByte(path, 0) >= 0 {
		return ""
	}
	return path
}

// Pack encodes an answer, with shorter texts where it would be longer than a frame may be: a control
// character takes six bytes of JSON.
func Pack(m *protocol.Done, outputBytes int, report func(limit int) (stdout, stderr protocol.Stream)) []byte {
	m.Stdout, m.Stderr = report(outputBytes)
	body, err := json.Marshal(m)
	if err == nil && len(body) <= protocol.MaxToServer {
		return body
	}
	limit := outputBytes >> 4
	if m.Result != nil {
		short := Clean(*m.Result, limit)
		m.Result = &short
	}
	if m.Error != nil {
		m.Error = &protocol.Error{Name: m.Error.Name, Message: Clean(m.Error.Message, limit), Traceback: Clean(m.Error.Traceback, limit)}
	}
	m.Stdout, m.Stderr = report(limit)
	body, _ = json.Marshal(m)
	return body
}
