// Package dify serves the interface of Dify's sandbox, which the code and template nodes of its workflows call.
package dify

import (
	"context"
	"fmt"
	"net/http"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

const (
	// Name is the API's name in --apis.
	Name   = "dify"
	prefix = "/dify"
	// session is where all runs of a principal are.
	session = "dify"
	// maxText is the longest output, in bytes. Half an output would be another value in a workflow.
	maxText = 1 << 20
)

var languages = map[string]sandbox.Language{"python3": sandbox.Python, "nodejs": sandbox.JavaScript}

// New returns the API that Dify calls at CODE_EXECUTION_ENDPOINT.
func New() *rest.API {
	const sandboxes = prefix + "/v1/sandbox"
	health := func(w http.ResponseWriter, _ *http.Request) { web.JSON(w, http.StatusOK, "ok") }
	return &rest.API{
		Patterns: []string{prefix + "/"}, Refusal: refusal, Translate: apis.AcceptKey,
		Open: map[string]http.Handler{"GET " + prefix + "/health": http.HandlerFunc(health)},
		Routes: []rest.Route{
			{Method: "POST", Path: sandboxes + "/run", ID: "compatible.dify_run", Summary: "Run code in an interpreter of its own.", Tool: rest.RunTool,
				Serve: serve(run), Request: rest.Schema[newRun], Answer: rest.Schema[answer]},
			{Method: "GET", Path: sandboxes + "/dependencies", ID: "compatible.dify_dependencies", Summary: "None can be added by a request.", Tool: rest.RunTool,
				Serve: serve(dependencies), Answer: rest.Schema[answer]},
		},
	}
}

type newRun struct {
	Language string `json:"language" jsonschema:"python3 or nodejs."`
	Code     string `json:"code"`
	Preload  string `json:"preload,omitempty" jsonschema:"Code that runs first."`
	Network  bool   `json:"enable_network,omitempty" jsonschema:"Ignored: the server's settings say what code reaches."`
}

type answer struct {
	Code    int    `json:"code" jsonschema:"0, or the negative of an HTTP status."`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

type ran struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	Error    string `json:"error" jsonschema:"Why the code failed; empty: it did not."`
	ExitCode int    `json:"exit_code"`
}

// refusal is rest.API's.
func refusal(status int, fields map[string]any) {
	fields["message"], fields["code"], fields["data"] = apis.Sentence(fields), -status, nil
	delete(fields, "hint")
}

// serve answers with a handler's data. Dify reads why it was refused from an answer of 200 alone, and knows 503.
func serve(handle func(h rest.Host, r *http.Request) (any, error)) func(rest.Host, http.ResponseWriter, *http.Request) error {
	return func(h rest.Host, w http.ResponseWriter, r *http.Request) error {
		data, err := handle(h, r)
		switch status := web.StatusOf(err); {
		case err == nil:
			web.JSON(w, http.StatusOK, answer{0, "success", data})
		case status == http.StatusServiceUnavailable:
			return err
		default:
			web.JSON(w, http.StatusOK, answer{-status, apis.Sentence(fault.From(err).JSON()), nil})
		}
		return nil
	}
}

func run(h rest.Host, r *http.Request) (any, error) {
	var wanted newRun
	if err := rest.Decode(r, &wanted); err != nil {
		return nil, err
	}
	name, known := languages[wanted.Language]
	language, err := h.Language(string(name))
	if !known || err != nil {
		return nil, fault.New(fault.InvalidArgument, "Use python3 or nodejs.", "There is no language %q here.", text.Shorten(wanted.Language, 80))
	}
	code := wanted.Code
	if wanted.Preload != "" {
		code = wanted.Preload + "\n" + code
	}
	ctx := r.Context()
	res, err := apis.Run(ctx, h, session, language, "", code, true, 0)
	if err != nil {
		return nil, err
	}
	data := ran{ExitCode: res.ExitCode}
	if data.Stdout, err = textOf(ctx, h, res.Stdout); err == nil {
		data.Stderr, err = textOf(ctx, h, res.Stderr)
	}
	if err != nil {
		return nil, err
	}
	if res.Error != nil {
		data.Stderr += res.Error.Traceback
	}
	switch res.Status {
	case sandbox.Completed:
	case sandbox.Failed:
		data.Error = fmt.Sprintf("The code ended with exit status %d.\n%s", res.ExitCode, data.Stderr)
	default:
		data.Error = apis.Ended(res)
	}
	return data, nil
}

// textOf returns a stream whole, or refuses it.
func textOf(ctx context.Context, h rest.Host, of sandbox.Stream) (string, error) {
	part, err := apis.Part(ctx, h, session, of, 0, maxText)
	if err == nil && !part.Ends {
		err = fault.New(fault.ArtifactTooLarge, "Print less.", "The code printed %d bytes, and %d are the most.", of.Bytes, maxText)
	}
	return part.Text, err
}

func dependencies(rest.Host, *http.Request) (any, error) {
	return map[string]any{"dependencies": []string{}}, nil
}
