// Package web has what the HTTP servers of this program share: answers in JSON, streams of events, the status of a fault, and the
// check of a token. Start with JSON, NewEvents or StatusOf. Each write moves the deadline of the
// connection on, so that a client that does not read keeps nobody waiting.
package web

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/admission"
)

// JSON answers a request with a value that can be written as JSON.
func JSON(w http.ResponseWriter, status int, value any) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(admission.WriteTime))
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(Encode(value), '\n')) // the client is gone, or will see half an answer
}

// Encode returns a value as JSON, in which & and < stay what they are: people copy addresses from answers.
func Encode(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// Token is the sum of a secret that clients show.
type Token [sha256.Size]byte

// NewToken returns the token of a text; nil for an empty one.
func NewToken(text string) *Token {
	if text == "" {
		return nil
	}
	t := Token(sha256.Sum256([]byte(text)))
	return &t
}

// Is reports whether a text is the token, in a time that says nothing of the token nor of its length. No text is a nil one.
func (t *Token) Is(given string) bool {
	sum := sha256.Sum256([]byte(strings.TrimSpace(given)))
	return t != nil && subtle.ConstantTimeCompare(sum[:], t[:]) == 1
}
