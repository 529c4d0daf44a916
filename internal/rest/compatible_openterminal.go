// The endpoints of Open Terminal that Open WebUI calls: commands, and the files below /mnt/data.

package rest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

const terminalPath, terminalID = "/open-terminal", "compatible.terminal_"

// openTerminal is what Open WebUI calls of open-webui/open-terminal. Rows that name what has to be given are the tools of its models, by
// the document of their own.
func openTerminal() foreign {
	at := func(method, path, id, needs, summary, tool string, serve func(*Server, http.ResponseWriter, *http.Request) error, query, request, answer object) route {
		return route{method: method, path: terminalPath + path, id: terminalID + id, summary: summary, tool: tool, needs: needs, query: query, request: request, answer: answer,
			serve: func(s *Server, w http.ResponseWriter, r *http.Request) {
				if err := serve(s, w, r); err != nil {
					s.refuse(w, r, err)
				}
			}}
	}
	idle := func(r route) route { r.idle = true; return r }
	str := func(says string) object { return object{"type": "string", "description": says} }
	num := func(says string) object { return object{"type": "integer", "minimum": 0, "description": says} }
	yes := func(says string) object { return object{"type": "boolean", "description": says} }
	many := func(says string) object {
		return object{"type": "array", "items": object{"type": "string"}, "description": says}
	}
	wait := object{"type": "number", "minimum": 0, "maximum": maxTerminalWait, "description": "Seconds to wait for the end of the command."}
	tail, one := num("Only the last lines of the output, so many."), object{"path": str("Below /mnt/data, or relative to the working directory.")}
	shell, list, read, write := sandbox.Bash.Info().Tool(), "list_artifacts", "read_artifact", "upload_file"
	raw, done := media("application/octet-stream", object{}), schemaOf[terminalDone]()
	return foreign{prefix: terminalPath, refusal: func(fields map[string]any) { fields["detail"] = sentence(fields) }, routes: []route{
		at("POST", "/execute", "run_command", ".", "Run a command of bash in the background. Its answer has an id, and the output so far.", shell, (*Server).terminalRun, object{"wait": wait, "tail": tail}, schemaOf[terminalWanted](), schemaOf[terminalProcess]()),
		at("GET", "/execute", "list_processes", ".", "List the commands of this chat.", shell, (*Server).terminalList, nil, nil, listOf[terminalState]()),
		at("GET", "/execute/{process_id}/status", "get_process_status", ".", "Tell how a command stands, with its output from an offset.", shell, (*Server).terminalStatus, object{"wait": wait, "tail": tail, "offset": num("The next_offset of an earlier answer.")}, nil, schemaOf[terminalProcess]()),
		at("POST", "/execute/{process_id}/input", "send_process_input", ".", "Write to the standard input of a command that goes on.", shell, (*Server).terminalInput, nil, schemaOf[terminalTyped](), done),
		at("DELETE", "/execute/{process_id}", "kill_process", ".", "End a command.", shell, (*Server).terminalKill, object{"force": yes("Ignored: what does not end is killed.")}, nil, done),
		at("GET", "/files/list", "list_files", ".", "List a folder.", list, (*Server).terminalFolder, object{"directory": str("Default the working directory.")}, nil, schemaOf[terminalListed]()),
		at("GET", "/files/read", "read_file", "path", "Read a file of text, or its lines from start_line to end_line; an image as it is.", read, (*Server).terminalRead, object{"path": one["path"], "start_line": num("Counted from 1."), "end_line": num("The last one.")}, nil, schemaOf[terminalText]()),
		at("GET", "/files/display", "display_file", "path", "Show a file to the user. Its content is not returned.", list, (*Server).terminalDisplay, one, nil, done),
		at("POST", "/files/write", "write_file", ".", "Write a file of text. Its folders are made, and one that is there is replaced.", write, (*Server).terminalWrite, nil, schemaOf[terminalContent](), done),
		at("POST", "/files/replace", "replace_file_content", ".", "Replace texts in a file.", write, (*Server).terminalReplace, nil, schemaOf[terminalEdits](), done),
		at("GET", "/files/grep", "grep_search", "query", "Search the files of a folder for lines.", shell, (*Server).terminalGrep, object{"query": str("A regular expression."), "path": one["path"], "regex": yes("Default true; false: query is a text."), "case_insensitive": yes("Default false."),
			"include": many("Names of files, such as *.py."), "match_per_line": yes("Default true; false: list files alone."), "max_results": num("Default 50, at most 500.")}, nil, schemaOf[terminalMatches]()),
		at("GET", "/files/glob", "glob_search", "pattern", "Search a folder for files and folders by a pattern of their name or path.", list, (*Server).terminalGlob, object{"pattern": str("Such as *.py."), "path": one["path"], "exclude": many("Patterns of what is left out."),
			"type": object{"type": "string", "enum": []string{"any", "file", "directory"}}, "max_results": num("Default 50, at most 500.")}, nil, schemaOf[terminalMatches]()),
		// The rest is for its pages.
		at("GET", "/files/cwd", "cwd", "", "Tell the working directory of a chat.", list, (*Server).terminalCwd, nil, nil, done),
		at("POST", "/files/cwd", "set_cwd", "", "Set the working directory of a chat.", list, (*Server).terminalCwd, nil, schemaOf[terminalNamed](), done),
		at("GET", "/files/view", "view", "", "Read a file as it is.", read, (*Server).terminalView, one, nil, raw),
		at("GET", "/files/serve/{path...}", "serve", "", "The same, by its path.", read, (*Server).terminalView, nil, nil, raw),
		at("POST", "/files/upload", "upload", "", "Put the files of a form into a folder.", write, (*Server).terminalUpload, object{"directory": str("Where to.")}, media("multipart/form-data", object{}), done),
		at("POST", "/files/archive", "archive", "", "Read files and folders as a ZIP.", read, (*Server).terminalArchive, nil, schemaOf[terminalPaths](), media("application/zip", object{})),
		at("POST", "/files/mkdir", "mkdir", "", "Make a folder.", shell, (*Server).terminalMkdir, nil, schemaOf[terminalNamed](), done),
		at("DELETE", "/files/delete", "delete", "", "Remove a file, or a folder with what is in it.", shell, (*Server).terminalDelete, one, nil, done),
		at("POST", "/files/move", "move", "", "Move a file or a folder.", shell, (*Server).terminalMove, nil, schemaOf[terminalMoved](), done),
		idle(at("GET", "/ports", "ports", "", "None: nothing in a container can be reached from outside.", list, answering(terminalPorts{[]int{}}), nil, nil, schemaOf[terminalPorts]())),
		idle(at("GET", "/system", "system", "", "What a model is to know.", list, answering(terminalPrompt{terminalSystem}), nil, nil, schemaOf[terminalPrompt]())),
		at("GET", "/openapi.json", "document", "", "The document of the model's tools.", list, (*Server).terminalDocument, nil, nil, media("application/json", object{"type": "object"})),
	}}
}

