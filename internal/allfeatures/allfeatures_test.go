package allfeatures_test

import (
	"os/exec"
	"strings"
	"testing"

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
