// The server's own skill: how to use it well, by the protocol's extension for skills.

package tools

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// SkillsExtension is the name by which clients and servers declare the extension.
const SkillsExtension = "io.modelcontextprotocol/skills"

const (
	skillURI  = "skill://" + skillName + "/SKILL.md"
	skillName = "code-sandbox"
	skillWhen = "How to run code, undo and branch, query databases, bring files in and out, and wait for long runs with this server's tools. " +
		"Use it before work of several steps in the code sandbox."
)

// skill returns the text of the skill, which is that of sandbox://usage behind a head.
func (d *Deps) skill() string {
	return "---\nname: " + skillName + "\ndescription: " + skillWhen + "\n---\n\n" + usage + toolUsage(d.ToolServers)
}

// skillsResult is the answer of both methods; each has one of the two.
type skillsResult struct {
	mcp.CacheableResult
	Skills []any `json:"skills,omitempty"`
	Skill  any   `json:"skill,omitempty"`
}

// tellSkill answers skills/list, or skills/get where one is asked for.
func (d *Deps) tellSkill(one bool) func(context.Context, json.RawMessage) (any, *mcp.JSONRPCErrorDetails) {
	return func(_ context.Context, params json.RawMessage) (any, *mcp.JSONRPCErrorDetails) {
		var asked struct {
			URI string `json:"uri"`
		}
		if _ = json.Unmarshal(params, &asked); one && asked.URI != skillURI {
			return nil, &mcp.JSONRPCErrorDetails{Code: mcp.INVALID_PARAMS, Message: "Invalid params: uri must be " + skillURI + ", the only skill here"}
		}
		content := d.Secrets.Mask(d.skill()) // as it is read
		sum := sha256.Sum256([]byte(content))
		entry := map[string]any{
			"uri": skillURI, "frontmatter": map[string]string{"name": skillName, "description": skillWhen},
			"resources": []any{map[string]any{"uri": skillURI, "digest": "sha256:" + hex.EncodeToString(sum[:]), "size": len(content)}},
		}
		var r skillsResult
		r.ResultType = mcp.ResultTypeComplete
		r.SetCacheHints(0, mcp.CacheScopePrivate)
		if one {
			r.Skill = entry
		} else {
			r.Skills = []any{entry}
		}
		return r, nil
	}
}

// declareSkill declares the extension to clients that declare it.
func declareSkill(s *server.MCPServer) {
	hooks := cmp.Or(s.GetHooks(), &server.Hooks{})
	declare := func(client *mcp.ClientCapabilities, to *mcp.ServerCapabilities) {
		if client == nil || client.Extensions[SkillsExtension] == nil {
			return
		}
		if to.Extensions == nil {
			to.Extensions = make(map[string]any)
		}
		to.Extensions[SkillsExtension] = struct{}{}
	}
	hooks.AddAfterInitialize(func(_ context.Context, _ any, request *mcp.InitializeRequest, result *mcp.InitializeResult) {
		declare(&request.Params.Capabilities, &result.Capabilities)
	})
	hooks.AddAfterDiscover(func(_ context.Context, _ any, request *mcp.DiscoverRequest, result *mcp.DiscoverResult) {
		declare(request.Params.Meta.ClientCapabilities(), &result.Capabilities)
	})
	server.WithHooks(hooks)(s)
}
