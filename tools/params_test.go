package tools

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
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
		"text for number":   {map[string]any{"code": "1", "timeout_seconds": "30s"}, `timeout_seconds is the text "30s" and must be a number`},
		"list for number":   {map[string]any{"code": "1", "timeout_seconds": "[30]"}, "timeout_seconds is a list and must be a number"},
		"no number at all":  {map[string]any{"code": "1", "timeout_seconds": "NaN"}, `timeout_seconds is the text "NaN" and must be a number`},
		"text for flag":     {map[string]any{"code": "1", "fresh": "yes"}, `fresh is the text "yes" and must be true or false.`},
		"object for text":   {map[string]any{"code": map[string]any{"a": 1}}, "code is an object and must be text."},
		"nothing for code":  {map[string]any{"code": []any{}}, "code is missing."},
		"negative seconds":  {map[string]any{"code": "1", "timeout_seconds": -3.0}, "timeout_seconds is -3 and must be above 0."},
		"unknown argument":  {map[string]any{"code": "1", "timeout": 3.0}, ""},
		"long text quoted":  {map[string]any{"code": "1", "fresh": strings.Repeat("é", 500)}, "éé…"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: test.arguments}})
			_, _, _, _ = p.required("code"), p.text("session_id"), p.seconds("timeout_seconds"), p.flag("fresh")
			err := p.check()
			if test.want == "" {
				should.OK(t, err)
				return
			}
			must.Code(t, err, fault.InvalidArgument, test.want)
		})
	}
}

func TestArgumentsMayComeAsText(t *testing.T) {
	for name, test := range map[string]struct {
		given map[string]any
		want  string // the text, seconds, flag, number and list that are read
	}{
		"as they are":     {map[string]any{"text": "a", "seconds": 2.5, "flag": true, "number": 7.0, "list": []any{1.5, "x", nil}}, "a 2.5s true 7 [1.5 x <nil>]"},
		"as text":         {map[string]any{"seconds": " 2.5 ", "flag": "true", "number": "7", "list": `[9007199254740993, "X", null]`}, " 2.5s true 7 [9007199254740993 X <nil>]"},
		"as Python's":     {map[string]any{"flag": "True", "number": "7.0"}, " 0s true 7 []"},
		"an empty text":   {map[string]any{"text": "", "seconds": "", "flag": "", "number": "", "list": ""}, " 0s false 0 []"},
		"zero":            {map[string]any{"text": 0.0, "seconds": 0.0, "flag": 0.0, "number": 0.0, "list": 0.0}, " 0s false 0 []"},
		"zero as text":    {map[string]any{"seconds": "0", "flag": "0", "number": "0.0", "list": "[]"}, " 0s false 0 []"},
		"lists":           {map[string]any{"text": []any{}, "seconds": []any{}, "flag": []any{}, "number": "[]", "list": []any{}}, " 0s false 0 []"},
		"objects":         {map[string]any{"text": map[string]any{}, "seconds": map[string]any{}, "flag": "{}", "number": map[string]any{}, "list": map[string]any{}}, " 0s false 0 []"},
		"Python's None":   {map[string]any{"seconds": "None", "flag": "None", "number": "none"}, " 0s false 0 []"},
		"null":            {map[string]any{"text": nil, "seconds": nil, "flag": "null", "number": nil, "list": nil}, " 0s false 0 []"},
		"text stays text": {map[string]any{"text": "TRUE 1", "flag": "False"}, "TRUE 1 0s false 0 []"},
	} {
		p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: test.given}})
		text, seconds, flag, number, list := p.text("text"), p.seconds("seconds"), p.flag("flag"), p.integer("number"), p.values("list")
		if number == nil {
			number = new(int64)
		}
		if got := fmt.Sprintf("%v %v %v %v %v", text, seconds, flag, *number, list); got != test.want || p.check() != nil {
			t.Errorf("%s: %q and not %q; %v", name, got, test.want, p.check())
		}
	}
}

func TestAFlagWithTheDefaultTrue(t *testing.T) {
	for given, want := range map[any]bool{nil: true, "": true, "None": true, true: true, "True": true, 1.0: true, "1": true, false: false, "false": false, 0.0: false, "0": false, " 0.0": false} {
		p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: map[string]any{"flag": given}}})
		if got := p.flagOn("flag"); got != want || p.check() != nil {
			t.Errorf("%#v is %v; %v", given, got, p.check())
		}
	}
	p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: map[string]any{"flag": 2.0}}})
	p.flagOn("flag")
	must.Code(t, p.check(), fault.InvalidArgument, "flag is the number 2 and must be true or false.")
}

func TestWhatATextSaysIsLoweredToo(t *testing.T) {
	p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: map[string]any{"timeout_seconds": "90"}}})
	if p.seconds("timeout_seconds"); !strings.Contains(p.lowered("timeout_seconds", 60), "from 90 to 60") {
		t.Errorf("the note is %q", p.lowered("timeout_seconds", 60))
	}
}

