// Package librechat serves LibreChat's code interpreter API, for that program and its library's agents.
package librechat

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

const prefix = "/librechat"

// New returns the API that @librechat/agents calls with LIBRECHAT_CODE_BASEURL, and LibreChat itself.
func New() *rest.API {
	form := rest.Media("multipart/form-data", map[string]any{})
	return &rest.API{
		Patterns: []string{prefix + "/"}, Translate: apis.AcceptKey,
		Refusal: func(_ int, fields map[string]any) { fields["error"] = apis.Sentence(fields) },
		Routes: []rest.Route{
			{Method: "POST", Path: prefix + "/exec", ID: "compatible.librechat_exec", Summary: "Run code: in the kernel of a hint, or in an interpreter of its own.", Tool: rest.RunTool,
				Serve: exec, Request: rest.Schema[newRun], Answer: rest.Schema[ran]},
			{Method: "POST", Path: prefix + "/exec/programmatic", ID: "compatible.librechat_programmatic", Summary: "Refused: code has no tools of the client.", Status: http.StatusNotImplemented, Tool: rest.RunTool,
				Serve: programmatic, Request: rest.Schema[newRun], Answer: rest.Schema[failed]},
			{Method: "POST", Path: prefix + "/upload", ID: "compatible.librechat_upload", Summary: "Put files into a session of their own.", Tool: "upload_file",
				Serve: upload, Request: form, Answer: rest.Schema[uploaded]},
			{Method: "POST", Path: prefix + "/upload/batch", ID: "compatible.librechat_upload_batch", Summary: "The same.", Tool: "upload_file",
				Serve: upload, Request: form, Answer: rest.Schema[uploaded]},
			{Method: "GET", Path: prefix + "/files/{session_id}", ID: "compatible.librechat_files", Summary: "List the files of a session.", Tool: "list_artifacts",
				Serve: files, Answer: rest.ListOf[listed]},
			{Method: "GET", Path: prefix + "/sessions/{session_id}/objects/{file_id}", ID: "compatible.librechat_object", Summary: "Describe a file.", Tool: "list_artifacts",
				Serve: object, Answer: rest.Schema[listed]},
			{Method: "GET", Path: prefix + "/download/{session_id}/{file_id}", ID: "compatible.librechat_download", Summary: "Read a file as it is.", Tool: "read_artifact",
				Serve: download, Answer: rest.Media("application/octet-stream", map[string]any{})},
		},
	}
}

type newRun struct {
	Language  string   `json:"lang" jsonschema:"py, js, ts or bash; another is answered with a sentence in stderr."`
	Code      string   `json:"code"`
	Arguments []string `json:"args,omitempty"`
	SessionID string   `json:"session_id,omitempty" jsonschema:"Of an earlier run, to go on among its files."`
	Timeout   float64  `json:"timeout,omitempty" jsonschema:"Milliseconds."`
	Hint      string   `json:"runtime_session_hint,omitempty" jsonschema:"Runs of one hint go on with the same variables and files."`
	Files     []input  `json:"files,omitempty" jsonschema:"That the code is to find. One of an earlier run has the code go on in that run's session; the others are copied there."`
}

type input struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	SessionID string `json:"session_id,omitempty"`
	Storage   string `json:"storage_session_id,omitempty" jsonschema:"What newer clients call session_id."`
}

func (f *input) session() string {
	if f.Storage != "" {
		return f.Storage
	}
	return f.SessionID
}

type ran struct {
	SessionID string   `json:"session_id"`
	Stdout    string   `json:"stdout"`
	Stderr    string   `json:"stderr"`
	Files     []output `json:"files" jsonschema:"That the code has made or changed."`
	Runtime   string   `json:"runtime_session_id,omitempty"`
	Is        string   `json:"runtime_status,omitempty" jsonschema:"new or reused, of what a hint names."`
}

type output struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	SessionID string `json:"session_id"`
	Storage   string `json:"storage_session_id"`
}

type failed struct {
	Code  string `json:"code" jsonschema:"One that newer clients have a sentence for."`
	Error string `json:"error"`
}

type uploaded struct {
	Message   string   `json:"message"`
	SessionID string   `json:"session_id"`
	Storage   string   `json:"storage_session_id"`
	Files     []stored `json:"files"`
	Succeeded int      `json:"succeeded"`
	Failed    int      `json:"failed"`
}

type stored struct {
	Status string `json:"status"`
	ID     string `json:"fileId"`
	Name   string `json:"filename"`
}

type listed struct {
	Name         string            `json:"name" jsonschema:"session_id/id."`
	ID           string            `json:"id"`
	SessionID    string            `json:"session_id"`
	Storage      string            `json:"storage_session_id"`
	Size         int64             `json:"size"`
	LastModified time.Time         `json:"lastModified"`
	Metadata     map[string]string `json:"metadata"`
	Original     string            `json:"originalFilename"`
}

