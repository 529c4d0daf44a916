package runcmd

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

func TestAForwardNamesPorts(t *testing.T) {
	for given, want := range map[string]forward{
		"8000": {8000, "8000"}, "9000:8000": {9000, "8000"}, "0:08000": {0, "8000"},
		"": {}, "0": {}, "1:0": {}, "65536": {}, "1:65536": {}, "-1": {}, "1:2:3": {}, "http": {}, ":8000": {}, "8000:": {}, "127.0.0.1:8000": {},
	} {
		q := Request{Args: []string{"-"}, Stdin: strings.NewReader("1"), CodeBytes: 1, Forwards: []string{given}, Kernels: map[sandbox.Language]sandbox.KernelConfig{kernel.Languages[0].Language: {}}}
		job, err := Read(q)
		if want == (forward{}) {
			must.Code(t, err, fault.InvalidArgument, fmt.Sprintf("%q", given))
			continue
		}
		must.OK(t, err, given)
		should.EqualSlice(t, job.forwards, []forward{want}, given)
	}
}

func TestATakenPortIsNamed(t *testing.T) {
	taken := must.Get(net.Listen("tcp4", loopback+":0"))(t)
	defer func() { _ = taken.Close() }()
	r := &Runner{Stdout: os.Stdout, stderr: io.Discard, Job: &Job{forwards: []forward{{0, "1"}, {uint16(taken.Addr().(*net.TCPAddr).Port), "8000"}}}}
	_, err := r.listen(t.Context())
	f := must.Code(t, err, fault.InvalidArgument, "address already in use")
	should.Contain(t, f.Hint, "--forward 0:8000")
}
