// Links to files of sessions, as resources.

package tools

import (
	"context"
	"net/url"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

const artifactURI = "artifact://"

// artifactLink names a file of a session.
func artifactLink(session, path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return artifactURI + session + "/" + strings.Join(parts, "/")
}

// parseArtifactURI takes a link apart again.
func parseArtifactURI(uri string) (session, path string, err error) {
	session, escaped, _ := strings.Cut(strings.TrimPrefix(uri, artifactURI), "/")
	if err := runs.CheckSessionID(session); err != nil {
		return "", "", err
	}
	path, err = url.PathUnescape(escaped)
	if err != nil {
		return "", "", fault.New(fault.InvalidPath, "Write % as %25.", "The path of %q is not percent-encoded.", text.Shorten(uri, 120))
	}
	path, err = sandbox.CleanPath(path)
	return session, path, err
}

// maxLinks bounds the links of one answer.
const maxLinks = 10

// linked adds links to the files of a run, for the clients that let their user open them. There is
// nothing by which a client says that it does: VS Code shows a link as an attachment. Others write it
// out for the model as one more line, although the text names the files already, or drop the text
// for it. So the links go to VS Code alone, and the text is the same for all.
func linked(ctx context.Context, a *render.Answer, res *sandbox.Result) *render.Answer {
	if !render.OpensLinks(ctx) {
		return a
	}
	for _, artifact := range res.Artifacts[:min(len(res.Artifacts), maxLinks)] {
		name := artifact.Path[strings.LastIndex(artifact.Path, "/")+1:]
		link := mcp.NewResourceLink(artifactLink(res.SessionID, artifact.Path), name, "", content.TypeByName(artifact.Path))
		a.Content = append(a.Content, link)
	}
	return a
}
