package allfeatures_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/allfeatures"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// The first program of this module has no feature's package in it, and none that only features need.
func TestTheFirstProgramHasNoFeatures(t *testing.T) {
	const module = "github.com/code-sandbox-mcp/code-sandbox-mcp"
	out := must.Get(exec.Command("go", "list", "-deps", module).Output())(t)
	for name := range strings.Lines(string(out)) {
		for _, feature := range []string{module + "/team", module + "/cluster", module + "/apis", "k8s.io", "sigs.k8s.io", "github.com/coreos/go-oidc"} {
			should.Hold(t, !strings.HasPrefix(name, feature), "it imports %s", name)
		}
	}
}

func TestAPIsAreServedOverHTTPAlone(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	for _, test := range []struct{ args, want string }{
		{"--apis=e2b", "--apis e2b has no effect without --http"}, {"--apis=dify --http=8000", "--apis dify is none"}, {"--apis=e2b --http=8000", ""},
	} {
		_, err := server.Read(allfeatures.Features(), strings.Fields(test.args), none)
		should.Hold(t, (err == nil) == (test.want == "") && (err == nil || strings.Contains(err.Error(), test.want)), "%s: %v", test.args, err)
	}
}
