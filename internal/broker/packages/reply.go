package packages

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// reply writes the answer to one request, and measures it for the log.
type reply struct {
	http.ResponseWriter
	r      *http.Request
	by     caller.Caller
	room   int64       // the share of the session's memory that its page may take
	give   func()      // gives it back
	refuse func(error) // answers with an error as the ecosystem's client shows it
	isPage bool        // an index page is asked for
	status int
	bytes  int64
	rule   string // that refused it
	why    string // the refused or omitted versions, and the rules: a line each
}

// WriteHeader remembers the status.
func (x *reply) WriteHeader(status int) {
	x.status = status
	x.ResponseWriter.WriteHeader(status)
}

// Write counts.
func (x *reply) Write(p []byte) (int, error) {
	n, err := x.ResponseWriter.Write(p)
	x.bytes += int64(n)
	return n, err
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

// stream answers with a body that is written bit by bit.
func (x *reply) stream(contentType string, write func(*bufio.Writer)) {
	x.Header().Set("Content-Type", contentType)
	x.Header().Set("Cache-Control", "no-store")
	x.WriteHeader(http.StatusOK)
	if x.r.Method != http.MethodHead {
		out := bufio.NewWriterSize(x, 32<<10)
		write(out)
		_ = out.Flush()
	}
}

// take takes this much of the session's memory in place of the request's share. It waits while others hold it.
func (x *reply) take(room int64) error {
	if x.give != nil {
		x.give()
	}
	give, err := x.by.Memory.Take(x.r.Context(), room)
	x.room, x.give = room, give
	return err
}

func (x *reply) end() {
	if x.give != nil {
		x.give()
	}
}

// judge turns an error into a status and words. Clients retry a 5xx, some for half a minute, and print nothing meanwhile; so the answer for
// a failing index is 424, which no client retries.
func (x *reply) judge(err error) (int, string) {
	var f *fault.Error
	if !errors.As(err, &f) {
		f = failed("the server", "the request was given up").Because(err)
	}
	words := text.Shorten(f.Error(), 400)
	switch f.Code {
	case fault.PackageDenied:
		x.rule, _ = f.Fields["setting"].(string)
		x.why = plain(words)
		return http.StatusForbidden, words
	case fault.NotFound:
		return http.StatusNotFound, words
	default:
		return http.StatusFailedDependency, words
	}
}

// refuseNPM answers as npm's registry does: npm prints the field.
func (x *reply) refuseNPM(err error) {
	status, words := x.judge(err)
	body, _ := json.Marshal(map[string]string{"error": words})
	x.send(status, "application/json", body)
}

// refusePython answers so that pip prints the words. For a refused file, pip prints the reason phrase of the status line, and uv the title
// of a problem by RFC 9457. For an index page, pip prints only the content type of one that it cannot read; for a missing package, its own
// words are right.
func (x *reply) refusePython(err error) {
	status, words := x.judge(err)
	words = plain(words)
	if x.isPage && status != http.StatusNotFound && isPip(x.r) {
		x.send(http.StatusOK, words, []byte(words))
		x.status = status // for the log: it was refused
		return
	}
	// uv takes 403 for a page that another index may serve, and does not print its words.
	if x.isPage && status == http.StatusForbidden && strings.HasPrefix(x.r.UserAgent(), "uv/") {
		defer func() { x.status = http.StatusForbidden }() // for the log
		status = http.StatusFailedDependency
	}
	body, _ := json.Marshal(map[string]any{"title": words, "status": status, "detail": words})
	if x.r.ProtoMajor != 1 || !x.hijack(status, words, body) {
		x.send(status, "application/problem+json", body)
	}
}

func isPip(r *http.Request) bool { return strings.HasPrefix(r.UserAgent(), "pip/") }

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
