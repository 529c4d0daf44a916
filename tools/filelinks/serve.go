package filelinks

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// A document of a session may attack its reader. It runs no script unless it is in a frame of ours, loads nothing, sends no form, and
// belongs to no origin.
const (
	policy = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; media-src data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
	// policyPDF is without the sandbox, in which Chromium shows no PDF; a viewer of its own does, and the file is no page.
	policyPDF = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"
	// policyFramed lets a page run its own scripts. It cannot keep them from leading their frame elsewhere; policyFrame can.
	policyFramed = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' data: blob:; worker-src data: blob:; " +
		"style-src 'unsafe-inline'; img-src data: blob:; font-src data: blob:; media-src data: blob:; connect-src data: blob:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
	// policyFrame is for the page around the frame.
	policyFrame = "default-src 'none'; frame-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	// frame is that page, with the frame's query.
	frame = `<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>%s</title>
<style>html, body, iframe { margin: 0; border: 0; width: 100%%; height: 100%%; display: block; overflow: hidden; background: white }</style>
<iframe title="The file" sandbox="allow-scripts" referrerpolicy="no-referrer" src="?%s"></iframe></html>
`
)

// ServeHTTP answers a link: GET and HEAD of a download, PUT of an upload. Without a valid link it does not reveal whether a session or a
// file exists. It looks up no path on the host. A ResponseWriter that wraps a server's own needs an Unwrap method, by which deadlines are
// set.
func (l *Links) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	w := l.pacedWriter(to)
	defer w.end()
	if err := l.answer(w, r); err != nil {
		web.Refuse(w)
		f := fault.From(err)
		if seconds := f.Fields[fault.RetryAfter]; seconds != nil {
			w.Header().Set("Retry-After", fmt.Sprint(seconds))
		}
		http.Error(w, render.FaultText(f), web.StatusOf(err))
	}
}

func (l *Links) answer(w *pacedWriter, r *http.Request) error {
	if !l.isOurs(r.Host) {
		return web.NewRefusal(http.StatusForbidden, fault.InvalidArgument, "Open the link as it was given.", "The address of this request is not that of this server.")
	}
	method := r.Method
	switch method {
	case http.MethodGet, http.MethodPut:
	case http.MethodHead:
		method = http.MethodGet
	default:
		w.Header().Set("Allow", "GET, HEAD, PUT")
		return web.NewRefusal(http.StatusMethodNotAllowed, fault.InvalidArgument, "GET downloads a file, PUT uploads one, each with a link of its own.", "Links take no %.20q.", r.Method)
	}
	session, path, ok := parse(r.URL)
	if !ok {
		return errNoFile()
	}
	query := r.URL.Query()
	mark, ok := l.verify(method, session, path, query.Get("expires"), query.Get("signature"))
	if !ok {
		return web.NewRefusal(http.StatusForbidden, fault.InvalidArgument, "Take the whole link, for this method, from a later answer: links end with the server that gave them.", "The signature of this link is not valid.")
	}
	if end, err := strconv.ParseInt(query.Get("expires"), 10, 64); err != nil || l.now().Unix() >= end {
		return web.NewRefusal(http.StatusForbidden, fault.InvalidArgument, "Ask for the file once more: list_artifacts gives new links.", "This link has expired.")
	}
	if err := l.o.Count(); err != nil { // not earlier: a request without a link must not use up the quota
		return err
	}
	return l.inTurn(w, r, session, func() error {
		if method == http.MethodPut {
			return l.upload(w, r, session, path, mark)
		}
		if err := l.check(session, mark); err != nil {
			return err
		}
		return l.download(w, r, session, path)
	})
}

// Send answers a GET or a HEAD with a file of a session, as a link to it does. The error, which is a fault, is the caller's to
// answer with.
func (l *Links) Send(to http.ResponseWriter, r *http.Request, session, path string) error {
	lease, err := l.o.Manager.Lease(session, false)
	if err != nil {
		return err
	}
	return l.transfer(to, r, lease.SessionID, func(w *pacedWriter) error { return l.download(w, r, lease.SessionID, path) })
}

