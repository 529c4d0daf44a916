//go:build linux

package service

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// The form of `podman machine list --format json`, which versions 5 and 6 share.
const listed = `[{"Name":"NAME","Default":true,"Created":"2026-11-26T10:00:00Z","Running":RUNNING,"Starting":STARTING,"LastUp":"2026-11-26T10:00:00Z","Stream":"default","VMType":"applehv","CPUs":5,"Memory":"2147483648","Swap":"0","DiskSize":"107374182400","Port":50000,"RemoteUsername":"core","IdentityPath":"/i","UserModeNetworking":true}]`

// fakeMachine plays the podman command of a machine: the file state in its folder has what it is (missing, stopped,
// starting, running), the files init, start and list say what those commands do, and calls has what was asked.
type fakeMachine struct{ dir, program string }

func newFakeMachine(t *testing.T, state string) *fakeMachine {
	t.Helper()
	f := &fakeMachine{dir: t.TempDir()}
	f.program = filepath.Join(f.dir, "podman")
	list := strings.ReplaceAll(listed, "NAME", "podman-machine-default")
	f.write(t, "podman", `#!/bin/sh
cd "`+f.dir+`"
echo "$*" >> calls
case "$*" in
"machine list --format json")
	if [ -e list ]; then . ./list; fi
	case $(cat state) in
	missing) echo '[]' ;;
	stopped) echo '`+strings.NewReplacer("RUNNING", "false", "STARTING", "false").Replace(list)+`' ;;
	starting) echo '`+strings.NewReplacer("RUNNING", "false", "STARTING", "true").Replace(list)+`' ;;
	running) echo '`+strings.NewReplacer("RUNNING", "true", "STARTING", "false").Replace(list)+`' ;;
	esac ;;
"machine inspect"*)
	if [ "$(cat state)" != running ]; then echo '[{"State":"stopped","ConnectionInfo":{}}]'; exit; fi
	echo '[{"State":"running","ConnectionInfo":{"PodmanSocket":{"Path":"`+f.dir+`/s"}}}]' ;;
"machine init") . ./init ;;
"machine start podman-machine-default") . ./start ;;
*) exit 125 ;;
esac
`)
	f.write(t, "state", state)
	f.write(t, "init", "echo stopped > next; mv next state; echo Machine init complete")
	f.write(t, "start", "echo running > next; mv next state; echo started successfully")
	return f
}

func (f *fakeMachine) write(t *testing.T, name, content string) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o700))
}

func (f *fakeMachine) count(t *testing.T, call string) int {
	t.Helper()
	calls := must.Get(os.ReadFile(filepath.Join(f.dir, "calls")))(t)
	return strings.Count("\n"+string(calls), "\n"+call+"\n")
}

// serve answers as Podman's service does, at the machine's socket.
func (f *fakeMachine) serve(t *testing.T) {
	t.Helper()
	listener := must.Get(net.Listen("unix", filepath.Join(f.dir, "s")))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Libpod-API-Version", "5.8.5")
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

func (f *fakeMachine) service(t *testing.T) *Service {
	t.Helper()
	return own(t, Options{Program: f.program, InMachine: true})
}

func TestTheFirstCallStartsAStoppedMachineOnce(t *testing.T) {
	f := newFakeMachine(t, "stopped")
	f.serve(t)
	s := f.service(t)
	if _, err := s.Connection(t.Context()); unavailable(t, err).Fix != "podman machine start podman-machine-default" || f.count(t, "machine start podman-machine-default") != 0 {
		t.Errorf("what only looks gave %v", err)
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			should.OK(t, s.Awaken(t.Context()))
		})
	}
	all.Wait()
	should.Equal(t, f.count(t, "machine start podman-machine-default"), 1, "it was started")
}

func TestAMachineThatStartsBetweenTheQuestionsIsUsed(t *testing.T) {
	f := newFakeMachine(t, "stopped")
	f.serve(t)
	f.write(t, "list", `if [ "$(grep -c "machine list" calls)" = 2 ]; then echo running > state; fi`)
	should.OK(t, should.ErrOf(f.service(t).Connection(t.Context())))
}

func TestACallDoesNotWaitLongForAMachine(t *testing.T) {
	f := newFakeMachine(t, "stopped")
	f.serve(t)
	// A pipe would end the start when this program ends; a file does not.
	f.write(t, "start", "while [ ! -e go ]; do sleep 0.05; done; echo x; [ -f /dev/stdout ] && [ -f /dev/stderr ] && echo running > next && mv next state")
	s := f.service(t)
	u := unavailable(t, s.WithMachine(t.Context(), time.Millisecond, func() error {
		_, err := s.Connection(t.Context())
		return err
	}))
	if !strings.HasPrefix(u.Reason, "Podman's virtual machine is being started, 0s so far") || !strings.HasPrefix(u.Fix, "call again") {
		t.Errorf("%+v", u)
	}
	f.write(t, "go", "")
	should.OK(t, s.Awaken(t.Context()))
	should.Equal(t, f.count(t, "machine start podman-machine-default"), 1, "it was started")
}

func TestAMachineThatIsMissingIsNotMade(t *testing.T) {
	f := newFakeMachine(t, "missing")
	err := f.service(t).Awaken(t.Context())
	u := unavailable(t, err)
	should.Hold(t, u.Fix == "code-sandbox-mcp setup --yes" && u.Runs && f.count(t, "machine init") == 0, "%+v", u)
}

