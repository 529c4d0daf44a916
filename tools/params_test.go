package tools

import (
	"errors"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

func TestArgumentsAreCheckedInWords(t *testing.T) {
	for name, test := range map[string]struct {
		arguments any
		want      string // in the message; empty: nothing is wrong
	}{
		"all there":         {map[string]any{"code": "1", "session_id": "a", "timeout_seconds": 2.5, "fresh": true}, ""},
		"null is absent":    {map[string]any{"code": "1", "session_id": nil, "timeout_seconds": nil}, ""},
		"no arguments":      {nil, "code is missing."},
		"null for required": {map[string]any{"code": nil}, "code is missing."},
		"a list":            {[]any{"code"}, "The arguments are a list and must be an object."},
		"number for text":   {map[string]any{"code": 7.0}, "code is the number 7 and must be text."},
		"text for number":   {map[string]any{"code": "1", "timeout_seconds": "30"}, `timeout_seconds is the text "30" and must be a number`},
		"text for flag":     {map[string]any{"code": "1", "fresh": "yes"}, `fresh is the text "yes" and must be true or false.`},
		"object for text":   {map[string]any{"code": map[string]any{}}, "code is an object and must be text."},
		"zero seconds":      {map[string]any{"code": "1", "timeout_seconds": 0.0}, "timeout_seconds is 0 and must be above 0."},
		"negative seconds":  {map[string]any{"code": "1", "timeout_seconds": -3.0}, "timeout_seconds is -3 and must be above 0."},
		"unknown argument":  {map[string]any{"code": "1", "timeout": 3.0}, `There is no argument "timeout"; the tool has code, session_id, timeout_seconds, fresh.`},
		"long text quoted":  {map[string]any{"code": "1", "fresh": strings.Repeat("é", 500)}, "éé…"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParams(mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: test.arguments}})
			_, _, _, _ = p.required("code"), p.text("session_id"), p.seconds("timeout_seconds"), p.flag("fresh")
			err := p.check()
			if test.want == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			var f *fault.Error
			if !errors.As(err, &f) || f.Code != fault.InvalidArgument || !strings.Contains(f.Message, test.want) || f.Hint == "" {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestLargeArgumentsAreReadAsTheyCame(t *testing.T) {
	p := newParams(mcp.CallToolRequest{Params: mcp.CallToolParams{RawArguments: []byte(`{"code":"print(1)"}`)}})
	if code := p.required("code"); code != "print(1)" || p.check() != nil {
		t.Errorf("got %q, %v", code, p.check())
	}
}

func TestNoArgumentsMayBeWrittenAsNull(t *testing.T) {
	p := newParams(mcp.CallToolRequest{Params: mcp.CallToolParams{RawArguments: []byte("null")}})
	if id := p.text("session_id"); id != "" || p.check() != nil {
		t.Errorf("got %q, %v", id, p.check())
	}
}

func FuzzArguments(f *testing.F) {
	f.Add("code", "text", 1.5, true)
	f.Fuzz(func(t *testing.T, name, text string, number float64, flag bool) {
		for _, value := range []any{text, number, flag, nil, []any{text}, map[string]any{name: number}} {
			p := newParams(mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: map[string]any{name: value}}})
			_, seconds, _ := p.text("a"), p.seconds("b"), p.flag("c")
			if seconds < 0 {
				t.Errorf("%v seconds from %v", seconds, value)
			}
			_ = p.check()
		}
	})
}
