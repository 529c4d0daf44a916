//go:build unix

package kubernetes_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kubernetes"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const lasting = "import time; print('up', flush=True); time.sleep(600)"

// refused starts a container, which must fail for a reason that a person can do something about, and leave no pod behind.
func (on *target) refused(ctx context.Context, t *testing.T, spec engine.Spec, want error, words ...string) {
	t.Helper()
	p, err := on.Start(ctx, spec)
	if err == nil {
		p.Close()
		t.Fatal("it started")
	}
	said(t, err, want, words...)
	should.Equal(t, on.pods(t), "", "left behind")
}

// said looks at the words of an error for a person.
func said(t *testing.T, err, want error, words ...string) {
	t.Helper()
	var e *kubernetes.Error
	if !errors.As(err, &e) || want != nil && !errors.Is(err, want) {
		t.Fatalf("the error is %v", err)
	}
	reason, fix := e.Explain()
	for _, word := range words {
		if !strings.Contains(reason+" "+fix, word) {
			t.Errorf("%q is missing in: %s Hint: %s", word, reason, fix)
		}
	}
	if fix == "" || strings.Contains(reason, "\n") {
		t.Errorf("%q, %q", reason, fix)
	}
}

// pods names those of the test that are there and are not being removed.
func (on *target) pods(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(on.cluster.Kubectl(t, "get", "pods", "--selector", testLabel+"="+on.mark, "-o",
		`go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}`))
}

func up(t *testing.T, on *target, spec engine.Spec) engine.Process {
	t.Helper()
	p, err := on.Start(t.Context(), spec)
	must.OK(t, err)
	t.Cleanup(func() { p.Close() })
	if _, err := io.ReadFull(p, make([]byte, len("up\n"))); err != nil {
		t.Fatal(err, p.Stderr())
	}
	return p
}

// ends waits for the end of a container's stdio.
func ends(t *testing.T, p engine.Process) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, p)
		ended <- err
	}()
	select {
	case err := <-ended:
		should.OK(t, err)
	case <-time.After(2 * time.Minute):
		t.Fatal("its stdio goes on")
	}
}

// Where a network plugin does not enforce policies, nothing runs, nor does what a session has left in its claim.
func TestAPodThatReachesSomethingIsRefused(t *testing.T) {
	on := onCluster(t, func(o *kubernetes.Options) { o.RuntimeClass = "" })
	spec := on.spec(t, "python3", "-c", lasting)
	spec.Env["PYTHONUSERBASE"] = engine.WorkDir
	shut := *on
	shut.options.RuntimeClass = on.cluster.RuntimeClass
	shut.Engine = kubernetes.Open(shut.options)
	t.Cleanup(func() { shut.Close() })
	do := func(code string) string {
		t.Helper()
		up(t, &shut, spec)
		program, err := shut.Exec(t.Context(), spec.Name, []string{"python3", "-Ic", code})
		must.OK(t, err)
		said, _ := io.ReadAll(program)
		if err := shut.Remove(t.Context(), []string{spec.Name}, nil); err != nil || program.Stderr() != "" {
			t.Fatal(err, program.Stderr())
		}
		return string(said)
	}
	do(`import os, site
site.ENABLE_USER_SITE = True
folder = site.getusersitepackages()
os.makedirs(folder)
open(folder + "/any.pth", "w").write("import sys; open('/mnt/data/ran', 'a').write('x')")`)
	began := time.Now()
	p, err := on.Start(t.Context(), spec)
	if err == nil {
		p.Close()
		t.Skip("this cluster enforces policies")
	}
	t.Logf("refused after %v: %v", time.Since(began), err)
	said(t, err, kubernetes.ErrReaches, "although a NetworkPolicy forbids it", ":9798", "--runtime-class")
	o := on.options
	on.Close()
	on.Engine = kubernetes.Open(o) // for what looks whether anything is left
	if pods := on.pods(t) + on.cluster.Kubectl(t, "get", "pods", "--selector", "app.kubernetes.io/component=canary", "-o",
		`go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}}{{end}}{{end}}`); pods != "" {
		t.Errorf("left behind: %s", pods)
	}
	if ran := do("print(open('/mnt/data/ran').read())"); ran != "x\n" {
		t.Errorf("code of the session has run %d times, where once is right", len(ran)-1)
	}
}

func TestAQuotaIsSaid(t *testing.T) {
	on := onCluster(t, nil)
	on.cluster.Apply(t, "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {pods: \"0\"}}\n")
	on.cluster.Kubectl(t, "wait", "resourcequota/none", "--for=jsonpath={.status.used.pods}", "--timeout=30s")
	on.refused(t.Context(), t, on.spec(t, "python3", "-c", lasting), nil, "quota is used up", "pods=1", on.cluster.Namespace)
}

