// Paths of the user's machine, for the owner whose client is on it.

package tools

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// elsewhere matches how paths of people's machines begin, and paths in a session do not.
var elsewhere = regexp.MustCompile(`^(?:/home/|/Users/|/Volumes/|/media/|~[/\\]|[A-Za-z]:[\\/])`)

// hostPath says how code gets at a file of the user's machine; empty: the path is of no such file. It looks at nothing on the machine, and
// asks the client which of its folders holds the file.
func (d *Deps) hostPath(ctx context.Context, asked string) string {
	if !d.Local {
		return ""
	}
	asked = strings.ReplaceAll(asked, `\\`, `\`) // as a literal has it
	for _, m := range d.Manager.Config().Mounts {
		if rest, err := filepath.Rel(m.Folder, asked); err == nil && filepath.IsLocal(rest) {
			return fmt.Sprintf("%s of the user's machine is mounts/%s here: read %s.", m.Folder, m.Name, path.Join(engine.MountsDir, m.Name, filepath.ToSlash(rest)))
		}
	}
	if d.HostDirs.Holds(asked) && d.exists("upload_file") {
		return fmt.Sprintf("That is on the user's machine: upload_file with host_path %q brings it in.", asked)
	}
	folder := ""
	if elsewhere.MatchString(asked) {
		folder = asked[:max(1, strings.LastIndexAny(asked, `/\\`))]
	}
	if isForeign(asked) {
		for _, root := range rpc.Roots(ctx) {
			if rest, err := filepath.Rel(root, asked); err == nil && filepath.IsLocal(rest) {
				folder = root
			}
		}
	}
	if folder != "" {
		return fmt.Sprintf("That is on the user's machine: the user adds --mount %s:mine (code reads it) or --allow-host-dir %[1]s (upload_file's host_path) to the server.", folder)
	}
	return ""
}

// isForeign reports whether a path may be one of the user's machine.
func isForeign(asked string) bool {
	return elsewhere.MatchString(asked) || path.IsAbs(asked) && !strings.HasPrefix(asked, "/mnt/")
}

// lacksRoots reports whether the answer to a run names a path for which the client must come again with its roots.
func (d *Deps) lacksRoots(ctx context.Context, res *sandbox.Result) (lacks bool) {
	if tells, again := rpc.TellsRoots(ctx); !d.Local || !tells || !again || roundOf(ctx) > 0 || taskOf(ctx) != nil {
		return false
	}
	r := d.renderer()
	r.HostPath = func(_ context.Context, asked string) string {
		lacks = lacks || isForeign(asked)
		return ""
	}
	r.Hint(ctx, res)
	return lacks
}

// WithProject adds the folder that a client works in to mounts, before the client has told it.
func WithProject(mounts []engine.Mount) []engine.Mount {
	return append(mounts[:len(mounts):len(mounts)], engine.Mount{Folder: "the folder that the client works in", Name: "project"})
}

// mountsFor describes the folders of the user's machine for the owner whose client is on it, as instructions.
func mountsFor(mounts []engine.Mount) string {
	var folders []string
	for _, m := range mounts[:min(len(mounts), mountsNamed)] {
		folders = append(folders, "mounts/"+m.Name+" is "+m.Folder)
	}
	if len(folders) == 0 {
		return ""
	}
	return " Of the user's machine, " + strings.Join(folders, ", ") + "."
}
