// Package apis is shared by other systems' APIs. Each is a package below with a New that returns it.
package apis

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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// Sentence returns an error as one text, for systems that know no fields.
func Sentence(fields map[string]any) string {
	message, _ := fields["message"].(string)
	hint, _ := fields["hint"].(string)
	return strings.TrimSpace(message + " " + hint)
}

// AcceptKey moves the token in X-API-Key, where several systems send it, to the usual header. A request with a token in the usual one
// stays as it is.
func AcceptKey(r *http.Request) {
	if key := r.Header.Get("X-API-Key"); key != "" && r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
}

// Ended says how a run ended that was stopped.
func Ended(res *sandbox.Result) string {
	return strings.TrimSpace("The run was " + res.Status.Words() + ". " + res.Cause)
}

// Run runs code behind other code of ours, in the session's kernel or in its own interpreter, for a time if that is above 0, and
// waits for its end. A client that goes away interrupts it.
func Run(ctx context.Context, h rest.Host, session string, language kernel.LanguageInfo, before, code string, fresh bool, timeout time.Duration) (*sandbox.Result, error) {
	given := make(rest.Arguments)
	given.Set("fresh", fresh)
	if timeout > 0 {
		given.Set("timeout_seconds", timeout.Seconds())
	}
	run, err := Start(ctx, h, session, language, before, code, given)
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

// Start begins to run code, behind other code of ours.
func Start(ctx context.Context, h rest.Host, session string, language kernel.LanguageInfo, before, code string, given rest.Arguments) (*sandbox.Run, error) {
	given.Set("code", code)
	given.Set("session_id", session)
	fields, err := h.Call(tools.WithBefore(tools.WithWait(ctx, 0), before), language.Tool(), given)
	if fields == nil {
		return nil, err
	}
	return h.Sessions().FindRun(fields.Text("run_id"))
}

// Beginning reads at most most bytes of a stream, from its file if the result holds only a part, and reports whether that is all of it.
// The error is that there is no room.
func Beginning(ctx context.Context, h rest.Host, session string, of sandbox.Stream, most int64) (part string, whole bool, err error) {
	if _, err := room.Take(ctx, TextRoom(min(most, of.Bytes))); err != nil {
		return "", false, err
	}
	if all := int64(len(of.Head)); !of.Truncated() {
		return strings.ToValidUTF8(of.Head[:min(all, most)], "\ufffd"), all <= most, nil
	}
	file, err := h.Sessions().OpenFile(ctx, session, of.Path, sandbox.ReadOptions{Limit: most})
	if err == nil {
		defer func() { _ = file.Close() }()
		var raw []byte
		if raw, err = io.ReadAll(file); err == nil {
			return h.MaskPart(strings.ToValidUTF8(string(raw), "\ufffd")), int64(len(raw)) >= of.Bytes, nil
		}
	}
	return of.Head + "\n…\n" + of.Tail, false, nil
}

// EntryRoom is the memory for a file in a list with its times and sizes in JSON, in bytes.
const EntryRoom = 512

// TextRoom returns the memory for a text with this length until it is answered: as it is read, as a text, masked, and as JSON twice.
func TextRoom(length int64) int64 { return (4 + 2*rest.JSONRoom) * length }

// FigureRoom returns the memory for a figure with this length until it is answered: as base64, and as JSON in a buffer that grew.
func FigureRoom(length int) int64 { return 6 * int64(length) }

// EachFile visits a form's files. Their names may contain folders. An error in their content is a fault.
func EachFile(h rest.Host, w http.ResponseWriter, r *http.Request, visit func(name string, content io.Reader) error) error {
	_, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || parameters["boundary"] == "" {
		return errForm(err)
	}
	if _, err := room.Take(r.Context(), headsRoom); err != nil {
		return err
	}
	body, most := h.Uploaded(w, r)
	heads := &formHeads{Reader: body}
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
		file := &formFile{part, most, most}
		if of["filename"] != "" { // a form's other fields name the user, who is the token's here in any case
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

// The most bytes of a form before a part's content, and the memory for this many fields.
const (
	maxFormHead = 16 << 10
	headsRoom   = 32 * maxFormHead
)

// formHeads is a form with a bound on the bytes read before a part's content.
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

// formFile is a form's file. Its errors are faults.
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

// ErrNoFile is the answer if there is no such file or session, which are not told apart.
func ErrNoFile(id string) error {
	return fault.New(fault.NotFound, "Upload it again, or leave it out.", "There is no file %q.", id)
}

// Quote writes a text as one shell word, in one line.
func Quote(word string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "\n", `'$'\n''`).Replace(word) + "'"
}

// ErrNoPart is the answer to a form without a file.
func ErrNoPart() error {
	return fault.New(fault.InvalidContent, "Send a form (multipart/form-data) with a part of the name file.", "The form has no file.")
}
