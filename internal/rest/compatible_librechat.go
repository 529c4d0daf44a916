// LibreChat's code interpreter API, for that program and the agents of its library.

package rest

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

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

const librechatPath = "/librechat"

// librechat is what @librechat/agents calls with LIBRECHAT_CODE_BASEURL, and LibreChat itself.
func librechat() foreign {
	const inFiles, ofFile = librechatPath + "/files/{session_id}", "/{session_id}/{file_id}"
	return foreign{prefix: librechatPath, refusal: func(fields map[string]any) { fields["error"] = sentence(fields) }, routes: []route{
		{method: "POST", path: librechatPath + "/exec", id: "compatible.librechat_exec", summary: "Run code in an interpreter of its own.", tool: runTool,
			serve: (*Server).librechatExec, request: schemaOf[librechatCode](), answer: schemaOf[librechatRan]()},
		{method: "POST", path: librechatPath + "/exec/programmatic", id: "compatible.librechat_programmatic", summary: "Refused: code has no tools of the client.", status: http.StatusNotImplemented, tool: runTool,
			serve: (*Server).librechatProgrammatic, request: schemaOf[librechatCode](), answer: schemaOf[librechatFailed]()},
		{method: "POST", path: librechatPath + "/upload", id: "compatible.librechat_upload", summary: "Put files into a session of their own.", tool: "upload_file",
			serve: (*Server).librechatUpload, request: media("multipart/form-data", object{}), answer: schemaOf[librechatUploaded]()},
		{method: "POST", path: librechatPath + "/upload/batch", id: "compatible.librechat_upload_batch", summary: "The same.", tool: "upload_file",
			serve: (*Server).librechatUpload, request: media("multipart/form-data", object{}), answer: schemaOf[librechatUploaded]()},
		{method: "GET", path: inFiles, id: "compatible.librechat_files", summary: "List the files of a session.", tool: "list_artifacts",
			serve: (*Server).librechatFiles, answer: listOf[librechatListed]()},
		{method: "GET", path: librechatPath + "/sessions/{session_id}/objects/{file_id}", id: "compatible.librechat_object", summary: "Describe a file.", tool: "list_artifacts",
			serve: (*Server).librechatObject, answer: schemaOf[librechatListed]()},
		{method: "GET", path: librechatPath + "/download" + ofFile, id: "compatible.librechat_download", summary: "Read a file as it is.", tool: "read_artifact",
			serve: (*Server).librechatDownload, answer: media("application/octet-stream", object{})},
	}}
}

type librechatCode struct {
	Language  string           `json:"lang" jsonschema:"py, js, ts or bash; another is answered with a sentence in stderr."`
	Code      string           `json:"code"`
	Arguments []string         `json:"args,omitempty"`
	SessionID string           `json:"session_id,omitempty" jsonschema:"Of an earlier run, to go on among its files."`
	Timeout   float64          `json:"timeout,omitempty" jsonschema:"Milliseconds."`
	Hint      string           `json:"runtime_session_hint,omitempty" jsonschema:"Runs of one hint go on among the same files."`
	Files     []librechatInput `json:"files,omitempty" jsonschema:"That the code is to find. One of an earlier run has the code go on in that run's session; the others are copied there."`
}

type librechatInput struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	SessionID string `json:"session_id,omitempty"`
	Storage   string `json:"storage_session_id,omitempty" jsonschema:"What newer clients call session_id."`
}

func (f *librechatInput) session() string {
	if f.Storage != "" {
		return f.Storage
	}
	return f.SessionID
}

type librechatRan struct {
	SessionID string            `json:"session_id"`
	Stdout    string            `json:"stdout"`
	Stderr    string            `json:"stderr"`
	Files     []librechatOutput `json:"files" jsonschema:"That the code has made or changed."`
	Runtime   string            `json:"runtime_session_id,omitempty"`
	Is        string            `json:"runtime_status,omitempty" jsonschema:"new or reused, of what a hint names."`
}

type librechatOutput struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	SessionID string `json:"session_id"`
	Storage   string `json:"storage_session_id"`
}

type librechatFailed struct {
	Code  string `json:"code" jsonschema:"One that newer clients have a sentence for."`
	Error string `json:"error"`
}

type librechatUploaded struct {
	Message   string            `json:"message"`
	SessionID string            `json:"session_id"`
	Storage   string            `json:"storage_session_id"`
	Files     []librechatStored `json:"files"`
	Succeeded int               `json:"succeeded"`
	Failed    int               `json:"failed"`
}

type librechatStored struct {
	Status string `json:"status"`
	ID     string `json:"fileId"`
	Name   string `json:"filename"`
}

type librechatListed struct {
	Name         string            `json:"name" jsonschema:"session_id/id."`
	ID           string            `json:"id"`
	SessionID    string            `json:"session_id"`
	Storage      string            `json:"storage_session_id"`
	Size         int64             `json:"size"`
	LastModified time.Time         `json:"lastModified"`
	Metadata     map[string]string `json:"metadata"`
	Original     string            `json:"originalFilename"`
}