func TestWhatAClientAddsIsIgnoredWithANote(t *testing.T) {
	many := map[string]any{"code": "1"}
	for i := range 100 {
		many[fmt.Sprintf("x%02d%s", i, strings.Repeat("y", 1000))] = true
	}
	for name, test := range map[string]struct {
		given map[string]any
		want  string
	}{
		"nothing":       {map[string]any{"code": "1"}, ""},
		"one":           {map[string]any{"code": "1", "wait_for_previous": true}, `Note: ignored "wait_for_previous": the tool's arguments are code, fresh.`},
		"not even null": {map[string]any{"code": "1", "a": nil, "b": "x"}, `Note: ignored "a", "b": the tool's arguments are code, fresh.`},
		"lines":         {map[string]any{"code": "1", "a\nb": 1.0}, `"a\nb"`},
		"very many":     {many, "and 95 more"},
	} {
		res, err := wrapDeps(t).wrap(tool{handle: func(_ context.Context, p *params) (*render.Answer, error) {
			_, _ = p.required("code"), p.flag("fresh")
			return &render.Answer{Content: []mcp.Content{mcp.NewTextContent("done")}}, p.check()
		}})(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: test.given}})
		must.Hold(t, err == nil && !res.IsError, "%s: %+v, %v", name, res, err)
		got := ""
		for _, more := range res.Content[1:] {
			got += more.(mcp.TextContent).Text
		}
		should.Hold(t, strings.Contains(got, test.want) && (got == "") == (test.want == "") && len(got) <= 600,
			"%s: the note is %q", name, got)
	}
}

func TestAFaultNamesWhatWasIgnored(t *testing.T) {
	res, _ := wrapDeps(t).wrap(tool{handle: func(_ context.Context, p *params) (*render.Answer, error) {
		p.required("code")
		return nil, p.check()
	}})(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: map[string]any{"script": "1"}}})
	if text := res.Content[0].(mcp.TextContent).Text; !strings.HasPrefix(text, "invalid_argument: code is missing.\nHint: ") || !strings.Contains(text, `ignored "script"`) {
		t.Errorf("got %s", text)
	}
}

func TestLargeArgumentsAreReadAsTheyCame(t *testing.T) {
	p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{RawArguments: []byte(`{"code":"print(1)"}`)}})
	if code := p.required("code"); code != "print(1)" || p.check() != nil {
		t.Errorf("got %q, %v", code, p.check())
	}
}

func TestNoArgumentsMayBeWrittenAsNull(t *testing.T) {
	p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{RawArguments: []byte("null")}})
	if id := p.text("session_id"); id != "" || p.check() != nil {
		t.Errorf("got %q, %v", id, p.check())
	}
}

func FuzzArguments(f *testing.F) {
	f.Add("code", "text", 1.5, true)
	f.Fuzz(func(t *testing.T, name, text string, number float64, flag bool) {
		for _, value := range []any{text, number, flag, nil, []any{text}, map[string]any{name: number}} {
			p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: map[string]any{name: value}}})
			_, seconds, _ := p.text("a"), p.seconds("b"), p.flag("c")
			should.Hold(t, seconds >= 0, "%v seconds from %v", seconds, value)
			_ = p.check()
		}
	})
}

// A call that names no session goes to the one of its configuration, or else to its client's own, which no call can name.
func TestTheSessionOfACall(t *testing.T) {
	own := WithSession(t.Context(), sandbox.DefaultOf("client"), true)
	named := WithNamed(own, "work", "the URL")
	for _, test := range []struct {
		ctx                      context.Context
		given, want, note, wrong string
	}{
		{own, "", sandbox.DefaultOf("client"), "", ""},
		{own, "named", "named", "", ""},
		{own, sandbox.DefaultOf("other"), sandbox.DefaultOf("other"), "", string(fault.InvalidSessionID)},
		{named, "", "work", "", ""},
		{named, "work", "work", "", ""},
		{named, "other", "other", "Note: the session is other, as session_id says, and not work, as the URL says.", ""},
		{WithNamed(own, "@client", "the URL"), "", "@client", "", string(fault.InvalidSessionID)},
		{WithNamed(own, "", "the URL"), "", sandbox.DefaultOf("client"), "", ""},
		{t.Context(), "", "", "", ""},
	} {
		p := newParams(test.ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: map[string]any{"session_id": test.given}}})
		got, err := p.session(), p.check()
		code := ""
		if err != nil {
			code = string(fault.From(err).Code)
		}
		should.Hold(t, got == test.want && p.other == test.note && code == test.wrong,
			"%q: got %q, %q, %q", test.given, got, p.other, code)
	}
}

func TestTextThatIsTooLongToBeDecoded(t *testing.T) {
	for name, code := range map[string]fault.Code{"code": fault.CodeTooLarge, "query": fault.InvalidArgument} {
		raw := `{"` + name + `":"` + strings.Repeat("x", maxText+1) + `"}`
		p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{RawArguments: []byte(raw)}})
		p.required(name)
		f := fault.From(p.check())
		should.Hold(t, f.Code == code && strings.Contains(f.Message, "4194307 bytes"), "%s: %v", name, f)
	}
}
