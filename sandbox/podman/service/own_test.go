//go:build linux

package service

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// asServer is set for a child of the test binary that plays a server: it starts a service,
// says where, and waits to be killed.
const asServer = "CODE_SANDBOX_MCP_TEST_SERVER"

func TestServiceEndsWhenItsServerIsKilled(t *testing.T) {
	if os.Getenv(asServer) != "" {
		os.Stdout.WriteString(started(t).link.own.dir.path + "\n")
		select {}
	}
	server := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	server.Env = append(os.Environ(), asServer+"=1")
	out := must.Get(server.StdoutPipe())(t)
	must.OK(t, server.Start())
	dir, err := bufio.NewReader(out).ReadString('\n')
	dir = strings.TrimSpace(dir)
	must.Hold(t, err == nil && strings.Contains(dir, serviceDirPattern), "%q, %v", dir, err)
	must.OK(t, server.Process.Kill())
	_ = server.Wait()
	for socket := "unix://" + dir + "/s"; listens(t.Context(), socket); {
		time.Sleep(socketPoll)
	}
	// The next server clears its folder away.
	sweepServiceDirs(filepath.Dir(dir))
	should.Hold(t, !exists(dir), "%s is still there", dir)
}

// Where the system does not end it with its server, or only a part of it, the next sweep does.
func TestSweepEndsTheServiceOfAKilledServer(t *testing.T) {
	left, mine := started(t), started(t)
	service := left.link.own
	if err := service.dir.lock.Close(); err != nil { // as the death of its server does
		t.Fatal(err)
	}
	sweepServiceDirs(filepath.Dir(service.dir.path))
	<-service.done
	if exists(service.dir.path) || mine.link.own.ended() {
		t.Errorf("the folder of the one is there: %v; the other has ended: %v", exists(service.dir.path), mine.link.own.ended())
	}
}

// One that hears no signal any more, and does not listen either, goes too: it may have a lock that all others wait for.
func TestSweepEndsAServiceThatHangs(t *testing.T) {
	service := started(t).link.own
	service.signal(syscall.SIGSTOP)
	must.OK(t, errors.Join(service.dir.lock.Close(), os.Remove(filepath.Join(service.dir.path, "s"))))
	sweepServiceDirs(filepath.Dir(service.dir.path))
	<-service.done
}

func TestTwoServicesDoNotDisturbEachOther(t *testing.T) {
	first, second := started(t), started(t)
	must.OK(t, first.Close())
	should.Hold(t, second.link.alive() && second.link.answers(t.Context()), "the second service ended with the first")
}

func TestServiceHasAPrivateShortPathAndAGroupOfItsOwn(t *testing.T) {
	service := started(t).link.own
	info, err := os.Stat(service.dir.path)
	should.Hold(t, err == nil && info.Mode().Perm() == 0o700, "the folder is %v, %v", info, err)
	n := len(filepath.Join(service.dir.path, "s"))
	should.Hold(t, n <= maxSocketPath, "the socket's path has %d bytes", n)
	should.Give(syscall.Getpgid(service.cmd.Process.Pid))(t, service.cmd.Process.Pid)
}

// makeOld takes a file's age over what a sweep spares.
func makeOld(t *testing.T, path string) {
	t.Helper()
	then := time.Now().Add(-2 * serviceDirAge)
	must.OK(t, os.Chtimes(path, then, then))
}

func TestSweepLeavesWhatIsInUse(t *testing.T) {
	parent := t.TempDir()
	mine := filepath.Join(parent, serviceDirPattern+"mine")
	dead := filepath.Join(parent, serviceDirPattern+"dead")
	young := filepath.Join(parent, serviceDirPattern+"young")
	for _, dir := range []string{mine, dead, young, filepath.Join(parent, "other")} {
		must.OK(t, os.Mkdir(dir, 0o700))
	}
	lock := must.Get(lockFile(filepath.Join(mine, "lock")))(t)
	defer lock.Close()
	for _, dir := range []string{dead, young} {
		must.OK(t, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600))
	}
	makeOld(t, filepath.Join(mine, "lock"))
	makeOld(t, filepath.Join(dead, "lock"))
	sweepServiceDirs(parent)
	if !exists(mine) || !exists(young) || exists(dead) || !exists(filepath.Join(parent, "other")) {
		left, _ := filepath.Glob(parent + "/*")
		t.Errorf("left are %q", left)
	}
}

