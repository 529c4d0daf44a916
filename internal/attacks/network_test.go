//go:build linux

package attacks_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// Behind a route that leads nowhere everything can be sent and nothing answers, as where a policy drops it.
func TestTheNetworkIsJudgedByWhatAnswers(t *testing.T) {
	t.Parallel()
	attack := must.Get(attacks.Container("network"))(t)
	for name, c := range map[string]struct {
		noPolicy bool
		before   string // what the attack's own process does
		want     attacks.Outcome
	}{
		"a policy":    {want: attacks.Held},
		"no policy":   {noPolicy: true, want: attacks.GaveWay},
		"a server":    {before: "import socket; server = socket.create_server(('192.168.1.1', 80))", want: attacks.GaveWay},
		"its cluster": {before: "import socket; server = socket.create_server(('192.168.1.1', 6443))", want: attacks.GaveWay},
		"a name server": {want: attacks.GaveWay, before: `import socket, threading
dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
dns.bind(("192.168.1.1", 53))
threading.Thread(target=lambda: dns.sendto(b"x", dns.recvfrom(512)[1]), daemon=True).start()`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, err := attack.Program(attacks.Facts{Pod: &attacks.Pod{Policy: !c.noPolicy, Near: [][2]any{{"192.168.1.1", 6443}}}})
			must.OK(t, err)
			run := exec.CommandContext(t.Context(), "sh", "-ec", "ip link set lo up; ip address add 192.168.1.1/32 dev lo; ip route add default dev lo; exec python3 -")
			run.Stdin = strings.NewReader(c.before + "\n" + program)
			root := []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
			groups := []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
			run.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, UidMappings: root, GidMappings: groups}
			out, err := run.CombinedOutput()
			must.OK(t, err, "%s", out)
			verdict, err := attacks.ParseVerdict(string(out))
			should.Hold(t, err == nil && verdict.Outcome == c.want, "it says %+v, %v, want %s", verdict, err, c.want)
		})
	}
}
