package e2b

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// A template is a name of this server's image, with variables. Nothing is built: it is ready if the image has what its steps install.

const maxTemplates = 256

var (
	templateName    = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,99}$`)
	baseImages      = []string{"e2bdev/base", "e2bdev/code-interpreter", "python", "python:3", "node", "node:lts", "debian", "debian:stable", "debian:trixie"}
	betweenCommands = regexp.MustCompile(`&&|;|\n`)
	installing      = regexp.MustCompile("^(?:sudo |\\w+=\\S+ |uv )*(apt|pip|npm)(?:-get|3)? (?:update|clean|install((?: +[^\\s$`|&()*]+)+))$")
	// fuse are packages that can do nothing where nothing may be mounted. Mastra asks for them by default.
	fuse = []string{"fuse", "fuse3", "s3fs", "gcsfuse", "blobfuse2"}
)

type template struct {
	FromImage    string `json:"fromImage"`
	FromTemplate string `json:"fromTemplate"`
	Start        string `json:"startCmd"`
	Ready        string `json:"readyCmd"`
	Steps        []struct {
		Type string   `json:"type"`
		Args []string `json:"args"`
	} `json:"steps"`
}

// needs adds a template's variables, and returns the packages that it installs. The error is that it asks for more.
func (t *template) needs(env map[string]string) (packages []string, err error) {
	if t.FromTemplate == "" && !slices.Contains(baseImages, strings.TrimSuffix(t.FromImage, ":latest")) {
		return nil, refuse(http.StatusBadRequest, "the image %q is not here: take the template %s", text.Shorten(t.FromImage, maxQuoted), base)
	}
	if t.Start+t.Ready != "" {
		return nil, refuse(http.StatusBadRequest, "nothing runs unasked here: start %q as a command", text.Shorten(t.Start+t.Ready, maxQuoted))
	}
	last := map[string]string{"USER": user, "WORKDIR": home}
	for i, step := range t.Steps {
		args, ok := step.Args, len(step.Args) > 0
		switch {
		case ok && step.Type == "RUN":
			for _, line := range betweenCommands.Split(args[0], -1) {
				found := installing.FindStringSubmatch(strings.TrimSpace(strings.NewReplacer(`"`, "", "'", "").Replace(line)))
				if ok = ok && found != nil; ok {
					for _, name := range strings.Fields(found[2]) {
						if name[0] != '-' && !slices.Contains(fuse, name) {
							packages = append(packages, found[1]+":"+name)
						}
					}
				}
			}
		case ok && step.Type == "ENV" && len(args)%2 == 0:
			for pair := range slices.Chunk(args, 2) {
				env[pair[0]] = pair[1]
			}
		case ok && last[step.Type] != "":
			last[step.Type] = args[0]
		default:
			ok = false
		}
		if !ok {
			return nil, refuse(http.StatusBadRequest, "step %d cannot be done here: %s %s", i+1, text.Shorten(step.Type, maxQuoted), text.Shorten(strings.Join(args, " "), maxQuoted))
		}
	}
	if last["USER"] != user || realPath(last["WORKDIR"]) != engine.WorkDir || textBytes(env) > maxRecord/8 {
		return nil, refuse(http.StatusBadRequest, "a template ends with USER %s and WORKDIR %s, and has variables of at most %d bytes", user, home, maxRecord/8)
	}
	return packages, nil
}

// template returns a template's variables; nil: there is none.
func (c *call) template(name string) (env map[string]string) {
	if name = strings.TrimSuffix(name, ":default"); name == base || name == interpreter {
		return map[string]string{}
	}
	if templateName.MatchString(name) {
		content, _ := os.ReadFile(c.templateFile(name))
		_ = json.Unmarshal(content, &env)
	}
	return env
}

// templateFile has the variables of a template: one that was built elsewhere is known here.
func (c *call) templateFile(name string) string {
	return filepath.Join(c.Sessions().Config().StateDir, "e2b-templates", name)
}

