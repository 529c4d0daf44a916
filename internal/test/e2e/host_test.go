//go:build unix

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// A hostProcess is one as this machine sees it.
type hostProcess struct {
	pid, parent int
	args        []string
	namespace   string // of its process numbers
}

func (p hostProcess) line() string { return strings.Join(p.args, " ") }

// processes lists those that live, but for this kernel's own and those that only wait to be reaped.
func processes() (list []hostProcess) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || len(line) == 0 {
			continue
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		parent, _ := strconv.Atoi(string(fields[1]))
		namespace, _ := os.Readlink(filepath.Join(dir, "ns/pid"))
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		list = append(list, hostProcess{pid, parent, args, namespace})
	}
	return list
}

// containerOf names the session's container of a tool: with one image there is one for all.
func (s *server) containerOf(id, tool string) string {
	s.t.Helper()
	language := map[string]string{python: "python", javascript: "javascript"}[tool]
	held := mustHold(s.t, []string{id}).Containers
	for _, name := range held {
		if len(held) == 1 || strings.HasSuffix(name, "-"+language) {
			return name
		}
	}
	s.t.Fatalf("session %s has no %s container", id, language)
	return ""
}

// inspect asks for one fact of a container.
func inspect(t *testing.T, container, format string) string {
	t.Helper()
	out, err := podman("inspect", "--format", format, container)
	must.OK(t, err)
	return strings.TrimSpace(out)
}

func inspectPID(t *testing.T, container, field string) int {
	t.Helper()
	pid, err := strconv.Atoi(inspect(t, container, "{{.State."+field+"}}"))
	if err != nil || pid <= 1 {
		t.Fatalf("%s of %s: %d, %v", field, container, pid, err)
	}
	return pid
}

func signal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	must.OK(t, syscall.Kill(pid, sig), "%v to %d", sig, pid)
}

// ownService finds the Podman service that the server started.
func (s *server) ownService() (pid int) {
	s.t.Helper()
	for _, p := range processes() {
		if p.parent == s.cmd.Process.Pid && strings.Contains(p.line(), "system service") {
			return p.pid
		}
	}
	s.t.Fatal("the server has no Podman service of its own")
	return 0
}
