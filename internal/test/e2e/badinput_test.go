//go:build unix

package e2e

import (
	"strings"
	"testing"
)

func TestBadArgumentsAreCodedErrors(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	long := strings.Repeat("x", 100_001)
	for name, test := range map[string]struct {
		tool      string
		arguments object
		code      string
		says      string
	}{
		"no code":                        {python, object{}, "invalid_argument", "code is missing"},
		"code that is null":              {python, object{"code": nil}, "invalid_argument", "code is missing"},
		"empty code":                     {python, object{"code": ""}, "invalid_argument", "empty"},
		"blank code":                     {javascript, object{"code": " \n\t"}, "invalid_argument", "empty"},
		"code that is a number":          {python, object{"code": 7}, "invalid_argument", "the number 7"},
		"code that is a list":            {javascript, object{"code": []string{"1"}}, "invalid_argument", "a list"},
		"code over the limit":            {python, object{"code": long}, "code_too_large", "100001"},
		"JavaScript over the limit":      {javascript, object{"code": long}, "code_too_large", "100001"},
		"a misspelt argument":            {python, object{"kode": "1"}, "invalid_argument", `"kode"`},
		"a flag that is text":            {python, object{"code": "1", "fresh": "yes"}, "invalid_argument", `"yes"`},
		"a timeout in words":             {python, object{"code": "1", "timeout_seconds": "9 s"}, "invalid_argument", `"9 s"`},
		"a timeout of zero":              {python, object{"code": "1", "timeout_seconds": 0}, "invalid_argument", "above 0"},
		"a timeout below zero":           {python, object{"code": "1", "timeout_seconds": -1}, "invalid_argument", "above 0"},
		"an id with a slash":             {python, object{"code": "1", "session_id": "a/b"}, "invalid_session_id", `"a/b"`},
		"an id that leads out":           {python, object{"code": "1", "session_id": "../../etc"}, "invalid_session_id", "etc"},
		"an id that begins with a dash":  {python, object{"code": "1", "session_id": "-rf"}, "invalid_session_id", "-rf"},
		"an id with a newline":           {python, object{"code": "1", "session_id": "a\n"}, "invalid_session_id", ""},
		"an id of 65 letters":            {python, object{"code": "1", "session_id": strings.Repeat("a", 65)}, "invalid_session_id", "64"},
		"an id beyond ASCII":             {python, object{"code": "1", "session_id": "sitzung-ä"}, "invalid_session_id", ""},
		"an id that is a number":         {python, object{"code": "1", "session_id": 5}, "invalid_argument", "the number 5"},
		"no run id":                      {"wait_for_run", object{}, "invalid_argument", "run_id"},
		"a run id that was never issued": {"wait_for_run", object{"run_id": "run-\x00"}, "run_not_found", ""},
		"closing what does not exist":    {"close_session", object{"session_id": "nobodys"}, "session_not_found", "nobodys"},
		"closing with a bad id":          {"close_session", object{"session_id": ".."}, "invalid_session_id", ".."},
	} {
		res := s.call(test.tool, test.arguments)
		if f := res.Meta.Error; f == nil || f.Code != test.code || !strings.Contains(f.Message+f.Hint, test.says) {
			t.Errorf("%s: %s", name, res.text())
		}
		if len(res.line) > 2000 {
			t.Errorf("%s: the answer has %d bytes", name, len(res.line))
		}
	}
	res := s.call(python, object{"code": long})
	if f := res.Meta.Error; f.SizeBytes != 100_001 || f.LimitBytes != 100_000 {
		t.Errorf("figures: %s", sprint(f))
	}
	if h := s.sessionIDs(); len(h) > 0 {
		t.Errorf("bad calls made sessions: %v", h)
	}
	if got := s.py("6 * 7").Meta.Run.value(); got != "42" {
		t.Errorf("afterwards: %s", got)
	}
}

// What Gemini CLI and others add to every call, and what many of them write as text.
func TestArgumentsThatClientsAddOrWriteAsText(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	res := s.complete(python, object{"code": "6 * 7", "wait_for_previous": true, "session_id": "", "timeout_seconds": "30", "fresh": "false"})
	res.wantText(t, "[result]\n42", `Note: ignored "wait_for_previous"`)
	res = s.complete(javascript, object{"code": "6 * 7", "timeout_seconds": "1e9", "fresh": ""})
	res.wantText(t, "[result]\n42", "timeout_seconds was lowered from 1000000000 to 3600")
	s.call("list_sessions", object{"all": true}).wantText(t, `Note: ignored "all": the tool's arguments are none.`)
	s.call("upload_file", object{"filename": "a.txt", "text": "hello", "url": "", "content_base64": "", "overwrite": "true"}).wantText(t, "input/a.txt")
	s.call("upload_file", object{"filename": "empty.txt", "text": "", "url": ""}).wantText(t, "input/empty.txt")
}

func TestArgumentsThatAreNoObject(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for _, arguments := range []any{"text", []int{1}, 7, true} {
		m := s.begin("tools/call", object{"name": python, "arguments": arguments}).wait()
		if m.Error == nil && !strings.Contains(string(m.Result), `"isError":true`) {
			t.Errorf("%v: %.300s", arguments, m.line)
		}
	}
	s.ping()
}

func TestCodeAtTheLimitRuns(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	filler := "#" + strings.Repeat("x", 99_000) + "\n"
	if got := s.py(filler + "6 * 7").Meta.Run.value(); got != "42" {
		t.Errorf("got %s", got)
	}
	odd := "# \x00 \u2028 \ufeff 🌍\n"
	s.call(python, object{"code": odd + "1"})
	s.call(javascript, object{"code": "//" + odd + "1"})
	s.py("1")
	s.js("1")
}
