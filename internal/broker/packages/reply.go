package packages

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// reply writes the answer to one request, and measures it for the log.
type reply struct {
	http.ResponseWriter
	r      *http.Request
	by     caller.Caller
	from   *index
	isPage bool // an index page is asked for
	status int
	bytes  int64
	rule   string // that refused it
	why    string
}

// WriteHeader remembers the status.
func (x *reply) WriteHeader(status int) {
	x.status = status
	x.ResponseWriter.WriteHeader(status)
}

// Write counts.
func (x *reply) Write(p []byte) (int, error) {
	n, err := x.ResponseWriter.Write(p) //nolint:gosec // its clients are installers
	x.bytes += int64(n)
	return n, err
}

// sendFile answers with a file, or the part of it that is asked for.
func (x *reply) sendFile(f *os.File, kind string) error {
	x.Header().Set("Content-Type", kind)
	x.Header().Set("Cache-Control", "no-store") // the cache is here, and the session's disk is small
	http.ServeContent(x, x.r, "", time.Time{}, f)
	return nil
}

// send answers with a body.
func (x *reply) send(status int, contentType string, body []byte) {
	x.Header().Set("Content-Type", contentType)
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.Header().Set("Cache-Control", "no-store")
	x.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = x.Write(body)
	}
}

// refuse answers with an error as the ecosystem's client shows it. Clients retry a 5xx, some for half a minute, without a word meanwhile;
// so the answer for a failing index is 424, which no client retries.
func (x *reply) refuse(err error) {
	var f *fault.Error
	if !errors.As(err, &f) {
		f = failed("the server", "the request was given up").Because(err)
	}
	status, words := http.StatusFailedDependency, plain(text.Shorten(f.Error(), 400))
	switch f.Code {
	case fault.PackageDenied:
		x.rule, _ = f.Fields["setting"].(string)
		x.why, status = words, http.StatusForbidden
	case fault.NotFound:
		status = http.StatusNotFound
	}
	if x.from.kind == NPM { // npm prints the field
		body, _ := json.Marshal(map[string]string{"error": words})
		x.send(status, "application/json", body)
		return
	}
	x.refusePython(status, words)
}

// refusePython answers so that pip prints the words. For a refused file, pip prints the reason phrase of the status line, and uv the title
// of a problem by RFC 9457. For an index page, pip prints only the content type of one that it cannot read; for a missing package, its own
// words are right.
func (x *reply) refusePython(status int, words string) {
	if x.isPage && status != http.StatusNotFound && strings.HasPrefix(x.r.UserAgent(), "pip/") {
		x.send(http.StatusOK, words, []byte(words))
		x.status = status // for the log: it was refused
		return
	}
	// uv takes 403 for a page that another index may serve, and does not print its words.
	if x.isPage && status == http.StatusForbidden && strings.HasPrefix(x.r.UserAgent(), "uv/") {
		defer func() { x.status = http.StatusForbidden }() // for the log
		status = http.StatusFailedDependency
	}
	body, _ := json.Marshal(map[string]any{"title": words, "status": status})
	if x.r.ProtoMajor != 1 || !x.hijack(status, words, body) {
		x.send(status, "application/problem+json", body)
	}
}

// hijack answers with a reason phrase of our own, which the standard library cannot write.
func (x *reply) hijack(status int, reason string, body []byte) bool {
	connection, buffer, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err != nil {
		return false
	}
	defer func() { _ = connection.Close() }()
	x.status, x.bytes = status, int64(len(body))
	fmt.Fprintf(buffer, "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
		status, reason, len(body))
	if x.r.Method != http.MethodHead {
		_, _ = buffer.Write(body)
	}
	_ = buffer.Flush()
	return true
}

// plain keeps words on one line of a header: printable ASCII.
func plain(words string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, words)
}
