package service

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// passedOn are the variables that Podman's own service receives, if they are set. Everything else stays here: this process's
// environment contains database passwords. The proxies are for building images; containers do not receive them.
var passedOn = []string{
	"HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR",
	"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME",
	"DBUS_SESSION_BUS_ADDRESS",
	"CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE", "CONTAINERS_STORAGE_CONF",
	"CONTAINERS_MACHINE_PROVIDER", "CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE", "STORAGE_DRIVER", "STORAGE_OPTS",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
	"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
	// Programs on Windows need these.
	"SystemRoot", "SystemDrive", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "ProgramData", "ProgramFiles", "PATHEXT", "TEMP", "TMP",
}

// usualDirs are the directories in which distributions, Homebrew and Podman's installers put podman and its helpers.
func usualDirs() []string {
	if runtime.GOOS == "windows" {
		return []string{
			filepath.Join(os.Getenv("ProgramFiles"), "RedHat", "Podman"),
			filepath.Join(os.Getenv("LOCALAPPDATA"), "Programs", "Podman"),
		}
	}
	return []string{
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
		"/opt/homebrew/bin", "/opt/podman/bin",
	}
}

// serviceEnv is the environment for podman: the allowed part of ours, completed where clients pass little more than HOME.
func serviceEnv(environ []string) []string {
	var env []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		isName := func(known string) bool {
			return known == name || runtime.GOOS == "windows" && strings.EqualFold(known, name)
		}
		if slices.ContainsFunc(passedOn, isName) {
			env = append(env, entry)
		}
	}
	env = append(env, "PATH="+repairedPath(os.Getenv("PATH")))
	if os.Getenv("HOME") == "" {
		if u, err := user.Current(); err == nil {
			env = append(env, "HOME="+u.HomeDir)
		}
	}
	if dir := userRuntimeDir(); dir != "" {
		env = withDefault(env, "XDG_RUNTIME_DIR", dir)
		if bus := filepath.Join(dir, "bus"); exists(bus) {
			env = withDefault(env, "DBUS_SESSION_BUS_ADDRESS", "unix:path="+bus)
		}
	}
	return env
}

func withDefault(env []string, name, value string) []string {
	if slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") }) {
		return env
	}
	return append(env, name+"="+value)
}

// repairedPath is PATH with the usual directories behind the user's own.
func repairedPath(path string) string {
	dirs := filepath.SplitList(path)
	for _, dir := range usualDirs() {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// lookProgram finds a program in PATH or the usual directories; empty: in none of them.
func lookProgram(name string) string {
	if filepath.Base(name) != name {
		path, _ := exec.LookPath(name)
		return path
	}
	for _, dir := range filepath.SplitList(repairedPath(os.Getenv("PATH"))) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

// userRuntimeDir is the user's runtime directory: XDG_RUNTIME_DIR, or its usual place if the client left the variable out. Empty:
// none.
func userRuntimeDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return dir
	}
	if dir := "/run/user/" + strconv.Itoa(os.Getuid()); exists(dir) {
		return dir
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
