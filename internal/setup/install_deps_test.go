package setup

// The tests of scripts/install-deps, which readies a machine as Images readies its engine.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

const installDeps = "../../scripts/install-deps"

// machine is a pretended one: its programs are stubs, but for the tools that the script
// only computes with.
type machine struct {
	osRelease string
	stubs     map[string]string // name: body of a shell script
}

// uid is a stub of id for a user.
func uid(number, name string) string {
	return `case $1 in -u) echo ` + number + ` ;; -un) echo ` + name + ` ;; esac`
}

func installed(packages ...string) string {
	var b strings.Builder
	for _, name := range packages {
		b.WriteString("echo 'installed " + name + "'\n")
	}
	return b.String()
}

func (m machine) run(t *testing.T, args ...string) (output string, ok bool) {
	t.Helper()
	folder := t.TempDir()
	for _, tool := range []string{"bash", "env", "grep", "awk", "cat", "sed", "sh"} {
		path, err := exec.LookPath(tool)
		must.OK(t, err)
		must.OK(t, os.Symlink(path, filepath.Join(folder, tool)))
	}
	for name, body := range m.stubs {
		must.OK(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	}
	release := filepath.Join(t.TempDir(), "os-release")
	must.OK(t, os.WriteFile(release, []byte(m.osRelease), 0o644))
	command := exec.Command(installDeps, args...)
	command.Env = []string{"PATH=" + folder, "OS_RELEASE_FILE=" + release}
	out, err := command.CombinedOutput()
	return string(out), err == nil
}

func linux(stubs map[string]string) map[string]string {
	all := map[string]string{"uname": "echo Linux", "id": uid("0", "root"), "dpkg-query": ""}
	for name, body := range stubs {
		all[name] = body
	}
	return all
}

const (
	bookworm = "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"
	trixie   = "ID=debian\nVERSION_ID=\"13\"\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n"
)

func TestOnlyWhatIsMissingIsInstalled(t *testing.T) {
	almost := installed("podman", "crun", "conmon", "netavark", "aardvark-dns", "uidmap", "fuse-overlayfs", "catatonit", "ca-certificates", "slirp4netns")
	out, ok := machine{bookworm, linux(map[string]string{"dpkg-query": almost})}.run(t, "--dry-run", "run")
	if !ok || !strings.Contains(out, "installing: runc mmdebstrap\n") || !strings.Contains(out, "+ env DEBIAN_FRONTEND=noninteractive apt-get install") {
		t.Errorf("got %t:\n%s", ok, out)
	}
}

func TestNothingIsSaidWhenNothingIsMissing(t *testing.T) {
	everything := installed("podman", "crun", "conmon", "runc", "netavark", "aardvark-dns", "uidmap", "fuse-overlayfs", "catatonit", "mmdebstrap", "ca-certificates", "passt")
	out, ok := machine{trixie, linux(map[string]string{"dpkg-query": everything})}.run(t)
	if !ok || out != "" {
		t.Errorf("got %t: %q", ok, out)
	}
}

func TestTheRootlessNetworkIsTheReleasesOwn(t *testing.T) {
	for release, want := range map[string]string{bookworm: "slirp4netns", trixie: "passt"} {
		out, ok := machine{release, linux(nil)}.run(t, "--dry-run")
		if !ok || !strings.Contains(out, " "+want) {
			t.Errorf("%s is not installed:\n%s", want, out)
		}
	}
}

func TestTheTestsWantMoreThanTheProgram(t *testing.T) {
	present := linux(map[string]string{"python3": "true", "shellcheck": "true"})
	run, _ := machine{trixie, present}.run(t, "--dry-run", "run")
	test, _ := machine{trixie, present}.run(t, "--dry-run", "run", "test")
	if strings.Contains(run, "nodejs") || !strings.Contains(test, " nodejs npm") || strings.Contains(test, " python3 ") || !strings.Contains(test, " python3-nbformat") || strings.Contains(run, "nbformat") || strings.Contains(test, "shellcheck") {
		t.Errorf("run:\n%s\ntest:\n%s", run, test)
	}
}

func TestAnOrdinaryUserGoesThroughSudoAndGetsSubids(t *testing.T) {
	user := linux(map[string]string{"id": uid("4242", "nobody-known"), "sudo": "exit 1", "podman": "true"})
	out, ok := machine{trixie, user}.run(t, "--dry-run")
	for _, want := range []string{"+ sudo env DEBIAN_FRONTEND", "+ sudo usermod --add-subuids ", "+ sudo usermod --add-subgids ", "+ podman system migrate"} {
		if !ok || !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestWithoutSudoItSaysWhatToRunAsRoot(t *testing.T) {
	out, ok := machine{trixie, linux(map[string]string{"id": uid("4242", "nobody-known")})}.run(t)
	if ok || !strings.Contains(out, "As root: env DEBIAN_FRONTEND=noninteractive apt-get install") {
		t.Errorf("got %t:\n%s", ok, out)
	}
}

func TestTheListsAreAskedForOnlyWhenAnInstallFails(t *testing.T) {
	folder := t.TempDir()
	// The first call fails, as with lists that are out of date.
	apt := `echo "$1" >> ` + folder + `/calls; [ "$(cat ` + folder + `/calls)" != install ]`
	out, ok := machine{trixie, linux(map[string]string{"apt-get": apt})}.run(t)
	calls, err := os.ReadFile(filepath.Join(folder, "calls"))
	if !ok || err != nil || string(calls) != "install\nupdate\ninstall\n" {
		t.Errorf("got %t, %q, %v:\n%s", ok, calls, err, out)
	}
}

func TestOtherDistributionsGetTheirCommand(t *testing.T) {
	for release, want := range map[string]string{
		"ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME=Ubuntu":     "sudo apt-get update && sudo apt-get install -y podman",
		"ID=fedora\nPRETTY_NAME=Fedora":                     "sudo dnf install -y podman",
		"ID=rocky\nID_LIKE=\"rhel fedora\"":                 "sudo dnf install -y podman",
		"ID=arch\nPRETTY_NAME=Arch":                         "sudo pacman -S --needed podman",
		"ID=opensuse-tumbleweed\nID_LIKE=\"opensuse suse\"": "sudo zypper install -y podman",
		"ID=alpine":  "sudo apk add podman",
		"ID=solaris": "https://podman.io/docs/installation",
	} {
		if out, ok := (machine{release, linux(nil)}).run(t); ok || !strings.Contains(out, want) {
			t.Errorf("%q: no %q in %t: %s", release, want, ok, out)
		}
	}
	for version, enough := range map[string]bool{"3.4.4": false, "4.2.0": false, "4.3.1": true, "4.10.0": true, "5.8.5-dev": true, "10.0": true} {
		out, ok := machine{"ID=fedora", linux(map[string]string{"podman": "echo podman version " + version})}.run(t)
		if ok != enough || strings.Contains(out, "too old: install 4.3") == enough {
			t.Errorf("Podman %s is there: %t, %s", version, ok, out)
		}
	}
}

func TestAMacIsLedToHomebrewAndAMachine(t *testing.T) {
	mac := map[string]string{"uname": "echo Darwin", "id": uid("501", "someone"), "brew": "true"}
	out, ok := machine{"", mac}.run(t, "--dry-run")
	for _, want := range []string{"+ brew install podman", "+ env CONTAINERS_MACHINE_PROVIDER=applehv podman machine init", "+ podman machine start"} {
		if !ok || !strings.Contains(out, want) {
			t.Errorf("no %q in %t:\n%s", want, ok, out)
		}
	}
	if strings.Contains(out, "nbformat") {
		t.Errorf("what only tests need:\n%s", out)
	}
	mac["python3"] = "false"
	if out, ok := (machine{"", mac}).run(t, "--dry-run", "test"); !ok || !strings.Contains(out, "+ python3 -m pip install --quiet --user --break-system-packages nbformat") {
		t.Errorf("got %t:\n%s", ok, out)
	}
	delete(mac, "brew")
	if out, ok := (machine{"", mac}).run(t); ok || !strings.Contains(out, "https://brew.sh") {
		t.Errorf("got %t:\n%s", ok, out)
	}
	// Podman's own installer was used.
	mac["podman"] = "true"
	if out, ok := (machine{"", mac}).run(t); !ok {
		t.Errorf("it wants more: %s", out)
	}
}

func TestInstallDepsRefusesAnUnknownArgument(t *testing.T) {
	if out, ok := (machine{trixie, linux(nil)}).run(t, "everything"); ok || !strings.Contains(out, "unknown argument everything") {
		t.Errorf("got %t: %s", ok, out)
	}
}

func TestInstallDepsPassesShellcheck(t *testing.T) {
	path, err := exec.LookPath("shellcheck")
	must.OK(t, err, "shellcheck is not installed: apt-get install shellcheck")
	if out, err := exec.Command(path, installDeps).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
