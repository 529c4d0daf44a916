// The user's skills: their descriptions for models, and their resources.

package tools

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/skills"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
)

const skillURI = "skill://"

// skillNames limits the bytes of names in a description: it is in every conversation.
const skillNames = 240

// describeSkills names the skills that there are at the server's start. Nothing else of a skill comes to a model unasked.
func describeSkills(loader *skills.Loader) string {
	if loader == nil {
		return ""
	}
	names := loader.AtStart()
	if len(names) == 0 {
		return ""
	}
	list, left := "", skillNames
	for i, name := range names {
		if left -= len(name) + 2; left < 0 {
			list += fmt.Sprintf(" and %d more", len(names)-i) // session_info lists them
			break
		}
		if i > 0 {
			list += ", "
		}
		list += name
	}
	return "Skills in " + engine.SkillsDir + " (read NAME/" + skills.Main + " with code first): " + list + "."
}

type skillFields struct {
	Path        string `json:"path"`
	Description string `json:"description"`
}

type leftOutFields struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// The limits of session_info's text on skills, in bytes and in number.
const (
	skillsBytes    = 4000
	leastOfSkill   = 40
	skillsShown    = skillsBytes / leastOfSkill
	leftOutsShown  = 20
	mostOfLeftOuts = 300
)

// skillsOf describes the skills of containers that are made now; more is how many are left out here.
func skillsOf(loader *skills.Loader) (list []skillFields, out []leftOutFields, more int) {
	if loader == nil {
		return nil, nil, 0
	}
	set := loader.Now()
	each := skillsBytes / max(1, len(set.Skills))
	for _, k := range set.Skills[:min(len(set.Skills), skillsShown)] {
		list = append(list, skillFields{engine.SkillsDir + "/" + k.Name, told(k.Description, each)})
	}
	for _, o := range set.LeftOut[:min(len(set.LeftOut), leftOutsShown)] {
		out = append(out, leftOutFields{o.Name, text.Safe(o.Why, mostOfLeftOuts)})
	}
	return list, out, len(set.Skills) - len(list) + len(set.LeftOut) - len(out)
}

// told is a text of a skill's in one line, of at most so many bytes and an ellipsis.
func told(description string, bytes int) string {
	line := strings.Join(strings.Fields(description), " ")
	if len(line) > bytes {
		return text.Safe(line, bytes) + "…"
	}
	return text.Safe(line, bytes)
}

// skillFileURI names a file of a skill, or a folder of it; an empty path: its own.
func skillFileURI(name, path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.TrimSuffix(skillURI+name+"/"+strings.Join(parts, "/"), "/")
}

// parseSkillURI takes such a name apart again. A trailing slash is no part of it.
func parseSkillURI(uri string) (name, path string, ok bool) {
	rest, is := strings.CutPrefix(uri, skillURI)
	name, escaped, _ := strings.Cut(rest, "/")
	path, err := url.PathUnescape(escaped)
	return name, path, is && err == nil
}

// registerSkills serves the files of skills as resources, and keeps each SKILL.md among those that are listed.
func (r *resources) registerSkills() {
	if r.deps.Skills == nil {
		return
	}
	r.server.AddResourceTemplate(
		mcp.NewResourceTemplate(skillURI+"{name}/{+path}", "File of a skill",
			mcp.WithTemplateDescription("A file by its path below "+engine.SkillsDir+", percent-encoded where a URI needs it.")),
		server.ResourceTemplateHandlerFunc(r.skillFile))
	r.deps.Skills.Watch(r.updateSkills)
	rpc.Hooks(r.server).AddBeforeListResources(func(context.Context, any, *mcp.ListResourcesRequest) { r.deps.Skills.Now() })
	go r.deps.Skills.Now() // nothing waits for it at the start
}

// updateSkills needs no lock: the loader calls it for one set after the other.
func (r *resources) updateSkills(set *skills.Set) {
	now := make(map[string]bool)
	var come []server.ServerResource
	for _, k := range set.Skills {
		uri := skillFileURI(k.Name, skills.Main)
		now[uri] = true
		come = append(come, server.ServerResource{
			Resource: mcp.NewResource(uri, k.Name, mcp.WithMIMEType(typeMarkdown), mcp.WithResourceDescription(told(k.Description, 4<<10))),
			Handler:  r.skillFile,
		})
	}
	var gone []string
	for uri := range r.skills {
		if !now[uri] {
			gone = append(gone, uri)
		}
	}
	r.skills = now
	if len(come) > 0 {
		r.server.AddResources(come...)
	}
	if len(gone) > 0 {
		r.server.DeleteResources(gone...)
	}
}

// skillFile returns a file whole, as artifact does.
func (r *resources) skillFile(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	contents, err := r.readSkillFile(request.Params.URI)
	if err != nil {
		return nil, r.refused(ctx, request.Params.URI, err)
	}
	return []mcp.ResourceContents{contents}, nil
}

func (r *resources) readSkillFile(uri string) (mcp.ResourceContents, error) {
	name, path, ok := parseSkillURI(uri)
	k := r.deps.Skills.Now().Find(name)
	if !ok || k == nil {
		return nil, fault.New(fault.NotFound, "resources/list has those that there are.", "There is no skill %q.", text.Shorten(name, 80))
	}
	for _, f := range k.Files {
		if f.Path != path {
			continue
		}
		if f.Size > maxResource {
			return nil, fault.New(fault.ArtifactTooLarge, "Read it with code.", "%s/%s/%s is larger than a resource may be.", engine.SkillsDir, k.Name, f.Path)
		}
		data, err := k.Read(f)
		if err != nil {
			return nil, err
		}
		kind := content.Detect(data[:min(len(data), content.SniffBytes)], f.Path)
		if kind.IsText && utf8.Valid(data) {
			return mcp.TextResourceContents{URI: uri, MIMEType: kind.MIME, Text: r.deps.Secrets.Mask(string(data))}, nil
		}
		blob := base64.StdEncoding.EncodeToString(r.deps.Secrets.MaskBytes(data))
		return mcp.BlobResourceContents{URI: uri, MIMEType: kind.MIME, Blob: blob}, nil
	}
	return nil, fault.New(fault.NotFound, "skills/get and its folder in "+engine.SkillsDir+" show its files.", "The skill %s has no file %q.", k.Name, text.Shorten(cmp.Or(path, "."), 80))
}