// Its addresses take ids of 21 letters and digits alone. A session's id tells its origin: one with uploads may belong to an agent of many
// users, so nothing runs in it.
const (
	ranIn      = "lcr"
	uploadedTo = "lcu"
	idLength   = 21
)

func newSession(kind string) string { return (kind + strings.ToLower(rand.Text()))[:idLength] }

// hinted is the session for all runs with a hint.
func hinted(hint string) string {
	sum := sha256.Sum256([]byte(hint))
	return (ranIn + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])))[:idLength]
}

// fileID is a file's id in its session, by which it is found again with no table.
func fileID(path string) string {
	sum := sha256.Sum256([]byte(path))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:idLength]
}

func exec(h rest.Host, w http.ResponseWriter, r *http.Request) error {
	var wanted newRun
	if err := rest.Decode(r, &wanted); err != nil {
		return err
	}
	answer, err := run(r.Context(), h, &wanted)
	if err == nil {
		web.JSON(w, r, http.StatusOK, answer)
	}
	return err
}

func run(ctx context.Context, h rest.Host, wanted *newRun) (answer ran, err error) {
	language, err := h.Language(wanted.Language)
	if err != nil { // a model reads this, and not the reason for refusing a request
		f := fault.From(err)
		return ran{SessionID: newSession(ranIn), Stderr: f.Message + " " + f.Hint, Files: []output{}}, nil
	}
	session, made := "", false
	if wanted.Hint != "" {
		session = hinted(wanted.Hint)
		answer.Runtime, answer.Is = session, "reused"
		if _, missing := h.Sessions().Lease(session, false); missing != nil {
			answer.Is = "new"
		}
	}
	for _, id := range append([]string{wanted.SessionID}, sessionsOf(wanted.Files)...) {
		if session != "" || !strings.HasPrefix(id, ranIn) {
			continue
		}
		if _, missing := h.Sessions().Lease(id, false); missing == nil {
			session = id
		}
	}
	if session == "" {
		session, made = newSession(ranIn), true
	}
	if err := bring(ctx, h, session, wanted.Files); err != nil {
		forget(ctx, h, session, made)
		return answer, err
	}
	fresh, before := wanted.Hint == "", ""
	if len(wanted.Arguments) > 0 || !fresh { // a kernel has the previous run's
		before = runs.Arguments(language.Language, "", wanted.Arguments, "")
	}
	timeout := time.Duration(min(max(wanted.Timeout, 0), 1e9) * float64(time.Millisecond))
	res, err := apis.Run(ctx, h, session, language, before, wanted.Code, fresh, timeout)
	if err != nil {
		forget(ctx, h, session, made)
		return answer, err
	}
	answer.SessionID, answer.Files = session, []output{}
	if answer.Stdout, err = textOf(ctx, h, session, res.Stdout); err == nil {
		answer.Stderr, err = textOf(ctx, h, session, res.Stderr)
	}
	if err != nil {
		return answer, err
	}
	if res.Error != nil {
		answer.Stderr += res.Error.Traceback
	}
	switch res.Status {
	case sandbox.TimedOut, sandbox.Cancelled, sandbox.Killed:
		answer.Stderr += text.Shorten(apis.Ended(res), 500) + "\n"
	}
	if !fresh && len(res.Notes) > 0 { // such as that variables are gone
		answer.Stderr += strings.Join(res.Notes, "\n") + "\n"
	}
	if answer.Stderr == "" && res.Status == sandbox.Failed { // else the answer does not say it
		answer.Stderr = fmt.Sprintf("Exit status %d.\n", res.ExitCode)
	}
	for _, a := range res.Artifacts {
		answer.Files = append(answer.Files, output{fileID(a.Path), a.Path, session, session})
	}
	forget(ctx, h, session, made && len(wanted.Files)+len(answer.Files) == 0)
	return answer, nil
}

// forget closes a session without files or variables to ask for.
func forget(ctx context.Context, h rest.Host, session string, empty bool) {
	if empty {
		_, _ = h.Sessions().CloseSession(context.WithoutCancel(ctx), session, false)
	}
}

// maxText is a stream's longest part in an answer, in bytes.
const maxText = 64 << 10

func textOf(ctx context.Context, h rest.Host, session string, of sandbox.Stream) (string, error) {
	read, whole, err := apis.Beginning(ctx, h, session, of, maxText)
	if err == nil && !whole && of.Truncated() {
		read += "\n… the whole text is in " + of.Path + " …\n"
	}
	return read, err
}

func sessionsOf(files []input) (ids []string) {
	for i := range files {
		ids = append(ids, files[i].session())
	}
	return ids
}