func TestAMachineThatSomebodyElseStartsIsWaitedFor(t *testing.T) {
	f := newFakeMachine(t, "starting")
	f.serve(t)
	f.write(t, "start", `(sleep 0.2; echo running > next; mv next state) > /dev/null 2>&1 & echo 'Error: unable to start "podman-machine-default": already running' >&2; exit 125`)
	should.OK(t, f.service(t).Awaken(t.Context()))
}

// What Podman prints is that of its versions 5 and 6.
func TestWhyAMachineDoesNotRun(t *testing.T) {
	f := newFakeMachine(t, "missing")
	for said, want := range map[string]string{
		"Error: copying layers and metadata: writing blob: write /Users/a/.local/share/containers/podman/machine/x: no space left on device":                                                               "no room on the disk",
		"Error: write C:\\Users\\a\\x.vhdx: There is not enough space on the disk.":                                                                                                                        "no room on the disk",
		`Error: vfkit exited unexpectedly with exit code 1: Error Domain=VZErrorDomain Code=2 Description="Virtualization is not available on this hardware."`:                                             "virtualization is not available",
		"Error: the WSL import of guest OS failed: command C:\\Windows\\system32\\wsl.exe failed: exit status 0xffffffff (Error code: Wsl/Service/RegisterDistro/CreateVm/HCS/HCS_E_HYPERV_NOT_INSTALLED)": "virtualization is not available",
		"Error: the WSL can not be automatically installed": "virtualization is not available",
		`Error: unable to start "podman-machine-default": other already starting or running on the libkrun provider: only one VM can be active at a time`:                      "another of Podman's virtual machines",
		`Error: exec: "krunkit": executable file not found in $PATH`:                                                                                                           "krunkit, which runs",
		`Error: could not find "gvproxy" in one of [/usr/local/opt/podman/libexec]`:                                                                                            "a program that Podman's virtual machine needs",
		`Error: system connection "podman-machine-default" already exists. consider a different machine name or remove the connection with ` + "`podman system connection rm`": "keeps a connection",
		"Error: pinging container registry quay.io: Get \"https://quay.io/v2/\": dial tcp: lookup quay.io: no such host":                                                       "was not downloaded",
		"Error: something else": "does not start",
	} {
		f.write(t, "init", "cat <<'END' >&2\n"+said+"\nEND\nexit 125\n")
		var shown bytes.Buffer
		u := unavailable(t, InitMachine(t.Context(), f.program, &shown))
		if !strings.Contains(u.Reason, want) || strings.Contains(u.Reason+u.Fix, "/Users") || !strings.Contains(shown.String(), "Error: ") {
			t.Errorf("%s: %+v", said, u)
		}
	}
	f.write(t, "init", "echo 'Error: podman-machine-default: VM already exists' >&2; exit 125")
	should.OK(t, InitMachine(t.Context(), f.program, new(bytes.Buffer)), "one that is there")
	f.write(t, "state", "stopped")
	f.write(t, "start", "echo 'Error: Virtualization is not available on this hardware' >&2; exit 125")
	s := f.service(t)
	for range 2 { // the second call tries again
		err := s.Awaken(t.Context())
		u := unavailable(t, err)
		should.Hold(t, strings.Contains(u.Reason, "virtualization"), "%+v", u)
	}
	should.Equal(t, f.count(t, "machine start podman-machine-default"), 2, "it was started")
}

func TestAMachineThatIsBeingMadeIsInterrupted(t *testing.T) {
	f := newFakeMachine(t, "missing")
	f.write(t, "init", "trap 'echo cleaned; exit 1' INT; touch begun; while :; do sleep 0.05; done")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the user pressed ^C")
	go func() {
		for !exists(filepath.Join(f.dir, "begun")) {
			time.Sleep(machinePoll / 50)
		}
		cancel(stop)
	}()
	var said bytes.Buffer
	err := InitMachine(ctx, f.program, &said)
	should.Hold(t, errors.Is(err, stop) && said.String() == "cleaned\n", "got %v, %q", err, said.String())
}

func TestWhichMachineIsUsed(t *testing.T) {
	f := newFakeMachine(t, "missing")
	for list, want := range map[string]string{
		`[{"Name":"a"},{"Name":"b","Running":true},{"Name":"podman-machine-default"}]`:  "b",
		`[{"Name":"a"},{"Name":"b","Starting":true},{"Name":"podman-machine-default"}]`: "b",
		`[{"Name":"a"},{"Name":"podman-machine-default"}]`:                              "podman-machine-default",
		`[{"Name":"a"},{"Name":"b","Default":true}]`:                                    "b",
		`[{"Name":"a"}]`: "a",
	} {
		f.write(t, "podman", "#!/bin/sh\necho '"+list+"'\n")
		m, err := FindMachine(t.Context(), f.program)
		should.Hold(t, err == nil && m != nil && m.Name == want, "%s: %+v, %v", list, m, err)
	}
}

// A machine is made for a program that this Mac has, unless its user has said which.
func TestWhatRunsANewMachine(t *testing.T) {
	for _, test := range []struct{ goos, chosen, krunkit, want string }{
		{"darwin", "", "", "CONTAINERS_MACHINE_PROVIDER=applehv"},
		{"darwin", "", "/opt/podman/bin/krunkit", ""},
		{"darwin", "libkrun", "", ""},
		{"windows", "", "", ""},
	} {
		tell := func(text string) func(string) string { return func(string) string { return text } }
		should.Equal(t, strings.Join(machineProvider(test.goos, tell(test.chosen), tell(test.krunkit)), " "), test.want, "%+v", test)
	}
}
