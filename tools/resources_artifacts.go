package tools

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// maxResource is the most bytes of a file that a resource returns, unless the user allows more: in base64, and with JSON's overhead for most
// texts, it fits the longest line that clients take.
const maxResource = 5 << 20

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
	if err := sandbox.CheckSessionID(session); err != nil {
		return "", "", err
	}
	path, err = url.PathUnescape(escaped)
	if err != nil {
		return "", "", fault.New(fault.InvalidPath, "Write % as %25.", "The path of %q is not percent-encoded.", text.Shorten(uri, 120))
	}
	path, err = sandbox.CleanPath(path)
	return session, path, err
}

// artifact returns a file whole: text as text, with secrets masked, and the rest as a blob.
func (r *resources) artifact(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	contents, err := r.readArtifact(ctx, request.Params.URI)
	if err != nil {
		return nil, r.refused(ctx, request.Params.URI, err)
	}
	return []mcp.ResourceContents{contents}, nil
}

func (r *resources) readArtifact(ctx context.Context, uri string) (mcp.ResourceContents, error) {
	session, path, err := parseArtifactURI(uri)
	if err != nil {
		return nil, err
	}
	of := reading{d: r.deps, session: session, path: path}
	head, err := of.fetch(ctx, sandbox.ReadOptions{Limit: content.SniffBytes}, content.SniffBytes)
	if err != nil {
		return nil, r.deps.namingNearest(ctx, session, path, err)
	}
	kind := content.Detect(head.data, head.file.Path)
	most := max(maxResource, r.deps.ArtifactBytes)
	if head.file.SizeBytes > most {
		return nil, tooLarge(readFields{Path: path, SizeBytes: head.file.SizeBytes, MIMEType: kind.MIME, Download: r.deps.Links.Download(session, path)}, most, "Read it in parts with read_artifact")
	}
	whole, err := of.fetch(ctx, sandbox.ReadOptions{Limit: -1}, most)
	if err != nil {
		return nil, err
	}
	if kind.IsText && utf8.Valid(whole.data) {
		return mcp.TextResourceContents{URI: uri, MIMEType: kind.MIME, Text: r.deps.Secrets.Mask(string(whole.data))}, nil
	}
	blob := base64.StdEncoding.EncodeToString(r.deps.Secrets.MaskBytes(whole.data))
	return mcp.BlobResourceContents{URI: uri, MIMEType: kind.MIME, Blob: blob}, nil
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
