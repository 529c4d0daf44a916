//go:build unix

package kubernetes_test

import (
	"io"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// output runs a container to its end and returns what it wrote to stdout.
func (on *target) output(t *testing.T, code string) string {
	t.Helper()
	p, err := on.Start(t.Context(), on.spec(t, "python3", "-c", code))
	must.OK(t, err)
	t.Cleanup(func() { p.Close() })
	out, err := io.ReadAll(p)
	if err != nil || p.Stderr() != "" {
		t.Logf("%v, stderr: %s", err, p.Stderr())
	}
	return string(out)
}

// Where pods cannot mount images, code owns nothing of our programs, and cannot read the supervisor.
func TestProgramsAreCopiedWhereImagesAreNoVolumes(t *testing.T) {
	on := onCluster(t, nil)
	must.OK(t, on.WithoutImageVolumes(t.Context()))
	got := on.output(t, `import os
s = os.stat("/opt/code-sandbox-mcp/supervisor")
print(oct(s.st_mode & 0o777), s.st_uid == os.getuid(), os.access("/opt/code-sandbox-mcp/supervisor", os.R_OK), os.access("/opt/code-sandbox-mcp/python/main.py", os.R_OK))
try: open("/opt/code-sandbox-mcp/x", "w")
except OSError as e: print(e.strerror)`)
	should.Equal(t, got, "0o111 False False True\nRead-only file system\n")
}
