package selftest

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

var example = Report{Rows: []Row{
	{Name: "network", Promise: "There is none.", Status: Proven, Tried: "all", Refusals: map[string]int{"EPERM": 1, "ENETUNREACH": 17}, Notes: []string{"alone"}},
	{Name: "memory", Promise: "It ends.", Status: Unenforced, Tried: "more", Why: "version\n1", Fix: "boot"},
	{Name: "frames", Promise: "No.", Status: NotTried, Tried: "forging", Why: "no socket"},
}}

func TestTable(t *testing.T) {
	var text strings.Builder
	must.OK(t, example.WriteTable(&text))
	want := `proven             network  There is none.
                     tried  all
                     met    ENETUNREACH ×17, EPERM ×1, alone
not enforced here  memory   It ends.
                     tried  more
                     why    version 1
                     fix    boot
not tried          frames   No.
                     tried  forging
                     why    no socket

1 proven, 1 not enforced here, 1 not tried.
`
	should.Equal(t, text.String(), want)
}

func TestJSON(t *testing.T) {
	var out, compact bytes.Buffer
	r := Report{Rows: []Row{{Name: "frames", Promise: "a > b", Status: Broken, Failed: true, Refusals: map[string]int{}, Notes: []string{}}}}
	must.OK(t, r.WriteJSON(&out))
	want := `{"ok":false,"rows":[{"name":"frames","promise":"a > b","status":"broken","tried":"","refusals":{},"notes":[],"failed":true}]}`
	err := json.Compact(&compact, out.Bytes())
	should.Hold(t, err == nil && compact.String() == want, "got %s, %v", compact.String(), err)
}

func TestOneFailedRowFailsTheWhole(t *testing.T) {
	should.Hold(t, example.OK(), "nothing failed")
	should.Hold(t, !(Report{Rows: append(example.Rows, Row{Failed: true})}).OK(), "a row failed")
}

// Every attack that needs no more than a container is a row, and every row has its attack.
func TestEveryAttackIsARow(t *testing.T) {
	rows := make(map[string]bool)
	for _, p := range promises {
		a, err := p.load()
		should.Hold(t, err == nil && a.Tried != "", "%s: %+v, %v", p.name, a, err)
		rows[p.name] = true
	}
	entries, err := os.ReadDir("../attacks/container")
	must.OK(t, err)
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".py")
		a, err := attacks.Container(name)
		if err != nil || rows[name] != (a.Tried != "") {
			t.Errorf("%s: %v, a row %v", name, err, rows[name])
		}
	}
}

// An attack that came through is the host's fault only where doctor knows that the host cannot hold it.
func TestWhoseFaultItIs(t *testing.T) {
	able := podman.Info{Rootless: true, CgroupVersion: "v2", CgroupControllers: []string{"cpu", "memory", "pids"}, Seccomp: true}
	old := able
	old.CgroupVersion = "v1"
	undelegated := able
	undelegated.CgroupControllers = []string{"memory", "pids"}
	asRoot := able
	asRoot.Rootless = false
	rich := able
	rich.IDs = podman.MinIDs
	for _, test := range []struct {
		name, row string
		info      podman.Info
		want      Status
	}{
		{"a host that can", "memory", able, Broken},
		{"cgroup version 1 as an ordinary user", "memory", old, Unenforced},
		{"cgroup version 1 as an ordinary user", "pids", old, Unenforced},
		{"no controller for processors", "cpu", undelegated, Unenforced},
		{"no controller for processors", "memory", undelegated, Broken},
		{"no filter in the kernel", "seccomp", podman.Info{}, Unenforced},
		{"root", "rootless", asRoot, Unenforced},
		{"root", "user", asRoot, Broken},
		{"an ordinary user with few ids", "own_user", able, Unenforced},
		{"enough ids", "own_user", rich, Broken},
		{"root", "own_user", asRoot, Broken},
		{"a host that can do nothing", "network", podman.Info{}, Broken},
	} {
		t.Run(test.row+" with "+test.name, func(t *testing.T) {
			for _, p := range promises {
				if p.name != test.row {
					continue
				}
				row := Row{Status: Broken, Why: "it came through"}
				p.unenforceable(Podman(test.info), &row)
				should.Hold(t, row.Status == test.want && (row.Fix != "") == (test.want == Unenforced), "%+v", row)
				held := Row{Status: Proven}
				if p.unenforceable(Podman(test.info), &held); held.Status != Proven {
					t.Errorf("what held is %s", held.Status)
				}
			}
		})
	}
}

// What a container has by itself, or many machines have, proves nothing.
func TestTheValuesThatAreLookedForAreOnesThatNoContainerHasByItself(t *testing.T) {
	known := []string{"a-token-that-is-passed-through", "3.14.1"}
	got := withheld([]string{
		"BACKEND=podman", "APP=sandbox", "LANGUAGE=C.UTF-8", "COLORS=xterm-256color", "MOUNT=/mnt/data/files/of/mine", "PATH=/usr/local/bin:/usr/bin:/bin",
		"container=podman", "TOKEN=a-token-that-is-passed-through", "COPY=a-token-that-is-passed-through", "PYTHON_VERSION=3.14.1", "DEBUG=false",
		"KEY=sk-0123456789abcdef", "DB_PASSWORD=hunter",
	}, known)
	want := digests(map[string]string{"KEY": "sk-0123456789abcdef", "DB_PASSWORD": "hunter"})
	should.Hold(t, maps.Equal(got, want), "got %v, want %v", got, want)
}
