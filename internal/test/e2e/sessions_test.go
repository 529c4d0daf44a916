//go:build unix

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// sessionFields is what session_info and list_sessions tell of a session.
type sessionFields struct {
	SessionID string `json:"session_id"`
	Default   bool
	Owner     string
	Kernels   []struct{ Language, State, Version string }
	Age       *int   `json:"age_seconds"`
	Idle      *int   `json:"idle_seconds"`
	Size      *int64 `json:"size_bytes"`
	WorkDir   string `json:"work_dir"`
	InputDir  string `json:"input_dir"`
	OutputDir string `json:"output_dir"`
	Network   string
	Limits    map[string]float64
	Packages  map[string]map[string]string
}

func (s *server) listed() []sessionFields {
	s.t.Helper()
	var list struct{ Sessions []sessionFields }
	res := s.call("list_sessions", nil)
	decode(s.t, res.StructuredContent, &list)
	for _, one := range list.Sessions {
		res.wantText(s.t, "\n"+one.SessionID)
	}
	return list.Sessions
}

// sessionInfo is what session_info tells of a session.
func (s *server) sessionInfo(id string) sessionFields {
	s.t.Helper()
	var info sessionFields
	decode(s.t, json.RawMessage(s.call("session_info", object{"session_id": id}).text()), &info)
	return info
}

func TestSessionInfo(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--memory-limit", "512m"}})
	id := s.py("open('five.txt', 'w').write('12345')").Meta.Run.SessionID
	var got sessionFields
	decode(t, json.RawMessage(s.call("session_info", nil).text()), &got)
	if got.SessionID != id || !got.Default || got.WorkDir != "/mnt/data" || got.InputDir != "/mnt/data/input" || got.OutputDir != "/mnt/data/output" ||
		got.Network != "none" || got.Limits["memory_bytes"] != 512<<20 || got.Age == nil || got.Idle == nil {
		t.Errorf("session_info: %s", sprint(got))
	}
	if got.Packages != nil {
		t.Errorf("packages that nobody asked for: %v", got.Packages)
	}
	asked := s.call("session_info", object{"packages": true})
	decode(t, json.RawMessage(asked.text()), &got)
	if got.Packages["python"]["numpy"] == "" || got.Packages["javascript"]["typescript"] == "" || strings.Contains(asked.text(), `"types-`) {
		t.Errorf("packages: %v", got.Packages)
	}
	states := make(map[string]string)
	for _, k := range got.Kernels {
		states[k.Language] = k.State
	}
	if len(states) != 3 || states["bash"] != "not started" || states["javascript"] != "not started" || states["python"] == "not started" || states["python"] == "" {
		t.Errorf("kernels: %v", states)
	}
	if named := s.sessionInfo(id); named.SessionID != id {
		t.Errorf("by its id: %s", sprint(named))
	}
	s.call("session_info", object{"session_id": "no-such"}).wantCode(t, "session_not_found")
	s.call("session_info", object{"session_id": "../x"}).wantCode(t, "invalid_session_id")
}

func TestListSessions(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	if got := s.listed(); len(got) > 0 {
		t.Errorf("before any: %s", sprint(got))
	}
	id := s.py("open('x', 'w').write('x' * 5000)").Meta.Run.SessionID
	s.complete(javascript, object{"session_id": "e2e-listed", "code": "1"})
	found := make(map[string]sessionFields)
	for _, f := range s.listed() {
		found[f.SessionID] = f
	}
	if f := found[id]; len(found) != 2 || !f.Default || f.Owner == "" || f.Size == nil || *f.Size < 5000 {
		t.Errorf("listed: %s", sprint(found))
	}
	s.call("close_session", object{"session_id": "e2e-listed"})
	if got := s.listed(); len(got) != 1 {
		t.Errorf("after a close: %s", sprint(got))
	}
}

func TestCloseSession(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	first := s.py("x = 1").Meta.Run.SessionID
	s.call("close_session", nil).wantText(t, first, "closed")
	if h := mustHold(t, []string{first}); !h.empty() {
		t.Errorf("a closed session still has %s", sprint(h))
	}
	s.call("close_session", object{"session_id": first}).wantCode(t, "session_not_found")
	res := s.py("'x' in globals()")
	if second := res.Meta.Run.SessionID; second == first || res.Meta.Run.value() != "False" {
		t.Errorf("a new default session: %s", sprint(res.Meta.Run))
	}

	id := object{"session_id": "e2e-keep-files"}
	s.complete(python, object{"session_id": "e2e-keep-files", "code": "x = 1; open('kept.txt', 'w').write('kept')"})
	s.call("close_session", object{"session_id": "e2e-keep-files", "keep_files": true}).wantText(t, "files kept")
	res = s.complete(python, object{"session_id": "e2e-keep-files", "code": "'x' in globals(), open('kept.txt').read()"})
	if got := res.Meta.Run.value(); got != "(True, 'kept')" {
		t.Errorf("got %s", got)
	}
	s.call("close_session", id)
	again := s.complete(python, object{"session_id": "e2e-keep-files", "code": "import os; os.path.exists('kept.txt')"})
	if got := again.Meta.Run.value(); got != "False" {
		t.Errorf("after a close without: %s", got)
	}
	s.call("close_session", id)
}
