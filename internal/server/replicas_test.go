package server

import (
	"strings"
	"testing"
)

func TestWhatReplicasCannotHaveInCommon(t *testing.T) {
	t.Setenv(headerSecretVariable, "")
	good := []string{"--replicas=x", "--engine=kubernetes", "--http=0.0.0.0:8000", "--trusted-header=X-User"}
	env := map[string]string{headerSecretVariable: proxySecret, tokenVariable: "the-token-of-all-replicas"}
	for name, test := range map[string]struct{ more, want string }{
		"a proxy's secret":  {"--runtime-class=x", ""},
		"a proxy's address": {"--trusted-proxy=10.0.0.7", "--trusted-proxy and --replicas exclude each other"},
		"OAuth":             {"--oauth", "--oauth and --replicas exclude each other"},
		"links elsewhere":   {"--files-http=127.0.0.1:0", "--files-http and --replicas exclude each other"},
		"a socket":          {"--http=unix:///run/x", "other replicas do not reach unix:///run/x"},
		"Podman":            {"--engine=podman", "has no effect without --engine kubernetes"},
	} {
		_, err := loadSettings(t, append(good, test.more), env)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
