//go:build unix

package e2e

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// clientState gives a state directory for a server that a client starts by itself, with little of an environment. What the
// server has in it must be gone when the test ends, and what it keeps ready for a later one when that is cleared up.
func clientState(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if left := lockedSessions(dir); len(left) > 0 && !t.Failed() {
			eventually(t, "gc removes what is kept ready", func() (bool, string) { // once the server has let go of it
				said, err := exec.Command(binary, "gc", "--state-dir", dir).CombinedOutput()
				if err != nil {
					t.Fatalf("gc: %v: %s", err, said)
				}
				return mustHold(t, left).empty(), string(said)
			})
		}
	})
	return dir
}

func TestTypeScriptClients(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{"legacy", "modern"} {
		t.Run(generation, func(t *testing.T) {
			stdout, stderr, err := node(t, "typescript.mjs", binary, clientState(t), generation)
			if err != nil || strings.TrimSpace(stdout) != "ok" {
				t.Errorf("%v\n%s\n%s", err, stdout, stderr)
			}
		})
	}
}

func TestGoClient(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-11-25", ""} {
		t.Run("revision "+version, func(t *testing.T) {
			cmd := exec.Command(binary, "--state-dir", clientState(t))
			cmd.Env = []string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}
			useGoClient(t, version, &mcp.CommandTransport{Command: cmd})
		})
	}
}

func useGoClient(t *testing.T, version string, transport mcp.Transport) {
	heard := make(chan float64, 100)
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			heard <- r.Params.Progress
		},
	})
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	listed, err := session.ListTools(t.Context(), nil)
	if err != nil || len(listed.Tools) < 6 {
		t.Fatalf("tools: %v %v", listed, err)
	}
	goCall(t, session, "x = 41")
	if got := goCall(t, session, "x + 1"); !strings.HasSuffix(got, "[result]\n42") {
		t.Errorf("got %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-heard
		cancel()
	}()
	params := &mcp.CallToolParams{Name: python, Arguments: object{"code": "print('on', flush=True)\nwhile True: pass"}}
	params.SetProgressToken("endless")
	if _, err := session.CallTool(ctx, params); err == nil {
		t.Error("a cancelled call gives an answer")
	}
	if got := goCall(t, session, "x"); !strings.HasSuffix(got, "[result]\n41") {
		t.Errorf("after a cancel: %s", got)
	}
	read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "sandbox://usage"})
	if err != nil || !slices.ContainsFunc(read.Contents, func(c *mcp.ResourceContents) bool { return strings.Contains(c.Text, python) }) {
		t.Errorf("usage: %v", err)
	}
}

// goCall runs Python and returns the answer's text.
func goCall(t *testing.T, session *mcp.ClientSession, code string) string {
	t.Helper()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: python, Arguments: object{"code": code}})
	if err != nil {
		t.Fatal(err)
	}
	text, ok := res.Content[0].(*mcp.TextContent)
	if !ok || res.IsError {
		t.Fatalf("answer: %+v", res)
	}
	return text.Text
}