func (c *call) newTemplate() error {
	var wanted struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	if err := c.decode(&wanted); err != nil {
		return err
	}
	name := []string{strings.TrimSuffix(wanted.Name, ":default")}
	if !templateName.MatchString(name[0]) || name[0] == base || name[0] == interpreter || len(wanted.Tags) > 0 {
		return refuse(http.StatusBadRequest, "%q cannot be a template's name: take small letters, digits, - and _, and no tags", text.Shorten(wanted.Name, maxQuoted))
	}
	return c.answer(http.StatusAccepted, object{"templateID": name[0], "buildID": rand.Text(), "public": false, "names": name, "tags": []string{"default"}, "aliases": name})
}

func (c *call) buildTemplate() error {
	var wanted template
	if err := c.decode(&wanted); err != nil {
		return err
	}
	name, env := c.r.PathValue("template"), map[string]string{}
	if wanted.FromTemplate != "" {
		env = c.template(wanted.FromTemplate)
	}
	if env == nil || !templateName.MatchString(name) {
		return refuse(http.StatusNotFound, "template %q not found", text.Shorten(wanted.FromTemplate, maxQuoted))
	}
	packages, err := wanted.needs(env)
	if err == nil && len(packages) > 0 {
		err = c.checkInstalled(packages)
	}
	if err != nil {
		return httpError(err)
	}
	file := c.templateFile(name)
	if all, _ := os.ReadDir(filepath.Dir(file)); len(all) >= maxTemplates && c.template(name) == nil {
		return refuse(http.StatusTooManyRequests, "there are %d templates, as many as there may be: delete one (DELETE /templates/NAME), or build one of them anew", maxTemplates)
	}
	if os.MkdirAll(filepath.Dir(file), 0o700) != nil || state.WriteFile(file, web.Encode(env)) != nil {
		return refuse(http.StatusInternalServerError, "the template cannot be recorded")
	}
	return c.answer(http.StatusAccepted, object{})
}

// checkInstalled refuses packages that the image lacks. It asks in a session of its own.
func (c *call) checkInstalled(packages []string) error {
	b, ctx := newBox(record{ID: newID()}), c.r.Context()
	if _, _, err := c.Begin(ctx, b.record.ID, sandbox.Python, sandbox.SessionLimits{}, ""); err != nil {
		return err
	}
	defer func() { _, _ = c.Sessions().CloseSession(context.WithoutCancel(ctx), b.record.ID, false) }()
	return c.operate(b, "lacks", object{"packages": packages}, nil, func([]byte) error { return nil })
}

func (s *server) templateRoutes(add router) {
	ready := func(c *call) error {
		name := c.r.PathValue("template")
		if c.template(name) == nil {
			return refuse(http.StatusNotFound, "template %q not found", text.Shorten(name, maxQuoted))
		}
		return c.answer(http.StatusOK, object{"templateID": name, "buildID": c.r.PathValue("build"), "public": false, "status": "ready", "logEntries": []string{}, "logs": []string{}})
	}
	add("POST", "/v3/templates", "new_template", rest.RunTool, "Name a template.", (*call).newTemplate)
	add("POST", "/v2/templates/{template}/builds/{build}", "build_template", rest.RunTool, "Check what a template asks for.", (*call).buildTemplate)
	add("GET", "/templates/{template}/builds/{build}/status", "template_status", list, "Tell that a template is ready.", ready)
	add("DELETE", "/templates/{template}", "delete_template", rest.RunTool, "Delete a template.", func(c *call) error {
		name := c.r.PathValue("template")
		if !templateName.MatchString(name) || os.Remove(c.templateFile(name)) != nil {
			return refuse(http.StatusNotFound, "template %q not found", text.Shorten(name, maxQuoted))
		}
		return c.answer(http.StatusNoContent, nil)
	})
	add("GET", "/templates/aliases/{template}", "find_template", list, "Tell whether there is a template.", ready)
}