func TestSweepLeavesWhatAServerOfThisUserDidNotMake(t *testing.T) {
	parent, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "theirs")
	folder := func(t *testing.T, path string, mode os.FileMode) {
		t.Helper()
		must.OK(t, errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode)))
	}
	file := func(t *testing.T, path string) {
		t.Helper()
		must.OK(t, os.WriteFile(path, []byte("text"), 0o600))
		makeOld(t, path)
	}
	folder(t, elsewhere, 0o700)
	file(t, filepath.Join(elsewhere, "lock"))
	for name, plant := range map[string]func(t *testing.T, path string){
		"others may read it": func(t *testing.T, path string) {
			folder(t, path, 0o755)
			file(t, filepath.Join(path, "lock"))
		},
		"others may write to it": func(t *testing.T, path string) {
			folder(t, path, 0o777)
			file(t, filepath.Join(path, "lock"))
		},
		"it is a link": func(t *testing.T, path string) {
			must.OK(t, os.Symlink(elsewhere, path))
		},
		"its lock is a link": func(t *testing.T, path string) {
			folder(t, path, 0o700)
			must.OK(t, os.Symlink(filepath.Join(elsewhere, "lock"), filepath.Join(path, "lock")))
		},
		"its lock is a pipe": func(t *testing.T, path string) {
			folder(t, path, 0o700)
			must.OK(t, syscall.Mkfifo(filepath.Join(path, "lock"), 0o600))
			makeOld(t, filepath.Join(path, "lock"))
		},
		"it is another user's": func(t *testing.T, path string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a folder away")
			}
			folder(t, path, 0o700)
			file(t, filepath.Join(path, "lock"))
			if err := os.Chown(path, 65534, 65534); err != nil {
				t.Skip(err) // a container's root may not have that user
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(parent, serviceDirPattern+strings.ReplaceAll(name, " ", "-"))
			plant(t, path)
			sweepServiceDirs(parent)
			should.OK(t, should.ErrOf(os.Lstat(path)), "it was removed")
		})
	}
	should.Hold(t, exists(filepath.Join(elsewhere, "lock")), "a file elsewhere was removed")
}

func TestTailKeepsTheEnd(t *testing.T) {
	for _, test := range []struct {
		writes []string
		want   string
	}{
		{nil, ""},
		{[]string{"abc"}, "abc"},
		{[]string{"abc", "defgh"}, "abcdefgh"},
		{[]string{"abcdefgh", "ij"}, "cdefghij"},
		{[]string{"abcdefghijklmnop"}, "ijklmnop"},
		{[]string{"1234567", "é"}, "234567é"},
		{[]string{"é1234567"}, "\uFFFD1234567"},
	} {
		kept := engine.Tail{Limit: 8}
		for _, w := range test.writes {
			should.Give(kept.Write([]byte(w)))(t, len(w), "Write")
		}
		should.Equal(t, kept.String(), test.want, "%q leaves", test.writes)
	}
}

