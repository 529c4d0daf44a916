package tools

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

func wrapDeps(t *testing.T) *Deps {
	m := sandbox.NewManager(sandbox.DefaultConfig())
	t.Cleanup(func() { m.Close(context.Background()) })
	return &Deps{Manager: m, Logger: slog.New(slog.DiscardHandler), Secrets: secrets.New(map[string]string{"KEY": "hunter22"})}
}

func TestNamesAreThoseOfTheTools(t *testing.T) {
	config, kernels := sandbox.DefaultConfig(), make(map[sandbox.Language]sandbox.KernelConfig)
	config.Kernels = kernels
	for _, l := range kernel.Languages {
		kernels[l.Language] = sandbox.KernelConfig{}
	}
	m := sandbox.NewManager(config)
	defer m.Close(t.Context())
	connections := sql.NewConnections([]sql.Source{{Name: "main", Dialect: sql.PostgreSQL}}, nil)
	d := &Deps{Manager: m, SoftWait: time.Second, Databases: &Databases{Connections: connections}, Packages: &Packages{}}
	var names []string
	for _, tool := range d.list() {
		names = append(names, tool.definition.Name)
	}
	should.Equal(t, strings.Join(names, " "), strings.Join(Names, " "), "tools")
}

func TestDescriptionsPromiseWhatIsKnownOfTheImage(t *testing.T) {
	m := sandbox.NewManager(sandbox.DefaultConfig())
	defer m.Close(t.Context())
	promises := []string{"IPython works (magics", "numpy, pandas", "Run JavaScript or TypeScript (Node.js)", "lodash, mathjs"}
	for _, standard := range []bool{true, false} {
		d := &Deps{Manager: m, SoftWait: time.Second}
		if standard {
			d.Standard = []sandbox.Language{sandbox.Python, sandbox.JavaScript}
		}
		told := d.runCode(sandbox.Python.Info()).definition.Description + d.runCode(sandbox.JavaScript.Info()).definition.Description
		for _, promise := range promises {
			should.Hold(t, strings.Contains(told, promise) == standard, "of our own images (%v) it is said: %s", standard, told)
		}
	}
}

func TestDescriptionsNameTheServersOfTools(t *testing.T) {
	m := sandbox.NewManager(sandbox.DefaultConfig())
	defer m.Close(t.Context())
	for _, test := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"github", "memory"}, "Tools of github, memory: from sandbox import tools."},
		{[]string{"github", "memory", "filesystem", "sentry"}, "Tools of github and 3 more: from sandbox import tools."},
		{[]string{strings.Repeat("n", 64), "memory"}, "Tools of " + strings.Repeat("n", 64) + " and 1 more: from sandbox import tools."},
	} {
		d := &Deps{Manager: m, SoftWait: time.Second, ToolServers: test.names}
		told := d.runCode(sandbox.Python.Info()).definition.Description
		_, found, is := strings.Cut(told, "Tools of ")
		got := strings.TrimSpace("Tools of " + found)
		should.Hold(t, is == (test.want != "") && (!is || got == test.want), "got %q, want %q", got, test.want)
	}
}

func TestTheWrapperTurnsEveryEndIntoAResult(t *testing.T) {
	for name, test := range map[string]struct {
		handle handler
		want   string
	}{
		"fault": {func(context.Context, *params) (*render.Answer, error) {
			return nil, fault.New(fault.CodeTooLarge, "Split it.", "It has hunter22 bytes.").With("size_bytes", 7)
		}, "code_too_large: It has [masked: KEY] bytes.\nHint: Split it."},
		"any error": {func(context.Context, *params) (*render.Answer, error) {
			return nil, errors.New("open /home/me/secret: no")
		},
			"execution_failed: The server could not do this"},
		"panic": {func(context.Context, *params) (*render.Answer, error) { panic("/home/me") }, "execution_failed: The server could not do this"},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := wrapDeps(t).wrap(tool{handle: test.handle})(t.Context(), mcp.CallToolRequest{})
			must.Hold(t, err == nil && res.IsError, "got %+v, %v", res, err)
			text := res.Content[0].(mcp.TextContent).Text
			wire, _ := json.Marshal(res)
			if !strings.HasPrefix(text, test.want) || strings.Contains(string(wire), "/home/me") || strings.Contains(string(wire), "hunter22") {
				t.Errorf("got %s", wire)
			}
			fields, ok := res.Meta.AdditionalFields[errorKey].(map[string]any)
			should.Hold(t, ok && fields["code"] != "" && fields["hint"] != "", "fields are %v", res.Meta.AdditionalFields)
		})
	}
}