func TestAnAdmissionPolicyIsSaid(t *testing.T) {
	on := onCluster(t, nil)
	name := on.cluster.Namespace
	on.cluster.Apply(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: `+name+`}
spec:
  failurePolicy: Fail
  matchConstraints:
    objectSelector: {matchLabels: {`+testLabel+`: `+on.mark+`}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "has(object.metadata.labels.team)", message: "a pod needs a team"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: `+name+`}
spec: {policyName: `+name+`, validationActions: [Deny]}
`)
	spec := on.spec(t, "python3", "-c", lasting)
	for { // the API server takes it up a moment later
		p, err := on.Start(t.Context(), spec)
		if err != nil {
			break
		}
		p.Close()
		must.OK(t, on.Remove(t.Context(), []string{spec.Name}, nil))
	}
	on.refused(t.Context(), t, spec, nil, "does not admit the pod", "a pod needs a team")
}

func TestAnImageThatIsMissingIsSaid(t *testing.T) {
	on := onCluster(t, nil)
	spec := on.spec(t, "python3", "-c", lasting)
	spec.Image = "localhost/no-such-image:1"
	on.refused(t.Context(), t, spec, engine.ErrImageMissing, "localhost/no-such-image:1", "nodes")
}

// A claim that no volume comes for.
func TestAClaimThatIsNotBoundIsSaid(t *testing.T) {
	on := onCluster(t, func(o *kubernetes.Options) { o.StorageClass = "no-such-class" })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	on.refused(ctx, t, on.spec(t, "python3", "-c", lasting), nil, "No node takes the pod", "no-such-class", "kubectl get events --namespace "+on.cluster.Namespace)
	if left, err := on.List(t.Context(), testLabel, on.mark); err != nil || len(left.Volumes) > 0 {
		t.Errorf("left behind: %+v, %v", left, err)
	}
}

func TestAnAccountIsSaid(t *testing.T) {
	on := onCluster(t, nil)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	must.OK(t, on.cluster.Account("passing", config))
	other := on.options
	other.Cluster.Kubeconfig = config
	passing := kubernetes.Open(other)
	t.Cleanup(func() { passing.Close() })
	must.OK(t, should.ErrOf(passing.List(t.Context(), testLabel, on.mark)))
	spec := on.spec(t, "python3", "-c", lasting)
	up(t, on, spec)
	on.cluster.Kubectl(t, "delete", "rolebinding", "passing")
	for {
		_, err := passing.List(t.Context(), testLabel, on.mark)
		if err == nil {
			continue // the API server has not heard of it yet
		}
		said(t, err, nil, "not allowed", "list", "pods")
		break
	}
	fresh := kubernetes.Open(other)
	t.Cleanup(func() { fresh.Close() })
	_, err := fresh.List(t.Context(), testLabel, on.mark)
	said(t, err, engine.ErrEngineUnavailable, "create pods", "create networkpolicies.networking.k8s.io", on.cluster.Namespace)
	on.cluster.Kubectl(t, "delete", "serviceaccount", "passing")
	for {
		_, err := passing.List(t.Context(), testLabel, on.mark)
		if said(t, err, nil); errors.Is(err, engine.ErrEngineUnavailable) {
			said(t, err, nil, "token", "expired")
			break
		}
	}
	if p, err := passing.Exec(t.Context(), spec.Name, []string{"true"}); err == nil {
		p.Close()
		t.Error("a program was started")
	} else {
		said(t, err, engine.ErrEngineUnavailable, "token", "expired")
	}
}

func TestNoClusterIsSaid(t *testing.T) {
	on := onCluster(t, nil)
	empty := filepath.Join(t.TempDir(), "empty")
	must.OK(t, os.WriteFile(empty, nil, 0o600))
	for name, test := range map[string]struct {
		at    kube.Options
		words []string
	}{
		"no such file":    {kube.Options{Kubeconfig: "/no/such/file"}, []string{"no such file", "--kubeconfig"}},
		"an empty file":   {kube.Options{Kubeconfig: empty}, []string{"No Kubernetes cluster is configured", "--kubeconfig"}},
		"a wrong context": {kube.Options{Kubeconfig: on.options.Cluster.Kubeconfig, Context: "elsewhere"}, []string{"elsewhere", "get-contexts"}},
		"no namespace":    {kube.Options{Namespace: "csm-test-no-such"}, []string{"csm-test-no-such", "--namespace"}},
		"another's":       {kube.Options{Kubeconfig: on.options.Cluster.Kubeconfig, Namespace: "kube-system"}, []string{"may not", "kube-system"}},
	} {
		o := on.options
		o.Cluster = test.at
		e := kubernetes.Open(o)
		t.Cleanup(func() { e.Close() })
		t.Run(name, func(t *testing.T) {
			p, err := e.Start(t.Context(), on.spec(t, "python3", "-c", lasting))
			if err == nil {
				p.Close()
			}
			said(t, err, engine.ErrEngineUnavailable, test.words...)
		})
	}
}

// A pod of the same name that another controller has is left alone.
func TestAnothersPodIsLeftAlone(t *testing.T) {
	on := onCluster(t, nil)
	spec := on.spec(t, "python3", "-c", lasting)
	up(t, on, spec)
	name := on.pods(t)
	must.OK(t, on.Remove(t.Context(), []string{spec.Name}, []string{spec.Volume}))
	on.cluster.Kubectl(t, "wait", "--for=delete", "pod/"+name)
	on.cluster.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: `+name+`, labels: {app.kubernetes.io/managed-by: another}}
spec:
  schedulingGates: [{name: example.com/never}]
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers: [{name: main, image: none, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]
`)
	p, err := on.Start(t.Context(), spec)
	if err == nil {
		p.Close()
		t.Fatal("it started")
	}
	should.OK(t, on.Remove(t.Context(), []string{spec.Name}, []string{spec.Volume}))
	should.Equal(t, on.cluster.Kubectl(t, "get", "pod", name, "-o", "jsonpath={.metadata.deletionTimestamp}"), "", "it is being removed since")
	should.Contain(t, err.Error(), "another", "the error is %v", err)
}

