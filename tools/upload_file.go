// The tool upload_file: a file's content from where the call says.

package tools

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fetch"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

type uploadFields struct {
	SessionID string `json:"session_id"`
	Path      string `json:"path"`
	SizeBytes *int64 `json:"size_bytes,omitempty"` // of what was uploaded, with the two below
	SHA256    string `json:"sha256,omitempty"`
	MIMEType  string `json:"mime_type,omitempty"`
	// UploadURL is where the file is to be put, where no content was given.
	UploadURL  string     `json:"upload_url,omitempty"`
	Expires    *time.Time `json:"expires,omitempty"`
	LimitBytes int64      `json:"limit_bytes,omitempty"`
}

func (d *Deps) uploadFile() tool {
	options := []mcp.ToolOption{
		mcp.WithToolTitle("Upload a file"),
		mcp.WithDescription(d.describeUpload()),
		mcp.WithString("filename", mcp.Required(), mcp.Description("Such as folder/data.csv. With a url, folder/ takes the file's own name.")),
		mcp.WithString("text"),
		mcp.WithString("content_base64"),
	}
	if d.Fetch != nil {
		options = append(options, mcp.WithString("url", mcp.Description("Public address, fetched by the server.")))
	}
	if d.HostDirs.Any() {
		options = append(options, mcp.WithString("host_path", mcp.Description("File of the user's machine, in a folder that the user has allowed.")))
	}
	definition := mcp.NewTool("upload_file", append(options,
		mcp.WithBoolean("overwrite", mcp.Description("Replace a file of that name.")),
		sessionParam(), hints(false))...)
	definition.Annotations.OpenWorldHint = mcp.ToBoolPtr(d.Fetch != nil)
	return tool{output: mcp.WithOutputSchema[uploadFields](), definition: definition, handle: d.handleUpload, long: true, uses: []clientheader.Use{clientheader.Downloads, clientheader.Sessions}}
}

func (d *Deps) describeUpload() string {
	text := fmt.Sprintf("Put a file into the code sandbox, below %s/%s. Give the content in one way",
		engine.WorkDir, content.InputDir)
	larger := d.contentNames()[2:]
	text += ". At most " + humanize.Bytes(uint64(d.UploadBytes))
	if len(larger) > 0 {
		text += fmt.Sprintf(", or %s from a %s", humanize.Bytes(uint64(d.DownloadBytes)), strings.Join(larger, " or "))
	}
	if d.Links != nil {
		text += fmt.Sprintf("; or none, for a link to PUT up to %s to", humanize.Bytes(uint64(d.DownloadBytes)))
	}
	return text + "."
}

func (d *Deps) handleUpload(ctx context.Context, p *params) (*render.Answer, error) {
	upload := sandbox.Upload{SessionID: p.session(), Overwrite: p.flag("overwrite"), Times: clientheader.Of(ctx).Times()}
	filename, given := p.required("filename"), readContent(p)
	if err := p.check(); err != nil {
		return nil, err
	}
	if len(given.given) == 0 && d.Links != nil {
		return uploadLink(d.Links, upload.SessionID, filename, upload.Overwrite)
	}
	if err := given.one(d.contentNames()); err != nil {
		return nil, err
	}
	if _, err := content.InputPath(filename, "name"); err != nil { // before anything is fetched
		return nil, err
	}
	from, err := d.open(ctx, given)
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }()
	if upload.Path, err = content.InputPath(filename, from.name); err != nil {
		return nil, err
	}
	measured := content.Measure(from, from.limit, from.size, transferProgress(ctx))
	upload.Content = measured
	file, id, err := d.Manager.Upload(ctx, upload)
	if err != nil {
		return nil, err
	}
	fields := uploadFields{
		SessionID: id, Path: file.Path, SizeBytes: &measured.Size, SHA256: measured.SHA256(),
		MIMEType: content.Detect(measured.Head, file.Path).MIME,
	}
	text := fmt.Sprintf("Uploaded %s/%s (%s, %s).", engine.WorkDir, fields.Path, humanize.Bytes(uint64(measured.Size)), fields.MIMEType)
	return render.Text(text, fields), nil
}

