//go:build unix

package kubernetes_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kubernetes"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const poolRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: warm-pool}
rules:
- {apiGroups: [extensions.agents.x-k8s.io], resources: [sandboxwarmpools], verbs: [get]}
- {apiGroups: [extensions.agents.x-k8s.io], resources: [sandboxclaims], verbs: [create, get, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: warm-pool}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: warm-pool}
subjects: [{kind: ServiceAccount, name: code-sandbox-mcp}]
`

// poolKinds stand for agent-sandbox where the cluster has none.
func poolKinds() string {
	var all strings.Builder
	for _, kind := range []string{"SandboxTemplate", "SandboxWarmPool", "SandboxClaim"} {
		one := strings.ToLower(kind)
		fmt.Fprintf(&all, `
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]ss.extensions.agents.x-k8s.io
  annotations: {api-approved.kubernetes.io: unapproved}
spec:
  group: extensions.agents.x-k8s.io
  scope: Namespaced
  names: {kind: %[2]s, singular: %[1]s, plural: %[1]ss}
  versions:
  - {name: v1beta1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, one, kind)
	}
	return all.String()
}

// pooled returns an engine that takes pods from a pool, and that pool. Where nobody runs agent-sandbox, serve does what its controller
// does for one claim.
func pooled(t *testing.T) (on *target, log *bytes.Buffer, pool string, serve func()) {
	pool, log = "pool-"+strings.ToLower(rand.Text()[:6]), &bytes.Buffer{}
	on = onCluster(t, func(o *kubernetes.Options) {
		o.WarmPool, o.StorageClass, o.Logger = pool, "", slog.New(slog.NewTextHandler(log, nil))
	})
	on.cluster.Apply(t, poolRole)
	serve = func() {}
	if on.cluster.Kubectl(t, "get", "crd", "--ignore-not-found", "sandboxclaims.extensions.agents.x-k8s.io") == "" {
		on.cluster.Apply(t, poolKinds())
		on.cluster.Kubectl(t, "wait", "--for=condition=Established", "crd/sandboxclaims.extensions.agents.x-k8s.io", "crd/sandboxwarmpools.extensions.agents.x-k8s.io", "crd/sandboxtemplates.extensions.agents.x-k8s.io")
		serve = func() { on.control(t, pool) }
	}
	return on, log, pool, serve
}

// control has a pod made of the pool's template, and gives it to the first claim.
func (on *target) control(t *testing.T, pool string) {
	var template struct {
		Spec struct{ PodTemplate map[string]any }
	}
	must.OK(t, json.Unmarshal([]byte(on.cluster.Kubectl(t, "get", "sandboxtemplate", pool, "-o", "json")), &template))
	pod := template.Spec.PodTemplate
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	pod["metadata"].(map[string]any)["name"] = pool + "-1"
	text, err := json.Marshal(pod)
	must.OK(t, err)
	on.cluster.Apply(t, string(text))
	go func() {
		claim := ""
		for claim == "" && t.Context().Err() == nil {
			claim = strings.TrimSpace(on.cluster.Kubectl(t, "get", "sandboxclaims", "-o", "name"))
		}
		on.cluster.Kubectl(t, "patch", claim, "--subresource=status", "--type=merge", "-p", `{"status":{"sandbox":{"name":"`+pool+`-1"}}}`)
	}()
}

// pool makes the pool of the containers of spec.
func (on *target) pool(t *testing.T, spec engine.Spec) {
	objects, err := on.Template(t.Context(), spec)
	must.OK(t, err)
	on.cluster.Apply(t, string(objects))
}

func TestWarmPool(t *testing.T) {
	on, log, pool, serve := pooled(t)
	spec := on.spec(t, "sh", "-c", "echo ready; exec cat")
	spec.Lasts = false
	on.pool(t, spec)
	if serve(); on.cluster.Kubectl(t, "get", "crd", "--ignore-not-found", "sandboxes.agents.x-k8s.io") != "" {
		on.cluster.Kubectl(t, "wait", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=60s", "sandboxwarmpool/"+pool)
	}
	began := time.Now()
	p, err := on.Start(t.Context(), spec)
	must.OK(t, err, "%v", log)
	defer p.Close()
	line := make([]byte, 6)
	if _, err := p.Read(line); err != nil || string(line) != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	t.Logf("first line after %v", time.Since(began))
	pod := on.Abilities().Where(spec.Name).Pod
	if !strings.HasPrefix(pod, pool+"-") || log.Len() > 0 {
		t.Errorf("the container is in pod %s: %s", pod, log)
	}
	x, err := on.Exec(t.Context(), spec.Name, []string{"true"})
	must.OK(t, err)
	x.Close()
	has, err := on.List(t.Context(), testLabel, on.mark)
	if err != nil || len(has.Containers) != 1 || len(has.Volumes) != 1 || has.Containers[0].Place.Pod != pod || !has.Containers[0].Running {
		t.Errorf("listed: %+v, %v", has, err)
	}
	must.OK(t, on.Remove(context.Background(), []string{spec.Name}, []string{spec.Volume}))
	if has, err := on.List(t.Context(), testLabel, on.mark); err != nil || len(has.Containers)+len(has.Volumes) > 0 {
		t.Errorf("left: %+v, %v", has, err)
	}
	should.Equal(t, on.cluster.Kubectl(t, "get", "sandboxclaims", "-o", "name"), "", "left")
}

// A session has a pod also where the pool has none for it, and the log says why.
func TestWarmPoolThatGivesNone(t *testing.T) {
	on, log, pool, _ := pooled(t)
	for want, prepare := range map[string]func(*engine.Spec){
		"there is no SandboxWarmPool": func(*engine.Spec) {},
		"not like those": func(spec *engine.Spec) {
			other := *spec
			other.Limits.MemoryBytes *= 2
			on.pool(t, other)
		},
	} {
		t.Run(want, func(t *testing.T) {
			log.Reset()
			spec := on.spec(t, "cat")
			spec.Lasts = false
			prepare(&spec)
			p, err := on.Start(t.Context(), spec)
			must.OK(t, err)
			defer p.Close()
			if pod := on.Abilities().Where(spec.Name).Pod; strings.HasPrefix(pod, pool) || !strings.Contains(log.String(), want) {
				t.Errorf("pod %s, log: %s", pod, log)
			}
			should.Equal(t, on.cluster.Kubectl(t, "get", "sandboxclaims", "-o", "name"), "", "claimed")
		})
	}
}
