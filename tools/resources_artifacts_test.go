package tools

import (
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestLinksOfFiles(t *testing.T) {
	for path, want := range map[string]string{
		"output/a.csv":         "artifact://s_1/output/a.csv",
		"two words/é?#%&.txt":  "artifact://s_1/two%20words/%C3%A9%3F%23%25&.txt",
		"output/a+b@c;d=e.csv": "artifact://s_1/output/a+b@c%3Bd=e.csv",
	} {
		got := artifactLink("s_1", path)
		should.Equal(t, got, want, "%s", path)
		if session, again, err := parseArtifactURI(got); err != nil || session != "s_1" || again != path {
			t.Errorf("%s: back as %q of %q, %v", path, again, session, err)
		}
	}
}

func TestLinksThatAreRefused(t *testing.T) {
	for uri, code := range map[string]fault.Code{
		"artifact:///etc/passwd":       fault.InvalidSessionID,
		"artifact://-x/a":              fault.InvalidSessionID,
		"artifact://s/":                fault.InvalidPath,
		"artifact://s":                 fault.InvalidPath,
		"artifact://s/../x":            fault.InvalidPath,
		"artifact://s/%2e%2e/x":        fault.InvalidPath,
		"artifact://s/%2fetc%2fpasswd": fault.InvalidPath,
		"artifact://s/a%00b":           fault.InvalidPath,
		"artifact://s/a%zz":            fault.InvalidPath,
		"artifact://s/%ff":             fault.InvalidPath,
	} {
		_, _, err := parseArtifactURI(uri)
		must.Code(t, err, code, "")
	}
}