const terminalSystem = "The tools of this terminal run commands of bash in an isolated Linux container with Python. Files are kept in " + engine.WorkDir +
	", which is the home directory, and each command begins in the chat's working directory there. Everything else is lost with the container. Each command has a shell of its own. " +
	"Ports cannot be reached from outside, and there is no terminal for full-screen programs."

// terminalConfig is what its pages ask for before they have shown a token.
var terminalConfig = object{"features": object{"terminal": false, "notebooks": false, "system": true}}

func answering(value any) func(*Server, http.ResponseWriter, *http.Request) error {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) error {
		web.JSON(w, http.StatusOK, value)
		return nil
	}
}

type (
	terminalWanted struct {
		Command string            `json:"command"`
		Cwd     string            `json:"cwd,omitempty" jsonschema:"Default the chat's working directory."`
		Env     map[string]string `json:"env,omitempty" jsonschema:"More variables of the environment."`
	}
	terminalState struct {
		ID       string  `json:"id"`
		Command  string  `json:"command"`
		Status   string  `json:"status" jsonschema:"running, done or killed."`
		ExitCode *int    `json:"exit_code"`
		LogPath  *string `json:"log_path"`
	}
	terminalProcess struct {
		terminalState
		Output     []terminalOutput `json:"output"`
		Truncated  bool             `json:"truncated"`
		NextOffset int64            `json:"next_offset"`
	}
	terminalOutput struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}
	terminalTyped struct {
		Input string `json:"input" jsonschema:"With a newline where one is to be typed."`
	}
	terminalNamed struct {
		Path string `json:"path"`
	}
	terminalContent struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	terminalEdits struct {
		Path  string `json:"path"`
		Edits []struct {
			Target      string `json:"target"`
			Replacement string `json:"replacement"`
			StartLine   int    `json:"start_line,omitempty"`
			EndLine     int    `json:"end_line,omitempty"`
			Multiple    bool   `json:"allow_multiple,omitempty"`
		} `json:"replacements"`
	}
	terminalMoved struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}
	terminalPaths struct {
		Paths []string `json:"paths"`
	}
	terminalText struct {
		Path       string `json:"path"`
		TotalLines int    `json:"total_lines"`
		Content    string `json:"content"`
	}
	terminalListed struct {
		Dir      string          `json:"dir"`
		Writable bool            `json:"writable"`
		Entries  []terminalEntry `json:"entries"`
	}
	terminalEntry struct {
		Name     string  `json:"name,omitempty"`
		Path     string  `json:"path,omitempty"`
		Type     string  `json:"type"`
		Size     int64   `json:"size"`
		Modified float64 `json:"modified"`
	}
	terminalMatches struct {
		Query     string `json:"query,omitempty"`
		Pattern   string `json:"pattern,omitempty"`
		Path      string `json:"path"`
		Matches   []any  `json:"matches"`
		Truncated bool   `json:"truncated"`
	}
	terminalMatch struct {
		File    string `json:"file"`
		Line    int    `json:"line,omitempty"`
		Content string `json:"content,omitempty"`
	}
	terminalPorts struct {
		Ports []int `json:"ports"`
	}
	terminalPrompt struct {
		Prompt string `json:"prompt"`
	}
	terminalDone struct {
		Status      string `json:"status,omitempty"`
		Path        string `json:"path,omitempty"`
		Type        string `json:"type,omitempty"`
		Size        *int64 `json:"size,omitempty"`
		Exists      *bool  `json:"exists,omitempty"`
		Source      string `json:"source,omitempty"`
		Destination string `json:"destination,omitempty"`
		Cwd         string `json:"cwd,omitempty"`
		Home        string `json:"home,omitempty"`
		Root        object `json:"root,omitempty"`
	}
)

