//go:build unix

package e2e

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// ofFixtures are the checks that need tools of a fixture.
var ofFixtures = []string{
	"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
	"sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-server-no-log-without-loglevel",
	"sep-2549-prompts-list-caching-hints",
}

var failedCheck = regexp.MustCompile(`\[(\S+) *\] \S*FAILURE`)

func wantConforming(t *testing.T, url, revision, scenario string) {
	t.Helper()
	stdout, stderr, err := node(t, filepath.Join("node_modules", ".bin", "conformance"), "server",
		"--url", url, "--scenario", scenario, "--spec-version", revision)
	if err == nil {
		return
	}
	failed := failedCheck.FindAllStringSubmatch(stdout, -1)
	for _, check := range failed {
		if !slices.Contains(ofFixtures, check[1]) {
			t.Errorf("%s failed", check[1])
		}
	}
	if len(failed) == 0 || t.Failed() {
		t.Errorf("%v\n%s\n%s", err, stdout, stderr)
	}
}

// Over HTTP the scenarios that judge HTTP itself are asked for as well.
func TestConformanceOverHTTP(t *testing.T) {
	t.Parallel()
	s := startHTTP(t, "--http-no-auth", "--skills", filepath.Join(examplesDir, "skills")) // the suite has no token to send
	for revision, scenarios := range map[string][]string{
		"2025-06-18": {"server-initialize", "server-session-lifecycle", "tools-list"},
		"2025-11-25": {"server-initialize", "server-session-lifecycle", "ping", "tools-list", "resources-list", "dns-rebinding-protection", "server-sse-multiple-streams", "server-sse-polling"},
		"2026-07-28": {"server-stateless", "tools-list", "resources-list", "sep-2164-resource-not-found", "dns-rebinding-protection", "server-sse-multiple-streams", "caching", "http-header-validation", "sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"},
	} {
		for _, scenario := range scenarios {
			t.Run(revision+" "+scenario, func(t *testing.T) { wantConforming(t, s.url, revision, scenario) })
		}
	}
}
