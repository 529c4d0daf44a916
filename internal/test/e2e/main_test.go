//go:build unix

package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/cluster"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/internet"
)

const module = "github.com/code-sandbox-mcp/code-sandbox-mcp"

// parallelTests bounds the servers that live at once: each has containers, and start-up is what the
// processor is busy with.
const parallelTests = "3"

// binary is the program under test; with the race detector in it where the tests have it.
var binary string

// serverProgram is the program with the features that binary leaves out, likewise.
var serverProgram string

func TestMain(m *testing.M) {
	if code, done := internet.Serve(); done {
		os.Exit(code)
	}
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	parallel := parallelTests
	if slowness > 1 {
		parallel = "1"
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		return failed(err)
	}
	_ = os.Setenv("SANDBOX_SPARES", "0") // of what is started with the environment of the tests
	dir, err := os.MkdirTemp("", "code-sandbox-mcp-e2e-")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir)
	defer stopPostgres()
	binary, serverProgram = filepath.Join(dir, "code-sandbox-mcp"), filepath.Join(dir, "code-sandbox-server")
	for _, prepare := range []func() error{build, makeImages} {
		if err := prepare(); err != nil {
			return failed(err)
		}
	}
	stopPodman, err := servePodman(dir)
	if err != nil {
		return failed(err)
	}
	defer stopPodman()
	code := m.Run()
	if err := cluster.End(); err != nil {
		return failed(err)
	}
	return code
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

func build() error {
	args, cgo := []string{"build", "-o", filepath.Dir(binary) + "/"}, "CGO_ENABLED=0"
	if raceDetector {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, module, module+"/cmd/code-sandbox-server")...)
	cmd.Env = append(os.Environ(), cgo, buildTags)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

// buildTags are the flags of the Makefile: with others everything would be compiled twice.
const buildTags = "GOFLAGS=-trimpath -tags=remote,containers_image_openpgp,exclude_graphdriver_btrfs"

// buildWith builds the program with more tags than it is shipped with.
func buildWith(path, tags string) error {
	cmd := exec.Command("go", "build", "-o", path, module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0",
		buildTags+tags)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return nil
}

// makeImages runs setup where the image of this program is missing.
func makeImages() error {
	if _, err := exec.LookPath("podman"); err != nil {
		return fmt.Errorf("podman is not installed; run scripts/install-deps: %w", err)
	}
	image := containers.Standard().Ref()
	if exec.Command("podman", "image", "exists", image).Run() == nil {
		return nil
	}
	fmt.Fprintf(os.Stderr, "e2e: %s is missing; running setup\n", image)
	if out, err := exec.Command(binary, "setup").CombinedOutput(); err != nil {
		return fmt.Errorf("setup: %w\n%s", err, out)
	}
	return nil
}
