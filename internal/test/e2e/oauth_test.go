//go:build unix

package e2e

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// startOAuth starts a server that gives out tokens by OAuth, and returns the token of a person.
func startOAuth(t *testing.T) (s *httpServer, person string) {
	t.Helper()
	s = startHTTP(t, "--oauth")
	cmd := exec.CommandContext(t.Context(), serverProgram, "tokens", "add", "ann", "--json", "--state-dir", s.stateDir)
	out, err := cmd.Output()
	var made struct{ Token string }
	if err = errors.Join(err, json.Unmarshal(out, &made)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return s, made.Token
}

func TestOAuthOfTypeScriptClients(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{"legacy", "modern"} {
		t.Run(generation, func(t *testing.T) {
			s, person := startOAuth(t)
			stdout, stderr, err := node(t, "oauth.mjs", s.url, person, generation)
			if err != nil || strings.TrimSpace(stdout) != "ok" {
				t.Errorf("%v\n%s\n%s\n%s", err, stdout, stderr, s.stderr.String())
			}
		})
	}
}
