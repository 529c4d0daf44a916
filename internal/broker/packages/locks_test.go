//go:build unix

package packages_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmci"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmregistry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestNodesClientsUseTheIndexAndTheirLocksDoNotNameThisMachine(t *testing.T) {
	t.Parallel()
	w := start(t, packages.Rules{})
	old := time.Now().AddDate(-1, 0, 0) // Yarn takes nothing that is a day old
	w.npm.Add(
		npmregistry.Package{Name: "@scope/demo", Version: "1.0.0", Published: old, Dependencies: map[string]string{"helper": "^1"}},
		npmregistry.Package{Name: "helper", Version: "1.5.0", Published: old},
	)
	modules, err := npmci.Install("../../test/e2e/clients")
	must.OK(t, err)
	for _, c := range []struct {
		lock string
		argv []string
	}{
		{"package-lock.json", []string{program(t, "npm"), "install"}},
		{"pnpm-lock.yaml", []string{filepath.Join(modules, ".bin", "pnpm"), "add"}},
		{"yarn.lock", []string{filepath.Join(modules, ".bin", "yarn"), "add"}},
	} {
		t.Run(c.lock, func(t *testing.T) {
			t.Parallel()
			// The clients' own Node.js comes first: pnpm needs a new one.
			argv := append([]string{"env", "PATH=" + filepath.Join(modules, ".bin") + ":" + os.Getenv("PATH")}, c.argv...)
			folder, output, err := w.nodes(t, append(argv, "@scope/demo")...)
			must.OK(t, err, "%v", output)
			lock := must.Get(os.ReadFile(filepath.Join(folder, c.lock)))(t)
			expect(t, string(lock), "1.5.0")
			should.Hold(t, !strings.Contains(string(lock), "127.0.0.1"), "it names an address of this machine:\n%s", lock)
		})
	}
}
