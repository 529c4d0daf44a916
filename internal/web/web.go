// Package web is the shared part of this program's HTTP servers. Server makes one that stays open to authorized clients, whatever others
// send or leave out: a handler calls Keep once it knows that a request may be made, and Refuse to answer that it may not. JSON and
// NewEvents answer, StatusOf returns the status of a fault, and a Token is compared.
//
// It promises:
//
//   - Each phase of a request ends by a deadline: its headers, its body, the answer, and the wait for the next request. Each write of an
//     answer in JSON or of an event extends that of the answer.
//   - The number of connections is bounded. A new one takes the place of the one that waited longest without a request that was
//     kept, however far that got.
//   - A connection with a kept request never loses its place. Nobody keeps so many that no others are served, and no
//     principal with a name more than a quarter.
package web

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
)

// JSON answers a request with a value that can be written as JSON, or with server_busy if there is no room for the text until the client has
// read it.
func JSON(w http.ResponseWriter, r *http.Request, status int, value any) {
	text := Encode(value)
	if lacks := room.Fit(r.Context(), int64(cap(text))); lacks > 0 {
		if _, err := room.Take(r.Context(), lacks); err != nil {
			text, status = Encode(fault.From(err).JSON()), StatusOf(err)
		}
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(WriteTime))
	head(w, status)
	_, _ = w.Write(append(text, '\n')) // the client is gone, or will see half an answer
}

func head(w http.ResponseWriter, status int) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
}

// List answers a request with a list in JSON, of which nothing is kept.
type List struct {
	w     http.ResponseWriter
	to    *bufio.Writer
	begun bool
}

// NewList returns a List of which nothing is written yet.
func NewList(w http.ResponseWriter) *List { return &List{w: w, to: bufio.NewWriter(w)} }

// Begun reports whether an answer began.
func (l *List) Begun() bool { return l.begun }

// Add writes a value. The client must read each within a time limit.
func (l *List) Add(value any) error {
	before := ","
	if !l.begun {
		before = "["
	}
	l.begin()
	_, _ = l.to.WriteString(before) // the next write returns the error
	_, err := l.to.Write(Encode(value))
	return err
}

func (l *List) begin() {
	_ = http.NewResponseController(l.w).SetWriteDeadline(time.Now().Add(WriteTime))
	if !l.begun {
		l.begun = true
		head(l.w, http.StatusOK)
	}
}

// End completes the list.
func (l *List) End() error {
	if !l.begun {
		_, _ = l.to.WriteString("[")
	}
	l.begin()
	_, _ = l.to.WriteString("]\n")
	return l.to.Flush()
}

// Encode returns a value as JSON that leaves & and < unescaped: people copy addresses from answers.
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

type streamedKey struct{}

// Streamed marks a request, of an authorized client, as one with a body that its handler reads and bounds as it comes.
func Streamed(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), streamedKey{}, true))
}

// IsStreamed reports whether a request is marked by Streamed.
func IsStreamed(r *http.Request) bool { return r.Context().Value(streamedKey{}) != nil }
