//go:build unix

// Package stores starts object stores for tests: Azurite for Azure, versitygw for S3. Each has a folder and a port of its own,
// and ends with the test.
//
// They are built or installed the first time, which takes some minutes, and stay in the user's cache.
package stores

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/daemon"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmci"
)

// Key and Secret open every store.
const (
	Key    = "testing"
	Secret = "c3RvcmFnZS1hY2NvdW50LWtleS1mb3ItdGVzdHM=" //nolint:gosec // of nothing but tests
)

const startTime = 2 * time.Minute

// Azure starts Azurite and returns a connection string.
func Azure(t testing.TB) string {
	t.Helper()
	modules := must.Get(npmci.Install(filepath.Join(root(t), "internal/test/stores")))(t)
	address := start(t, func(port string) []string {
		return []string{
			"env", "AZURITE_ACCOUNTS=" + Key + ":" + Secret, "node", filepath.Join(modules, "azurite/dist/src/blob/main.js"), "--blobPort", port, "--location", t.TempDir(),
			"--silent", "--disableTelemetry", "--skipApiVersionCheck",
		}
	})
	return fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=http://%s/%[1]s;", Key, Secret, address)
}

// S3 starts versitygw and returns its endpoint.
func S3(t testing.TB) string {
	t.Helper()
	gateway := goTool(t, "github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
	files, facts := t.TempDir(), t.TempDir()
	return "http://" + start(t, func(port string) []string {
		return []string{
			gateway, "--quiet", "--port", "127.0.0.1:" + port, "--access", Key, "--secret", Secret,
			"posix", "--sidecar", facts, files,
		}
	})
}

// root is the folder of the module that the test is in.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("there is no go.mod above the test: %v", err)
	return ""
}

func goTool(t testing.TB, name, version string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(root(t), "scripts/go-tool"), name, version)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	must.Hold(t, err == nil, "install %s: %v\n%s", name, err, log.Bytes())
	return string(bytes.TrimSpace(out))
}

// start starts a server on a free port, below a shell that ends it when its stdin ends, which it does however the tests end,
// and returns its address when it can be reached.
func start(t testing.TB, command func(port string) []string) (address string) {
	t.Helper()
	free := must.Get(daemon.FreePort())(t)
	port := strconv.Itoa(free)
	cmd := exec.Command("sh", append([]string{"-c", `exec 3<&0; "$@" 3<&- & server=$!; { read -r _; kill $server; } <&3 >/dev/null 2>&1 & wait $server`, "sh"}, command(port)...)...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &output, &output, 10*time.Second
	stdin := must.Get(cmd.StdinPipe())(t)
	must.OK(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	stop := func() {
		_ = stdin.Close()
		<-exited
	}
	t.Cleanup(stop)
	address = net.JoinHostPort("127.0.0.1", port)
	if err := awaitPort(address, exited); err != nil {
		stop()
		t.Fatalf("the store did not start: %v\n%s", err, output.String())
	}
	return address
}

func awaitPort(address string, exited <-chan struct{}) error {
	late := time.After(startTime)
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-exited:
			return errors.New("it has ended")
		case <-late:
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