const (
	maxTerminalWait = 300
	// maxTerminalText is how much output, or how long a file, is answered as text.
	maxTerminalText = 1 << 20
	// maxTerminalKept is how many folders and how many commands are kept, and maxTerminalCommand how much of one, in bytes.
	maxTerminalKept    = 1000
	maxTerminalCommand = 2000
)

// Terminals is what is known of the chats: their working directories, and the commands that they have begun.
type Terminals struct {
	mu       sync.Mutex
	folders  map[string]string // by chat, relative to the work directory
	commands []terminalCommand // the oldest first
}

// NewTerminals returns one that knows of none.
func NewTerminals() *Terminals { return &Terminals{folders: make(map[string]string)} }

type terminalCommand struct {
	chat, run, command string
	input              string // the pipe that is its standard input
}

// terminal is the session of a request's user, and its chat.
type terminal struct{ session, chat, folder string }

// terminalOf finds the session of a request, which is made where there is none. Open WebUI says by a header which of its users asks: one
// token has a session for each of them.
func (s *Server) terminalOf(r *http.Request) (t terminal, err error) {
	t.session = "terminal"
	if user := r.Header.Get("X-User-Id"); user != "" {
		sum := sha256.Sum256([]byte(user))
		t.session += "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
	}
	chat := sha256.Sum256([]byte(t.session + "/" + r.Header.Get("X-Session-Id"))) // which is kept, however long it is
	t.chat = string(chat[:])
	s.terminals.mu.Lock()
	t.folder = s.terminals.folders[t.chat]
	s.terminals.mu.Unlock()
	_, err = s.manager.Lease(t.session, true)
	return t, err
}