func TestNamesAreOfAnyLength(t *testing.T) {
	on := onCluster(t, nil)
	spec := on.spec(t, "python3", "-c", lasting)
	first, long := spec.Name, strings.Repeat("Long_", 40)
	spec.Name, spec.Volume, spec.Labels["code-sandbox-mcp.name"] = first+long, first+long, long+" é"
	up(t, on, spec)
	second := on.spec(t, "python3", "-c", lasting)
	second.Name, second.Volume = first+long+"2", first+long+"2"
	up(t, on, second)
	list, err := on.List(t.Context(), "code-sandbox-mcp.name", long+" é")
	if err != nil || len(list.Containers) != 1 || list.Containers[0].Name != spec.Name || list.Containers[0].Labels["code-sandbox-mcp.name"] != long+" é" {
		t.Errorf("the list is %+v, %v", list, err)
	}
	for _, s := range []engine.Spec{spec, second} {
		should.OK(t, on.Remove(t.Context(), []string{s.Name}, []string{s.Volume}))
	}
}

// What is in a claim outlives its pod, and a container that was lost can be started again.
func TestAPodThatIsDeletedComesBackWithItsFiles(t *testing.T) {
	on := onCluster(t, nil)
	spec := on.spec(t, "python3", "-c", "open('/mnt/data/kept', 'a').write('x'); print('up', flush=True); import time; time.sleep(600)")
	p := up(t, on, spec)
	on.cluster.Kubectl(t, "delete", "pod", on.pods(t), "--grace-period=1")
	ends(t, p)
	should.Be(t, should.ErrOf(on.Exec(t.Context(), spec.Name, []string{"true"})), engine.ErrContainerGone, "the error")
	if _, err := on.List(t.Context(), testLabel, on.mark); err != nil || on.PodUID(spec.Name) != "" {
		t.Errorf("it is remembered after it was not listed, %v", err)
	}
	other := *on
	other.Engine = kubernetes.Open(on.options)
	t.Cleanup(func() { other.Close() })
	first := up(t, &other, spec)
	must.OK(t, should.ErrOf(on.Exec(t.Context(), spec.Name, []string{"true"})))
	on.cluster.Kubectl(t, "delete", "pod", on.pods(t), "--grace-period=1")
	ends(t, first)
	up(t, &other, spec)
	program, err := on.Exec(t.Context(), spec.Name, []string{"cat", "/mnt/data/kept"})
	must.OK(t, err)
	if kept, _ := io.ReadAll(program); string(kept) != "xxx" {
		t.Errorf("the file has %q", kept)
	}
	if is := on.cluster.Kubectl(t, "get", "pod", on.pods(t), "-o", "jsonpath={.metadata.uid}"); on.PodUID(spec.Name) != is {
		t.Errorf("the pod is %s, and %s is taken for it", is, on.PodUID(spec.Name))
	}
}

// The end of a program that is noted when the next one runs is not taken for the end of that.
func TestAnEndThatIsNotedLate(t *testing.T) {
	on := onCluster(t, nil)
	spec := on.spec(t, "sh", "-c", "echo up; read line")
	p := up(t, on, spec)
	must.OK(t, should.ErrOf(p.Write([]byte("\n"))))
	ends(t, p)
	up(t, on, spec)
	_ = on.NoteEnd(t.Context(), spec.Name)
	if list, err := on.List(t.Context(), testLabel, on.mark); err != nil || len(list.Containers) != 1 || !list.Containers[0].Running {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

// A pod that writes far over its limit is evicted by the node.
func TestAPodThatIsEvicted(t *testing.T) {
	on := onCluster(t, func(o *kubernetes.Options) { o.StorageClass = "" })
	spec := on.spec(t, "python3", "-c", `import os, time
for i in range(400):
    with open(f'/mnt/data/{i}', 'wb') as f: f.write(os.urandom(1 << 20))
print('up', flush=True)
time.sleep(600)`)
	spec.VolumeBytes = 1 << 20
	p := up(t, on, spec)
	began := time.Now()
	ends(t, p)
	t.Logf("evicted after %v", time.Since(began))
	for { // the node tells of it a moment later
		list, err := on.List(t.Context(), testLabel, on.mark)
		if err != nil || len(list.Containers) != 1 {
			t.Fatalf("the list is %+v, %v", list, err)
		}
		if !list.Containers[0].Running {
			break
		}
	}
	should.Be(t, should.ErrOf(on.Exec(t.Context(), spec.Name, []string{"true"})), engine.ErrContainerGone, "the error")
}
