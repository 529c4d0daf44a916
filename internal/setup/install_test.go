package setup

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/internet"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// installs runs install.sh as the build does, with an apt-get that only says that it was called.
const installs = `
USER root
COPY . /recipe
COPY host /run/host
RUN . /recipe/host/env; cd /recipe/python; PATH=/recipe/fake:$PATH; chmod +x ../fake/apt-get; rm -rf /usr/local/lib/python3.13/dist-packages/* /usr/local/share/code-sandbox/why; \
    sh install.sh /usr/local/share/code-sandbox/why; \
    echo "why: $(cat /usr/local/share/code-sandbox/why 2>/dev/null)"; python3 -c 'import tiny; print("tiny", tiny.__version__)'; false
`

// uv plays the one that install.sh starts, by venv's pip.
const uv = `#!python
import glob, subprocess, sys
pip = [sys.executable, glob.glob("/usr/share/python-wheels/pip-*.whl")[0] + "/pip", "install", "--break-system-packages", "--retries", "0"]
sys.exit(subprocess.run([*pip, "--require-hashes", "-r", "requirements.lock"]).returncode)
`

func TestTheLocksPackagesAreInstalledOrDebians(t *testing.T) {
	ctx := connection(t)
	python, _ := containers.Slim("python")
	image := containers.Standard().Ref() // which has what this one has
	certificates := t.TempDir()
	must.OK(t, internet.Certify(certificates, "localhost"))
	certificate := must.Get(tls.LoadX509KeyPair(certificates+"/host.pem", certificates+"/host.key"))(t)
	for name, test := range map[string]struct {
		tiny  pypi.Package
		setUp func(h *host) // what is wrong with the way there
		cut   bool          // the index stops within the file
		want  []string
		never string
	}{
		"an index with a certificate of its own": {want: []string{"tiny 1.0"}, never: "Debian's are"},
		"a certificate that nobody knows":        {setUp: func(h *host) { h.ca = nil }, want: []string{"apt-get", "why: ", "CERTIFICATE_VERIFY_FAILED"}},
		"an index at a closed port": {
			setUp: func(h *host) { h.env["PIP_INDEX_URL"] = "https://" + refusing(t) + "/simple/" },
			want:  []string{"apt-get", "why: ", "Connection refused"},
		},
		"an index that ends in the middle of a file": {cut: true, want: []string{"apt-get", "why: ", "not enough bytes were received"}},
		"a file with another hash":                   {tiny: pypi.Package{Padding: 1}, want: []string{"apt-get", "why: ", "DO NOT MATCH"}},
		"no file for this platform":                  {tiny: pypi.Package{Tag: "cp39-cp39-win_amd64"}, want: []string{"apt-get", "why: ", "tiny==1.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			index := pypi.Start(t)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.cut && strings.Contains(r.URL.Path, "tiny-") {
					w.Header().Set("Content-Length", "1000")
					_, _ = w.Write([]byte("PK"))
					return
				}
				index.ServeHTTP(w, r)
			}))
			server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
			server.StartTLS()
			t.Cleanup(server.Close)
			_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
			locked := []pypi.Package{{Name: "uv", Version: "1.0", Modules: map[string]string{"uv-1.0.data/scripts/uv": uv}}, {Name: "tiny", Version: "1.0"}}
			test.tiny.Name = "tiny"
			if test.tiny.Version == "" {
				test.tiny.Version = "1.0"
			}
			index.Add(locked[0], test.tiny)
			h := host{
				env: map[string]string{"PIP_INDEX_URL": "https://localhost:" + port + "/simple/"},
				ca:  readFirst(certificates + "/ca.pem"),
			}
			if test.setUp != nil {
				test.setUp(&h)
			}
			over := h.files()
			over["Containerfile"] = []byte("FROM " + image + installs)
			over["python/requirements.lock"] = []byte(lockOf(locked...))
			over["fake/apt-get"] = []byte("#!/bin/sh\necho apt-get \"$1\"\nmkdir -p /usr/lib/python3/dist-packages/fsspec\n")
			var said strings.Builder
			_, _ = buildImage(ctx, python.Files, over, (&work{hostNetwork: true}).buildOptions(nil), &lines{emit: func(line string) { said.WriteString(line + "\n") }})
			for _, want := range test.want {
				should.Hold(t, strings.Contains(said.String(), want), "%q is not in:\n%s", want, said.String())
			}
			should.Hold(t, test.never == "" || !strings.Contains(said.String(), test.never), "%q is in:\n%s", test.never, said.String())
		})
	}
}

// lockOf is a requirements.lock with these wheels.
func lockOf(packages ...pypi.Package) string {
	var lock strings.Builder
	for _, p := range packages {
		_, wheel, _ := p.Wheel()
		fmt.Fprintf(&lock, "%s==%s \\\n    --hash=sha256:%x\n", p.Name, p.Version, sha256.Sum256(wheel))
	}
	return lock.String()
}

func TestASecondSetupWaitsForTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "setup.lock")
	first := must.Get(lock(t.Context(), path, func() { t.Error("nobody holds it, and it waits") }))(t)
	// The first lets go when the second says that it waits, so the second gets it after that.
	waits := 0
	second, err := lock(t.Context(), path, func() { waits++; first() })
	must.Hold(t, err == nil && waits == 1, "waited %d times, %v", waits, err)
	second()
}

func TestWaitingForAnotherSetupCanBeGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "setup.lock")
	first := must.Get(lock(t.Context(), path, nil))(t)
	defer first()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the user pressed ^C")
	should.Be(t, should.ErrOf(lock(ctx, path, func() { cancel(stop) })), stop)
}

func TestALockFileIsNoLink(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "setup.lock")
	must.OK(t, os.Symlink(filepath.Join(folder, "elsewhere"), path))
	_, err := lock(t.Context(), path, nil)
	should.Hold(t, err != nil, "a link is followed")
}

func TestCallsWaitForTheSameWork(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}, 2), make(chan error)
	b := &Background{Make: func(r Reporter) error {
		task := r.Begin("Python image")
		task.Step(2, 9, "install packages")
		task.Line("Unpacking numpy")
		begun <- struct{}{}
		return <-goOn
	}}
	failed := make(chan error)
	go func() {
		_, err := b.Await(t.Context(), time.Hour)
		failed <- err
	}()
	<-begun
	status, err := b.Await(t.Context(), 0)
	should.Hold(t, err == nil && strings.HasPrefix(status, "Python image: step 3 of 9 (install packages): Unpacking numpy, "),
		"got %q, %v", status, err)
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the client has left"))
	if _, err := b.Await(gone, time.Minute); err == nil || err.Error() != "the client has left" {
		t.Errorf("got %v", err)
	}
	goOn <- errors.New("no space left")
	if err := <-failed; err == nil || err.Error() != "no space left" {
		t.Errorf("got %v", err)
	}

	// The next call begins again.
	go func() { goOn <- nil }()
	if status, err := b.Await(t.Context(), time.Hour); status != "" || err != nil {
		t.Errorf("got %q, %v", status, err)
	}
	<-begun
	select {
	case <-begun:
		t.Error("it was made more often than asked for")
	default:
	}
}

// Tests of scripts/install-deps, which readies a machine as Images readies its engine.

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
		path := must.Get(exec.LookPath(tool))(t)
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
	should.Hold(t, ok && out == "", "got %t: %q", ok, out)
}

func TestTheRootlessNetworkIsTheReleasesOwn(t *testing.T) {
	for release, want := range map[string]string{bookworm: "slirp4netns", trixie: "passt"} {
		out, ok := machine{release, linux(nil)}.run(t, "--dry-run")
		should.Hold(t, ok && strings.Contains(out, " "+want), "%s is not installed:\n%s", want, out)
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
		should.Hold(t, ok && strings.Contains(out, want), "no %q in:\n%s", want, out)
	}
}

func TestWithoutSudoItSaysWhatToRunAsRoot(t *testing.T) {
	out, ok := machine{trixie, linux(map[string]string{"id": uid("4242", "nobody-known")})}.run(t)
	should.Hold(t, !ok && strings.Contains(out, "As root: env DEBIAN_FRONTEND=noninteractive apt-get install"), "got %t:\n%s", ok, out)
}

func TestTheListsAreAskedForOnlyWhenAnInstallFails(t *testing.T) {
	folder := t.TempDir()
	// The first call fails, as with lists that are out of date.
	apt := `echo "$1" >> ` + folder + `/calls; [ "$(cat ` + folder + `/calls)" != install ]`
	out, ok := machine{trixie, linux(map[string]string{"apt-get": apt})}.run(t)
	calls, err := os.ReadFile(filepath.Join(folder, "calls"))
	should.Hold(t, ok && err == nil && string(calls) == "install\nupdate\ninstall\n", "got %t, %q, %v:\n%s", ok, calls, err, out)
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
		out, ok := (machine{release, linux(nil)}).run(t)
		should.Hold(t, !ok && strings.Contains(out, want), "%q: no %q in %t: %s", release, want, ok, out)
	}
	for version, enough := range map[string]bool{"3.4.4": false, "4.2.0": false, "4.3.1": true, "4.10.0": true, "5.8.5-dev": true, "10.0": true} {
		out, ok := machine{"ID=fedora", linux(map[string]string{"podman": "echo podman version " + version})}.run(t)
		should.Hold(t, ok == enough && strings.Contains(out, "too old: install 4.3") != enough,
			"Podman %s is there: %t, %s", version, ok, out)
	}
}

func TestAMacIsLedToHomebrewAndAMachine(t *testing.T) {
	mac := map[string]string{"uname": "echo Darwin", "id": uid("501", "someone"), "brew": "true"}
	out, ok := machine{"", mac}.run(t, "--dry-run")
	for _, want := range []string{"+ brew install podman", "+ env CONTAINERS_MACHINE_PROVIDER=applehv podman machine init", "+ podman machine start"} {
		should.Hold(t, ok && strings.Contains(out, want), "no %q in %t:\n%s", want, ok, out)
	}
	should.Hold(t, !strings.Contains(out, "nbformat"), "what only tests need:\n%s", out)
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
	out, ok := (machine{trixie, linux(nil)}).run(t, "everything")
	should.Hold(t, !ok && strings.Contains(out, "unknown argument everything"), "got %t: %s", ok, out)
}

func TestInstallDepsPassesShellcheck(t *testing.T) {
	path := must.Get(exec.LookPath("shellcheck"))(t, "shellcheck is not installed: apt-get install shellcheck")
	out, err := exec.Command(path, installDeps).CombinedOutput()
	should.Hold(t, err == nil, "%v\n%s", err, out)
}