// resolve makes a path relative to the work directory, which is the home directory: empty where it is that.
func (t *terminal) resolve(given string) (string, error) {
	switch {
	case given == "~" || strings.HasPrefix(given, "~/"):
		given = engine.WorkDir + given[1:]
	case !strings.HasPrefix(given, "/"):
		given = path.Join(engine.WorkDir, t.folder, given)
	}
	clean := path.Clean(given)
	if clean == engine.WorkDir {
		return "", nil
	}
	below, is := strings.CutPrefix(clean, engine.WorkDir+"/")
	if !is {
		return "", fault.New(fault.InvalidPath, "Use run_command for what is elsewhere.", "%q is not below %s.", text.Shorten(given, 200), engine.WorkDir)
	}
	return sandbox.CleanPath(below)
}

func absolute(below string) string { return path.Join(engine.WorkDir, below) }

// terminalAt finds a request's session, and the path that it asks for.
func (s *Server) terminalAt(r *http.Request, given string) (t terminal, below string, err error) {
	if t, err = s.terminalOf(r); err == nil {
		below, err = t.resolve(given)
	}
	return t, below, err
}

func errNoPath(below string) error {
	return fault.New(fault.NotFound, "list_files says what there is.", "There is no %q.", absolute(below))
}

var environmentName = regexp.MustCompile(`^[A-Za-z_]\w*$`)

func (s *Server) terminalRun(w http.ResponseWriter, r *http.Request) error {
	var wanted terminalWanted
	if _, err := decode(r, &wanted); err != nil {
		return err
	}
	t, folder, err := s.terminalAt(r, wanted.Cwd)
	if err != nil {
		return err
	}
	wait, tail, err := waitOf(r)
	if err != nil {
		return err
	}
	language, err := s.language(string(sandbox.Bash))
	if err != nil {
		return err
	}
	command := terminalCommand{chat: t.chat, command: strings.Clone(text.Clip(wanted.Command, maxTerminalCommand)), input: "/tmp/" + state.NewID("input-")}
	// A terminal has one output, and an input that does not end. It has its name when it is open: what is typed before would be lost.
	first := fmt.Sprintf("exec 2>&1; cd -- %s || exit; mkfifo %[2]s- && exec <>%[2]s- && mv %[2]s- %[2]s; trap 'rm -f %[2]s' EXIT", quoted("./"+folder), command.input)
	for _, name := range sorted(wanted.Env) {
		if !environmentName.MatchString(name) {
			return fault.New(fault.InvalidArgument, "Use letters, digits and _.", "%q is no name of a variable.", text.Shorten(name, 80))
		}
		first += "; export " + name + "=" + quoted(wanted.Env[name])
	}
	given := make(arguments)
	given.set("fresh", true)
	given.set("timeout_seconds", s.manager.Config().MaxRunTimeout.Seconds())
	run, err := s.begun(r.Context(), t.session, language, first, wanted.Command, given)
	if err != nil {
		return err
	}
	command.run = run.ID
	s.terminals.mu.Lock()
	s.terminals.commands = append(s.terminals.commands[max(0, len(s.terminals.commands)-maxTerminalKept+1):], command)
	s.terminals.mu.Unlock()
	return s.terminalTell(w, r, run, command, wait, 0, tail)
}

func (c *terminalCommand) process() *terminalProcess {
	return &terminalProcess{terminalState: terminalState{ID: c.run, Command: c.command, Status: "running"}, Output: []terminalOutput{}}
}

