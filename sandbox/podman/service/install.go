// The command that installs Podman on this machine.

package service

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"runtime"
	"strings"
)

const providerVariable = "CONTAINERS_MACHINE_PROVIDER"

// installCommands are keyed by the ID or ID_LIKE of os-release.
var installCommands = map[string]string{
	"debian":   "sudo apt-get install -y podman uidmap slirp4netns fuse-overlayfs",
	"ubuntu":   "sudo apt-get install -y podman uidmap slirp4netns fuse-overlayfs",
	"fedora":   "sudo dnf install -y podman",
	"rhel":     "sudo dnf install -y podman",
	"centos":   "sudo dnf install -y podman",
	"arch":     "sudo pacman -S --noconfirm podman",
	"suse":     "sudo zypper install -y podman",
	"opensuse": "sudo zypper install -y podman",
	"alpine":   "sudo apk add podman fuse-overlayfs",
	"darwin":   "brew install podman && " + providerVariable + "=applehv podman machine init && podman machine start",
	"windows":  "winget install -e --id RedHat.Podman, then in a new terminal podman machine init and podman machine start",
}

const installElsewhere = "install Podman: https://podman.io/docs/installation"

// installFix is the one line that installs Podman on this machine.
func installFix() string {
	if runtime.GOOS != "linux" {
		return cmp.Or(installCommands[runtime.GOOS], installElsewhere)
	}
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return installElsewhere
	}
	defer func() { _ = f.Close() }()
	return installCommand(f)
}

// installCommand reads an os-release file.
func installCommand(release io.Reader) string {
	var ids []string
	lines := bufio.NewScanner(release)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		if name == "ID" || name == "ID_LIKE" {
			ids = append(ids, strings.Fields(strings.Trim(value, `"'`))...)
		}
	}
	for _, id := range ids {
		if command, ok := installCommands[id]; ok {
			return command
		}
	}
	return installElsewhere
}
