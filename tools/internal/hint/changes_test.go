package hint

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// testdata/changes.json has code and the errors that it raised in our image, where a test of the whole program raises them
// again; testdata/changes.txt has what is said of each. Code of its own that looks alike has no hint.
func TestHintsForWhatLibrariesChanged(t *testing.T) {
	content, err := os.ReadFile("testdata/changes.json")
	must.OK(t, err)
	var errors map[string]*sandbox.RunError
	must.OK(t, json.Unmarshal(content, &errors))
	all := make([]string, 0, len(errors))
	var got strings.Builder
	for _, code := range slices.Sorted(maps.Keys(errors)) {
		res := &sandbox.Result{Language: sandbox.Python, Status: sandbox.Failed, Error: errors[code]}
		said := servers[1].can.For(res, nil)
		if utf8.RuneCountInString(said) > maxLength || strings.Contains(said, "…\n") {
			t.Errorf("%s: %q", code, said)
		}
		fmt.Fprintf(&got, "%s\n", code)
		if said != "" {
			fmt.Fprintf(&got, "  %s\n", said)
		}
		all = append(all, said)
	}
	compare(t, "testdata/changes.txt", got.String())
	said := versions.ReplaceAllString(strings.Join(all, "\n"), " ")
	for key, write := range instead {
		library, _, _ := strings.Cut(key, ".")
		if name := regexp.MustCompile(`\w+\)?$`).FindString(key); !strings.Contains(said, strings.TrimSuffix(name, ")")) || !strings.Contains(said, write) {
			t.Errorf("no code in testdata/changes.json fails for %s of %s", key, library)
		}
	}
	for _, r := range changes {
		if !slices.ContainsFunc(slices.Collect(maps.Values(errors)), func(e *sandbox.RunError) bool {
			return r.match().MatchString(e.Name + ": " + e.Message + "\n" + e.Traceback)
		}) {
			t.Errorf("no code in testdata/changes.json fails like %s", r.match())
		}
	}
}

var versions = regexp.MustCompile(` \d[\w.+]* `)
