package team

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cmd"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// program is a program with the features of this package.
var program = cmd.Program{Name: "code-sandbox-server", Features: Features}

// command runs a command line, and returns what it prints.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := program.Command()
	root.SetOut(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestTokensAreGivenOutListedAndRevoked(t *testing.T) {
	state := t.TempDir()
	tokens := func(args ...string) (string, error) {
		return command(t, append([]string{"tokens", "--state-dir", state}, args...)...)
	}
	if out, err := tokens("list"); err != nil || out != "no tokens\n" {
		t.Errorf("%q, %v", out, err)
	}
	out, err := tokens("add", "alice", "--group", "staff,admins", "--group", "x", "--expires", "90d", "--json")
	must.OK(t, err)
	var added struct {
		ID, Name, Token, Header string
		Groups                  []string
		Expires                 *string
	}
	must.OK(t, json.Unmarshal([]byte(out), &added))
	if added.Name != "alice" || added.Header != "Authorization: Bearer "+added.Token || !slices.Equal(added.Groups, []string{"staff", "admins", "x"}) || added.Expires == nil {
		t.Errorf("got %s", out)
	}
	out, err = tokens("add", "bob")
	if err != nil || strings.Count(out, "csm_") != 2 || !strings.Contains(out, "good until it is revoked") {
		t.Errorf("%q, %v", out, err)
	}
	if out, err = tokens("add", "bob", "--expires", "1h"); err != nil || !regexp.MustCompile(`good until [0-9-]{10} [0-9]{2}:[0-9]{2}\.`).MatchString(out) {
		t.Errorf("%q, %v", out, err)
	}
	// What a client sends lets it in.
	s := &server.Program{Settings: server.Settings{StateDir: state}}
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + added.Token}}}
	store := tokenStore(s, slog.New(slog.DiscardHandler))
	if p, err := store.Authenticate(r); err != nil || p.Name != "alice" {
		t.Errorf("%+v, %v", p, err)
	}
	store.Close()
	out, err = tokens("list")
	if err != nil || strings.Contains(out, "csm_") || !strings.Contains(out, "staff, admins, x") || !strings.Contains(out, "never") || !strings.Contains(out, " ago") {
		t.Errorf("%q, %v", out, err)
	}
	out, err = tokens("list", "--json")
	if err != nil || strings.Contains(out, added.Token) || strings.Contains(out, "hash") || !strings.Contains(out, added.ID) || !strings.Contains(out, `"groups": []`) {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := tokens("revoke", added.ID); err != nil || out != "revoked "+added.ID+" of alice\n" {
		t.Errorf("%q, %v", out, err)
	}
	if p, err := store.Authenticate(r); err == nil {
		t.Errorf("it still lets in %+v", p)
	}
	if out, err := tokens("revoke", "alice"); err == nil {
		t.Errorf("%q", out)
	}
}

// What a person has allowed by OAuth is listed beside the tokens, and taken back in the same way.
func TestGrantsAreListedAndRevoked(t *testing.T) {
	state := t.TempDir()
	const file = `{"grants":{"g1":{"id":"g1","principal":"alice","source":"oidc","client":"c1","client_name":"Claude","redirect":"claude.ai",
		"created":"2026-01-01T00:00:00Z","used":"2026-01-01T00:00:00Z","access":{},"refresh_ends":"2999-01-01T00:00:00Z"}}}`
	tokens := func(args ...string) (string, error) {
		return command(t, append([]string{"tokens", "--state-dir", state}, args...)...)
	}
	for _, which := range []string{"g1", "alice"} {
		must.OK(t, os.WriteFile(filepath.Join(state, "oauth.json"), []byte(file), 0o600))
		if out, err := tokens("list"); err != nil || !strings.Contains(out, "g1 ") || !strings.Contains(out, "claude.ai") || !strings.Contains(out, "Claude") {
			t.Errorf("%q, %v", out, err)
		}
		if out, err := tokens("list", "--json"); err != nil || !strings.Contains(out, `"answer_to": "claude.ai"`) {
			t.Errorf("%q, %v", out, err)
		}
		if out, err := tokens("revoke", which); err != nil || out != "revoked g1 of alice, for claude.ai\n" {
			t.Errorf("%q, %v", out, err)
		}
		if out, err := tokens("revoke", which); err == nil {
			t.Errorf("a second time: %q", out)
		}
	}
}

func TestWrongUseOfTokens(t *testing.T) {
	state := t.TempDir()
	for _, args := range [][]string{
		{}, {"add"}, {"add", ""}, {"add", "a\nb"}, {"add", "a", "b"}, {"add", "alice", "--group", "\x01"}, {"add", "alice", "--expires", "0"},
		{"add", "alice", "--expires", "-1h"}, {"add", "alice", "--expires", "soon"}, {"list", "x"}, {"revoke"},
	} {
		should.Equal(t, program.Main(append([]string{"tokens", "--state-dir", state}, args...)), 2, "%q exits with", args)
	}
}
