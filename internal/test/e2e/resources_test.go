//go:build unix

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

type resourceContents struct {
	URI, MimeType, Text, Blob string
}

func (s *server) readResource(uri string) resourceContents {
	s.t.Helper()
	var got struct{ Contents []resourceContents }
	decode(s.t, s.request("resources/read", object{"uri": uri}).Result, &got)
	if len(got.Contents) != 1 || got.Contents[0].URI != uri {
		s.t.Fatalf("%s: %s", uri, sprint(got))
	}
	return got.Contents[0]
}

func (s *server) listsResource(uri string) bool {
	s.t.Helper()
	var got struct{ Resources []struct{ URI string } }
	decode(s.t, s.request("resources/list", nil).Result, &got)
	for _, r := range got.Resources {
		if r.URI == uri {
			return true
		}
	}
	return false
}

// changes counts the notifications that the list of resources has changed.
func changes(messages []message) (n int) {
	for _, m := range messages {
		if m.Method == "notifications/resources/list_changed" {
			n++
		}
	}
	return n
}

func TestSessionsAreResources(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	const id = "e2e-resource"
	if !s.listsResource("sessions://") || s.listsResource("session://"+id) {
		t.Error("the list before the session")
	}
	s.complete(javascript, object{"session_id": id, "code": "1"})
	s.waitFor("the list has changed", func(all []message) bool { return changes(all) >= 1 })
	if !s.listsResource("session://" + id) {
		t.Error("the session is not listed")
	}
	var one sessionFields
	decode(t, json.RawMessage(s.readResource("session://"+id).Text), &one)
	var all struct{ Sessions []sessionFields }
	decode(t, json.RawMessage(s.readResource("sessions://").Text), &all)
	if one.SessionID != id || one.WorkDir != "/mnt/data" || len(all.Sessions) != 1 || all.Sessions[0].SessionID != id {
		t.Errorf("session: %s, sessions: %s", sprint(one), sprint(all))
	}
	s.call("close_session", object{"session_id": id})
	s.waitFor("the list has changed again", func(all []message) bool { return changes(all) >= 2 })
	if s.listsResource("session://" + id) {
		t.Error("the session is listed when it has gone")
	}
	s.refuse("resources/read", object{"uri": "session://" + id}, -32002)
	s.refuse("resources/read", object{"uri": "session://no%2Fgood"}, -32002)
}

func TestFilesAreResources(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	id := s.py("open('output/two words é.txt', 'w').write('text'); open('output/b.bin', 'wb').write(b'\\0\\1\\2'); open('output/big.bin', 'wb').truncate(6 << 20)").Meta.Run.SessionID
	uri := "artifact://" + id + "/output/"
	if got := s.readResource(uri + "two%20words%20%C3%A9.txt"); got.Text != "text" || got.MimeType != "text/plain" {
		t.Errorf("text: %s", sprint(got))
	}
	if got := s.readResource(uri + "b.bin"); got.Blob != base64.StdEncoding.EncodeToString([]byte{0, 1, 2}) {
		t.Errorf("blob: %s", sprint(got))
	}
	for _, bad := range []string{"nothing", "%2e%2e/%2e%2e/etc/passwd"} {
		s.refuse("resources/read", object{"uri": uri + bad}, -32002)
	}
	s.refuse("resources/read", object{"uri": "artifact://e2e-none/output/x"}, -32002)
	if m := s.begin("resources/read", object{"uri": uri + "big.bin"}).wait(); m.Error == nil || !strings.Contains(m.Error.Message, "artifact_too_large") {
		t.Errorf("too large: %.300s", m.line)
	}
}

// Links go to the client that is known to show them, and the text is the same for all.
func TestLinksGoToTheClientThatOpensThem(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"Visual Studio Code": true, "claude-code": false} {
		s := start(t, setup{silent: true})
		s.request("initialize", object{"protocolVersion": string(legacy), "capabilities": object{}, "clientInfo": object{"name": name, "version": "1"}})
		s.notify("notifications/initialized", nil)
		res := s.py("open('output/a b.txt', 'w').write('x'); None")
		linked := strings.Contains(string(res.line), `"uri":"artifact://`+res.Meta.Run.SessionID+`/output/a%20b.txt"`)
		if linked != want || !strings.Contains(res.text(), "output/a b.txt") {
			t.Errorf("%s: %s", name, res.line)
		}
	}
}
