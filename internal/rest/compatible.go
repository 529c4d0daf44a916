// What the endpoints of other systems have in common.

package rest

import (
	"context"
	"errors"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// foreign is another system's API in its shapes, over the same sessions.
type foreign struct {
	prefix string // of its paths; empty: they stand beside /v1
	routes []route
	// refusal makes that system's error of ours.
	refusal func(fields map[string]any)
}

func foreigns() []foreign { return []foreign{librechat(), openTerminal(), codebox()} } // the one without a prefix is the last

// foreignOf finds the API that a path belongs to; nil: it is ours.
func foreignOf(path string) *foreign {
	if path == "/v1" || strings.HasPrefix(path, "/v1/") {
		return nil
	}
	for _, api := range foreigns() {
		if strings.HasPrefix(path, api.prefix+"/") {
			return &api
		}
	}
	return nil
}

// AcceptKey has a request of LibreChat's, which shows the token in a header of its own, show it as all others do. It is for the
// transport in front to call before it asks who somebody is; a request that shows one already is left as it is.
func AcceptKey(r *http.Request) {
	if key := r.Header.Get("X-API-Key"); key != "" && r.Header.Get("Authorization") == "" && strings.HasPrefix(r.URL.Path, librechatPath+"/") {
		r.Header.Set("Authorization", "Bearer "+key)
	}
}

// sentence is an error as systems have it that have one text for it.
func sentence(fields map[string]any) string {
	message, _ := fields["message"].(string)
	hint, _ := fields["hint"].(string)
	return strings.TrimSpace(message + " " + hint)
}

// ran runs code in an interpreter of its own, behind other code of ours, for a time if that is above 0, and waits for its end; a client
// that goes away interrupts it.
func (s *Server) ran(ctx context.Context, session string, language sandbox.LanguageInfo, before, code string, timeout time.Duration) (*sandbox.Result, error) {
	given := make(arguments)
	given.set("fresh", true)
	if timeout > 0 {
		given.set("timeout_seconds", timeout.Seconds())
	}
	run, err := s.begun(ctx, session, language, before, code, given)
	if err != nil {
		return nil, err
	}
	select {
	case <-run.Done():
		return run.Result()
	case <-ctx.Done():
		run.Interrupt()
		return nil, context.Cause(ctx)
	}
}

// begun begins to run code, behind other code of ours.
func (s *Server) begun(ctx context.Context, session string, language sandbox.LanguageInfo, before, code string, given arguments) (*sandbox.Run, error) {
	given.set("code", code)
	given.set("session_id", session)
	o, err := s.call(tools.WithBefore(tools.WithWait(ctx, 0), before), language.Tool(), given)
	switch {
	case err != nil:
		return nil, err
	case o.fields == nil && o.fault != nil:
		return nil, faultOf(o.fault)
	}
	return s.manager.FindRun(o.members().text("run_id"))
}

// part reads a stream from an offset, at most so many bytes, and returns where it ended: from the file with all of it where the result
// has only some. The error is that there is no room.
func (s *Server) part(ctx context.Context, session string, of sandbox.Stream, offset, most int64) (text string, next int64, err error) {
	if _, err := room.Take(ctx, textRoom(min(most, max(0, of.Bytes-offset)))); err != nil {
		return "", 0, err
	}
	if !of.Truncated() {
		offset = min(offset, int64(len(of.Head)))
		next = min(int64(len(of.Head)), offset+most)
		return strings.ToValidUTF8(of.Head[offset:next], "\ufffd"), next, nil
	}
	file, err := s.manager.OpenFile(ctx, session, of.Path, sandbox.ReadOptions{Offset: offset, Limit: most})
	if err == nil {
		defer func() { _ = file.Close() }()
		var raw []byte
		if raw, err = io.ReadAll(file); err == nil {
			return s.secrets.Mask(strings.ToValidUTF8(string(raw), "\ufffd")), offset + int64(len(raw)), nil
		}
	}
	return of.Head + "\n…\n" + of.Tail, of.Bytes, nil
}

// What answers take, in bytes.
const (
	jsonRoom  = 12  // a byte of a text as JSON, of a control character \u0000, in a buffer that has grown
	entryRoom = 512 // a file in a list, and its times and sizes in JSON
	// replaceRoom is that of a text of a file, the one in its place, and the parts on the way.
	replaceRoom = 4 * maxTerminalText
)

// textRoom is what a text of a length takes until it is answered: as it is read, as a text, masked, and as JSON twice.
func textRoom(length int64) int64 { return (4 + 2*jsonRoom) * length }

// eachFile visits the files of a form. Their names may have folders. What is wrong with their content is a fault.
func (s *Server) eachFile(w http.ResponseWriter, r *http.Request, visit func(name string, content io.Reader) error) error {
	_, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || parameters["boundary"] == "" {
		return errForm(err)
	}
	if _, err := room.Take(r.Context(), headsRoom); err != nil {
		return err
	}
	heads := &formHeads{Reader: s.links.Paced(w, r.Body)}
	form := multipart.NewReader(heads, parameters["boundary"])
	for {
		heads.left = maxFormHead
		part, err := form.NextPart()
		heads.left = math.MaxInt64
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errForm(err)
		}
		_, of, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		file := &formFile{part, s.uploadBytes, s.uploadBytes}
		if of["filename"] != "" { // else who it is for: whoever asks has sessions of its own
			err = visit(of["filename"], file)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, file) // or the next head could not be told from it
		}
		if err != nil {
			return err
		}
	}
}

// What a form may have before a part's content, in bytes, and what fields of so many take.
const (
	maxFormHead = 16 << 10
	headsRoom   = 32 * maxFormHead
)

// formHeads is a form of which only so much is read before a part's content.
type formHeads struct {
	io.Reader
	left int64
}

func (h *formHeads) Read(b []byte) (int, error) {
	if h.left <= 0 {
		return 0, fault.New(fault.InvalidContent, "Send shorter names.", "A part of the form has more than %d bytes before its content.", maxFormHead)
	}
	n, err := h.Reader.Read(b[:min(int64(len(b)), h.left)])
	h.left -= int64(n)
	return n, err
}

func errForm(err error) error {
	return fault.New(fault.InvalidContent, "Send a whole form (multipart/form-data), without long pauses.", "The form cannot be read.").Because(err)
}

// formFile is a file of a form. Its errors are faults.
type formFile struct {
	io.Reader
	left, most int64 // bytes
}

func (f *formFile) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if f.left -= int64(n); f.left < 0 && f.most > 0 {
		return n, fault.New(fault.UploadTooLarge, "Upload less, or have the server's user raise --download-limit.", "The file is longer than %d bytes.", f.most).With("limit_bytes", f.most)
	}
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return n, errForm(err)
	}
	return n, err
}

// errNoFile is the answer where there is no such file or session, which are not told apart.
func errNoFile(id string) error {
	return fault.New(fault.NotFound, "Upload it again, or leave it out.", "There is no file %q.", id)
}

// quoted is a text as one word of a shell's, in one line.
func quoted(word string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "\n", `'$'\n''`).Replace(word) + "'"
}
