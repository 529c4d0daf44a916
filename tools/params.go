package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// params reads a call's arguments. Each reading method notes what is wrong and goes on; check
// tells the first thing that was, after the last one is read, so that a handler asks only once.
type params struct {
	given map[string]any
	known []string
	first error
}

func newParams(request mcp.CallToolRequest) *params {
	p := &params{}
	arguments := request.Params.Arguments
	if arguments == nil && len(request.Params.RawArguments) > 0 {
		// The message loop hands large arguments on as they came.
		if err := json.Unmarshal(request.Params.RawArguments, &arguments); err != nil {
			p.fail("The arguments are not JSON.")
		}
	}
	switch given := arguments.(type) {
	case nil:
	case map[string]any:
		p.given = given
	default:
		p.fail("The arguments are %s and must be an object.", kind(given))
	}
	return p
}

func (p *params) fail(format string, args ...any) {
	if p.first == nil {
		p.first = fault.New(fault.InvalidArgument, "Call again with the arguments that the tool's input schema names.", format, args...)
	}
}

// take gives the argument, and nil for one that is absent or null.
func (p *params) take(name string) any {
	p.known = append(p.known, name)
	return p.given[name]
}

// text reads a string argument; absent is "".
func (p *params) text(name string) string {
	value := p.take(name)
	s, ok := value.(string)
	if !ok && value != nil {
		p.fail("%s is %s and must be text.", name, kind(value))
	}
	return s
}

// required reads a string argument that must be there.
func (p *params) required(name string) string {
	if p.given[name] == nil {
		p.fail("%s is missing.", name)
	}
	return p.text(name)
}

// flag reads a boolean argument; absent is false.
func (p *params) flag(name string) bool {
	value := p.take(name)
	b, ok := value.(bool)
	if !ok && value != nil {
		p.fail("%s is %s and must be true or false.", name, kind(value))
	}
	return b
}

// seconds reads a duration in seconds; absent is zero, and anything that is not above zero is wrong.
func (p *params) seconds(name string) time.Duration {
	value := p.take(name)
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

// check gives the first thing that was wrong with the arguments: also one that nobody read.
func (p *params) check() error {
	for _, name := range slices.Sorted(maps.Keys(p.given)) {
		if !slices.Contains(p.known, name) {
			p.fail("There is no argument %q; the tool has %s.", shorten(name, 60), list(p.known))
		}
	}
	return p.first
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// kind names a JSON value's type, and its value where that is short.
func kind(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprintf("the boolean %v", v)
	case float64:
		return fmt.Sprintf("the number %v", v)
	case string:
		return fmt.Sprintf("the text %q", shorten(v, 40))
	case []any:
		return "a list"
	}
	return "an object"
}

// shorten cuts a text that is only quoted.
func shorten(s string, runes int) string {
	if r := []rune(s); len(r) > runes {
		return string(r[:runes]) + "…"
	}
	return s
}
