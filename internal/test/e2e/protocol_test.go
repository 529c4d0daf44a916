//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const invalidParams = -32602 // of JSON-RPC

func TestStatelessAnswersSayHowLongTheyHold(t *testing.T) {
	t.Parallel()
	s := start(t, setup{era: modern})
	for method, params := range map[string]object{
		"server/discover": nil, "tools/list": nil, "resources/list": nil, "resources/templates/list": nil,
		"resources/read": {"uri": "sandbox://usage"},
	} {
		var got struct {
			SupportedVersions                    []string
			ResultType, CacheScope, Instructions string
			TTLMs                                *int
		}
		decode(t, s.request(method, params).Result, &got)
		if got.ResultType != "complete" || (got.CacheScope != "private" && got.CacheScope != "public") || got.TTLMs == nil || *got.TTLMs < 0 {
			t.Errorf("%s: %s", method, sprint(got))
		}
		if method == "server/discover" && (!slices.Contains(got.SupportedVersions, string(modern)) || got.Instructions == "") {
			t.Errorf("discovered: %s", sprint(got))
		}
	}
	s.refuse("tools/list", object{"_meta": object{"io.modelcontextprotocol/protocolVersion": "2099-01-01"}}, -32022)
	s.ping()
}

// lists gives the answers to everything that a client asks before it works.
func lists(s *server) (tools, resources json.RawMessage) {
	s.t.Helper()
	var t struct{ Tools json.RawMessage }
	decode(s.t, s.request("tools/list", nil).Result, &t)
	var r struct{ Resources json.RawMessage }
	decode(s.t, s.request("resources/list", nil).Result, &r)
	return t.Tools, r.Resources
}

func TestListsAreTheSameInBothErasAndEveryTime(t *testing.T) {
	t.Parallel()
	old, stateless := start(t, setup{}), start(t, setup{era: modern})
	tools, resources := lists(old)
	for _, s := range []*server{old, old, stateless, stateless} {
		again, resourcesAgain := lists(s)
		if !bytes.Equal(tools, again) || !bytes.Equal(resources, resourcesAgain) {
			t.Errorf("%s lists otherwise:\n%s\n%s", s.era, again, resourcesAgain)
		}
	}
	var named []struct{ URI string }
	decode(t, resources, &named)
	if len(named) < 2 {
		t.Errorf("resources: %s", resources)
	}
	old.py("x = 1")
	if again, _ := lists(old); !bytes.Equal(tools, again) {
		t.Error("the list of tools changes with a call")
	}
}

func TestBothErasMayMixOnOneStream(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.py("a = 1")
	s.era = modern
	if got := s.py("a").Meta.Run.value(); got != "1" {
		t.Errorf("got %q", got)
	}
}

func TestNothingIsMadeBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	lists(s)
	if strings.Contains(s.stderr.String(), "connected to podman") {
		t.Error("Podman was asked")
	}
	s.call("session_info", nil).wantText(t, "/mnt/data")
	s.call("session_info", object{"session_id": "nobodys"}).wantCode(t, "session_not_found")
	if ids := s.sessionIDs(); len(ids) > 0 {
		t.Errorf("sessions exist: %v", ids)
	}
}

func TestResourcesTellOfTheEnvironments(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	read := func(uri string) string {
		var got struct {
			Contents []struct{ URI, MimeType, Text string }
		}
		decode(t, s.request("resources/read", object{"uri": uri}).Result, &got)
		if len(got.Contents) != 1 || got.Contents[0].URI != uri {
			t.Fatalf("%s: %s", uri, sprint(got))
		}
		return got.Contents[0].Text
	}
	var env struct {
		Environments []struct {
			Language, Version, Problem string
			Packages                   map[string]string
		}
	}
	decode(t, json.RawMessage(read("sandbox://environments")), &env)
	if len(env.Environments) != 3 || env.Environments[0].Packages["numpy"] == "" || env.Environments[1].Packages["typescript"] == "" {
		t.Errorf("environments: %s", sprint(env))
	}
	if usage := read("sandbox://usage"); !strings.Contains(usage, "run_python_code") {
		t.Errorf("usage: %s", usage)
	}
	s.refuse("resources/read", object{"uri": "sandbox://nothing"}, -32002)
	s.era = modern
	s.refuse("resources/read", object{"uri": "sandbox://nothing"}, invalidParams)
}

func TestAnswersWithoutPodman(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for name, with := range map[string]setup{
		"CONTAINER_HOST where nothing listens":   {env: []string{"PATH=" + empty, "CONTAINER_HOST=unix://" + filepath.Join(empty, "no.sock")}},
		"the same for a client of the later era": {era: modern, env: []string{"CONTAINER_HOST=unix://" + filepath.Join(empty, "no.sock")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, with)
			lists(s)
			s.call("list_sessions", nil).wantText(t, "0 sessions")
			s.call(python, object{"code": "1"}).wantCode(t, "engine_unavailable")
			s.ping()
			s.call("list_sessions", nil).wantText(t, "sbx-")
			s.call("session_info", nil).wantText(t, "/mnt/data")
			if got := s.request("resources/read", object{"uri": "sandbox://environments"}); !strings.Contains(string(got.Result), "doctor") {
				t.Errorf("environments: %.500s", got.line)
			}
		})
	}
}

func TestAShortCallStillAnswersAtTheEnd(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	// A busy machine takes its time for the first calls, and the end waits for short ones only.
	eventually(t, "calls are short", func() (bool, string) {
		began := time.Now()
		s.py("x = 2")
		took := time.Since(began)
		return took < 100*time.Millisecond, took.String()
	})
	r := s.beginCall(python, object{"code": "x + 1"})
	s.endBy("end of input behind a call", func() { _ = s.stdin.Close() })
	if got := r.result().Meta.Run.value(); got != "3" {
		t.Errorf("got %q", got)
	}
}
