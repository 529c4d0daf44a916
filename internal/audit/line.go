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
	"net"
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

// schemaVersion is the version of OCSF, which names the fields.
const schemaVersion = "1.6.0"

// genesis stands for the previous hash in the first line of a chain.
var genesis = strings.Repeat("0", 2*sha256.Size)

// Line is a line of the log. The names are OCSF's; Unmapped holds everything that OCSF does not name.
type Line struct {
	Metadata struct {
		Sequence int64  `json:"sequence"`
		Version  string `json:"version"`
	} `json:"metadata"`
	Time        int64  `json:"time"` // milliseconds since 1970
	TimeText    string `json:"time_dt"`
	CategoryUID int    `json:"category_uid"`
	ClassUID    int    `json:"class_uid"`
	ClassName   string `json:"class_name"`
	Activity    string `json:"activity_name"`
	Status      string `json:"status,omitempty"` // "Success" or "Failure"
	StatusCode  string `json:"status_code,omitempty"`
	Duration    *int64 `json:"duration,omitempty"` // milliseconds
	Actor       struct {
		User    user    `json:"user"`
		Session session `json:"session,omitzero"`
	} `json:"actor"`
	Protocol    string   `json:"auth_protocol,omitempty"`
	Source      endpoint `json:"src_endpoint,omitzero"`
	Destination endpoint `json:"dst_endpoint,omitzero"`
	API         api      `json:"api,omitzero"`
	Process     process  `json:"process,omitzero"`
	Request     request  `json:"http_request,omitzero"`
	Response    response `json:"http_response,omitzero"`
	Traffic     *traffic `json:"traffic,omitempty"`
	File        file     `json:"file,omitzero"`
	// Unmapped holds the kind and the rest of an event's Detail.
	Unmapped map[string]any `json:"unmapped"`
}

