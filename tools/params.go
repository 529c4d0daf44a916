package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
)

// params reads a call's arguments. Each reading method notes an error and goes on; check returns the first one after the last argument is
// read, so that a handler asks only once. It is lenient with clients and models: numbers, booleans and lists may come as text, an empty
// argument counts as left out, and unknown arguments are ignored.
type params struct {
	given map[string]any
	raw   json.RawMessage // as they came, if that is known
	known []string
	first error
	own   ownSession
	once  bool // the call uses a session of its own, which no other call finds by itself
	// other is a note on a session that the call names in place of its own.
	other string
}

func newParams(ctx context.Context, request mcp.CallToolRequest) *params {
	p := &params{raw: request.Params.RawArguments, own: ownOf(ctx)}
	if request.Params.Arguments == nil && len(request.Params.RawArguments) > 0 {
		p.readRaw(request.Params.RawArguments)
		return p
	}
	switch given := request.Params.Arguments.(type) {
	case nil:
	case map[string]any:
		p.given = given
	default:
		p.fail("The arguments are %s and must be an object.", kind(given))
	}
	return p
}

// longFrom is the size from which a text argument is not decoded before it is asked for.
const longFrom = 64 << 10

// maxText is the longest text argument that is decoded, in bytes: longer than any code or query may be. A file's content is read as a
// stream.
const maxText = 4 << 20

// readRaw reads arguments that the message loop hands on as they came, because they are large.
func (p *params) readRaw(raw []byte) {
	p.given = make(map[string]any)
	if string(raw) == "null" {
		return // as if there were none
	}
	err := rpc.Members(raw, func(name string, value []byte) error {
		if len(value) >= longFrom && value[0] == '"' {
			p.given[name] = content.LongText(value)
			return nil
		}
		var decoded any
		err := json.Unmarshal(value, &decoded)
		p.given[name] = decoded
		return err
	})
	if err != nil {
		p.fail("The arguments are not a JSON object.")
	}
}

func (p *params) fail(format string, args ...any) {
	if p.first == nil {
		p.first = fault.New(fault.InvalidArgument, "Call again with the arguments that the tool's input schema names.", format, args...)
	}
}

// take returns the argument, and nil for one that is absent or empty.
func (p *params) take(name string) any {
	p.known = append(p.known, name)
	if isEmpty(p.given[name]) {
		return nil
	}
	return p.given[name]
}

// isEmpty reports whether a value means that there is none: models fill in all arguments of a tool. None of these is a valid value other
// than an argument's default.
func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// plain is take for a value that is not text: a text is parsed as JSON, also as Python prints it.
func (p *params) plain(name string) any {
	value := p.take(name)
	text, ok := value.(string)
	if !ok {
		return value
	}
	if text = strings.ToLower(text); text == "none" || json.Unmarshal([]byte(text), &value) == nil && isEmpty(value) {
		return nil
	}
	p.given[name] = value
	return value
}

// text reads a string argument; absent is "".
func (p *params) text(name string) string {
	value := p.take(name)
	if long, ok := value.(content.LongText); ok {
		if len(long) > maxText {
			if name == "code" && p.first == nil { // the server's own limit is lower
				p.first = runs.TooMuchCode(len(long), maxText)
			}
			p.fail("%s has %d bytes and may have %d.", name, len(long), maxText)
			return ""
		}
		return long.Decoded()
	}
	s, ok := value.(string)
	if !ok && value != nil {
		p.fail("%s is %s and must be text.", name, kind(value))
	}
	return s
}

// session reads session_id; absent is the client's own session.
func (p *params) session() string {
	id := p.text("session_id")
	switch {
	case id == "" && p.own.namedBy == "":
		p.once = p.own.unknown
		return p.own.id
	case id == "":
		id = p.own.id
	case p.own.namedBy != "" && id != p.own.id:
		p.other = fmt.Sprintf("Note: the session is %s, as session_id says, and not %s, as %s says.", id, p.own.id, p.own.namedBy)
	}
	if err := runs.CheckSessionID(id); err != nil && p.first == nil {
		p.first = err
	}
	return id
}

