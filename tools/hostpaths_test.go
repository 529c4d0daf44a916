//go:build unix

package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// In the stateless era a client tells its roots in a call that comes again. It runs nothing again, and one that tells none is answered all the same.
func TestRootsInACallThatComesAgain(t *testing.T) {
	c := newTalker(t, func(d *Deps) { d.Local = true })
	ask := func(roots bool, more args) (said mcp.CallToolResult, whole string) {
		can := args{}
		if roots {
			can["roots"] = args{}
		}
		params := args{"name": "run_bash", "arguments": args{"code": "echo once >>runs; cat /home/ann/work/deep/x.csv; wc -l <runs"}, "_meta": args{
			mcp.MetaKeyProtocolVersion: "2026-07-28", mcp.MetaKeyClientInfo: args{"name": "t", "version": "1"}, mcp.MetaKeyClientCapabilities: can,
		}}
		for name, value := range more {
			params[name] = value
		}
		whole = c.ask("tools/call", params)
		var answer struct{ Result json.RawMessage }
		must.OK(t, json.Unmarshal([]byte(whole), &answer))
		_ = json.Unmarshal(answer.Result, &said)
		return said, whole
	}
	_, whole := ask(false, nil)
	should.Contain(t, whole, "--mount /home/ann/work/deep:mine", "without roots")
	asked, whole := ask(true, nil)
	must.Hold(t, asked.ResultType == mcp.ResultTypeInputRequired && strings.Contains(whole, `"method":"roots/list"`), "asked: %s", whole)
	for told, want := range map[string]any{
		"--mount /home/ann/work:mine":      args{"roots": args{"roots": []args{{"uri": "file:///home/ann/work"}, {"uri": "file:///home/bob"}}}},
		"--mount /home/ann/work/deep:mine": args{},
	} {
		_, whole := ask(true, args{"requestState": asked.RequestState, "inputResponses": want})
		should.Hold(t, strings.Contains(whole, told) && strings.Contains(whole, `\n2\n`), "want %q in %s", told, whole)
	}
}
