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
		"code over the limit":            {python, object{"code": long}, "code_too_large", "100001"},
		"a misspelt argument":            {python, object{"kode": "1"}, "invalid_argument", `"kode"`},
		"an id that leads out":           {python, object{"code": "1", "session_id": "../../etc"}, "invalid_session_id", "etc"},
		"an id beyond ASCII":             {python, object{"code": "1", "session_id": "sitzung-ä"}, "invalid_session_id", ""},
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