// SendAll answers a GET with all files of a session in one archive: below a folder with its name, without links and what is hidden. The
// error, which is a fault, is the caller's to answer with.
func (l *Links) SendAll(to http.ResponseWriter, r *http.Request, session string) error {
	lease, err := l.o.Manager.Lease(session, false)
	if err != nil {
		return err
	}
	return l.transfer(to, r, lease.SessionID, func(w *pacedWriter) error {
		w.Header().Set("Content-Type", "application/gzip")
		w.Header().Set("Content-Disposition", "attachment; filename="+lease.SessionID+".tar.gz")
		packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // there is that level
		archive, begun := tar.NewWriter(packed), false
		_, err := l.o.Manager.ExportFiles(r.Context(), lease.SessionID, func(e sandbox.Entry, content io.Reader) error {
			if e.Kind != 'f' || strings.HasPrefix(e.Path, ".") || strings.Contains(e.Path, "/.") {
				return nil
			}
			begun = true
			name := lease.SessionID + "/" + strings.ReplaceAll(e.Path, `\`, "_") // which parts folders on Windows
			if err := archive.WriteHeader(&tar.Header{Name: name, Size: e.SizeBytes, Mode: int64(e.Mode & 0o755), ModTime: e.Modified}); err != nil {
				return err
			}
			_, err := io.CopyN(archive, content, e.SizeBytes) // what is appended meanwhile is left out
			return err
		})
		switch {
		case err == nil:
			_ = errors.Join(archive.Close(), packed.Close()) // the client may be gone
		case begun:
			panic(http.ErrAbortHandler) // a part was sent, which is not to look whole
		default:
			w.Header().Del("Content-Disposition")
		}
		return err
	})
}

// Receive puts a request's body into a session, which is made when it does not exist, as an upload link does. The error, which is a
// fault, is the caller's to answer with.
func (l *Links) Receive(to http.ResponseWriter, r *http.Request, session, path string, overwrite bool) error {
	path, err := sandbox.CleanPath(path)
	if err != nil {
		return err
	}
	lease, err := l.o.Manager.Lease(session, true)
	if err != nil {
		return err
	}
	return l.transfer(to, r, lease.SessionID, func(w *pacedWriter) error { return l.receive(w, r, lease.SessionID, path, overwrite) })
}

// transfer serves a request that comes by no link.
func (l *Links) transfer(to http.ResponseWriter, r *http.Request, session string, serve func(*pacedWriter) error) error {
	w := l.pacedWriter(to)
	w.holdsRefusals = true
	err := l.inTurn(w, r, session, func() error { return serve(w) })
	if err == nil {
		w.end()
	}
	return err
}

// inTurn moves a file when it is its session's turn.
func (l *Links) inTurn(w *pacedWriter, r *http.Request, session string, serve func() error) error {
	patience, cancel := context.WithTimeout(r.Context(), turnPatience)
	defer cancel()
	leave, err := l.turns.Take(patience, session)
	if err != nil {
		w.Header().Set("Retry-After", "5")
		return web.NewRefusal(http.StatusServiceUnavailable, fault.ServerBusy, "Try again when another transfer has ended.", "Too many files of this session are transferred at once.")
	}
	defer leave()
	web.Keep(r.Context(), l.o.Manager.Config().Tenant)
	err = serve()
	var own *web.Refusal
	if err == nil || errors.As(err, &own) {
		return err
	}
	f := fault.From(err)
	l.o.Logger.Info("file link refused", "session", session, "code", f.Code, "cause", f.Unwrap())
	switch f.Code {
	case fault.NotFound, fault.SessionNotFound, fault.InvalidPath, fault.InvalidSessionID:
		return errNoFile()
	case fault.SessionBusy, fault.MaxSessions: // which pass by themselves
		return &web.Refusal{Status: http.StatusServiceUnavailable, Fault: f}
	}
	return err
}

// isOurs reports whether a request names this server, and not a host name that somebody pointed here (DNS rebinding). A browser always sends
// the host; a client that sends none is no browser.
func (l *Links) isOurs(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return host == "" || isLoopback(host) || strings.EqualFold(host, l.o.BaseURL.Hostname())
}

func isLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// errNoFile is the answer if there is no such file, session or path, which are not told apart.
func errNoFile() *fault.Error {
	return fault.New(fault.NotFound, "list_artifacts lists the files there are, with links.", "There is no such file.")
}

// check reports a session that is not the one that a link was made for.
func (l *Links) check(session string, of mark) error {
	lease, err := l.o.Manager.Lease(session, false)
	if err == nil && markOf(lease) != of {
		err = errNoFile()
	}
	return err
}

func (l *Links) download(w *pacedWriter, r *http.Request, session, path string) error {
	from, head, err := l.look(r.Context(), session, path)
	if err != nil {
		return err
	}
	defer from.close()
	kind := content.Detect(head, from.file.Path)
	header := w.Header()
	if kind.MIME == "text/html" && l.o.Scripts {
		switch r.Header.Get("Sec-Fetch-Dest") {
		case "document":
			return sendFrame(w, r, from.file.Path)
		case "iframe":
			header.Set("Content-Security-Policy", policyFramed)
		}
	}
	header.Set("Content-Type", typeOf(kind, head))
	header.Set("Content-Disposition", disposition(kind.MIME, from.file.Path))
	header.Set("ETag", fmt.Sprintf(`"%x-%x"`, from.file.SizeBytes, from.file.Modified.UnixMilli()))
	if kind.MIME == "application/pdf" {
		header.Set("Content-Security-Policy", policyPDF)
	}
	if strings.Contains(r.Header.Get("Range"), ",") {
		r = r.Clone(r.Context()) // others may read the header meanwhile
		r.Header.Del("Range")    // many small parts would be many streams; the whole file may be sent instead
	}
	http.ServeContent(w, r, "", from.file.Modified, from)
	if from.err != nil {
		l.o.Logger.Info("download cut off", "session", session, "error", from.err)
	}
	switch {
	case w.held == http.StatusPreconditionFailed:
		return web.NewRefusal(w.held, fault.InvalidArgument, "Ask without If-Match and If-Unmodified-Since, or with what the file has now.",
			"The file is not as the request demands.")
	case w.held != 0:
		header.Del("Content-Length")
		return web.NewRefusal(w.held, fault.InvalidArgument, "Ask for bytes that the file has; Content-Range says how many there are.",
			"The range %q is none of the file's.", text.Shorten(r.Header.Get("Range"), 80))
	}
	return nil
}

// sendFrame sends the frame around a session's page that a browser opens. A browser that does not send the purpose of its request gets the
// file alone, whose scripts then do not run.
func sendFrame(w http.ResponseWriter, r *http.Request, file string) error {
	query := r.URL.Query()
	query.Set("frame", "1") // browsers refuse frames of the address that they are in
	header := w.Header()
	header.Set("Content-Security-Policy", policyFrame)
	header.Set("Content-Type", "text/html; charset=utf-8")
	text := fmt.Sprintf(frame, html.EscapeString(path.Base(file)), html.EscapeString(query.Encode()))
	header.Set("Content-Length", strconv.Itoa(len(text)))
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, text) // the browser may be gone
	}
	return nil
}

// look opens a file, and reads enough of it to detect its type.
func (l *Links) look(ctx context.Context, session, path string) (*source, []byte, error) {
	open := func(o sandbox.ReadOptions) (*sandbox.FileReader, error) {
		return l.o.Manager.OpenFile(ctx, session, path, o)
	}
	from, err := open(sandbox.ReadOptions{Limit: content.SniffBytes})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = from.Close() }()
	file := from.File()
	// The size comes from the sandbox, and a file with holes can be of any size.
	if most := l.o.Manager.Config().VolumeBytes; most > 0 && file.SizeBytes > most {
		return nil, nil, fault.New(fault.ArtifactTooLarge, "Write what is needed of it to smaller files with code, without holes; the setting is --volume-limit.",
			"The file has %s, holes included, and all files of a session may take %s.", humanize.IBytes(uint64(file.SizeBytes)), humanize.IBytes(uint64(most))).
			With("size_bytes", file.SizeBytes).With("limit_bytes", most)
	}
	head, err := io.ReadAll(io.LimitReader(from, content.SniffBytes))
	return &source{open: open, file: file}, head, err
}

// typeOf is the type with the encoding of a text: browsers take one that says nothing for Windows' own.
func typeOf(kind content.Detected, head []byte) string {
	cut := head
	for i := 0; i < utf8.UTFMax && !utf8.Valid(cut) && len(cut) > 0; i++ {
		cut = cut[:len(cut)-1] // a character that goes on behind the head
	}
	if kind.IsText && utf8.Valid(cut) {
		return kind.MIME + "; charset=utf-8"
	}
	return kind.MIME
}

// disposition tells a browser to show the types that it can show, and to save the rest.
func disposition(kind, file string) string {
	how := "attachment"
	family, _, _ := strings.Cut(kind, "/")
	if slices.Contains([]string{"image", "text", "audio", "video"}, family) || kind == "application/pdf" || kind == "application/json" {
		how = "inline"
	}
	return cmp.Or(mime.FormatMediaType(how, map[string]string{"filename": path.Base(file)}), how)
}

// uploaded is the answer to an upload.
type uploaded struct {
	SessionID string `json:"session_id"`
	Path      string `json:"path"`
	SizeBytes int64  `json:"size_bytes"`
	SHA256    string `json:"sha256"`
	MIMEType  string `json:"mime_type"`
}

func (l *Links) upload(w *pacedWriter, r *http.Request, session, path string, nonce mark) error {
	g, err := l.claim(nonce)
	if err != nil {
		return err
	}
	done := false
	defer func() { l.release(nonce, done) }()
	if err = l.check(session, g.session); err == nil {
		err = l.receive(w, r, session, path, g.overwrite)
	}
	done = err == nil
	return err
}

// receive writes the body of a request into an existing session.
func (l *Links) receive(w *pacedWriter, r *http.Request, session, path string, overwrite bool) error {
	switch most := l.o.UploadBytes; {
	case r.Header.Get("Content-Range") != "":
		return web.NewRefusal(http.StatusBadRequest, fault.InvalidContent, "Send the whole file in one request.", "A part of a file cannot be uploaded.")
	case r.ContentLength < 0:
		return web.NewRefusal(http.StatusLengthRequired, fault.InvalidContent, "Send it with a Content-Length, as curl -T FILE does.", "The length of the file is not said.")
	case most > 0 && r.ContentLength > most:
		return content.UploadTooLarge(most).With("size_bytes", r.ContentLength)
	}
	body := l.pacedReader(w, r.Body)
	measured := content.Measure(body, l.o.UploadBytes, r.ContentLength, nil)
	put, id, err := l.o.Manager.Upload(r.Context(), sandbox.Upload{
		SessionID: session, Path: path, Overwrite: overwrite, Existing: true, Content: measured,
	})
	switch {
	case errors.Is(body.err, os.ErrDeadlineExceeded):
		return web.NewRefusal(http.StatusRequestTimeout, fault.InvalidContent, "Send it again by the same link.", "The file came too slowly, and nothing was kept.")
	case body.err != nil:
		return web.NewRefusal(http.StatusBadRequest, fault.InvalidContent, "Send it again by the same link.", "The file ended before its length was reached, and nothing was kept.")
	case err != nil:
		return err
	}
	web.JSON(w, r, http.StatusCreated, uploaded{
		SessionID: id, Path: put.Path, SizeBytes: measured.Size, SHA256: measured.SHA256(), MIMEType: content.Detect(measured.Head, put.Path).MIME,
	})
	return nil
}

// claim takes an upload link for one request.
func (l *Links) claim(nonce mark) (grant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.grants[nonce]
	switch {
	case g == nil:
		return grant{}, web.NewRefusal(http.StatusForbidden, fault.InvalidArgument, "upload_file gives another one.", "This link has been used, and is good for one file.")
	case g.busy:
		return grant{}, web.NewRefusal(http.StatusConflict, fault.SessionBusy, "Wait for it, or try again when it has failed.", "A file is being uploaded by this link.")
	}
	g.busy = true
	return *g, nil
}

// release gives an upload link back, unless its file is there.
func (l *Links) release(nonce mark, used bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if used {
		delete(l.grants, nonce)
	} else if g := l.grants[nonce]; g != nil {
		g.busy = false
	}
}