// ends says how a command ended; nil: it has not.
func (p *terminalState) ends(res *sandbox.Result) {
	switch {
	case res == nil:
		return
	case res.Status == sandbox.Completed || res.Status == sandbox.Failed:
		p.Status = "done"
	default:
		p.Status = "killed"
	}
	p.ExitCode = &res.ExitCode
}

// waitOf reads how long a request waits, and how many lines it wants; below 0: all.
func waitOf(r *http.Request) (wait time.Duration, tail int64, err error) {
	seconds := 0.0
	if given := r.URL.Query().Get("wait"); given != "" && given != "null" {
		if seconds, err = strconv.ParseFloat(given, 64); err != nil || !(seconds >= 0) {
			return 0, 0, fault.New(fault.InvalidArgument, "Leave it out, or pass a number such as 10.", "wait is %q and must be a number of seconds.", text.Shorten(given, 40))
		}
	}
	tail, err = countOf(r, "tail", -1)
	return time.Duration(min(seconds, maxTerminalWait) * float64(time.Second)), tail, err
}

func countOf(r *http.Request, name string, standard int64) (int64, error) {
	given := r.URL.Query().Get(name)
	if given == "" || given == "null" {
		return standard, nil
	}
	n, err := strconv.ParseInt(given, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.New(fault.InvalidArgument, "Leave it out, or pass a number such as 10.", "%s is %q and must be a whole number.", name, text.Shorten(given, 40))
	}
	return n, nil
}

// terminalTell answers with how a command stands, when it has ended or the wait is over.
func (s *Server) terminalTell(w http.ResponseWriter, r *http.Request, run *sandbox.Run, c terminalCommand, wait time.Duration, offset, tail int64) error {
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-run.Done():
		case <-timer.C:
		case <-r.Context().Done():
			return context.Cause(r.Context())
		}
	}
	p := c.process()
	res, err := run.Result()
	if err != nil {
		return err
	}
	if p.ends(res); res == nil {
		res = run.SoFar(r.Context())
	}
	if res != nil { // it has begun
		printed, next, err := s.part(r.Context(), run.SessionID, res.Stdout, offset, maxTerminalText)
		if err != nil {
			return err
		}
		p.NextOffset, p.Truncated = next, next < res.Stdout.Bytes
		if last := lastLines(printed, tail); tail >= 0 {
			printed, p.Truncated = last, p.Truncated || len(last) < len(printed)
		}
		if printed != "" {
			p.Output = append(p.Output, terminalOutput{"output", printed})
		}
	}
	web.JSON(w, http.StatusOK, p)
	return nil
}

// lastLines is the end of a text that has so many lines.
func lastLines(printed string, lines int64) string {
	from := len(strings.TrimSuffix(printed, "\n"))
	for ; lines > 0 && from >= 0; lines-- {
		from = strings.LastIndexByte(printed[:from], '\n')
	}
	switch {
	case from < 0:
		return printed
	case from == len(printed):
		return ""
	}
	return printed[from+1:]
}

// terminalFind finds a command of the chat that asks.
func (s *Server) terminalFind(r *http.Request) (t terminal, run *sandbox.Run, c terminalCommand, err error) {
	id := r.PathValue("process_id")
	if t, err = s.terminalOf(r); err != nil {
		return t, nil, c, err
	}
	s.terminals.mu.Lock()
	at := slices.IndexFunc(s.terminals.commands, func(c terminalCommand) bool { return c.run == id && c.chat == t.chat })
	if at >= 0 {
		c = s.terminals.commands[at]
	}
	s.terminals.mu.Unlock()
	if at < 0 {
		return t, nil, c, fault.New(fault.RunNotFound, "list_processes says which there are.", "There is no command %q in this chat.", text.Shorten(id, 80))
	}
	run, err = s.manager.FindRun(id)
	return t, run, c, err
}

func (s *Server) terminalStatus(w http.ResponseWriter, r *http.Request) error {
	_, run, command, err := s.terminalFind(r)
	if err != nil {
		return err
	}
	wait, tail, err := waitOf(r)
	if err != nil {
		return err
	}
	offset, err := countOf(r, "offset", 0)
	if err != nil {
		return err
	}
	return s.terminalTell(w, r, run, command, wait, offset, tail)
}

