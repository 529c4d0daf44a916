//go:build linux

// Bounds of messages: texts, paths, the length of an answer.

package main

import (
	"encoding/json"
	"io/fs"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const maxNamed = 200

// clean makes a hostile text one of at most limit bytes of valid UTF-8.
func clean(said string, limit int) string {
	said = strings.ToValidUTF8(said, "\uFFFD")
	if len(said) <= limit {
		return said
	}
	return text.Clip(said, limit-len("…")) + "…"
}

// relativePath returns a path that a kernel named, when it is one that may be passed on.
func relativePath(path string) string {
	if len(path) > 1024 || path == "." || !fs.ValidPath(path) || strings.IndexByte(path, 0) >= 0 {
		return ""
	}
	return path
}

// pack encodes an answer, with shorter texts where it would be longer than a frame may be: a control
// character takes six bytes of JSON.
func pack(m *protocol.Done, outputBytes int, report func(limit int) (stdout, stderr protocol.Stream)) []byte {
	m.Stdout, m.Stderr = report(outputBytes)
	body, err := json.Marshal(m)
	if err == nil && len(body) <= protocol.MaxToServer {
		return body
	}
	limit := outputBytes >> 4
	if m.Result != nil {
		short := clean(*m.Result, limit)
		m.Result = &short
	}
	if m.Error != nil {
		m.Error = &protocol.Error{Name: m.Error.Name, Message: clean(m.Error.Message, limit), Traceback: clean(m.Error.Traceback, limit)}
	}
	m.Stdout, m.Stderr = report(limit)
	body, _ = json.Marshal(m)
	return body
}
