//go:build unix

package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		tools  int
		why    string
	}{
		"it answers": {`read a; echo '{"jsonrpc":"2.0","method":"notifications/x"}'; echo '{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"n","version":"v"}}}'
read b; read c; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{},{}]}}'; read d`, 2, ""},
		"it ends":                  {`echo "no such flag" >&2; exit 2`, 0, "without an answer to initialize (exit status 2)\nno such flag"},
		"it is chatty":             {`echo hello; read a`, 0, `something else than JSON: "hello"`},
		"it refuses":               {`read a; echo '{"jsonrpc":"2.0","id":1,"error":{"message":"too old"}}'`, 0, "refused initialize: too old"},
		"its environment is short": {`test "$XDG_RUNTIME_DIR$LANG" = "" && test "$A" = b && test "$HOME" != "" && echo '{"id":1,"result":{}}' && echo '{"id":2,"result":{"tools":[{}]}}'`, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
			t.Setenv("LANG", "C.UTF-8")
			o := machine(t)
			o.System.Env = os.Getenv
			o.Server = Server{Command: "/bin/sh", Args: []string{"-c", c.script}, Env: []Variable{{"A", "b"}}}
			answer, err := o.Probe(t.Context())
			if c.why == "" && err != nil || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) || answer.Tools != c.tools {
				t.Errorf("%+v, %v", answer, err)
			}
		})
	}
	o := machine(t)
	o.Server.Command = filepath.Join(t.TempDir(), "none")
	_, err := o.Probe(t.Context())
	should.Hold(t, err != nil, "a program that is not there answers")
}
