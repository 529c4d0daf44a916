//go:build unix

package apis_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmci"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// Two validators of others take the document.
func TestTheDocumentIsOpenAPI(t *testing.T) {
	t.Parallel()
	const clients = "../internal/test/e2e/clients"
	modules := must.Get(npmci.Install(clients))(t)
	out, err := exec.CommandContext(t.Context(), filepath.Join(modules, ".bin", "node"), clients+"/openapi.mjs", "testdata/openapi.json").CombinedOutput()
	should.OK(t, err, "%s", out)
}
