//go:build unix

package e2e

import (
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/cluster"
)

// The tests of this file are those that make test-kubernetes runs. All of their names begin with TestPods.

// inPods are the settings of a server whose sessions are in pods of a cluster, with claims for their files.
func inPods(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	image := containers.ImageRef("python")
	c.Load(t, image)
	return []string{
		"--engine=kubernetes", "--kubeconfig", c.Kubeconfig, "--runtime-class", c.RuntimeClass, "--storage-class", c.StorageClass,
		"--python-image", image, "--js-image", image, "--bash-image=off",
	}
}

// begun starts a run that lasts, and waits until it prints.
func (s *server) begun(session string) *request {
	s.t.Helper()
	r := s.beginTracked(python, object{"code": "import time\nprint('begun', flush=True)\ntime.sleep(300)", "session_id": session, "timeout_seconds": 400}, "begun-"+session)
	eventually(s.t, "the run begins", func() (bool, string) {
		info := s.call("session_info", object{"session_id": session}).text()
		return strings.Contains(info, `"run_id"`), info
	})
	return r
}

// A pod that is told to go in the middle of a run freezes the variables, and the next call has them in another.
func TestPodsThatGoInTheMiddleOfARun(t *testing.T) {
	c := cluster.Need(t)
	s := start(t, setup{args: inPods(t, c)})
	const name = "drained"
	s.complete(python, object{"code": "x = 41; open('kept', 'w').write('text')", "session_id": name})
	run := s.begun(name)
	node := strings.TrimSpace(c.Kubectl(t, "get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}"))
	defer c.Kubectl(t, "uncordon", node)
	c.Kubectl(t, "drain", node, "--force", "--delete-emptydir-data", "--timeout=60s", "--pod-selector=app.kubernetes.io/component=sandbox")
	if lost := run.result(); lost.Meta.Run == nil || lost.Meta.Run.Status == "completed" {
		t.Errorf("the run came to: %s", lost.text())
	}
	c.Kubectl(t, "uncordon", node)
	s.complete(python, object{"code": "x + 1, open('kept').read()", "session_id": name}).wantText(t, "(42, 'text')")
	s.call("close_session", object{"session_id": name})
}
