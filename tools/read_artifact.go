// The tool read_artifact: a file's type decides how it is read; files saved to the host.

package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// The most bytes of a file in one answer.
const (
	maxAudioBytes  = 4 << 20 // the largest line that clients take is 8 MiB
	maxDecodeBytes = 4 << 20 // of text that must be decoded before it can be cut

	answerRoom   = 6 // the memory for each byte in an answer: as read, masked, as base64 or decoded, and as a line of JSON
	documentRoom = 3 // and one of a document's text
)

type readFields struct {
	Path      string    `json:"path"`
	SizeBytes int64     `json:"size_bytes"`
	MIMEType  string    `json:"mime_type"`
	Modified  time.Time `json:"modified"`
	// Encoding is utf-8, utf-16, document, base64, resource, image, audio or file.
	Encoding string `json:"encoding"`
	Unit     string `json:"unit,omitempty"`
	Offset   int64  `json:"offset"`
	Returned int64  `json:"returned,omitempty"` // of the unit
	// NextOffset is where to read on; absent at the end.
	NextOffset *int64 `json:"next_offset,omitempty"`
	Changed    bool   `json:"changed,omitempty"`
	SavedTo    string `json:"saved_to,omitempty"`
	SHA256     string `json:"sha256,omitempty"` // of what was saved
	Download   string `json:"download_url,omitempty"`
	// Content is the text, where clients are given structured content and nothing else.
	Content string `json:"content,omitempty"`
}

func (f readFields) Meta() any {
	f.Content = ""
	return f
}

func (d *Deps) readArtifact() tool {
	options := []mcp.ToolOption{
		mcp.WithToolTitle("Read a file"),
		mcp.WithDescription("Read a file of the code sandbox, view an image: text (of PDF, documents too, in parts), first rows of data, audio; others if small."),
		mcp.WithString("path", mcp.Required(), mcp.Description("Such as a.csv, or a.csv@run_id: before that run.")),
		mcp.WithNumber("offset"),
		mcp.WithNumber("limit"),
		mcp.WithString("as", mcp.Enum(asForms...), mcp.Description("text: a notebook's cells; an archive's list. image, pdf: an HTML page, drawn. In Python as_.")),
		mcp.WithString("unit", mcp.Enum("lines", "bytes"), mcp.Description("Of offset, limit. bytes: a document in base64.")),
	}
	if d.HostDirs.Any() {
		options = append(options,
			mcp.WithString("save_to", mcp.Description("Save the whole file to this path of the user's machine instead, in a folder that the user has allowed.")),
			mcp.WithBoolean("overwrite", mcp.Description("Let save_to replace a file.")))
	}
	definition := mcp.NewTool("read_artifact", append(options, sessionParam(), hints(!d.HostDirs.Any()))...)
	definition.Annotations.DestructiveHint = mcp.ToBoolPtr(d.HostDirs.Any()) // a file of the user's may be replaced
	return tool{output: mcp.WithOutputSchema[readFields](), definition: definition, handle: d.handleRead}
}

// asForms are the forms that a file can be wanted in.
var asForms = []string{"auto", "text", filewire.Picture, filewire.Document}

// reading is the request of a call, and answers it.
type reading struct {
	d             *Deps
	session, path string
	offset, limit *int64
	unit          string
	as            string
	saveTo        string
	overwrite     bool
}

