// Package openterminal serves the endpoints of Open Terminal that Open WebUI calls: commands, and the files below /mnt/data.
package openterminal

import (
	"net/http"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const prefix, ids = "/open-terminal", "compatible.terminal_"

type object = map[string]any

// New returns the part of open-webui/open-terminal's API that Open WebUI calls, with the state of its chats. All principals share a seal.
func New(seal *apis.Seal) *rest.API { return newAPI(newChats(), seal) }

func newAPI(c *chats, seal *apis.Seal) *rest.API {
	c.seal = seal
	config := func(w http.ResponseWriter, _ *http.Request) { web.JSON(w, http.StatusOK, shownConfig) }
	routes := append(models(c), pages(c)...)
	for i := range routes {
		routes[i].Path, routes[i].ID = prefix+routes[i].Path, ids+routes[i].ID
	}
	return &rest.API{
		Patterns: []string{prefix + "/"}, Routes: routes,
		Translate: c.translate,
		Refusal:   func(_ int, fields map[string]any) { fields["detail"] = apis.Sentence(fields) },
		Open:      map[string]http.Handler{"GET " + prefix + "/api/config": http.HandlerFunc(config)},
	}
}

var shell = sandbox.Bash.Info().Tool()

const list, read, write = "list_artifacts", "read_artifact", "upload_file"

func str(says string) object { return object{"type": "string", "description": says} }
func num(says string) object { return object{"type": "integer", "minimum": 0, "description": says} }
func yes(says string) object { return object{"type": "boolean", "description": says} }
func many(says string) object {
	return object{"type": "array", "items": object{"type": "string"}, "description": says}
}

var (
	onePath  = object{"path": str("Below /mnt/data, or relative to the working directory.")}
	waitTail = object{"wait": object{"type": "number", "minimum": 0, "maximum": maxWait, "description": "Seconds to wait for the end of the command."}, "tail": num("Only the last lines of the output, so many.")}
)

// models are the tools of its models, by the document of their own.
func models(c *chats) []rest.Route {
	return []rest.Route{
		{Method: "POST", Path: "/execute", ID: "run_command", Tool: shell, Summary: "Run a command of bash in the background. Its answer has an id, and the output so far.",
			Serve: c.serve(decode((*call).start)), Query: waitTail, Request: rest.Schema[newCommand], Answer: rest.Schema[process]},
		{Method: "GET", Path: "/execute", ID: "list_processes", Tool: shell, Summary: "List the commands of this chat.",
			Serve: c.serve((*call).list), Answer: rest.ListOf[commandState]},
		{Method: "GET", Path: "/execute/{process_id}/status", ID: "get_process_status", Tool: shell, Summary: "Tell how a command stands, with its output from an offset.",
			Serve: c.serve((*call).status), Query: object{"wait": waitTail["wait"], "tail": waitTail["tail"], "offset": num("The next_offset of an earlier answer.")}, Answer: rest.Schema[process]},
		{Method: "POST", Path: "/execute/{process_id}/input", ID: "send_process_input", Tool: shell, Summary: "Write to the standard input of a command that goes on.",
			Serve: c.serve(decode((*call).input)), Request: rest.Schema[typed], Answer: rest.Schema[done]},
		{Method: "DELETE", Path: "/execute/{process_id}", ID: "kill_process", Tool: shell, Summary: "End a command.",
			Serve: c.serve((*call).kill), Query: object{"force": yes("Ignored: what does not end is killed.")}, Answer: rest.Schema[done]},
		{Method: "GET", Path: "/files/list", ID: "list_files", Tool: list, Summary: "List a folder.",
			Serve: c.serve((*call).folder), Query: object{"directory": str("Default the working directory.")}, Answer: rest.Schema[listed]},
		{Method: "GET", Path: "/files/read", ID: "read_file", Tool: read, Summary: "Read a file of text, or its lines from start_line to end_line; an image as it is.",
			Serve: c.serve((*call).readText), Needs: "path", Query: object{"path": onePath["path"], "start_line": num("Counted from 1."), "end_line": num("The last one.")}, Answer: rest.Schema[textLines]},
		{Method: "GET", Path: "/files/display", ID: "display_file", Tool: list, Summary: "Show a file to the user. Its content is not returned.",
			Serve: c.serve((*call).display), Needs: "path", Query: onePath, Answer: rest.Schema[done]},
		{Method: "POST", Path: "/files/write", ID: "write_file", Tool: write, Summary: "Write a file of text. Its folders are made, and one that is there is replaced.",
			Serve: c.serve(decode((*call).writeText)), Request: rest.Schema[content], Answer: rest.Schema[done]},
		{Method: "POST", Path: "/files/replace", ID: "replace_file_content", Tool: write, Summary: "Replace texts in a file.",
			Serve: c.serve(decode((*call).replace)), Request: rest.Schema[edits], Answer: rest.Schema[done]},
		{Method: "GET", Path: "/files/grep", ID: "grep_search", Tool: shell, Summary: "Search the files of a folder for lines.",
			Serve: c.serve((*call).grep), Needs: "query", Query: object{"query": str("A regular expression."), "path": onePath["path"], "regex": yes("Default true; false: query is a text."), "case_insensitive": yes("Default false."),
				"include": many("Names of files, such as *.py."), "match_per_line": yes("Default true; false: list files alone."), "max_results": num("Default 50, at most 500.")}, Answer: rest.Schema[matches]},
		{Method: "GET", Path: "/files/glob", ID: "glob_search", Tool: list, Summary: "Search a folder for files and folders by a pattern of their name or path.",
			Serve: c.serve((*call).glob), Needs: "pattern", Query: object{"pattern": str("Such as *.py."), "path": onePath["path"], "exclude": many("Patterns of what is left out."),
				"type": object{"type": "string", "enum": []string{"any", "file", "directory"}}, "max_results": num("Default 50, at most 500.")}, Answer: rest.Schema[matches]},
	}
}

// pages returns the routes of its pages.
func pages(c *chats) []rest.Route {
	document := func(h rest.Host, w http.ResponseWriter, _ *http.Request) error {
		web.JSON(w, http.StatusOK, h.Document(models(c)))
		return nil
	}
	return []rest.Route{
		{Method: "GET", Path: "/files/cwd", ID: "cwd", Tool: list, Summary: "Tell the working directory of a chat.",
			Serve: c.serve((*call).tellCwd), Answer: rest.Schema[done]},
		{Method: "POST", Path: "/files/cwd", ID: "set_cwd", Tool: list, Summary: "Set the working directory of a chat.",
			Serve: c.serve(decode((*call).setCwd)), Request: rest.Schema[named], Answer: rest.Schema[done]},
		{Method: "GET", Path: "/files/view", ID: "view", Tool: read, Summary: "Read a file as it is.",
			Serve: c.serve((*call).view), Query: onePath, Answer: rest.Media("application/octet-stream", object{})},
		{Method: "GET", Path: "/files/serve/{path...}", ID: "serve", Tool: read, Summary: "The same, by its path.",
			Serve: c.serve((*call).view), Answer: rest.Media("application/octet-stream", object{})},
		{Method: "POST", Path: "/files/upload", ID: "upload", Tool: write, Summary: "Put the files of a form into a folder.",
			Serve: c.serve((*call).upload), Query: object{"directory": str("Where to.")}, Request: rest.Media("multipart/form-data", object{}), Answer: rest.Schema[done]},
		{Method: "POST", Path: "/files/archive", ID: "archive", Tool: read, Summary: "Read files and folders as a ZIP.",
			Serve: c.serve(decode((*call).archive)), Request: rest.Schema[paths], Answer: rest.Media("application/zip", object{})},
		{Method: "POST", Path: "/files/mkdir", ID: "mkdir", Tool: shell, Summary: "Make a folder.",
			Serve: c.serve(decode((*call).mkdir)), Request: rest.Schema[named], Answer: rest.Schema[done]},
		{Method: "DELETE", Path: "/files/delete", ID: "delete", Tool: shell, Summary: "Remove a file, or a folder with what is in it.",
			Serve: c.serve((*call).remove), Query: onePath, Answer: rest.Schema[done]},
		{Method: "POST", Path: "/files/move", ID: "move", Tool: shell, Summary: "Move a file or a folder.",
			Serve: c.serve(decode((*call).move)), Request: rest.Schema[moved], Answer: rest.Schema[done]},
		{Method: "POST", Path: terminals, ID: "make_terminal", Tool: shell, Summary: "Make a terminal, which begins when it is followed.",
			Serve: c.serve((*call).newTerminal), Request: rest.Media("application/json", object{"type": "object"}), Answer: rest.Schema[newTerminal]},
		{Method: "GET", Path: terminals + "/{terminal_id}", ID: "follow_terminal", Tool: shell, Summary: "Follow a terminal by a WebSocket, to its end.", Status: http.StatusSwitchingProtocols,
			Serve: c.serve((*call).followTerminal), Answer: rest.Media("application/octet-stream", object{})},
		{Method: "GET", Path: "/ports", ID: "ports", Tool: list, Summary: "None: nothing in a container can be reached from outside.",
			Serve: constant(ports{[]int{}}), Answer: rest.Schema[ports], Idle: true},
		{Method: "GET", Path: "/system", ID: "system", Tool: list, Summary: "What a model is to know.",
			Serve: constant(prompt{system}), Answer: rest.Schema[prompt], Idle: true},
		{Method: "GET", Path: "/openapi.json", ID: "document", Tool: list, Summary: "The document of the model's tools.",
			Serve: document, Answer: rest.Media("application/json", object{"type": "object"})},
	}
}

const system = "The tools of this terminal run commands of bash in an isolated Linux container with Python. Files are kept in " + engine.WorkDir +
	", which is the home directory, and each command begins in the chat's working directory there. Everything else is lost with the container. Each command has a shell of its own. " +
	"Ports cannot be reached from outside, and commands have no terminal for full-screen programs."

// shownConfig is the configuration that its pages read before they send a token.
var shownConfig = object{"features": object{"terminal": true, "notebooks": false, "system": true}}

func constant(value any) func(rest.Host, http.ResponseWriter, *http.Request) error {
	return func(_ rest.Host, w http.ResponseWriter, _ *http.Request) error {
		web.JSON(w, http.StatusOK, value)
		return nil
	}
}

type (
	newCommand struct {
		Command string            `json:"command"`
		Cwd     string            `json:"cwd,omitempty" jsonschema:"Default the chat's working directory."`
		Env     map[string]string `json:"env,omitempty" jsonschema:"More variables of the environment."`
	}
	commandState struct {
		ID       string  `json:"id"`
		Command  string  `json:"command"`
		Status   string  `json:"status" jsonschema:"running, done or killed."`
		ExitCode *int    `json:"exit_code"`
		LogPath  *string `json:"log_path"`
	}
	process struct {
		commandState
		Output     []output `json:"output"`
		Truncated  bool     `json:"truncated"`
		NextOffset int64    `json:"next_offset"`
	}
	output struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}
	typed struct {
		Input string `json:"input" jsonschema:"With a newline where one is to be typed."`
	}
	named struct {
		Path string `json:"path"`
	}
	content struct {
		named
		Content string `json:"content"`
	}
	edits struct {
		named
		Edits []struct {
			Target      string `json:"target"`
			Replacement string `json:"replacement"`
			StartLine   int    `json:"start_line,omitempty"`
			EndLine     int    `json:"end_line,omitempty"`
			Multiple    bool   `json:"allow_multiple,omitempty"`
		} `json:"replacements"`
	}
	moved struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}
	paths struct {
		Paths []string `json:"paths"`
	}
	textLines struct {
		Path       string `json:"path"`
		TotalLines int    `json:"total_lines"`
		Content    string `json:"content"`
	}
	listed struct {
		Dir      string  `json:"dir"`
		Writable bool    `json:"writable"`
		Entries  []entry `json:"entries"`
	}
	entry struct {
		Name     string  `json:"name,omitempty"`
		Path     string  `json:"path,omitempty"`
		Type     string  `json:"type"`
		Size     int64   `json:"size"`
		Modified float64 `json:"modified"`
	}
	matches struct {
		Query     string `json:"query,omitempty"`
		Pattern   string `json:"pattern,omitempty"`
		Path      string `json:"path"`
		Matches   []any  `json:"matches"`
		Truncated bool   `json:"truncated"`
	}
	match struct {
		File    string `json:"file"`
		Line    int    `json:"line,omitempty"`
		Content string `json:"content,omitempty"`
	}
	ports struct {
		Ports []int `json:"ports"`
	}
	prompt struct {
		Prompt string `json:"prompt"`
	}
	done struct {
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

func (n named) at() string      { return n.Path }
func (n newCommand) at() string { return n.Cwd }
func (m moved) at() string      { return m.Source }
