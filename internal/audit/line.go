package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

const (
	// maxText bounds the characters of a text other than code in a line.
	maxText = 2000
	// maxCode bounds the bytes of code in a line: as much as the longest that runs.
	maxCode = 256 << 10
	// maxDetails bounds the values in an event's Detail, at any depth.
	maxDetails = 100
	// maxLine bounds a line for readers, in bytes; the bounds above keep written lines shorter.
	maxLine = 4 << 20
)

// genesis stands for the previous hash in the first line of a chain.
var genesis = strings.Repeat("0", 2*sha256.Size)

// Line is a line of the log. Hash is of the line without the member hash, which is the last one.
type Line struct {
	Sequence int64 `json:"seq"`
	Event
	Prev string `json:"prev"` // the hash of the line before
	Hash string `json:"hash,omitempty"`
}

const (
	hashMember = `,"hash":"`
	hashLength = 2 * sha256.Size
	tailLength = len(hashMember) + hashLength + len(`"}`)
)

// seal sets the hash, and returns the line's text.
func (l *Line) seal() []byte {
	l.Prev, l.Hash = cmp.Or(l.Prev, genesis), ""
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(l) // of plain values only
	raw := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	l.Hash = sumOf(raw)
	return append(raw[:len(raw)-1], hashMember+l.Hash+`"}`...)
}

// HashOf returns the Event.CodeHash of code.
func HashOf(code string) string { return sumOf([]byte(code)) }

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

var (
	errNoLine  = errors.New("it is no line of an audit log")
	errChanged = errors.New("it was changed: its hash is not that of its text")
)

// parse reads a line, without its end. With errChanged the line is what it claims to be.
func parse(raw []byte) (l Line, err error) {
	if len(raw) <= tailLength || json.Unmarshal(raw, &l) != nil || !isHash(l.Prev) || !isHash(l.Hash) || l.Kind == "" {
		return Line{}, errNoLine
	}
	body, tail := raw[:len(raw)-tailLength], raw[len(raw)-tailLength:]
	if string(tail) != hashMember+l.Hash+`"}` {
		return Line{}, errNoLine
	}
	if sumOf(append(slices.Clone(body), '}')) != l.Hash {
		return l, errChanged
	}
	return l, nil
}

func isHash(s string) bool {
	return len(s) == hashLength && strings.Trim(s, "0123456789abcdef") == ""
}

// cleaner removes secrets from texts, and bounds them.
type cleaner []*secrets.Masker

func (l *Log) clean(e Event) Event {
	c := cleaner{l.o.Mask, e.Mask}
	for _, s := range []*string{&e.Action, &e.Principal, &e.Source, &e.Address, &e.Session, &e.Run, &e.Tool, &e.Outcome} {
		*s = c.text(*s)
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.CodeHash == "" && e.Code != "" {
		e.CodeHash = HashOf(e.Code)
	}
	if l.o.FullCode && e.Code != "" {
		e.CodeHash = ""
	} else {
		e.Code = ""
	}
	e.Time = e.Time.UTC().Truncate(time.Millisecond)
	e.Code = strings.ToValidUTF8(c.mask(e.Code, maxCode), "?")
	left := maxDetails
	e.Detail, _ = c.value(e.Detail, &left).(map[string]any)
	return e
}

func (c cleaner) mask(s string, most int) string {
	cut := len(s) > most
	s = text.Clip(s, most)
	for _, m := range c {
		if cut {
			s = m.MaskHead(s)
		} else {
			s = m.Mask(s)
		}
	}
	return s
}

func (c cleaner) text(s string) string {
	return text.Shorten(strings.ToValidUTF8(c.mask(s, 8*maxText), "?"), maxText)
}

// value turns anything into a value of JSON. left counts the values that may still be written.
func (c cleaner) value(v any, left *int) any {
	switch v := v.(type) {
	case nil, bool, int, int64, int32, uint64:
		return v
	case string:
		return c.text(v)
	case []string:
		if len(v) == 0 {
			return nil
		}
		var list []any
		for _, s := range v[:min(len(v), maxDetails)] {
			list = append(list, c.value(s, left))
		}
		return list
	case map[string]any:
		out := make(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if *left--; *left < 0 {
				break
			}
			if value := c.value(v[name], left); value != nil {
				out[c.text(name)] = value
			}
		}
		return out
	}
	return c.text(fmt.Sprint(v))
}
