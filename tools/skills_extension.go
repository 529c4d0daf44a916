// The protocol's extension for skills, by which clients find them: skills/list, skills/get and resources/directory/read.

package tools

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/skills"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
)

// SkillsExtension is the name by which a server declares it, with the value of SkillsCapability.
const SkillsExtension = "io.modelcontextprotocol/skills"

// SkillsCapability says that folders of skills can be read too.
var SkillsCapability = map[string]any{"directoryRead": true}

const typeFolder = "inode/directory"

type skillResource struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

type skillEntry struct {
	URI         string          `json:"uri"`
	FrontMatter json.RawMessage `json:"frontmatter"`
	Resources   []skillResource `json:"resources"`
}

type skillsListed struct {
	mcp.PaginatedResult
	Skills []skillEntry `json:"skills"`
}

type skillGot struct {
	mcp.CacheableResult
	Skill skillEntry `json:"skill"`
}

type folderRead struct {
	mcp.PaginatedResult
	Resources []mcp.Resource `json:"resources"`
}

// Methods returns the methods of the extensions that these settings enable, for a server of this name.
func (d *Deps) Methods(self mcp.Implementation) rpc.Methods {
	if d.Skills == nil {
		return nil
	}
	x := skillMethods{d, self}
	return rpc.Methods{"skills/list": x.list, "skills/get": x.get, "resources/directory/read": x.directory}
}

type skillMethods struct {
	deps *Deps
	self mcp.Implementation
}

// result returns the common fields of every answer. Skills may change at any moment.
func (x *skillMethods) result() (r mcp.CacheableResult) {
	r.ResultType, r.Meta = mcp.ResultTypeComplete, &mcp.Meta{}
	r.Meta.SetServerInfo(x.self)
	r.SetCacheHints(0, mcp.CacheScopePrivate)
	return r
}

// skillsPage is how large a page of skills/list becomes, in bytes; one skill alone may be larger.
const skillsPage = 256 << 10

func (x *skillMethods) list(_ context.Context, params json.RawMessage) (any, error) {
	after, err := cursorOf(params)
	if err != nil {
		return nil, err
	}
	answer := skillsListed{PaginatedResult: mcp.PaginatedResult{CacheableResult: x.result()}, Skills: []skillEntry{}}
	size := 0
	for _, k := range x.deps.Skills.Now().Skills {
		if k.Name <= after {
			continue
		}
		entry := entryOf(&k)
		own, err := json.Marshal(entry)
		if err != nil {
			return nil, err
		}
		if size += len(own); size > skillsPage && len(answer.Skills) > 0 {
			answer.NextCursor = mcp.Cursor(base64.URLEncoding.EncodeToString([]byte(after)))
			break
		}
		answer.Skills, after = append(answer.Skills, entry), k.Name
	}
	return answer, nil
}

// cursorOf returns the name of the last skill that the client got; empty: none.
func cursorOf(params json.RawMessage) (string, error) {
	var given struct {
		Cursor string `json:"cursor"`
	}
	if len(params) > 0 && json.Unmarshal(params, &given) != nil {
		return "", &rpc.InvalidParams{Message: "params.cursor must be a string"}
	}
	name, err := base64.URLEncoding.DecodeString(given.Cursor)
	if err != nil {
		return "", &rpc.InvalidParams{Message: fmt.Sprintf("cursor %q was not given by this server; send the nextCursor of its last answer, or none for the beginning", text.Shorten(given.Cursor, 80))}
	}
	return string(name), nil
}

func entryOf(k *skills.Skill) skillEntry {
	entry := skillEntry{URI: skillFileURI(k.Name, skills.Main), FrontMatter: k.FrontMatter}
	for _, f := range k.Files {
		entry.Resources = append(entry.Resources, skillResource{skillFileURI(k.Name, f.Path), "sha256:" + f.Digest, f.Size})
	}
	return entry
}

func (x *skillMethods) get(_ context.Context, params json.RawMessage) (any, error) {
	uri, err := uriOf(params)
	if err != nil {
		return nil, err
	}
	name, path, ok := parseSkillURI(uri)
	k := x.deps.Skills.Now().Find(name)
	if !ok || k == nil || path != skills.Main {
		return nil, &rpc.InvalidParams{Message: fmt.Sprintf("no skill is served at %q; skills/list tells those that there are", text.Shorten(uri, 120))}
	}
	return skillGot{x.result(), entryOf(k)}, nil
}

func uriOf(params json.RawMessage) (string, error) {
	var given struct {
		URI string `json:"uri"`
	}
	if json.Unmarshal(params, &given) != nil || given.URI == "" {
		return "", &rpc.InvalidParams{Message: "params.uri is missing, or no string"}
	}
	return given.URI, nil
}

// directory lists a skill's folder. A skill holds few enough files for one page.
func (x *skillMethods) directory(_ context.Context, params json.RawMessage) (any, error) {
	uri, err := uriOf(params)
	if err != nil {
		return nil, err
	}
	name, folder, ok := parseSkillURI(uri)
	k := x.deps.Skills.Now().Find(name)
	if ok = ok && k != nil; ok {
		answer := folderRead{PaginatedResult: mcp.PaginatedResult{CacheableResult: x.result()}, Resources: []mcp.Resource{}}
		if answer.Resources, ok = children(k, folder); ok {
			return answer, nil
		}
	}
	return nil, &rpc.InvalidParams{Message: fmt.Sprintf("%q is not a folder of a skill", text.Shorten(uri, 120))}
}

// children are the files and folders in a folder of a skill; ok says that there is such a folder.
func children(k *skills.Skill, folder string) (list []mcp.Resource, ok bool) {
	prefix := ""
	if folder != "" {
		prefix = folder + "/"
	}
	for _, f := range k.Files {
		below, in := strings.CutPrefix(f.Path, prefix)
		if !in {
			continue
		}
		child, _, deeper := strings.Cut(below, "/")
		kind := content.TypeByName(child)
		if deeper {
			kind = typeFolder
		}
		uri := skillFileURI(k.Name, prefix+child)
		if !slices.ContainsFunc(list, func(r mcp.Resource) bool { return r.URI == uri }) {
			list = append(list, mcp.NewResource(uri, child, mcp.WithMIMEType(kind)))
		}
	}
	return list, len(list) > 0
}
