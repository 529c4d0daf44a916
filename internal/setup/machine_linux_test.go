package setup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// machineEngine is an engine whose containers run in a virtual machine, which a script plays: the file state in its
// folder is what the machine is, and the files init and start are what those commands do.
type machineEngine struct {
	dir     string
	notHere error
	unasked bool // none is needed
}

func newMachineEngine(t *testing.T, state string) *machineEngine {
	t.Helper()
	e := &machineEngine{dir: t.TempDir()}
	e.write(t, "podman", `#!/bin/sh
cd "`+e.dir+`"
case "$*" in
"machine list --format json")
	case $(cat state) in
	missing) echo '[]' ;;
	running) echo '[{"Name":"podman-machine-default","Default":true,"Running":true,"Starting":false}]' ;;
	*) echo '[{"Name":"podman-machine-default","Default":true,"Running":false,"Starting":false}]' ;;
	esac ;;
"machine init") . ./init ;;
"machine start podman-machine-default") . ./start ;;
*) exit 125 ;;
esac
`)
	e.write(t, "state", state)
	e.write(t, "init", "echo 'Looking up Podman Machine image'; echo stopped > state")
	e.write(t, "start", "echo 'Starting machine'; echo running > state")
	return e
}

func (e *machineEngine) write(t *testing.T, name, content string) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(e.dir, name), []byte(content), 0o700))
}

func (e *machineEngine) Machine(ctx context.Context) (string, *service.Machine, bool, error) {
	if e.notHere != nil || e.unasked {
		return "", nil, !e.unasked, e.notHere
	}
	program := filepath.Join(e.dir, "podman")
	m, err := service.FindMachine(ctx, program)
	return program, m, true, err
}

func TestAVirtualMachineIsMadeAndStarted(t *testing.T) {
	for state, test := range map[string]struct{ asked, said string }{
		"missing": {"make the virtual machine", "begin Virtual machine\nstep 0/2 downloading and making it\nline Looking up Podman Machine image\n" +
			"step 1/2 starting podman-machine-default\nline Starting machine\nend running: podman-machine-default"},
		"stopped": {"start Podman's virtual machine", "begin Virtual machine\nstep 1/2 starting podman-machine-default\nline Starting machine\nend running: podman-machine-default"},
		"running": {},
	} {
		e, report, asked := newMachineEngine(t, state), &recorder{}, ""
		consent := func(what string) error {
			asked = what
			return nil
		}
		if err := Machine(t.Context(), e, consent, report); err != nil || report.said() != test.said || !strings.HasPrefix(asked, test.asked) || (asked == "") != (test.asked == "") {
			t.Errorf("%s: %v, asked %q, said\n%s", state, err, asked, report.said())
		}
		asked = ""
		err := Machine(t.Context(), e, consent, report)
		should.Hold(t, err == nil && asked == "", "%s, the second time: %v, asked %q", state, err, asked)
	}
	should.OK(t, Machine(t.Context(), &machineEngine{unasked: true}, nil, nil), "where none is needed")
	gone := errors.New("Podman is not installed")
	should.Be(t, Machine(t.Context(), &machineEngine{notHere: gone}, nil, nil), gone, "without Podman")
}

func TestAVirtualMachineThatIsNotWantedIsNotTouched(t *testing.T) {
	e, report, no := newMachineEngine(t, "stopped"), &recorder{}, errors.New("no")
	err := Machine(t.Context(), e, func(string) error { return no }, report)
	should.Hold(t, errors.Is(err, no) && report.said() == "", "got %v, %s", err, report.said())
	state, _ := os.ReadFile(filepath.Join(e.dir, "state"))
	should.Hold(t, string(state) == "stopped", "it is %s", state)
}

func TestAVirtualMachineThatFailsIsTriedAgainFromWhereItWas(t *testing.T) {
	e := newMachineEngine(t, "missing")
	yes := func(string) error { return nil }
	e.write(t, "init", "echo 'Copying blob 1'; echo 'Error: write /Users/a/x: no space left on device' >&2; exit 125")
	report := &recorder{}
	var failed *Error
	err := Machine(t.Context(), e, yes, report)
	if !errors.As(err, &failed) || !strings.Contains(failed.Err.Error(), "no room on the disk") || !strings.Contains(failed.Next, "free about 10 GB") || !strings.Contains(strings.Join(failed.Log, "\n"), "no space left") || !strings.HasSuffix(report.said(), "\nfail") {
		t.Errorf("got %v\n%s", err, report.said())
	}
	e.write(t, "init", "echo stopped > state")
	e.write(t, "start", "echo 'Error: Virtualization is not available on this hardware.' >&2; exit 125")
	if err := Machine(t.Context(), e, yes, &recorder{}); !errors.As(err, &failed) || !strings.Contains(failed.Err.Error(), "virtualization") {
		t.Errorf("got %v", err)
	}
	e.write(t, "init", "echo 'it was made again' >&2; exit 1")
	e.write(t, "start", "echo running > state")
	should.OK(t, Machine(t.Context(), e, yes, &recorder{}))
}

func TestAnInitThatMakesNothingIsNotTakenForAMachine(t *testing.T) {
	e := newMachineEngine(t, "missing")
	e.write(t, "init", "true")
	should.Fail(t, Machine(t.Context(), e, func(string) error { return nil }, &recorder{}), "restart")
}

func TestWhatIsDownloadedIsCounted(t *testing.T) {
	folder := t.TempDir()
	cache := filepath.Join(folder, "applehv", "cache")
	must.OK(t, os.MkdirAll(cache, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(folder, "applehv", "disk.raw"), make([]byte, 5000), 0o600))
	should.Equal(t, cached(folder), 0, "before there is any")
	must.OK(t, os.WriteFile(filepath.Join(cache, "blob"), make([]byte, 3000), 0o600))
	should.Equal(t, cached(folder), 3000)
}