// Its addresses take ids of 21 letters and digits alone. A session's says what made it: one with uploads may belong to an agent of many
// users, so nothing runs in it.
const (
	ranIn    = "lcr"
	uploaded = "lcu"
	idLength = 21
)

func librechatSession(kind string) string { return (kind + strings.ToLower(rand.Text()))[:idLength] }

// librechatHinted is the session of all runs with a hint.
func librechatHinted(hint string) string {
	sum := sha256.Sum256([]byte(hint))
	return (ranIn + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])))[:idLength]
}

// librechatFile is the id of a file in its session, by which it is found again with no table.
func librechatFile(path string) string {
	sum := sha256.Sum256([]byte(path))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:idLength]
}

func (s *Server) librechatExec(w http.ResponseWriter, r *http.Request) {
	var wanted librechatCode
	_, err := decode(r, &wanted)
	var answer librechatRan
	if err == nil {
		answer, err = s.librechatRun(r.Context(), &wanted)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	web.JSON(w, http.StatusOK, answer)
}

func (s *Server) librechatRun(ctx context.Context, wanted *librechatCode) (answer librechatRan, err error) {
	language, err := s.language(wanted.Language)
	if err != nil { // a model reads this, and not what a request is refused for
		f := fault.From(err)
		return librechatRan{SessionID: librechatSession(ranIn), Stderr: f.Message + " " + f.Hint, Files: []librechatOutput{}}, nil
	}
	session, made := "", false
	if wanted.Hint != "" {
		session = librechatHinted(wanted.Hint)
		answer.Runtime, answer.Is = session, "reused"
		if _, missing := s.manager.Lease(session, false); missing != nil {
			answer.Is = "new"
		}
	}
	for _, id := range append([]string{wanted.SessionID}, sessionsOf(wanted.Files)...) {
		if session != "" || !strings.HasPrefix(id, ranIn) {
			continue
		}
		if _, missing := s.manager.Lease(id, false); missing == nil {
			session = id
		}
	}
	if session == "" {
		session, made = librechatSession(ranIn), true
	}
	if err := s.librechatInputs(ctx, session, wanted.Files); err != nil {
		s.librechatForget(ctx, session, made)
		return answer, err
	}
	res, err := s.ran(ctx, session, language, withArguments(language.Language, wanted.Arguments), wanted.Code, time.Duration(min(max(wanted.Timeout, 0), 1e9)*float64(time.Millisecond)))
	if err != nil {
		s.librechatForget(ctx, session, made)
		return answer, err
	}
	answer.SessionID, answer.Files = session, []librechatOutput{}
	if answer.Stdout, err = s.librechatText(ctx, session, res.Stdout); err == nil {
		answer.Stderr, err = s.librechatText(ctx, session, res.Stderr)
	}
	if err != nil {
		return answer, err
	}
	if res.Error != nil {
		answer.Stderr += res.Error.Traceback
	}
	switch res.Status {
	case sandbox.TimedOut, sandbox.Cancelled, sandbox.Killed:
		answer.Stderr += text.Shorten(strings.TrimSpace("The run was "+strings.ReplaceAll(string(res.Status), "_", " ")+". "+res.Cause), 500) + "\n"
	}
	if answer.Stderr == "" && res.Status == sandbox.Failed { // which nothing else of the answer says
		answer.Stderr = fmt.Sprintf("Exit status %d.\n", res.ExitCode)
	}
	for _, a := range res.Artifacts {
		answer.Files = append(answer.Files, librechatOutput{librechatFile(a.Path), a.Path, session, session})
	}
	s.librechatForget(ctx, session, made && len(wanted.Files)+len(answer.Files) == 0)
	return answer, nil
}

// librechatForget closes a session in which nothing is that somebody could ask for.
func (s *Server) librechatForget(ctx context.Context, session string, empty bool) {
	if empty {
		_, _ = s.manager.CloseSession(context.WithoutCancel(ctx), session, false)
	}
}

// maxLibrechatText is how much of a stream is answered, in bytes.
const maxLibrechatText = 64 << 10

func (s *Server) librechatText(ctx context.Context, session string, of sandbox.Stream) (string, error) {
	read, next, err := s.part(ctx, session, of, 0, maxLibrechatText)
	if next < of.Bytes && of.Truncated() {
		read += "\n… the whole text is in " + of.Path + " …\n"
	}
	return read, err
}

func sessionsOf(files []librechatInput) (ids []string) {
	for i := range files {
		ids = append(ids, files[i].session())
	}
	return ids
}

// withArguments is code that gives other code its arguments.
func withArguments(language sandbox.Language, given []string) string {
	if len(given) == 0 {
		return ""
	}
	switch list := string(web.Encode(given)); language { // a list of JSON's is one of Python's
	case sandbox.Python:
		return "import sys; sys.argv[1:] = " + list
	case sandbox.JavaScript:
		return "process.argv.splice(2, Infinity, ..." + list + ")"
	}
	words := "set --"
	for _, word := range given {
		words += " " + quoted(word)
	}
	return words
}

// librechatInputs copies files into a session that are not there. All of them have to be in sessions of the same principal, which
// has no others.
func (s *Server) librechatInputs(ctx context.Context, session string, files []librechatInput) error {
	theirs := make(map[string]bool) // paths that the session's own files have
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
			continue // the code has written another one since
		}
		found, err := s.librechatFind(ctx, f.session(), f.ID)
		if err != nil {
			return err
		}
		if f.session() == session {
			continue
		}
		from, err := s.manager.OpenFile(ctx, f.session(), found, sandbox.ReadOptions{Limit: -1})
		if err != nil {
			return err
		}
		_, _, err = s.manager.Upload(ctx, sandbox.Upload{SessionID: session, Path: to, Overwrite: true, Content: from})
		_ = from.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

var errFound = errors.New("found")

// librechatFind returns the path of a file.
func (s *Server) librechatFind(ctx context.Context, session, id string) (path string, err error) {
	if err := sandbox.CheckSessionID(session); err != nil { // an empty text would be another session
		return "", errNoFile(id)
	}
	_, err = s.manager.WalkFiles(ctx, session, true, func(e sandbox.Entry) error {
		if e.Kind == 'f' && librechatFile(e.Path) == id {
			path = e.Path
			return errFound
		}
		return nil
	})
	switch {
	case errors.Is(err, errFound):
		return path, nil
	case err == nil || fault.From(err).Code == fault.SessionNotFound:
		return "", errNoFile(text.Shorten(id, 80))
	}
	return "", err
}

func (s *Server) librechatProgrammatic(w http.ResponseWriter, _ *http.Request) {
	web.JSON(w, http.StatusNotImplemented, librechatFailed{"unsupported_capability", "This server runs no code that calls the tools of its client. Use execute_code or bash_tool, and call the tools one by one."})
}

// librechatUpload takes the files of a form.
func (s *Server) librechatUpload(w http.ResponseWriter, r *http.Request) {
	session := librechatSession(uploaded)
	answer := librechatUploaded{Message: "success", SessionID: session, Storage: session, Files: []librechatStored{}}
	var held room.Growing
	err := s.eachFile(w, r, func(name string, content io.Reader) error {
		path, err := sandbox.CleanPath(name)
		if err == nil {
			err = held.Add(r.Context(), entryRoom+jsonRoom*int64(len(path)))
		}
		if err != nil {
			return err
		}
		if _, _, err := s.manager.Upload(r.Context(), sandbox.Upload{SessionID: session, Path: path, Overwrite: true, Content: content}); err != nil {
			return err
		}
		answer.Files = append(answer.Files, librechatStored{"success", librechatFile(path), path})
		answer.Succeeded++
		return nil
	})
	if err == nil && answer.Succeeded == 0 {
		err = fault.New(fault.InvalidContent, "Send a form (multipart/form-data) with a part of the name file.", "The form has no file.")
	}
	if err != nil {
		s.librechatForget(r.Context(), session, true)
		s.transferred(w, r, err)
		return
	}
	web.JSON(w, http.StatusOK, answer)
}

func listedOf(session string, f sandbox.File) librechatListed {
	id := librechatFile(f.Path)
	return librechatListed{session + "/" + id, id, session, session, f.SizeBytes, f.Modified.UTC(), map[string]string{"original-filename": f.Path}, f.Path}
}

// librechatFiles sends the list as the session tells it: it may be long.
func (s *Server) librechatFiles(w http.ResponseWriter, r *http.Request) {
	session, list := r.PathValue("session_id"), web.NewList(w)
	_, err := s.manager.WalkFiles(r.Context(), session, false, func(e sandbox.Entry) error { return list.Add(listedOf(session, e.File)) })
	switch {
	case err == nil:
		_ = list.End() // the client is gone
	case list.Begun(): // a part was sent, which is not to look whole
		panic(http.ErrAbortHandler)
	default:
		s.refuse(w, r, err)
	}
}

func (s *Server) librechatObject(w http.ResponseWriter, r *http.Request) {
	session := r.PathValue("session_id")
	path, err := s.librechatFind(r.Context(), session, r.PathValue("file_id"))
	var file *sandbox.FileReader
	if err == nil {
		file, err = s.manager.OpenFile(r.Context(), session, path, sandbox.ReadOptions{})
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	defer func() { _ = file.Close() }()
	web.JSON(w, http.StatusOK, listedOf(session, file.File()))
}

func (s *Server) librechatDownload(w http.ResponseWriter, r *http.Request) {
	session := r.PathValue("session_id")
	path, err := s.librechatFind(r.Context(), session, r.PathValue("file_id"))
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.transferred(w, r, s.links.Send(w, r, session, path))
}