// uploadLink answers with a link for a file that no argument can hold.
func uploadLink(links *filelinks.Links, session, filename string, overwrite bool) (*render.Answer, error) {
	path, err := content.InputPath(filename, "")
	if err != nil {
		return nil, err
	}
	g, err := links.Upload(session, path, overwrite)
	if err != nil {
		return nil, err
	}
	fields := uploadFields{SessionID: g.SessionID, Path: path, UploadURL: g.URL, Expires: &g.Expires, LimitBytes: g.LimitBytes}
	text := fmt.Sprintf("Nothing is uploaded yet. Until %s this link takes one file of at most %s by PUT, as %s/%s:\ncurl -T FILE '%s'",
		g.Expires.UTC().Format("2006-01-02 15:04:05 UTC"), humanize.Bytes(uint64(g.LimitBytes)), engine.WorkDir, path, g.URL)
	return render.Text(text, fields), nil
}

// uploadContent is the ways in which a call may pass a file's content.
type uploadContent struct {
	text, base64  content.Text
	url, hostPath string
	given         []string // the names of those that were
}

func readContent(p *params) uploadContent {
	c := uploadContent{text: p.long("text"), base64: p.long("content_base64"), url: p.text("url"), hostPath: p.text("host_path")}
	for _, name := range []string{"text", "content_base64", "url", "host_path"} {
		if p.given[name] != nil && p.given[name] != "" {
			c.given = append(c.given, name)
		}
	}
	if (p.given["text"] == "" || p.given["content_base64"] == "") && len(c.given) == 0 { // an empty file
		c.given, c.text = []string{"text"}, content.ShortText("")
	}
	return c
}

// contentNames are the arguments that the tool has for the content.
func (d *Deps) contentNames() []string {
	names := []string{"text", "content_base64"}
	if d.Fetch != nil {
		names = append(names, "url")
	}
	if d.HostDirs.Any() {
		names = append(names, "host_path")
	}
	return names
}

func (c *uploadContent) one(names []string) error {
	if len(c.given) == 1 {
		return nil
	}
	return fault.New(fault.InvalidArgument, "Pass exactly one of "+list(names)+".",
		"The content must be given in exactly one way; this call has %s.", list(c.given))
}

// source is a file's content on its way in.
type source struct {
	io.ReadCloser
	name  string // of its own, or empty
	size  int64  // or below 0
	limit int64  // bytes; 0: it bounds itself
}

// open opens the source that the call names. The error is a fault.
func (d *Deps) open(ctx context.Context, c uploadContent) (source, error) {
	switch {
	case c.text != nil:
		return source{ReadCloser: io.NopCloser(c.text.Reader()), size: -1, limit: d.UploadBytes}, nil
	case c.base64 != nil:
		return source{ReadCloser: io.NopCloser(content.NewBase64Reader(c.base64.Reader())), size: -1, limit: d.UploadBytes}, nil
	case c.given[0] == "url" && d.Fetch == nil:
		return source{}, fault.New(fault.DownloadFailed, "Upload the content itself, as text or content_base64.", "This server fetches no addresses.")
	case c.given[0] == "url":
		asked := clientheader.Of(ctx).Bounds()
		download, err := d.Fetch(ctx, c.url, fetch.Options{MaxBytes: asked.DownloadBytes, Timeout: asked.DownloadTimeout})
		if err != nil {
			return source{}, err
		}
		return source{ReadCloser: download.Body, name: download.Name, size: download.Size}, nil
	}
	file, info, err := d.HostDirs.Open(c.hostPath)
	if err != nil {
		return source{}, err
	}
	if info.Size() > d.DownloadBytes {
		_ = file.Close()
		return source{}, content.UploadTooLarge(d.DownloadBytes).With("size_bytes", info.Size())
	}
	return source{ReadCloser: file, name: info.Name(), size: info.Size(), limit: d.DownloadBytes}, nil
}

// transferProgress reports a transfer to a client that asked for it.
func transferProgress(ctx context.Context) func(done, total int64) {
	return func(done, total int64) {
		rpc.NotifyProgress(ctx, float64(done), float64(total), humanize.Bytes(uint64(done)))
	}
}