func (s *Server) terminalList(w http.ResponseWriter, r *http.Request) error {
	t, err := s.terminalOf(r)
	if err != nil {
		return err
	}
	s.terminals.mu.Lock()
	commands := slices.Clone(s.terminals.commands)
	s.terminals.mu.Unlock()
	list := []terminalState{}
	for _, c := range commands {
		run, err := s.manager.FindRun(c.run)
		if c.chat != t.chat || err != nil {
			continue
		}
		res, _ := run.Result()
		one := c.process()
		one.ends(res)
		list = append(list, one.terminalState)
	}
	web.JSON(w, http.StatusOK, list)
	return nil
}

func (s *Server) terminalInput(w http.ResponseWriter, r *http.Request) error {
	var typed terminalTyped
	if _, err := decode(r, &typed); err != nil {
		return err
	}
	t, run, command, err := s.terminalFind(r)
	if err != nil {
		return err
	}
	if res, _ := run.Result(); res != nil {
		return fault.New(fault.InvalidArgument, "Begin another one with run_command.", "The command has ended.")
	}
	// The pipe is there once the command has begun. Opened for both, it waits for nobody who reads. Models write a newline as \n.
	_, err = s.shell(r.Context(), t.session, "for i in {1..100}; do [ -p "+command.input+" ] && break; sleep .1; done; [ -p "+command.input+" ] && printf %b "+quoted(typed.Input)+" 1<>"+command.input)
	if err != nil {
		return err
	}
	web.JSON(w, http.StatusOK, terminalDone{Status: "ok"})
	return nil
}

func (s *Server) terminalKill(w http.ResponseWriter, r *http.Request) error {
	_, run, _, err := s.terminalFind(r)
	if err != nil {
		return err
	}
	given := make(arguments)
	given.set("run_id", run.ID)
	given.set("cancel", true)
	o, err := s.call(tools.WithWait(r.Context(), 0), "wait_for_run", given)
	if err == nil && o.fields == nil && o.fault != nil {
		err = faultOf(o.fault)
	}
	if err != nil {
		return err
	}
	select {
	case <-run.Done():
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	web.JSON(w, http.StatusOK, terminalDone{Status: "killed"})
	return nil
}

// shellTime is how long a command of our own may take.
const shellTime = time.Minute

// shell runs a command of our own in the work directory. It may end with these exit codes.
func (s *Server) shell(ctx context.Context, session, code string, may ...int) (*sandbox.Result, error) {
	run, err := s.runOwn(ctx, sandbox.RunOptions{SessionID: session, Language: sandbox.Bash, Code: code, Timeout: shellTime, Fresh: true})
	if err != nil {
		return nil, err
	}
	select {
	case <-run.Done():
	case <-ctx.Done():
		run.Interrupt()
		return nil, context.Cause(ctx)
	}
	res, err := run.Result()
	if err == nil && res.Status != sandbox.Completed && (res.Status != sandbox.Failed || !slices.Contains(may, res.ExitCode)) {
		why := cmp.Or(strings.TrimSpace(res.Stderr.Head), strings.ReplaceAll(string(res.Status), "_", " "))
		err = fault.New(fault.InvalidArgument, "Look at it with list_files.", "That cannot be done: %s.", text.Shorten(strings.TrimSuffix(why, "."), 300))
	}
	return res, err
}

// terminalDocument is the document of the tools for models, at the addresses that are seen from below the prefix.
func (s *Server) terminalDocument(w http.ResponseWriter, _ *http.Request) error {
	var shown []route
	for _, r := range s.routes() {
		if id, is := strings.CutPrefix(r.id, terminalID); is && r.needs != "" {
			r.id, r.path = id, strings.TrimPrefix(r.path, terminalPath)
			shown = append(shown, r)
		}
	}
	web.JSON(w, http.StatusOK, json.RawMessage(document(shown, s.tools, s.version)))
	return nil
}
