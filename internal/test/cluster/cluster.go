//go:build unix

// Package cluster has tests use a real Kubernetes cluster, in a namespace of their own that admits restricted pods alone, by an
// account that may do what the documentation asks for and no more.
package cluster

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// Cluster is what the tests of a process have of one.
type Cluster struct {
	Namespace    string
	Kubeconfig   string // of the account
	StorageClass string
	RuntimeClass string // of pods that reach nothing

	folder string
}

// account is the name of the documented ServiceAccount, and that of its Role.
const account = "code-sandbox-mcp"

var (
	mu   sync.Mutex // guards only
	only *Cluster   // nil: nobody has asked for it
)

// Need returns the cluster of KUBECONFIG, in which whoever runs the tests may make namespaces, and leaves a test out that
// make test-kubernetes does not run. TestMain calls End.
func Need(tb testing.TB) *Cluster {
	tb.Helper()
	if os.Getenv("CODE_SANDBOX_KUBERNETES") == "" {
		tb.Skip("no cluster: make test-kubernetes runs this")
	}
	mu.Lock()
	defer mu.Unlock()
	if only == nil {
		c := must.Get(Open())(tb)
		only = c
	}
	return only
}

// End removes the namespace of a process, with all that is in it.
func End() error {
	mu.Lock()
	defer mu.Unlock()
	if only == nil {
		return nil
	}
	c := only
	only = nil
	return c.Close()
}

// Close removes the namespace, with all that is in it.
func (c *Cluster) Close() error {
	_, err := c.run(nil, "delete", "namespace", c.Namespace, "--timeout=2m")
	return errors.Join(err, os.RemoveAll(c.folder))
}

// Open makes a namespace in the cluster of KUBECONFIG.
func Open() (*Cluster, error) {
	folder, err := os.MkdirTemp("", "code-sandbox-mcp-cluster-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		Namespace: "csm-test-" + strings.ToLower(rand.Text()[:8]), Kubeconfig: filepath.Join(folder, "kubeconfig"),
		StorageClass: cmp.Or(os.Getenv("STORAGE_CLASS"), "standard"), RuntimeClass: cmp.Or(os.Getenv("RUNTIME_CLASS"), "no-network"),
		folder: folder,
	}
	if err := c.prepare(); err != nil {
		_, _ = c.run(nil, "delete", "namespace", c.Namespace, "--ignore-not-found", "--wait=false")
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return c, nil
}

func (c *Cluster) prepare() error {
	if err := c.loadPrograms(); err != nil {
		return err
	}
	documented, err := c.rights()
	if err != nil {
		return err
	}
	if _, err := c.run(strings.NewReader(fmt.Sprintf(namespace, c.Namespace)+documented), "apply", "-f", "-"); err != nil {
		return err
	}
	return c.token(account, c.Kubeconfig)
}

// rights returns the account and its Role as the documentation has them.
func (c *Cluster) rights() (string, error) {
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	all, err := os.ReadFile(filepath.Join(filepath.Dir(strings.TrimSpace(string(module))), "docs/deploy/kubernetes/manifests.yaml"))
	if err != nil {
		return "", err
	}
	var rights strings.Builder
	for document := range strings.SplitSeq(string(all), "\n---\n") {
		if ofRights.MatchString(document) {
			rights.WriteString("\n---\n" + documentedNamespace.ReplaceAllString(document, "namespace: "+c.Namespace))
		}
	}
	return rights.String(), nil
}

var (
	ofRights            = regexp.MustCompile(`(?m)^kind: (ServiceAccount|Role|RoleBinding)$`)
	documentedNamespace = regexp.MustCompile(`namespace: [a-z-]+`)
)

const namespace = `
apiVersion: v1
kind: Namespace
metadata:
  name: %s
  labels: {pod-security.kubernetes.io/enforce: restricted}
`

// Account makes a ServiceAccount of a name that has the Role, and writes a kubeconfig of it.
func (c *Cluster) Account(name, kubeconfig string) error {
	for _, command := range [][]string{
		{"create", "serviceaccount", name}, {"create", "rolebinding", name, "--role=" + account, "--serviceaccount=" + c.Namespace + ":" + name},
	} {
		if _, err := c.run(nil, command...); err != nil {
			return err
		}
	}
	return c.token(name, kubeconfig)
}

func (c *Cluster) token(name, kubeconfig string) error {
	token, err := c.run(nil, "create", "token", name, "--duration=4h")
	if err != nil {
		return err
	}
	return c.writeKubeconfig(kubeconfig, strings.TrimSpace(token))
}

// writeKubeconfig writes one for the same cluster with another's token.
func (c *Cluster) writeKubeconfig(path, token string) error {
	text, err := c.run(nil, "config", "view", "--minify", "--flatten", "--raw", "-o", "json")
	if err != nil {
		return err
	}
	config := map[string]any{}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return err
	}
	clusters := config["clusters"].([]any)
	of := clusters[0].(map[string]any)["name"]
	config["users"] = []any{map[string]any{"name": account, "user": map[string]any{"token": token}}}
	config["contexts"] = []any{map[string]any{"name": account, "context": map[string]any{"cluster": of, "user": account, "namespace": c.Namespace}}}
	config["current-context"] = account
	written, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, written, 0o600)
}

// Kubectl runs kubectl in the namespace with all rights, and returns what it says.
func (c *Cluster) Kubectl(tb testing.TB, args ...string) string {
	tb.Helper()
	out, err := c.run(nil, args...)
	should.OK(tb, err)
	return out
}

// Apply makes objects of YAML, which go with the test.
func (c *Cluster) Apply(tb testing.TB, yaml string) {
	tb.Helper()
	must.OK(tb, should.ErrOf(c.run(strings.NewReader(yaml), "apply", "-f", "-")))
	tb.Cleanup(func() {
		should.OK(tb, should.ErrOf(c.run(strings.NewReader(yaml), "delete", "--ignore-not-found", "-f", "-")))
	})
}

func (c *Cluster) run(stdin *strings.Reader, args ...string) (string, error) {
	var out, complaints bytes.Buffer
	cmd := exec.Command("kubectl", append([]string{"--namespace", c.Namespace}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if stdin != nil {
		cmd.Stdin = stdin
	}
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return out.String(), nil
}

// Load has the nodes know images of Podman's, by the command that LOAD_IMAGES names.
func (c *Cluster) Load(tb testing.TB, refs ...string) {
	tb.Helper()
	must.OK(tb, c.LoadImages(refs...))
}

// LoadImages is Load outside of a test.
func (*Cluster) LoadImages(refs ...string) error {
	command := strings.Fields(os.Getenv("LOAD_IMAGES"))
	if len(command) == 0 {
		return errors.New("LOAD_IMAGES names no command that brings images from Podman to the nodes, such as one around `kind load image-archive`")
	}
	if out, err := exec.Command(command[0], append(command[1:], refs...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("LOAD_IMAGES, %s: %w\n%s", strings.Join(refs, " "), err, out)
	}
	return nil
}

// loadPrograms brings the image of the supervisor and the kernels.
func (c *Cluster) loadPrograms() error {
	ref := containers.ProgramsRef()
	if exec.Command("podman", "image", "exists", ref).Run() != nil {
		var archive bytes.Buffer
		if err := containers.ProgramsImage(&archive, ref); err != nil {
			return err
		}
		load := exec.Command("podman", "load", "--quiet")
		load.Stdin = &archive
		if out, err := load.CombinedOutput(); err != nil {
			return fmt.Errorf("load the programs: %w\n%s", err, out)
		}
	}
	return c.LoadImages(ref)
}