func TestMachineSocket(t *testing.T) {
	f := newFakeMachine(t, "missing")
	say := func(answer string) { f.write(t, "podman", "#!/bin/sh\ncat <<'END'\n"+answer+"\nEND\n") }
	say(`[{"Name":"a","State":"stopped","ConnectionInfo":{"PodmanSocket":{"Path":"/a"}}},
{"Name":"b","State":"running","ConnectionInfo":{"PodmanSocket":{"Path":"/b"},"PodmanPipe":null}}]`)
	if got, err := machineSocket(t.Context(), f.program); got.URI != "unix:///b" || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	// All that Podman 6 says of one that krunkit runs.
	say(`[{"ConfigDir":{"Path":"/Users/me/.config/containers/podman/machine/libkrun"},
"ConnectionInfo":{"PodmanSocket":{"Path":"/var/folders/x/T/podman/podman-machine-default-api.sock"},"PodmanPipe":null},
"Created":"2026-07-01T10:00:00+02:00","LastUp":"2026-07-01T10:01:00+02:00","Name":"podman-machine-default",
"Resources":{"CPUs":5,"DiskSize":100,"Memory":2048,"USBs":[],"Swap":0},
"SSHConfig":{"IdentityPath":"/Users/me/.local/share/containers/podman/machine/machine","Port":50000,"RemoteUsername":"core"},
"State":"running","UserModeNetworking":true,"Rootful":false,"Rosetta":false}]`)
	if got, err := machineSocket(t.Context(), f.program); got.URI != "unix:///var/folders/x/T/podman/podman-machine-default-api.sock" || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	for _, answer := range []string{"[]", "", "not JSON", `[{"State":"running","ConnectionInfo":{}}]`} {
		say(answer)
		got, err := machineSocket(t.Context(), f.program)
		should.Hold(t, err != nil, "%q gave %v", answer, got)
	}
	// Podman inspects its default machine, where no name is given.
	f.write(t, "podman", `#!/bin/sh
case "$*" in
"machine list --format json") echo '[{"Name":"podman-machine-default","Running":false},{"Name":"other","Running":true}]' ;;
"machine inspect") echo '[{"State":"stopped"}]' ;;
"machine inspect other") echo '[{"State":"running","ConnectionInfo":{"PodmanSocket":{"Path":"/other"}}}]' ;;
esac
`)
	if got, err := machineSocket(t.Context(), f.program); got.URI != "unix:///other" || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	say("[]")
	_, err := own(t, Options{Program: f.program}).dialMachine(t.Context())
	u := unavailable(t, err)
	should.Hold(t, u.Fix == "code-sandbox-mcp setup --yes", "%+v", u)
}

// Windows has no socket of a machine, but Podman's own connections to it.
func TestMachineOverSSH(t *testing.T) {
	f := newFakeMachine(t, "missing")
	for name, test := range map[string]struct {
		machines, connections string
		want                  bindings.Options
	}{
		"as its user": {
			`[{"Name":"off","Running":false},{"Name":"on","Running":true}]`,
			`[{"Name":"off","URI":"ssh://core@127.0.0.1:1/run/a","Identity":"/k","Default":true},
			{"Name":"on","URI":"ssh://user@127.0.0.1:2/run/user/1000/podman/podman.sock","Identity":"/key","Default":false},
			{"Name":"on-root","URI":"ssh://root@127.0.0.1:2/run/podman/podman.sock","Identity":"/key","Default":false}]`,
			bindings.Options{URI: "ssh://user@127.0.0.1:2/run/user/1000/podman/podman.sock", Identity: "/key", Machine: true},
		},
		"as root, where it is set to that": {
			`[{"Name":"on","Running":true}]`,
			`[{"Name":"on","URI":"ssh://user@127.0.0.1:2/run/u","Identity":"/key"},
			{"Name":"on-root","URI":"ssh://root@127.0.0.1:2/run/r","Identity":"/key","Default":true}]`,
			bindings.Options{URI: "ssh://root@127.0.0.1:2/run/r", Identity: "/key", Machine: true},
		},
		"none runs":            {`[{"Name":"off","Running":false}]`, `[{"Name":"off","URI":"ssh://x","Default":true}]`, bindings.Options{}},
		"none has connections": {`[{"Name":"on","Running":true}]`, `[]`, bindings.Options{}},
		"no answer":            {``, ``, bindings.Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			f.write(t, "podman", "#!/bin/sh\ncase \"$*\" in\n\"machine list --format json\") echo '"+test.machines+"' ;;\n"+
				"\"system connection list --format json\") echo '"+test.connections+"' ;;\nesac\n")
			got, err := machineOverSSH(t.Context(), f.program)
			should.Hold(t, got == test.want && (err == nil) == (test.want.URI != ""), "got %+v, %v", got, err)
		})
	}
}
