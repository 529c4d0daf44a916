//go:build unix

package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
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

// said looks at the words of an error for a person.
func said(t *testing.T, err, want error, words ...string) {
	t.Helper()
	var e *kubernetes.Error
	must.Hold(t, errors.As(err, &e) && (want == nil || errors.Is(err, want)), "the error is %v", err)
	reason, fix := e.Explain()
	for _, word := range words {
		should.Hold(t, strings.Contains(reason+" "+fix, word), "%q is missing in: %s Hint: %s", word, reason, fix)
	}
	should.Hold(t, fix != "" && !strings.Contains(reason, "\n"), "%q, %q", reason, fix)
}

// pods names those of the test that are there and are not being removed.
func (on *target) pods(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(on.cluster.Kubectl(t, "get", "pods", "--selector", testLabel+"="+on.mark, "-o",
		`go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}`))
}

func up(t *testing.T, on *target, spec engine.Spec) engine.Process {
	t.Helper()
	p := must.Get(on.Start(t.Context(), spec))(t)
	t.Cleanup(func() { p.Close() })
	_, err := io.ReadFull(p, make([]byte, len("up\n")))
	must.Hold(t, err == nil, "%v %v", err, p.Stderr())
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
		program := must.Get(shut.Exec(t.Context(), spec.Name, []string{"python3", "-Ic", code}))(t)
		said, _ := io.ReadAll(program)
		err := shut.Remove(t.Context(), []string{spec.Name}, nil)
		must.Hold(t, err == nil && program.Stderr() == "", "%v %v", err, program.Stderr())
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
	ran := do("print(open('/mnt/data/ran').read())")
	should.Hold(t, ran == "x\n", "code of the session has run %d times, where once is right", len(ran)-1)
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

// What is in a claim outlives its pod, and a container that was lost can be started again.
func TestAPodThatIsDeletedComesBackWithItsFiles(t *testing.T) {
	on := onCluster(t, nil)
	spec := on.spec(t, "python3", "-c", "open('/mnt/data/kept', 'a').write('x'); print('up', flush=True); import time; time.sleep(600)")
	p := up(t, on, spec)
	on.cluster.Kubectl(t, "delete", "pod", on.pods(t), "--grace-period=1")
	ends(t, p)
	should.Be(t, should.ErrOf(on.Exec(t.Context(), spec.Name, []string{"true"})), engine.ErrContainerGone, "the error")
	_, err := on.List(t.Context(), testLabel, on.mark)
	should.Hold(t, err == nil && on.PodUID(spec.Name) == "", "it is remembered after it was not listed, %v", err)
	other := *on
	other.Engine = kubernetes.Open(on.options)
	t.Cleanup(func() { other.Close() })
	first := up(t, &other, spec)
	must.OK(t, should.ErrOf(on.Exec(t.Context(), spec.Name, []string{"true"})))
	on.cluster.Kubectl(t, "delete", "pod", on.pods(t), "--grace-period=1")
	ends(t, first)
	up(t, &other, spec)
	program := must.Get(on.Exec(t.Context(), spec.Name, []string{"cat", "/mnt/data/kept"}))(t)
	kept, _ := io.ReadAll(program)
	should.Hold(t, string(kept) == "xxx", "the file has %q", kept)
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
	list, err := on.List(t.Context(), testLabel, on.mark)
	should.Hold(t, err == nil && len(list.Containers) == 1 && list.Containers[0].Running, "the list is %+v, %v", list, err)
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
		must.Hold(t, err == nil && len(list.Containers) == 1, "the list is %+v, %v", list, err)
		if !list.Containers[0].Running {
			break
		}
	}
	should.Be(t, should.ErrOf(on.Exec(t.Context(), spec.Name, []string{"true"})), engine.ErrContainerGone, "the error")
}

// output runs a container to its end and returns what it wrote to stdout.
func (on *target) output(t *testing.T, code string) string {
	t.Helper()
	p := must.Get(on.Start(t.Context(), on.spec(t, "python3", "-c", code)))(t)
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

// Policies that come a moment after their pod are waited for, and others are not.
func TestLatePolicies(t *testing.T) {
	open := fmt.Errorf("look: %w", kubernetes.ErrReaches)
	other := errors.New("another")
	for name, test := range map[string]struct {
		found []error // by the looks; the last, by all after it
		most  time.Duration
		looks int // 0: some
		want  error
	}{
		"at once":      {[]error{nil}, time.Minute, 1, nil},
		"late":         {[]error{open, open, nil}, time.Minute, 3, nil},
		"never":        {[]error{open}, time.Second, 0, kubernetes.ErrReaches},
		"another":      {[]error{other}, time.Minute, 1, other},
		"late another": {[]error{open, other}, time.Minute, 2, other},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			looks := 0
			err := kubernetes.WhenShut(t.Context(), test.most, func() error {
				looks++
				return test.found[min(looks, len(test.found))-1]
			})
			should.Hold(t, errors.Is(err, test.want) && (test.looks <= 0 || looks == test.looks) && looks >= 1,
				"%v after %d looks", err, looks)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	should.Be(t, kubernetes.WhenShut(ctx, time.Minute, func() error { return open }), kubernetes.ErrReaches, "the error")
}

func TestNameServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	text := "search a.svc.cluster.local\nnameserver 10.96.0.10\n# nameserver 10.0.0.1\nnameserver fd00::a\nnameserver\noptions ndots:5\n"
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	should.EqualSlice(t, kubernetes.NameServers(path), []string{"10.96.0.10", "fd00::a"})
	got := kubernetes.NameServers(path + "none")
	should.Hold(t, len(got) == 0, "%v", got)
}

// Each engine has a canary of its own, which is replaced where it goes, and removed by its engine or once it has ended.
func TestCanaries(t *testing.T) {
	on := onCluster(t, func(o *kubernetes.Options) { o.RuntimeClass = "" })
	other := kubernetes.Open(on.options)
	t.Cleanup(func() { other.Close() })
	canary := func(e *kubernetes.Engine) string {
		t.Helper()
		name, at, err := e.Canary(t.Context(), on.image)
		must.Hold(t, err == nil && len(at) != 0, "%v %v", at, err)
		return name
	}
	left := func() string {
		t.Helper()
		return on.cluster.Kubectl(t, "get", "pods", "--selector", "app.kubernetes.io/component=canary", "-o",
			`go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}`)
	}
	first, second := canary(on.Engine), canary(other)
	should.Hold(t, first != second && canary(on.Engine) == first, "the canaries are %s, %s", first, second)
	on.cluster.Kubectl(t, "delete", "pod", first, "--grace-period=1")
	third := canary(on.Engine)
	should.Hold(t, third != first, "one that is gone is relied on")
	options := on.options
	on.Close()
	on.Engine = kubernetes.Open(options) // for what looks whether anything is left
	got := left()
	should.Hold(t, !strings.Contains(got, third) && strings.Contains(got, second), "after one engine was closed there are %s", got)
	on.cluster.Kubectl(t, "patch", "pod", second, "--patch", `{"spec":{"activeDeadlineSeconds":1}}`)
	on.cluster.Kubectl(t, "wait", "pod", second, "--for=jsonpath={.status.phase}=Failed", "--timeout=60s")
	canary(on.Engine) // another one
	got = left()
	should.Hold(t, !strings.Contains(got, second), "left is %s", got)
	on.cluster.Kubectl(t, "get", "networkpolicy", "code-sandbox-mcp-sandboxes", "code-sandbox-mcp-canary")
}