// long reads a string argument that may be very large; absent is nil.
func (p *params) long(name string) content.Text {
	switch value := p.take(name).(type) {
	case nil:
	case string:
		return content.ShortText(value)
	case content.LongText:
		return value
	default:
		p.fail("%s is %s and must be text.", name, kind(value))
	}
	return nil
}

// integer reads a whole number that is not negative; absent is nil.
func (p *params) integer(name string) *int64 {
	value := p.plain(name)
	if value == nil {
		return nil
	}
	n, ok := value.(float64)
	if !ok || n < 0 || n > 1<<53 || n != math.Trunc(n) {
		p.fail("%s is %s and must be a whole number from 0 on.", name, kind(value))
		return nil
	}
	whole := int64(n)
	return &whole
}

// choice reads a string argument that is one of a few; absent is "".
func (p *params) choice(name string, choices ...string) string {
	chosen := p.text(name)
	if chosen != "" && !slices.Contains(choices, chosen) {
		p.fail("%s is %q and must be one of %s.", name, text.Shorten(chosen, 40), list(choices))
	}
	return chosen
}

// required reads a string argument that must be there.
func (p *params) required(name string) string {
	if value := p.given[name]; value != "" && isEmpty(value) {
		p.fail("%s is missing.", name)
	}
	return p.text(name)
}

// flag reads a boolean argument; absent is false. 1 is true.
func (p *params) flag(name string) bool {
	value := p.plain(name)
	b, ok := value.(bool)
	if !ok && value != nil && value != 1.0 {
		p.fail("%s is %s and must be true or false.", name, kind(value))
	}
	return b || value == 1.0
}

// flagOn reads a boolean argument whose default is true. 0 is false.
func (p *params) flagOn(name string) bool {
	number, err := strconv.ParseFloat(strings.TrimSpace(fmt.Sprint(p.given[name])), 64)
	isZero := err == nil && number == 0
	return p.flag(name) || !isZero && p.plain(name) == nil
}

// seconds reads a duration in seconds; absent is zero, and anything that is not above zero is wrong.
func (p *params) seconds(name string) time.Duration {
	value := p.plain(name)
	if value == nil {
		return 0
	}
	n, ok := value.(float64)
	if !ok {
		p.fail("%s is %s and must be a number of seconds.", name, kind(value))
		return 0
	}
	if n <= 0 || math.IsNaN(n) {
		p.fail("%s is %v and must be above 0.", name, n)
		return 0
	}
	return max(time.Millisecond, time.Duration(min(n, 1e6)*float64(time.Second)))
}

// limits reads an object of a session's limits; absent is none.
func (p *params) limits(name string) sandbox.SessionLimits {
	value := p.plain(name)
	given, ok := value.(map[string]any)
	if !ok && value != nil {
		p.fail("%s is %s and must be an object of %s, %s and %s.", name, kind(value), limitMemory, limitCPUs, limitTimeout)
	}
	inner := &params{given: given}
	limits := sandbox.SessionLimits{
		MemoryBytes: int64(inner.positive(limitMemory) * (1 << 20)), CPUs: inner.positive(limitCPUs), RunTimeout: inner.seconds(limitTimeout),
	}
	for unknown := range given {
		if !slices.Contains(inner.known, unknown) {
			inner.fail("%s has no %q: it may have %s.", name, text.Shorten(unknown, 40), list(inner.known))
		}
	}
	if p.first == nil {
		p.first = inner.first
	}
	return limits
}

// The names in an object of limits.
const (
	limitMemory  = "memory_mb"
	limitCPUs    = "cpus"
	limitTimeout = "timeout_seconds"
)

// positive reads a number above zero; absent is zero.
func (p *params) positive(name string) float64 {
	value := p.plain(name)
	if value == nil {
		return 0
	}
	n, ok := value.(float64)
	if !ok || !(n > 0) || n > 1<<40 {
		p.fail("%s is %v and must be a number above 0.", name, value)
		return 0
	}
	return n
}

// lowered is the note that a number was above the most that counts here; empty if it was not.
func (p *params) lowered(name string, most float64) string {
	given, _ := p.given[name].(float64)
	if given <= most {
		return ""
	}
	return fmt.Sprintf("Note: %s was lowered from %s to %s, the most that this server allows.", name, asJSON(given), asJSON(most))
}

