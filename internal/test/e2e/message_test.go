//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// largestLine is the most that a server may write into one line.
const largestLine = 8 << 20

// message is one line of a server's stdout.
type message struct {
	JSONRPC string
	ID      json.RawMessage // nil in a notification, null where no id could be read
	Method  string
	Params  json.RawMessage
	Result  json.RawMessage
	Error   *rpcError
	line    []byte
}

type rpcError struct {
	Code    int
	Message string
}

// parseMessage takes a line with its end, and says what about it is not a server's JSON-RPC.
func parseMessage(line []byte) (message, error) {
	m := message{line: line}
	if len(line) > largestLine {
		return m, fmt.Errorf("a line of %d bytes", len(line))
	}
	if !utf8.Valid(line) {
		return m, errors.New("not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	if err := decoder.Decode(&m); err != nil {
		return m, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return m, errors.New("more than one value on a line")
	}
	return m, m.check()
}

// check refuses what is neither an answer nor a notification, nor a question to the client's user, which is the only one. A server of
// the stateless era may not ask its client anything.
func (m message) check() error {
	answers := 0
	if m.Result != nil {
		answers++
	}
	if m.Error != nil {
		answers++
	}
	switch {
	case m.JSONRPC != "2.0":
		return fmt.Errorf("jsonrpc is %q", m.JSONRPC)
	case m.Method == "elicitation/create" && m.ID != nil && answers == 0:
	case m.Method != "" && (m.ID != nil || answers > 0):
		return errors.New("a request, or a notification with an answer in it")
	case m.Method == "" && (m.ID == nil || answers != 1):
		return errors.New("neither an answer nor a notification")
	}
	return nil
}

// toolResult is the answer to tools/call.
type toolResult struct {
	Content           []content
	IsError           bool
	StructuredContent json.RawMessage
	ResultType        string
	Meta              struct {
		Run   *runResult   `json:"code-sandbox-mcp/result"`
		Error *errorFields `json:"code-sandbox-mcp/error"`
	} `json:"_meta"`
	line []byte
}

type content struct {
	Type, Text, Data, MimeType string
}

// errorFields is the fields of a coded error.
type errorFields struct {
	Code, Message, Hint string
	LimitBytes          int    `json:"limit_bytes"`
	SizeBytes           int    `json:"size_bytes"`
	DownloadURL         string `json:"download_url"`
}

// runResult is what a run came to, and the fields of the other tools' answers.
type runResult struct {
	SessionID string    `json:"session_id"`
	RunID     string    `json:"run_id"`
	Language  string    `json:"language"`
	Status    string    `json:"status"`
	ExitCode  *int      `json:"exit_code"`
	Stdout    string    `json:"stdout"`
	Stderr    string    `json:"stderr"`
	Result    *string   `json:"result"`
	Error     *runError `json:"error"`
	Artifacts []artifact
}

type runError struct {
	Name, Message, Traceback string
}

type artifact struct {
	Path string `json:"path"`
	// DownloadURL is there with --files-http.
	DownloadURL string `json:"download_url"`
}

// text is what a model reads.
func (r toolResult) text() string {
	var b bytes.Buffer
	for _, c := range r.Content {
		b.WriteString(c.Text)
		if c.Type == "text" {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// images gives the contents that are images.
func (r toolResult) images() []content {
	var images []content
	for _, c := range r.Content {
		if c.Type == "image" {
			images = append(images, c)
		}
	}
	return images
}

// value is the last expression's value, or "" where there is none.
func (r *runResult) value() string {
	if r == nil || r.Result == nil {
		return ""
	}
	return *r.Result
}

// paths lists the artifacts, in the order of the answer.
func (r *runResult) paths() []string {
	paths := make([]string, 0, len(r.Artifacts))
	for _, a := range r.Artifacts {
		paths = append(paths, a.Path)
	}
	return paths
}
