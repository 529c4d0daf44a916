//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/output"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// The messages of docs/kernel-protocol.md that a server sends.

type request struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Code      string `json:"code"`
	Fresh     bool   `json:"fresh"`
	TimeoutMS int64  `json:"timeout_ms"`
	GraceMS   int64  `json:"grace_ms"`
	LingerMS  int64  `json:"linger_ms"`
	Reason    string `json:"reason"`
	N         int64  `json:"n"`
}

// And those that it gets.

type readyMessage struct {
	Type     string   `json:"type"`
	Protocol int      `json:"protocol"`
	Language string   `json:"language"`
	Version  string   `json:"version"`
	Features []string `json:"features"`
	Run      string   `json:"run"`
	Runs     []string `json:"runs"`
	Over     []string `json:"over"`
}

type logMessage struct {
	Type    string `json:"type"`
	Level   string `json:"level"`
	Message string `json:"message"`
}

type progressMessage struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	ElapsedMS   int64  `json:"elapsed_ms"`
	StdoutBytes int64  `json:"stdout_bytes"`
	StderrBytes int64  `json:"stderr_bytes"`
	LastLine    string `json:"last_line"`
}

type displayMessage struct {
	Type      string            `json:"type"`
	ID        string            `json:"id"`
	Data      map[string]string `json:"data"`
	Path      string            `json:"path,omitempty"`
	SizeBytes int64             `json:"size_bytes"`
	Alt       string            `json:"alt"`
}

type peekMessage struct {
	Type      string        `json:"type"`
	ID        string        `json:"id"`
	Stdout    output.Report `json:"stdout"`
	Stderr    output.Report `json:"stderr"`
	ElapsedMS int64         `json:"elapsed_ms"`
}

type errorMessage struct {
	Name      string `json:"name"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
}

type artifactMessage struct {
	Path       string `json:"path"`
	SizeBytes  int64  `json:"size_bytes"`
	ModifiedMS int64  `json:"modified_ms"`
}

type doneMessage struct {
	Type           string            `json:"type"`
	ID             string            `json:"id"`
	Status         string            `json:"status"`
	ExitCode       int               `json:"exit_code"`
	Result         *string           `json:"result"`
	Error          *errorMessage     `json:"error"`
	Stdout         output.Report     `json:"stdout"`
	Stderr         output.Report     `json:"stderr"`
	Artifacts      []artifactMessage `json:"artifacts"`
	ArtifactsTotal int               `json:"artifacts_total"`
	DisplaysTotal  int               `json:"displays_total"`
	DurationMS     int64             `json:"duration_ms"`
	Cause          string            `json:"cause"`
	Kernel         string            `json:"kernel"`
	Background     []background      `json:"background"`
	GoesOn         []string          `json:"goes_on"`
}

// background is what runs that are over have printed since the last answer.
type background struct {
	Path         string `json:"path"`
	Text         string `json:"text"`
	OmittedBytes int64  `json:"omitted_bytes"`
}

type kernelMessage struct {
	Type  string `json:"type"`
	State string `json:"state"`
	Cause string `json:"cause"`
}

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
	if path == "" || len(path) > 1024 || !utf8.ValidString(path) || strings.IndexByte(path, 0) >= 0 {
		return ""
	}
	for _, part := range strings.Split(path, "/") {
		if part == "" || part == "." || part == ".." {
			return ""
		}
	}
	return path
}

// pack encodes an answer, with shorter texts where it would be longer than a frame may be: a control
// character takes six bytes of JSON.
func (m *doneMessage) pack(outputBytes int, report func(limit int) (stdout, stderr output.Report)) []byte {
	m.Stdout, m.Stderr = report(outputBytes)
	body, err := json.Marshal(m)
	if err == nil && len(body) <= maxToServer {
		return body
	}
	limit := outputBytes >> 4
	if m.Result != nil {
		short := clean(*m.Result, limit)
		m.Result = &short
	}
	if m.Error != nil {
		m.Error = &errorMessage{m.Error.Name, clean(m.Error.Message, limit), clean(m.Error.Traceback, limit)}
	}
	m.Stdout, m.Stderr = report(limit)
	body, _ = json.Marshal(m)
	return body
}