// bring copies missing files into a session. All of them must be in sessions of the same principal; it knows no others.
func bring(ctx context.Context, h rest.Host, session string, files []input) error {
	theirs := make(map[string]bool) // paths of the session's own files
	for i := range files {
		if f := &files[i]; f.session() == session {
			theirs[f.Name] = true
		}
	}
	for i := range files {
		f := &files[i]
		to, err := sandbox.CleanPath(f.Name)
		if err != nil {
			return err
		}
		if f.session() != session && theirs[f.Name] {
			continue // the code wrote another one since
		}
		found, err := find(ctx, h, f.session(), f.ID)
		if err != nil {
			return err
		}
		if f.session() == session {
			continue
		}
		from, err := h.Sessions().OpenFile(ctx, f.session(), found, sandbox.ReadOptions{Limit: -1})
		if err != nil {
			return err
		}
		_, _, err = h.Sessions().Upload(ctx, sandbox.Upload{SessionID: session, Path: to, Overwrite: true, Content: from})
		_ = from.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

var errFound = errors.New("found")

// find returns a file's path.
func find(ctx context.Context, h rest.Host, session, id string) (path string, err error) {
	if err := runs.CheckSessionID(session); err != nil { // an empty text would be another session
		return "", apis.ErrNoFile(id)
	}
	_, err = h.Sessions().WalkFiles(ctx, session, true, func(e sandbox.Entry) error {
		if e.Kind == 'f' && fileID(e.Path) == id {
			path = e.Path
			return errFound
		}
		return nil
	})
	switch {
	case errors.Is(err, errFound):
		return path, nil
	case err == nil || fault.From(err).Code == fault.SessionNotFound:
		return "", apis.ErrNoFile(text.Shorten(id, 80))
	}
	return "", err
}

func programmatic(_ rest.Host, w http.ResponseWriter, r *http.Request) error {
	web.JSON(w, r, http.StatusNotImplemented, failed{"unsupported_capability", "This server runs no code that calls the tools of its client. Use execute_code or bash_tool, and call the tools one by one."})
	return nil
}

// upload takes a form's files.
func upload(h rest.Host, w http.ResponseWriter, r *http.Request) error {
	session := newSession(uploadedTo)
	answer := uploaded{Message: "success", SessionID: session, Storage: session, Files: []stored{}}
	var held room.Growing
	err := apis.EachFile(h, w, r, func(name string, content io.Reader) error {
		path, err := sandbox.CleanPath(name)
		if err == nil {
			err = held.Add(r.Context(), apis.EntryRoom+rest.JSONRoom*int64(len(path)))
		}
		if err != nil {
			return err
		}
		if _, _, err := h.Sessions().Upload(r.Context(), sandbox.Upload{SessionID: session, Path: path, Overwrite: true, Content: content}); err != nil {
			return err
		}
		answer.Files = append(answer.Files, stored{"success", fileID(path), path})
		answer.Succeeded++
		return nil
	})
	if err == nil && answer.Succeeded == 0 {
		err = apis.ErrNoPart()
	}
	if err != nil {
		forget(r.Context(), h, session, true)
		web.Refuse(w)
		return err
	}
	web.JSON(w, r, http.StatusOK, answer)
	return nil
}

func listedOf(session string, f sandbox.File) listed {
	id := fileID(f.Path)
	return listed{session + "/" + id, id, session, session, f.SizeBytes, f.Modified.UTC(), map[string]string{"original-filename": f.Path}, f.Path}
}

// files sends the list as the session tells it: it may be long.
func files(h rest.Host, w http.ResponseWriter, r *http.Request) error {
	session, list := r.PathValue("session_id"), web.NewList(w)
	_, err := h.Sessions().WalkFiles(r.Context(), session, false, func(e sandbox.Entry) error { return list.Add(listedOf(session, e.File)) })
	switch {
	case err == nil:
		_ = list.End() // the client is gone
	case list.Begun(): // a part was sent, which is not to look whole
		panic(http.ErrAbortHandler)
	}
	return err
}

func object(h rest.Host, w http.ResponseWriter, r *http.Request) error {
	session := r.PathValue("session_id")
	path, err := find(r.Context(), h, session, r.PathValue("file_id"))
	if err != nil {
		return err
	}
	file, err := h.Sessions().OpenFile(r.Context(), session, path, sandbox.ReadOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	web.JSON(w, r, http.StatusOK, listedOf(session, file.File()))
	return nil
}

func download(h rest.Host, w http.ResponseWriter, r *http.Request) error {
	session := r.PathValue("session_id")
	path, err := find(r.Context(), h, session, r.PathValue("file_id"))
	if err == nil {
		if err = h.SendFile(w, r, session, path); err != nil {
			web.Refuse(w)
		}
	}
	return err
}
