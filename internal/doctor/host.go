package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

// host is the part of a Linux machine that rootless Podman needs. Tests pass another root.
type host struct {
	root     fs.FS
	uid      int
	name     string
	lookPath func(string) (string, error)
	isLinux  bool
}

func thisHost() host {
	h := host{root: os.DirFS("/"), uid: os.Getuid(), lookPath: exec.LookPath, isLinux: runtime.GOOS == "linux"}
	if u, err := user.Current(); err == nil {
		h.name = u.Username
	}
	return h
}

// hostChecks check the machine for rootless Podman. Root needs none of it, and on other systems it is the virtual machine's business.
func hostChecks(h host) []Check {
	if !h.isLinux || h.uid == 0 {
		return nil
	}
	return []Check{userNamespaceCheck(h), subordinateCheck(h, "subuid"), subordinateCheck(h, "subgid"), helperCheck(h)}
}

// userNamespaceCheck checks the distributions' switches for ordinary users.
func userNamespaceCheck(h host) Check {
	check := Check{Name: "user namespaces", Status: OK, Found: "allowed"}
	for _, off := range []struct{ path, fix string }{
		{"proc/sys/user/max_user_namespaces", "sudo sysctl -w user.max_user_namespaces=15000"},
		{"proc/sys/kernel/unprivileged_userns_clone", "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
	} {
		text, err := fs.ReadFile(h.root, off.path)
		if err == nil && strings.TrimSpace(string(text)) == "0" {
			check.Status, check.Found = Fail, "switched off by /"+off.path
			check.Why, check.Fix, check.FixRuns = "rootless containers are made of them", off.fix, true
		}
	}
	return check
}

// minSubordinate is how many ids an image with the usual users needs.
const minSubordinate = 65536

// subordinateCheck adds up the user's ranges in /etc/subuid or /etc/subgid. Directory
// services may know of more, hence no more than a warning.
func subordinateCheck(h host, file string) Check {
	check := Check{Name: file, Status: OK}
	text, _ := fs.ReadFile(h.root, "etc/"+file) // one that is not there gives none
	count := podman.Subordinate(string(text), h.name, h.uid)
	check.Found = fmt.Sprintf("%d ids", count)
	if count < minSubordinate {
		check.Status, check.Why = Warn, "a container's users need ids on this machine"
		check.Fix, check.FixRuns = moreIDs(h.name), true
	}
	return check
}

// moreIDs is the command that gives a user, a name or a shell's word for one, the ids that containers need.
func moreIDs(user string) string {
	return "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 " + user + " && podman system migrate"
}

// helperCheck looks for the set-user-id programs that hand out subordinate ids.
func helperCheck(h host) Check {
	check := Check{Name: "newuidmap", Status: OK, Found: "there"}
	for _, program := range []string{"newuidmap", "newgidmap"} {
		if _, err := h.lookPath(program); err != nil {
			check.Status, check.Found = Warn, program+" is not in PATH"
			check.Why = "without it a container has one user only"
			check.Fix = "install the package uidmap (Debian, Ubuntu) or shadow-utils (Fedora)"
		}
	}
	return check
}
