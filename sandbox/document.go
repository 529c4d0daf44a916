package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// documentPatience bounds the reading of a document; its program ends before.
const documentPatience = time.Minute

// Document is the text of a file of another format.
type Document struct {
	Text     string
	Complete bool // false: there is more
	// LinesLeft is how many more lines a table, or pages an image, is known to contain.
	LinesLeft int64 `json:"lines_left"`
}

// ReadDocument returns the text of a file of an existing session, at most so many bytes of it: a document, a
// notebook, an archive or a file of data, of this MIME type; of an image one that clients take in base64. A program in the session's Python container
// reads it, because the file is hostile. The error is a fault.
func (m *Manager) ReadDocument(ctx context.Context, sessionID string, f File, mime string, most int) (Document, error) {
	s, err := m.open(ctx, sessionID, toResume)
	if err != nil {
		return Document{}, err
	}
	i := s.interpreters[Python]
	if i == nil {
		return Document{}, fault.New(fault.EngineUnavailable, "Read it with code, or switch Python on with --python-image.",
			"Python is switched off, which reads %q.", text.Safe(f.Path, 120))
	}
	if err := s.uses.Enter(); err != nil {
		return Document{}, err
	}
	defer s.uses.Leave()
	if err := s.files.TakeOver(); err != nil { // to read a file ends no kernel
		return Document{}, fault.New(fault.SessionBusy, "Run code first, which begins the kernel anew with the present settings, or read it with code.",
			"The session's Python goes on in a container that was made with other settings or secrets than this server's, and is not ended to read a file.").Because(err)
	}
	if _, err := i.Reachable(ctx); err != nil {
		return Document{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, documentPatience)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	program := s.config.Kernels[Python].Document
	if strings.HasPrefix(mime, "image/") {
		program = s.config.Kernels[Python].Picture
	}
	proc, err := s.place.Exec(ctx, i.Name(), program)
	if err != nil {
		return Document{}, s.files.Fault(ctx, err)
	}
	defer context.AfterFunc(ctx, func() { _ = proc.Close() })()
	defer func() { _ = proc.Close() }()
	a, err := askDocument(proc, f.Path, mime, most)
	switch {
	case ctx.Err() != nil && s.ctx.Err() != nil:
		return Document{}, s.files.Fault(ctx, err)
	case err != nil || a.Error != "":
		s.config.Logger.Debug("document program", "session", s.id, "error", err, "stderr", text.Safe(proc.Stderr(), 2000))
		return Document{}, a.fault(f, mime)
	}
	if len(a.Text) > most {
		a.Text, a.Complete = a.Text[:most], false
	}
	return a.Document, nil
}

type documentAnswer struct {
	Document
	Error  string
	Detail string // hostile text
}

func askDocument(proc engine.Process, path, mime string, most int) (a documentAnswer, err error) {
	request, err := json.Marshal(map[string]any{"work_dir": engine.WorkDir, "path": path, "type": mime, "limit_bytes": most})
	if err != nil {
		return a, err
	}
	if _, err := proc.Write(append(request, '\n')); err != nil {
		return a, err
	}
	// JSON needs at most six bytes for one.
	err = json.NewDecoder(io.LimitReader(proc, 6*int64(most)+4096)).Decode(&a)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) {
		a = documentAnswer{Error: "broken", Detail: "what reads it gave no answer that can be understood"}
	}
	return a, err
}

// fault puts the program's error into words. Without an error, it ended in the middle.
func (a documentAnswer) fault(f File, mime string) *fault.Error {
	name := text.Safe(f.Path, 120)
	switch a.Error {
	case "unsupported":
		message := fmt.Sprintf("%q is %s, which is not given as text. %s", name, mime, text.Safe(a.Detail, 200))
		return fault.New(fault.InvalidArgument, "Leave as out, or read it with code.", "%s", strings.TrimSpace(message))
	case "encrypted":
		return fault.New(fault.InvalidContent, "Ask the user for the password, and open it with code.", "%q is encrypted.", name)
	case "missing":
		return fault.New(fault.ExecutionFailed, "Read it with code, or use an image that has it.", "The Python image has no %s, which reads %q.", text.Safe(a.Detail, 100), name)
	case "broken":
		return fault.New(fault.InvalidContent, "It may be damaged, or be something else than its name says: look at it with code.",
			"%q cannot be read as %s: %s", name, mime, text.Safe(a.Detail, 200))
	}
	return fault.New(fault.ArtifactTooLarge, "Read what is needed of it with code, or make it smaller.", "To read %q would take more memory or time than it may.", name).
		With("size_bytes", f.SizeBytes)
}