func TestACallWhoseContextEndedIsNotAnswered(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the client has gone")
	cancel(cause)
	_, err := wrapDeps(t).wrap(tool{handle: func(context.Context, *params) (*render.Answer, error) { return render.JSON(1) }})(ctx, mcp.CallToolRequest{})
	should.Be(t, err, cause)
}

// Who counts calls learns of each what it came to.
func TestCallsAreToldOf(t *testing.T) {
	for want, handle := range map[string]handler{
		CodeOK: func(context.Context, *params) (*render.Answer, error) { return render.JSON(1) },
		"not_found": func(context.Context, *params) (*render.Answer, error) {
			return nil, fault.New(fault.NotFound, "", "There is none.")
		},
		"quota_exceeded": func(context.Context, *params) (*render.Answer, error) {
			return &render.Answer{IsError: true, Fault: fault.New(fault.QuotaExceeded, "", "It is full.")}, nil
		},
		"execution_failed": func(context.Context, *params) (*render.Answer, error) { panic("bad") },
		CodeCancelled: func(ctx context.Context, _ *params) (*render.Answer, error) {
			ctx.Value(cancelKey{}).(context.CancelFunc)()
			return nil, ctx.Err()
		},
	} {
		t.Run(want, func(t *testing.T) {
			d, got := wrapDeps(t), []string{}
			d.Called = func(ctx context.Context, request mcp.CallToolRequest) (context.Context, func(string)) {
				ctx, cancel := context.WithCancel(ctx)
				return context.WithValue(ctx, cancelKey{}, cancel), func(code string) {
					cancel()
					got = append(got, request.Params.Name+" "+code)
				}
			}
			_, _ = d.wrap(tool{handle: handle})(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "a_tool"}})
			should.Hold(t, len(got) == 1 && got[0] == "a_tool "+want, "got %v", got)
		})
	}
}

type cancelKey struct{}

func TestCallsHaveALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := wrapDeps(t)
		d.CallsPerMinute, d.Calls = 2, fair.NewBudget(time.Minute, 2)
		m := server.NewMCPServer("x", "1")
		(&resources{deps: d, server: m}).count()
		m.AddTool(mcp.NewTool("a_tool"), d.wrap(tool{handle: func(context.Context, *params) (*render.Answer, error) { return render.JSON(1) }}))
		text := func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResourceContents{}}, nil
		}
		m.AddResource(mcp.NewResource("a:b", "one"), text)
		m.AddResourceTemplate(mcp.NewResourceTemplate("c:{d}", "many"), text)
		call := func(method, params string) string {
			return string(web.Encode(m.HandleMessage(t.Context(), []byte(`{"jsonrpc": "2.0", "id": 1, "method": "`+method+`", "params": `+params+`}`))))
		}
		const refused = "Limit of 2 calls a minute reached."
		for i, step := range []struct {
			method, params string
			passes         time.Duration
			refused        bool
		}{
			{"tools/call", `{"name": "a_tool"}`, 0, false},
			{"resources/read", `{"uri": "a:b"}`, 0, false},
			{"resources/read", `{"uri": "a:b"}`, 0, true},
			{"tools/call", `{"name": "a_tool"}`, 0, true},
			{"tools/list", `{}`, 0, false},
			{"resources/read", `{"uri": "c:d"}`, 30 * time.Second, false},
			{"resources/read", `{"uri": "c:d"}`, 0, true},
		} {
			time.Sleep(step.passes)
			got := call(step.method, step.params)
			should.Hold(t, strings.Contains(got, refused) == step.refused, "call %d: %s", i, got)
		}
		if got := call("tools/call", `{"name": "a_tool"}`); !strings.Contains(got, "Try again in 30 s. One call that does more takes the place of many.") || !strings.Contains(got, `"retry_after_seconds":30`) {
			t.Error(got)
		}
	})
}
