package tools

import (
	"context"
	"encoding/base64"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
)

// maxResource is the most bytes of a file that a resource returns, unless the user allows more: in base64, and with JSON's overhead for most
// texts, it fits the longest line that clients take.
const maxResource = 5 << 20

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
		return nil, namingNearest(ctx, r.deps.Manager, session, path, err)
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