type (
	user struct {
		Name string `json:"name"`
	}
	session struct {
		UID string `json:"uid"`
	}
	endpoint struct {
		IP       string `json:"ip,omitempty"`
		Hostname string `json:"hostname,omitempty"`
	}
	api struct {
		Operation string `json:"operation"`
	}
	process struct {
		UID         string   `json:"uid,omitempty"`
		CommandLine string   `json:"cmd_line,omitempty"`
		File        codeFile `json:"file,omitzero"`
	}
	codeFile struct {
		Hashes [1]fingerprint `json:"hashes"`
	}
	fingerprint struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"value"`
	}
	request struct {
		Method string `json:"http_method,omitempty"`
		URL    path   `json:"url,omitzero"`
	}
	path struct {
		Path string `json:"path"`
	}
	response struct {
		Code int64 `json:"code"`
	}
	traffic struct {
		Out int64 `json:"bytes_out"`
		In  int64 `json:"bytes_in"`
	}
	file struct {
		Path string `json:"path,omitempty"`
		Size *int64 `json:"size,omitempty"`
	}
)

// Kind returns the event's kind.
func (l *Line) Kind() string {
	kind, _ := l.Unmapped["kind"].(string)
	return kind
}

// Session returns the event's session.
func (l *Line) Session() string { return l.Actor.Session.UID }

// When returns the event's time.
func (l *Line) When() time.Time { return time.UnixMilli(l.Time) }

// classes are OCSF's, by kind, with the activity of an event that names none.
var classes = map[string]struct {
	uid            int
	name, activity string
}{
	KindCall: {6003, "API Activity", "Call"}, KindRun: {1007, "Process Activity", "Launch"},
	KindNetwork: {4002, "HTTP Activity", "Request"}, KindQuery: {6005, "Datastore Activity", "Query"},
	KindFile: {6006, "File Hosting Activity", "Download"}, KindRefusal: {6003, "API Activity", "Refuse"},
	KindSignIn: {3002, "Authentication", "Logon"}, KindPolicy: {3005, "User Access Management", "Update"},
	KindServer: {6002, "Application Lifecycle", "Start"}, KindLog: {1008, "Event Log Activity", "Other"},
}

// cleaner removes secrets from texts, and bounds them.
type cleaner []*secrets.Masker

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
	if *left--; *left < 0 {
		return "…"
	}
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
		for _, name := range slices.Sorted(maps.Keys(v))[:min(len(v), maxDetails)] {
			out[c.text(name)] = c.value(v[name], left)
		}
		return out
	}
	return c.text(fmt.Sprint(v))
}

// number returns a value of Detail as an integer, if it is one.
func number(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	}
	return 0, false
}

// body returns the line without its chain.
func (e *Event) body(sequence int64, c cleaner) []byte {
	var l Line
	l.Metadata.Sequence, l.Metadata.Version = sequence, schemaVersion
	l.Time, l.TimeText = e.Time.UnixMilli(), e.Time.UTC().Format("2006-01-02T15:04:05.000Z")
	class := classes[e.Kind]
	l.CategoryUID, l.ClassUID, l.ClassName, l.Activity = class.uid/1000, class.uid, class.name, cmp.Or(c.text(e.Action), class.activity)
	switch e.Outcome {
	case "":
	case Success:
		l.Status = "Success"
	default:
		l.Status, l.StatusCode = "Failure", c.text(e.Outcome)
	}
	l.Actor.User.Name, l.Protocol = c.text(e.Principal), c.text(e.Source)
	l.Actor.Session.UID, l.API.Operation = c.text(e.Session), c.text(e.Tool)
	if e.Address != "" {
		address := e.Address
		if host, _, err := net.SplitHostPort(address); err == nil {
			address = host
		}
		l.Source.IP = c.text(address)
	}
	l.Process.UID, l.Process.CommandLine = c.text(e.Run), c.mask(e.Code, maxCode)
	if e.CodeHash != "" {
		l.Process.File.Hashes[0] = fingerprint{"SHA-256", e.CodeHash}
	}
	l.Unmapped = map[string]any{"kind": e.Kind}
	left := maxDetails
	for _, name := range slices.Sorted(maps.Keys(e.Detail)) {
		value := c.value(e.Detail[name], &left)
		if left < 0 {
			break
		}
		if value != nil && !l.place(name, value) && name != "kind" {
			l.Unmapped[c.text(name)] = value
		}
	}
	return encode(&l)
}

// place puts a value into OCSF's field of its meaning, and reports whether there is one.
func (l *Line) place(name string, value any) bool {
	said, isText := value.(string)
	n, isNumber := number(value)
	switch {
	case name == "host" && isText:
		l.Destination.Hostname = said
	case name == "method" && isText:
		l.Request.Method = said
	case name == "path" && isText:
		l.Request.URL.Path = said
	case name == "http_status" && isNumber:
		l.Response.Code = n
	case name == "sent" && isNumber:
		l.Traffic = cmp.Or(l.Traffic, &traffic{})
		l.Traffic.Out = n
	case name == "received" && isNumber:
		l.Traffic = cmp.Or(l.Traffic, &traffic{})
		l.Traffic.In = n
	case name == "ms" && isNumber:
		l.Duration = &n
	case name == "file" && isText:
		l.File.Path = said
	case name == "size" && isNumber:
		l.File.Size = &n
	default:
		return false
	}
	return true
}

func encode(l *Line) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(l) // of plain values only
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// The last two members of each line, always in this form.
const (
	prevMember = `,"prev":"`
	hashMember = `","hash":"`
	lineEnd    = `"}`
	hashLength = 2 * sha256.Size
	tailLength = len(prevMember) + hashLength + len(hashMember) + hashLength + len(lineEnd)
)

// chained ends a body with the hash of the line before and its own hash, which covers the line without the member hash.
func chained(body []byte, prev string) (line []byte, hash string) {
	line = slices.Concat(body[:len(body)-1], []byte(prevMember+prev+lineEnd))
	hash = sumOf(line)
	line = append(line[:len(line)-len(lineEnd)], hashMember+hash+lineEnd...)
	return line, hash
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

var (
	errNoLine  = errors.New("it is no line of an audit log")
	errChanged = errors.New("it was changed: its hash is not that of its text")
)

// link chains a line to others.
type link struct {
	sequence   int64
	prev, hash string
}

// parse reads a line, without its end. With errChanged the link is the line's claim.
func parse(raw []byte) (l Line, at link, err error) {
	if len(raw) <= tailLength {
		return l, at, errNoLine
	}
	body, tail := raw[:len(raw)-tailLength], string(raw[len(raw)-tailLength:])
	prev, rest := tail[len(prevMember):][:hashLength], tail[len(prevMember)+hashLength:]
	hash := rest[len(hashMember):][:hashLength]
	if tail != prevMember+prev+hashMember+hash+lineEnd || !isHash(prev) || !isHash(hash) || json.Unmarshal(raw, &l) != nil {
		return l, at, errNoLine
	}
	at = link{l.Metadata.Sequence, prev, hash}
	if sumOf(slices.Concat(body, []byte(prevMember+prev+lineEnd))) != hash {
		return l, at, errChanged
	}
	return l, at, nil
}

func isHash(s string) bool {
	return len(s) == hashLength && strings.Trim(s, "0123456789abcdef") == ""
}