func (d *Deps) handleRead(ctx context.Context, p *params) (*render.Answer, error) {
	r := reading{
		d: d, path: p.required("path"), session: p.session(), offset: p.integer("offset"), limit: p.integer("limit"),
		unit: p.choice("unit", "lines", "bytes"), as: cmp.Or(p.choice("as", asForms...), p.choice("as_", asForms...), "auto"), saveTo: p.text("save_to"), overwrite: p.flag("overwrite"),
	}
	if r.saveTo != "" && (r.part() || r.as != "auto") {
		p.fail("save_to saves the whole file as it is, so there can be no offset, limit, unit or as with it.")
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	clean, err := sandbox.CleanPath(r.path)
	if err != nil {
		return nil, namingNearest(ctx, d.Manager, r.session, r.path, err)
	}
	r.path = clean
	answer := r.read
	if r.saveTo != "" {
		answer = r.save
	}
	a, err := answer(ctx)
	return a, namingNearest(ctx, d.Manager, r.session, r.path, err)
}

// namingNearest adds to a path that leads nowhere the file of the session that it most likely means.
func namingNearest(ctx context.Context, m *sandbox.Manager, session, path string, err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.NotFound && f.Code != fault.InvalidPath {
		return err
	}
	if near := m.Nearest(ctx, session, path); near != "" && near != path {
		f.Hint = fmt.Sprintf("The session has a file of this name: %q.", near)
	}
	return err
}

// part reports whether only a part of the file is wanted.
func (r reading) part() bool {
	return r.unit != "" || r.limit != nil || r.offset != nil && *r.offset != 0
}

func (r reading) from() int64 {
	if r.offset == nil {
		return 0
	}
	return *r.offset
}

// amount returns the amount to read: the requested one or the default, never more than most.
func (r reading) amount(byDefault, most int64) int64 {
	if r.limit == nil {
		return min(byDefault, most)
	}
	return min(*r.limit, most)
}

// piece is a part of a file, with figures of the whole.
type piece struct {
	file    sandbox.File
	session string
	data    []byte
	end     sandbox.ReadEnd
}

// fetch reads a part of the session's file, of at most so many bytes, whatever the sandbox sends, with room for its answer.
func (r reading) fetch(ctx context.Context, o sandbox.ReadOptions, most int64) (piece, error) {
	return r.fetchInto(ctx, o, most, answerRoom)
}

// fetchInto is fetch that takes each times the memory of the bytes that it reads.
func (r reading) fetchInto(ctx context.Context, o sandbox.ReadOptions, most, each int64) (piece, error) {
	from, err := r.d.Manager.OpenFile(ctx, r.session, r.path, o)
	if err != nil {
		return piece{}, err
	}
	defer func() { _ = from.Close() }()
	length := min(most, max(from.File().SizeBytes, 0))
	if _, err := room.Take(ctx, each*length); err != nil {
		return piece{}, err
	}
	var data bytes.Buffer
	data.Grow(int(length) + 1 + bytes.MinRead) // ReadFrom's margin beyond the end
	if _, err := data.ReadFrom(io.LimitReader(from, length+1)); err != nil {
		return piece{}, err
	}
	switch n := int64(data.Len()); {
	case n > most:
		return piece{}, fault.New(fault.EngineError, "Close the session: its code has interfered with it.", "The sandbox sent more of %q than was asked for.", text.Shorten(r.path, 120))
	case n > length:
		return piece{}, fault.New(fault.ExecutionFailed, "Call again when the code that writes the file has ended.", "%q has grown while it was read.", text.Shorten(r.path, 120))
	}
	return piece{from.File(), from.SessionID(), data.Bytes(), from.End()}, nil
}

// read returns the file in the way that suits its type.
func (r reading) read(ctx context.Context) (*render.Answer, error) {
	head, err := r.fetch(ctx, sandbox.ReadOptions{Limit: content.SniffBytes}, content.SniffBytes)
	if err != nil {
		return nil, err
	}
	kind := content.Detect(head.data, head.file.Path)
	fields := readFields{
		Path: head.file.Name(), SizeBytes: head.file.SizeBytes, MIMEType: kind.MIME, Modified: head.file.Modified.UTC(),
		Download: r.d.Links.Download(head.session, head.file.Name()),
	}
	isText := r.as == "text" && (r.readsCells(kind.MIME) || content.IsDocument(kind.MIME) || !kind.IsText && !content.IsWide(head.data))
	switch {
	case isText && head.file.Before != "":
		return nil, fault.New(fault.InvalidArgument, "Leave as out, or bring the file back with restore_session.", "%q can be had only as it is, not as text.", text.Shorten(r.path, 120))
	case isText:
		return r.readDocument(ctx, fields)
	case r.as == "auto" && r.unit != "bytes" && head.file.Before == "" && len(head.data) > 0 && content.IsDocument(kind.MIME):
		a, err := r.readDocument(ctx, fields)
		var f *fault.Error
		if err == nil || errors.As(err, &f) && f.Code == fault.InvalidContent { // a locked or broken file is of no use to a model
			return a.Noting(documentHint), err
		}
		asIs, failed := r.readAsIs(ctx, fields, kind, head.data)
		if failed != nil {
			return nil, err
		}
		return asIs.Noting(fmt.Sprintf("[not as text: %v]", err)), nil
	}
	return r.readAsIs(ctx, fields, kind, head.data)
}

// readAsIs returns the file itself, or a page of it as it is drawn.
func (r reading) readAsIs(ctx context.Context, fields readFields, kind content.Detected, head []byte) (*render.Answer, error) {
	isPicture := strings.HasPrefix(kind.MIME, "image/") && !kind.IsText
	switch {
	case r.as == filewire.Document || r.as == filewire.Picture && !isPicture:
		return r.readDrawn(ctx, fields)
	case isPicture && !r.part():
		a, err := r.readImage(ctx, fields, cmp.Or(kind.Image, kind.MIME))
		if !errors.Is(err, content.ErrBadImage) {
			return a, err
		}
	case strings.HasPrefix(kind.MIME, "audio/") && !r.part():
		return r.readAudio(ctx, fields)
	case content.IsWide(head):
		return r.readWide(ctx, fields)
	case kind.IsText && r.unit != "bytes":
		return r.readLines(ctx, fields)
	case kind.IsText:
		return r.readBytes(ctx, fields)
	case r.unit == "lines":
		return nil, fault.New(fault.InvalidArgument, "Leave unit out, or pass bytes.", "%q is %s, which has no lines.", text.Shorten(r.path, 120), kind.MIME)
	}
	return r.readBinary(ctx, fields)
}

func (r reading) readImage(ctx context.Context, fields readFields, mime string) (*render.Answer, error) {
	var whole piece
	var fitted content.Image
	err, note, shown := content.ErrTooManyPixels, "", slices.Contains(content.ImageTypes, mime)
	if shown && fields.SizeBytes <= content.MaxImageSource {
		if whole, err = r.fetchInto(ctx, sandbox.ReadOptions{Limit: -1}, content.MaxImageSource, 1); err != nil {
			return nil, err
		}
		fitted, err = r.d.renderer().FitImage(ctx, mime, whole.data)
	}
	if (content.IsTooLarge(err) || errors.Is(err, content.ErrBadImage)) && whole.file.Before == "" {
		fitted, note, err = r.fitShrunk(ctx, fields, mime)
	}
	if content.IsTooLarge(err) {
		return nil, fields.linked(fault.New(fault.ArtifactTooLarge, "Make a smaller image with code and read that; or pass save_to, where a folder for that is allowed.",
			"%q (%s) cannot be shown: %v.", text.Shorten(fields.Path, 120), fields.MIMEType, err)).With("size_bytes", fields.SizeBytes)
	}
	if err != nil {
		return nil, err
	}
	fields.Encoding, fields.Changed = "image", whole.end.Changed
	if _, err := room.Take(ctx, answerRoom*int64(len(fitted.Data))); err != nil {
		return nil, err
	}
	if shown && len(fitted.Data) != len(whole.data) {
		note += ", scaled down or turned upright to be shown"
	}
	return fileAnswer(fields, note, "", mcp.NewImageContent(base64.StdEncoding.EncodeToString(fitted.Data), fitted.MIME)), nil
}

// fitShrunk is FitImage for an image that a program in the session has made smaller, or one that clients take, with a note about its pages.
func (r reading) fitShrunk(ctx context.Context, fields readFields, mime string) (fitted content.Image, note string, err error) {
	most := base64.StdEncoding.EncodedLen(content.MaxImageBytes)
	if _, err := room.Take(ctx, int64(2*most)); err != nil {
		return fitted, "", err
	}
	picture, err := r.d.Manager.ReadDocument(ctx, r.session, sandbox.File{Path: fields.Path, SizeBytes: fields.SizeBytes}, mime, most)
	var f *fault.Error
	if errors.As(err, &f) && f.Code == fault.InvalidContent {
		return fitted, "", content.ErrBadImage
	}
	if err != nil {
		return fitted, "", err
	}
	if picture.LinesLeft > 0 {
		note = fmt.Sprintf(", the first of %d pages", picture.LinesLeft+1)
	}
	data, err := base64.StdEncoding.DecodeString(picture.Text)
	if err != nil {
		return fitted, "", content.ErrBadImage
	}
	fitted, err = r.d.renderer().FitImage(ctx, http.DetectContentType(data), data)
	return fitted, note, err
}

// readDrawn returns a page as the browser in the session draws it.
func (r reading) readDrawn(ctx context.Context, fields readFields) (*render.Answer, error) {
	if !strings.HasPrefix(fields.MIMEType, "text/html") && fields.MIMEType != "image/svg+xml" {
		return nil, fault.New(fault.InvalidArgument, "Leave as out, or draw it with code.", "%q is %s, and only an HTML page can be had as %s.", text.Shorten(r.path, 120), fields.MIMEType, r.as)
	}
	most := render.FileBytes(ctx, r.d.ArtifactBytes)
	if r.as == filewire.Picture {
		most = maxDecodeBytes // FitImage makes it smaller
	}
	drawn, err := r.fetch(ctx, sandbox.ReadOptions{Limit: -1, MaxBytes: most, As: r.as}, most)
	if err != nil {
		return nil, err
	}
	fields.SizeBytes = drawn.file.SizeBytes
	if r.as == filewire.Document {
		fields.Encoding, fields.MIMEType = "resource", "application/pdf"
		masked, note := r.maskedBase64(drawn.data)
		blob := mcp.BlobResourceContents{URI: artifactLink(drawn.session, fields.Path) + "#pdf", MIMEType: fields.MIMEType, Blob: masked}
		return fileAnswer(fields, ", drawn and attached"+note, "", mcp.NewEmbeddedResource(blob)), nil
	}
	fitted, err := r.d.renderer().FitImage(ctx, "image/png", drawn.data)
	if err != nil {
		return nil, err
	}
	fields.Encoding, fields.MIMEType = "image", fitted.MIME
	return fileAnswer(fields, ", drawn", "", mcp.NewImageContent(base64.StdEncoding.EncodeToString(fitted.Data), fitted.MIME)), nil
}

func (r reading) readAudio(ctx context.Context, fields readFields) (*render.Answer, error) {
	most := render.FileBytes(ctx, maxAudioBytes)
	if fields.SizeBytes > most {
		return nil, tooLarge(fields, most, "Cut or compress it with code")
	}
	whole, err := r.fetch(ctx, sandbox.ReadOptions{Limit: -1}, most)
	if err != nil {
		return nil, err
	}
	fields.Encoding, fields.Changed = "audio", whole.end.Changed
	return fileAnswer(fields, "", "", mcp.NewAudioContent(base64.StdEncoding.EncodeToString(r.d.Secrets.MaskBytes(whole.data)), fields.MIMEType)), nil
}

const (
	attachedHint = "[pass as: text for what is in an archive, unit: bytes for base64, or save_to to put it on the user's machine, where a folder for that is allowed]"
	documentHint = "[the file itself: unit: bytes for base64, or save_to, where a folder for that is allowed]"
)

// readWhole attaches a file that is small: clients keep such a resource, or open it, and a program takes it from there.
func (r reading) readWhole(ctx context.Context, fields readFields) (*render.Answer, error) {
	most := render.FileBytes(ctx, r.d.ArtifactBytes)
	if fields.SizeBytes > most {
		return nil, tooLarge(fields, most,
			"Read it with code, pass as: text for a document or an archive, or offset and limit for slices")
	}
	whole, err := r.fetch(ctx, sandbox.ReadOptions{Limit: -1}, most)
	if err != nil {
		return nil, err
	}
	fields.Encoding, fields.Changed = "resource", whole.end.Changed
	masked, note := r.maskedBase64(whole.data)
	blob := mcp.BlobResourceContents{URI: artifactLink(whole.session, fields.Path), MIMEType: fields.MIMEType, Blob: masked}
	return fileAnswer(fields, ", attached"+note, attachedHint, mcp.NewEmbeddedResource(blob)), nil
}

// maskedBase64 encodes bytes with the secrets masked, and returns a note if it masked any.
func (r reading) maskedBase64(data []byte) (text, note string) {
	masked := r.d.Secrets.MaskBytes(data)
	if !bytes.Equal(masked, data) {
		note = " with secrets masked by asterisks"
	}
	return base64.StdEncoding.EncodeToString(masked), note
}

// readBinary returns a small file whole, or as much base64 of the requested part as an answer can hold.
func (r reading) readBinary(ctx context.Context, fields readFields) (*render.Answer, error) {
	if !r.part() {
		return r.readWhole(ctx, fields)
	}
	most := r.amount(r.textLimit(), r.textLimit())
	part, err := r.fetch(ctx, sandbox.ReadOptions{Offset: r.from(), Limit: most}, most)
	if err != nil {
		return nil, err
	}
	fields.Encoding, fields.Unit = "base64", "bytes"
	return r.d.renderer().Fit(ctx, len(part.data), func(most int) *render.Answer {
		fields, part := fields, part.upTo(most)
		fields.took(r, part, int64(most))
		text, note := r.maskedBase64(part.data)
		return r.textAnswer(fields, byteNote(fields)+", base64"+note, text)
	}), nil
}

// took notes which part of the file is in the answer.
func (f *readFields) took(r reading, part piece, units int64) {
	f.Offset, f.Returned, f.Changed = r.from(), units, part.end.Changed
	if !part.end.Complete && units > 0 {
		next := f.Offset + units
		f.NextOffset = &next
	}
}

// tooLarge refuses a file that no answer can hold.
func tooLarge(fields readFields, limit int64, instead string) *fault.Error {
	return fields.linked(fault.New(fault.ArtifactTooLarge, instead+"; or pass save_to to put it on the user's machine, where a folder for that is allowed.",
		"%q (%s) has %s, and an answer holds at most %s of it.", text.Shorten(fields.Path, 120), fields.MIMEType,
		humanize.Bytes(uint64(fields.SizeBytes)), humanize.Bytes(uint64(limit)))).
		With("size_bytes", fields.SizeBytes).With("limit_bytes", limit)
}

// linked adds the link by which the user gets a file that the model cannot.
func (f readFields) linked(refusal *fault.Error) *fault.Error {
	if f.Download == "" {
		return refusal
	}
	refusal.Hint += " The user can download it: " + f.Download
	return refusal.With("download_url", f.Download)
}

// textAnswer is fileAnswer for text.
func (r reading) textAnswer(fields readFields, note, text string) *render.Answer {
	if r.d.StructuredContent {
		fields.Content = text
	}
	return fileAnswer(fields, note, text)
}

// fileAnswer describes a file in one line, before its text or other content.
func fileAnswer(fields readFields, note, text string, more ...mcp.Content) *render.Answer {
	head := fmt.Sprintf("[%s, %s, %s%s]", fields.Path, humanize.Bytes(uint64(fields.SizeBytes)), fields.MIMEType, note)
	if fields.Changed {
		head += "\n[the file was changed while it was read]"
	}
	if text != "" {
		head += "\n" + text
	}
	return &render.Answer{Content: append([]mcp.Content{mcp.NewTextContent(head)}, more...), Fields: fields}
}

// save writes the whole file to the host.
func (r reading) save(ctx context.Context) (*render.Answer, error) {
	from, err := r.d.Manager.OpenFile(ctx, r.session, r.path, sandbox.ReadOptions{Limit: -1})
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }()
	file := from.File()
	// The size comes from the sandbox, and the file could fill the host's disk.
	if most := r.d.Manager.Config().VolumeBytes; most > 0 && file.SizeBytes > most {
		return nil, fault.New(fault.ArtifactTooLarge, "Write what is needed of it to smaller files with code, without holes; the setting is --volume-limit.",
			"%q has %s, holes included, and all files of a session may take %s.",
			text.Shorten(file.Path, 120), humanize.IBytes(uint64(file.SizeBytes)), humanize.IBytes(uint64(most))).
			With("size_bytes", file.SizeBytes).With("limit_bytes", most)
	}
	to, err := r.d.HostDirs.Create(r.saveTo, path.Base(file.Path), r.overwrite)
	if err != nil {
		return nil, err
	}
	defer func() { _ = to.Close() }()
	measured := content.Measure(io.LimitReader(from, file.SizeBytes+1), 0, file.SizeBytes, transferProgress(ctx))
	if _, err := io.Copy(to, measured); err != nil {
		return nil, err
	}
	if end := from.End(); end.Changed || measured.Size != file.SizeBytes {
		return nil, fault.New(fault.ExecutionFailed, "Call again when the code that writes the file has ended.",
			"%q was changed while it was read, and nothing was saved.", text.Shorten(file.Path, 120))
	}
	if err := to.Commit(); err != nil {
		return nil, err
	}
	fields := readFields{
		Path: file.Name(), SizeBytes: measured.Size, MIMEType: content.Detect(measured.Head, file.Path).MIME, Modified: file.Modified.UTC(),
		Encoding: "file", SavedTo: to.Path(), SHA256: measured.SHA256(), Download: r.d.Links.Download(from.SessionID(), file.Name()),
	}
	text := fmt.Sprintf("Saved %s (%s) to %s.", file.Name(), humanize.Bytes(uint64(measured.Size)), to.Path())
	return render.Text(text, fields), nil
}