// asJSON formats a number without an exponent, if that can be read.
func asJSON(n float64) string {
	text, _ := json.Marshal(n) // it came out of JSON
	return string(text)
}

// values reads a list argument of any values; absent is nil.
func (p *params) values(name string) []any {
	value := p.take(name)
	if value == nil {
		return nil
	}
	var given map[string]json.RawMessage
	_ = json.Unmarshal(p.raw, &given) // if nothing is known of how they came, exact is left
	written := given[name]
	if text, ok := value.(string); ok {
		written = json.RawMessage(text)
	}
	decoder := json.NewDecoder(bytes.NewReader(written))
	decoder.UseNumber() // a large whole number would become another one
	var numbers []any
	if decoder.Decode(&numbers) == nil && !decoder.More() {
		return numbers
	}
	list, ok := value.([]any)
	if !ok {
		p.fail("%s is %s and must be a list.", name, kind(value))
	}
	return exact(list).([]any)
}

// exact makes json.Number of the numbers in a value.
func exact(value any) any {
	switch v := value.(type) {
	case float64:
		return json.Number(strconv.FormatFloat(v, 'f', -1, 64))
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	}
	return value
}

// texts reads a list of texts; absent is nil. A text that is no list is a list of one.
func (p *params) texts(name string) (list []string) {
	if one, ok := p.given[name].(string); ok && !strings.HasPrefix(strings.TrimSpace(one), "[") {
		p.known = append(p.known, name)
		return strings.Fields(one)
	}
	for i, value := range p.values(name) {
		item, ok := value.(string)
		if !ok || strings.TrimSpace(item) == "" {
			p.fail("%s[%d] is %s and must be text.", name, i, kind(value))
			return nil
		}
		list = append(list, strings.TrimSpace(item))
	}
	return list
}

// check returns the first thing that was wrong with the arguments.
func (p *params) check() error { return p.first }

// namedUnknown bounds the names of a note.
const namedUnknown = 5

// ignored is the note that there are arguments that were not read; empty if there are none.
func (p *params) ignored() string {
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(p.given)) {
		if !slices.Contains(p.known, name) {
			unknown = append(unknown, strconv.Quote(text.Shorten(name, 60)))
		}
	}
	if len(unknown) == 0 {
		return ""
	}
	if more := len(unknown) - namedUnknown; more > 0 {
		unknown = append(unknown[:namedUnknown], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("Note: ignored %s: the tool's arguments are %s.", list(unknown), list(p.known))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// kind names a JSON value's type, and its value if that is short.
func kind(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprintf("the boolean %v", v)
	case float64:
		return fmt.Sprintf("the number %v", v)
	case string:
		return fmt.Sprintf("the text %q", text.Shorten(v, 40))
	case content.LongText:
		return "a long text"
	case []any:
		return "a list"
	}
	return "an object"
}

type sessionKey struct{}

// ownSession is where calls go that name no session. The zero value is the default session of the server.
type ownSession struct {
	id      string
	namedBy string // the setting that names it; empty: it is unnamed
	unknown bool   // nothing tells the client from others: no other call of it comes to an unnamed session
}

// WithSession returns a context in which calls that name no session use this one: sandbox.DefaultOf a client. Without it they use the
// server's default session. An unknown client gets a session for each call, and its answer says how to go on with it.
func WithSession(ctx context.Context, id string, known bool) context.Context {
	return context.WithValue(ctx, sessionKey{}, ownSession{id: id, unknown: !known})
}

// WithNamed is WithSession for a session that the client's configuration names, in the setting that namedBy tells. An empty name
// changes nothing; one that is none is an error of each call.
func WithNamed(ctx context.Context, name, namedBy string) context.Context {
	if name == "" {
		return ctx
	}
	return context.WithValue(ctx, sessionKey{}, ownSession{id: name, namedBy: namedBy, unknown: ownOf(ctx).unknown})
}

func ownOf(ctx context.Context) ownSession {
	own, _ := ctx.Value(sessionKey{}).(ownSession)
	return own
}

// has reports whether a session is the one of calls that name none.
func (o ownSession) has(info sandbox.SessionInfo) bool {
	return info.Default && o.namedBy == "" && info.DefaultOf == o.id || o.namedBy != "" && info.ID == o.id
}
