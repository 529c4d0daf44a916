//go:build unix

package service

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestServiceEnvPassesOnOnlyWhatPodmanNeeds(t *testing.T) {
	t.Setenv("PATH", "/mine")
	got := serviceEnv([]string{
		"HOME=/home/me", "XDG_RUNTIME_DIR=/run/mine", "https_proxy=http://proxy:1", "CONTAINERS_CONF=/c",
		"SANDBOX_SQL_MAIN=postgres://u:p@h/d", "CONTAINER_HOST=ssh://elsewhere", "LD_PRELOAD=/x", "DOCKER_HOST=y", "GEMINI_API_KEY=k",
	})
	for _, want := range []string{"HOME=/home/me", "XDG_RUNTIME_DIR=/run/mine", "https_proxy=http://proxy:1", "CONTAINERS_CONF=/c"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing from %q", want, got)
		}
	}
	for _, entry := range got {
		name, value, _ := strings.Cut(entry, "=")
		if !slices.Contains(append(passedOn, "PATH"), name) {
			t.Errorf("%s was passed on", name)
		}
		if name == "PATH" && (!strings.HasPrefix(value, "/mine:") || !strings.Contains(value, ":/usr/sbin:")) {
			t.Errorf("PATH is %s", value)
		}
	}
}

func TestServiceEnvOfAStrippedEnvironment(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"} {
		t.Setenv(name, "")
	}
	t.Setenv("PATH", "")
	got := strings.Join(serviceEnv(nil), "\n")
	if !strings.Contains(got, "HOME=/") || !strings.Contains(got, "/usr/bin") {
		t.Errorf("got %s", got)
	}
}

func TestProgramsAreFoundWithoutPath(t *testing.T) {
	t.Setenv("PATH", "relative:.")
	if got := lookProgram("sh"); !filepath.IsAbs(got) {
		t.Errorf("sh is %q", got)
	}
	should.Equal(t, lookProgram("no-such-program"), "")
	// A program in the current folder is not one in PATH.
	t.Chdir(t.TempDir())
	must.OK(t, os.WriteFile("podman-here", []byte("#!/bin/sh\n"), 0o700))
	should.Equal(t, lookProgram("podman-here"), "")
}

func TestInstallCommand(t *testing.T) {
	for release, want := range map[string]string{
		"ID=debian\n":                                       "apt-get",
		"ID=linuxmint\nID_LIKE=\"ubuntu\"\n":                "apt-get",
		"ID=fedora\n":                                       "dnf",
		"ID=\"rocky\"\nID_LIKE=\"rhel fedora\"":             "dnf",
		"ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n": "zypper",
		"ID=arch":   "pacman",
		"ID=alpine": "apk",
		"ID=nixos":  "https://",
		"":          "https://",
	} {
		should.Contain(t, installCommand(strings.NewReader(release)), want, "%q", release)
	}
}
