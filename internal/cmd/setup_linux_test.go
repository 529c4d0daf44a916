package cmd

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pty"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestConsentToAVirtualMachine(t *testing.T) {
	const what = "start Podman's virtual machine (podman machine start x)"
	for typed, consents := range map[string]bool{"\n": true, "y\n": true, "YES\n": true, "n\n": false, "what\n": false, "\x04": false} {
		screen, other := pty.Open(t, 100)
		shown := pty.Watch(other)
		answered := make(chan error, 1)
		go func() { answered <- consentTo(t.Context(), what, false, screen, screen) }()
		shown.Await("setup will " + what + ".")
		shown.Await("[Y/n] ")
		must.OK(t, should.ErrOf(other.WriteString(typed)))
		err := <-answered
		should.Hold(t, (err == nil) == consents, "%q: %v", typed, err)
		screen.Close()
	}

	screen, other := pty.Open(t, 100)
	shown := pty.Watch(other)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the user pressed ^C")
	answered := make(chan error, 1)
	go func() { answered <- consentTo(ctx, what, false, screen, screen) }()
	shown.Await("[Y/n] ")
	cancel(stop)
	should.Be(t, <-answered, stop)

	reads, writes, err := os.Pipe()
	must.OK(t, err)
	defer reads.Close()
	defer writes.Close()
	err = consentTo(t.Context(), what, false, reads, screen)
	should.Hold(t, err != nil && strings.Contains(err.Error(), "podman machine start x") && strings.Contains(err.Error(), "setup --yes"),
		"without a terminal: %v", err)
	should.OK(t, consentTo(t.Context(), what, true, reads, screen), "with --yes")
}

func TestSetupEndsWithTheClients(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PATH", "/usr/bin:/bin")
	t.Setenv("XDG_CONFIG_HOME", "")
	ready := func() string {
		t.Helper()
		var out bytes.Buffer
		must.OK(t, printReady(&out, []string{"--memory-limit=2GiB"}))
		return out.String()
	}
	got := ready()
	should.Hold(t, strings.HasPrefix(got, "\nReady.\nNo client is found on this machine"), "got %s", got)
	for _, dir := range []string{".cursor", ".codeium/windsurf"} {
		must.OK(t, os.MkdirAll(filepath.Join(home, dir), 0o755))
	}
	should.Contain(t, ready(), "\n  code-sandbox-mcp install --client cursor,devin --memory-limit=2GiB\n")
	must.Equal(t, core.Main([]string{"install", "--client", "cursor", "--start=false"}), 0, "install")
	if got := ready(); !strings.Contains(got, "\nCursor: the server is installed there.\n") || !strings.Contains(got, "install --client devin ") {
		t.Errorf("got %s", got)
	}
}
