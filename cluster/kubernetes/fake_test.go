//go:build unix

package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kubernetes"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

var update = flag.Bool("update", false, "write the golden files anew")

// apiServer plays one as far as a start needs it.
type apiServer struct {
	minor   string
	token   string         // that it accepts; empty: any
	refuse  *meta.Status   // how it answers to a pod; nil: it makes it
	status  core.PodStatus // of a pod that was made
	mu      sync.Mutex
	pod     *core.Pod // that was made
	deleted bool
	asked   []byte // the pod that was asked for

	claim       *core.PersistentVolumeClaim // that was made
	refuseClaim *meta.Status                // as refuse, of claims
	exec        *meta.Status                // how it refuses programs
	thenGet     *meta.Status                // how it answers to who asks for the pod after that
	getPod      *meta.Status
	missing     bool          // a policy is
	hangs       chan struct{} // says that it was asked for its version, and is what it waits for then
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	answer := func(code int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(value)
	}
	gone := meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 404, Reason: meta.StatusReasonNotFound, Message: "not found"}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token != "" && r.Header.Get("Authorization") != "Bearer "+a.token {
		answer(401, failure(http.StatusUnauthorized, meta.StatusReasonUnauthorized, "Unauthorized"))
		return
	}
	switch path := r.URL.Path; {
	case path == "/version" && a.hangs != nil:
		a.mu.Unlock()
		a.hangs <- struct{}{}
		<-a.hangs
		a.mu.Lock()
	case path == "/version":
		answer(200, map[string]string{"major": "1", "minor": a.minor})
	case strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		answer(201, json.RawMessage(bytes.Replace(body, []byte(`"status":{"allowed":false}`), []byte(`"status":{"allowed":true}`), 1)))
	case strings.Contains(path, "/networkpolicies/") && a.missing:
		answer(404, gone)
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/networkpolicies"):
		a.missing = false
		answer(201, json.RawMessage(body))
	case strings.Contains(path, "/networkpolicies/"):
		answer(200, json.RawMessage(`{"kind":"NetworkPolicy","apiVersion":"networking.k8s.io/v1"}`))
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/pods"):
		a.asked = body
		if a.refuse != nil {
			answer(int(a.refuse.Code), a.refuse)
			return
		}
		if a.pod != nil {
			answer(409, failure(409, meta.StatusReasonAlreadyExists, "it is there"))
			return
		}
		a.pod = &core.Pod{}
		_ = json.Unmarshal(body, a.pod)
		a.pod.Status, a.pod.ResourceVersion, a.pod.UID, a.pod.CreationTimestamp = a.status, "1", "1", meta.Now()
		answer(201, a.pod)
	case strings.HasSuffix(path, "/exec"):
		if answer(int(a.exec.Code), a.exec); a.thenGet != nil {
			a.getPod = a.thenGet
		}
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/persistentvolumeclaims"):
		switch {
		case a.refuseClaim != nil:
			answer(int(a.refuseClaim.Code), a.refuseClaim)
		case a.claim != nil:
			answer(409, failure(409, meta.StatusReasonAlreadyExists, "it is there"))
		default:
			a.claim = &core.PersistentVolumeClaim{}
			_ = json.Unmarshal(body, a.claim)
			a.claim.Status.Phase, a.claim.Namespace = core.ClaimPending, "sandboxes"
			answer(201, a.claim)
		}
	case strings.Contains(path, "/persistentvolumeclaims/") && a.claim != nil:
		answer(200, a.claim)
		if r.Method == http.MethodDelete {
			a.claim = nil
		}
	case r.Method == http.MethodDelete:
		a.deleted, a.pod = true, nil
		answer(200, meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success"})
	case r.Method == http.MethodGet && strings.Contains(path, "/pods/") && a.getPod != nil:
		answer(int(a.getPod.Code), a.getPod)
	case r.Method == http.MethodPatch && a.pod != nil:
		var patch struct {
			Metadata struct{ Annotations map[string]*string }
		}
		_ = json.Unmarshal(body, &patch)
		for key, value := range patch.Metadata.Annotations {
			if delete(a.pod.Annotations, key); value != nil {
				a.pod.Annotations[key] = *value
			}
		}
		answer(200, a.pod)
	case r.Method == http.MethodGet && strings.Contains(path, "/pods/") && a.pod != nil:
		answer(200, a.pod)
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		answer(200, map[string]any{"type": "MODIFIED", "object": a.pod})
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/pods"):
		list := core.PodList{TypeMeta: meta.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
		if a.pod != nil {
			list.Items = []core.Pod{*a.pod}
		}
		answer(200, list)
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/persistentvolumeclaims"):
		list := core.PersistentVolumeClaimList{TypeMeta: meta.TypeMeta{Kind: "PersistentVolumeClaimList", APIVersion: "v1"}}
		if a.claim != nil {
			list.Items = []core.PersistentVolumeClaim{*a.claim}
		}
		answer(200, list)
	case r.Method == http.MethodPost:
		answer(201, json.RawMessage(body))
	default:
		answer(404, gone)
	}
}

// on returns an engine that has this server for a cluster.
func (a *apiServer) on(t *testing.T, o kubernetes.Options) *kubernetes.Engine {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	o.Cluster.Kubeconfig, o.Cluster.Namespace = filepath.Join(t.TempDir(), "kubeconfig"), "sandboxes"
	signIn(t, o.Cluster.Kubeconfig, server.URL, "")
	e := kubernetes.Open(o)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// signIn writes a configuration.
func signIn(t *testing.T, path, server, token string) {
	t.Helper()
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":%q}}]}`, server, token)
	must.OK(t, os.WriteFile(path, []byte(config), 0o600))
}

// After an expired token was replaced in the kubeconfig, calls succeed without a restart.
func TestATokenThatIsRenewed(t *testing.T) {
	server := httptest.NewTLSServer(nil) // a token is sent by TLS alone
	t.Cleanup(server.Close)
	a := &apiServer{minor: "37", token: "first", pod: &core.Pod{}}
	server.Config.Handler = a
	config := filepath.Join(t.TempDir(), "kubeconfig")
	signIn(t, config, server.URL, "first")
	e := kubernetes.Open(kubernetes.Options{Cluster: kube.Options{Kubeconfig: config, Namespace: "sandboxes"}})
	t.Cleanup(func() { _ = e.Close() })
	list := func() error {
		_, err := e.List(t.Context(), sandbox.LabelHost, "host")
		return err
	}
	must.OK(t, list())
	a.mu.Lock()
	a.token = "second"
	a.mu.Unlock()
	for range 2 {
		said(t, list(), engine.ErrEngineUnavailable, "token", "sign in again")
	}
	signIn(t, config, "https://elsewhere.invalid", "second")
	said(t, list(), engine.ErrEngineUnavailable, "https://elsewhere.invalid", server.URL, "context")
	signIn(t, config, server.URL, "second")
	should.OK(t, list())
}

// podFor returns the pod that a start asks for.
func (a *apiServer) podFor(t *testing.T, e *kubernetes.Engine, spec engine.Spec) *core.Pod {
	t.Helper()
	a.refuse = failure(http.StatusForbidden, meta.StatusReasonForbidden, "exceeded quota")
	_, _ = e.Start(t.Context(), spec)
	a.refuse = nil
	pod := &core.Pod{}
	must.OK(t, json.Unmarshal(a.asked, pod))
	pod.UID = "0"
	return pod
}

func goldenSpec() engine.Spec {
	return engine.Spec{
		Name: "csm-demo-python", Volume: "csm-demo", Image: "images.example/python:1", Command: []string{"/opt/code-sandbox-mcp/supervisor", "python", "javascript"},
		Labels: map[string]string{sandbox.LabelLanguage: "python", sandbox.LabelHost: "host", "of": "é, which no label has"},
		Env:    map[string]string{"PRICE": "$5"}, Limits: testLimits, VolumeBytes: 64 << 20, Ends: time.Hour,
	}
}

// The whole of what a cluster is asked for.
func TestThePod(t *testing.T) {
	for name, test := range map[string]struct {
		minor   string
		options kubernetes.Options
		change  func(*engine.Spec)
	}{
		"pod":              {"36", kubernetes.Options{}, nil},
		"pod-with-a-claim": {"37+", kubernetes.Options{StorageClass: "fast", Users: "5000-5000"}, func(s *engine.Spec) { s.Lasts = true }},
		"pod-of-an-older-cluster": {"35", kubernetes.Options{
			Users: "none", RuntimeClass: "gvisor", SeccompProfile: "profiles/sandbox.json", UserNamespaces: true,
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := &apiServer{minor: test.minor, refuse: failure(http.StatusForbidden, meta.StatusReasonForbidden, "exceeded quota")}
			test.options.ProgramsImage = "images.example/programs:1"
			spec := goldenSpec()
			if test.change != nil {
				test.change(&spec)
			}
			if _, err := a.on(t, test.options).Start(t.Context(), spec); err == nil {
				t.Fatal("it started")
			}
			var got bytes.Buffer
			must.OK(t, json.Indent(&got, a.asked, "", "  "))
			path := filepath.Join("testdata", name+".json")
			if *update {
				must.OK(t, os.WriteFile(path, got.Bytes(), 0o600))
			}
			want, err := os.ReadFile(path)
			should.Hold(t, err == nil && bytes.Equal(bytes.TrimSpace(want), bytes.TrimSpace(got.Bytes())),
				"%s is not the pod, %v; -update writes it anew:\n%s", path, err, got.Bytes())
		})
	}
}

func failure(code int32, reason meta.StatusReason, message string) *meta.Status {
	return &meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Reason: reason, Message: message}
}

func forbidden(message string) *meta.Status {
	return failure(http.StatusForbidden, meta.StatusReasonForbidden, `pods "x" is forbidden: `+message)
}

func TestWhatAClusterSaysIsExplained(t *testing.T) {
	for name, test := range map[string]struct {
		status *meta.Status
		is     error
		words  []string
	}{
		"a quota":      {forbidden(`exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9`), nil, []string{"quota is used up", "limited: pods=9", "ResourceQuota"}},
		"a LimitRange": {forbidden(`[minimum cpu usage per Container is 3, but request is 10m]`), nil, []string{"LimitRange", "usage per Container is 3", "--cpu-limit"}},
		"Pod Security": {forbidden(`violates PodSecurity "restricted:latest": seccompProfile`), nil, []string{"Pod Security", "seccompProfile"}},
		"OpenShift":    {forbidden(`unable to validate against any security context constraint: 1000 is not in range`), nil, []string{"--pod-users none"}},
		"a webhook":    {failure(http.StatusBadRequest, meta.StatusReasonBadRequest, `admission webhook "policy.example" denied the request: no team`), nil, []string{"policy.example", "no team"}},
		"a policy":     {failure(http.StatusUnprocessableEntity, meta.StatusReasonInvalid, `pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no team`), nil, []string{"no team"}},
		"unauthorized": {failure(http.StatusUnauthorized, meta.StatusReasonUnauthorized, "Unauthorized"), engine.ErrEngineUnavailable, []string{"token", "expired"}},
		"a right":      {forbidden(`User "u" cannot create resource "pods"`), nil, []string{"not allowed", `cannot create resource "pods"`}},
		"no namespace": {failure(http.StatusNotFound, meta.StatusReasonNotFound, `namespaces "sandboxes" not found`), engine.ErrEngineUnavailable, []string{"sandboxes", "--namespace"}},
		"one that ends": {
			forbidden(`unable to create new content in namespace sandboxes because it is being terminated`), engine.ErrEngineUnavailable, []string{"being removed"},
		},
		"a shape":  {failure(http.StatusUnprocessableEntity, meta.StatusReasonInvalid, `Pod "x" is invalid: spec.hostUsers`), nil, []string{"spec.hostUsers", "doctor"}},
		"overload": {failure(http.StatusServiceUnavailable, meta.StatusReasonServiceUnavailable, "busy"), engine.ErrEngineUnavailable, []string{"does not answer"}},
		"a fault":  {failure(http.StatusInternalServerError, meta.StatusReasonInternalError, "etcd: no leader"), engine.ErrEngineUnavailable, []string{"does not answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &apiServer{minor: "37", refuse: test.status}
			spec := goldenSpec()
			_, err := a.on(t, kubernetes.Options{}).Start(t.Context(), spec)
			said(t, err, test.is, test.words...)
			spec.Lasts = true
			a = &apiServer{minor: "37", refuseClaim: test.status}
			_, err = a.on(t, kubernetes.Options{StorageClass: "fast"}).Start(t.Context(), spec)
			said(t, err, test.is, test.words...)
		})
	}
}

// A pod that waits for what does not come by itself is an error at once, and removed.
func TestWhatAPodWaitsForIsExplained(t *testing.T) {
	waits := func(reason, message string) core.PodStatus {
		return core.PodStatus{Phase: core.PodPending, ContainerStatuses: []core.ContainerStatus{{
			Name: "main", Image: "images.example/python:1", State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: reason, Message: message}},
		}}}
	}
	late := core.PodStatus{Phase: core.PodPending, Conditions: []core.PodCondition{{
		Type: core.PodScheduled, Status: core.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient memory.",
	}}}
	for name, test := range map[string]struct {
		status core.PodStatus
		is     error
		words  []string
	}{
		"ErrImagePull":             {waits("ErrImagePull", "not found"), engine.ErrImageMissing, []string{"images.example/python:1", "nodes"}},
		"ErrImagePull of programs": {waits("ErrImagePull", `failed to pull "images.example/programs:1": not found`), engine.ErrImageMissing, []string{"images.example/programs:1 of --programs-image", "nodes"}},
		"ImagePullBackOff":         {waits("ImagePullBackOff", "Back-off"), engine.ErrImageMissing, []string{"images.example/python:1"}},
		"InvalidImageName":         {waits("InvalidImageName", "couldn't parse"), engine.ErrImageMissing, []string{"couldn't parse"}},
		"an image's root":          {waits("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"), nil, []string{"runAsNonRoot"}},
		"no program":               {waits("RunContainerError", `exec: "/no/such": no such file or directory`), engine.ErrNoInterpreter, []string{"/no/such"}},
		"another processor":        {waits("StartError", "exec format error"), engine.ErrArchitecture, nil},
		"not our programs":         {waits("RunContainerError", `exec: "/opt/code-sandbox-mcp/supervisor": no such file or directory`), engine.ErrNoInterpreter, []string{"--programs-image"}},
		"no room on any node":      {late, nil, []string{"No node takes the pod", "Insufficient memory"}},
		"a pod that was evicted":   {core.PodStatus{Phase: core.PodFailed, Reason: "Evicted"}, engine.ErrContainerGone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := &apiServer{minor: "37", status: test.status}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := a.on(t, kubernetes.Options{ProgramsImage: "images.example/programs:1"}).Start(ctx, goldenSpec())
			if test.words == nil {
				should.Be(t, err, test.is, "the error")
			} else {
				said(t, err, test.is, test.words...)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			should.Hold(t, a.deleted, "the pod was left behind")
		})
	}
}

// A named session's files are in its pod where there are no claims: no change of settings costs them. Where the pod would hold less
// than these settings promise, it is not used.
func TestAPodWithFilesStaysWhenSettingsChange(t *testing.T) {
	for name, test := range map[string]struct {
		used    bool
		options kubernetes.Options
		change  func(*engine.Spec)
	}{
		"other variables":        {true, kubernetes.Options{}, func(s *engine.Spec) { s.Env = map[string]string{"CODE_SANDBOX_WAY_OUT": "9797"} }},
		"more memory":            {true, kubernetes.Options{}, func(s *engine.Spec) { s.Limits.MemoryBytes *= 2 }},
		"larger files":           {true, kubernetes.Options{}, func(s *engine.Spec) { s.Limits.FileBytes *= 2; s.VolumeBytes *= 2 }},
		"more time at the end":   {true, kubernetes.Options{}, func(s *engine.Spec) { s.Grace = time.Minute }},
		"less memory":            {false, kubernetes.Options{}, func(s *engine.Spec) { s.Limits.MemoryBytes /= 2 }},
		"fewer processors":       {false, kubernetes.Options{}, func(s *engine.Spec) { s.Limits.CPUs = 0.1 }},
		"fewer processes":        {false, kubernetes.Options{}, func(s *engine.Spec) { s.Limits.PIDs-- }},
		"less for files":         {false, kubernetes.Options{}, func(s *engine.Spec) { s.VolumeBytes /= 2 }},
		"another image":          {false, kubernetes.Options{}, func(s *engine.Spec) { s.Image = "images.example/python:2" }},
		"claims for new ones":    {true, kubernetes.Options{StorageClass: "fast"}, nil},
		"another RuntimeClass":   {false, kubernetes.Options{RuntimeClass: "gvisor"}, nil},
		"system calls":           {false, kubernetes.Options{SeccompProfile: "profiles/ours.json"}, nil},
		"user namespaces":        {false, kubernetes.Options{UserNamespaces: true}, nil},
		"another version":        {false, kubernetes.Options{ProgramsImage: "images.example/programs:2"}, nil},
		"another language first": {true, kubernetes.Options{}, func(s *engine.Spec) { s.Command[1], s.Command[2] = s.Command[2], s.Command[1] }},
		"one more language":      {false, kubernetes.Options{}, func(s *engine.Spec) { s.Command = append(s.Command, "bash") }},
	} {
		t.Run(name, func(t *testing.T) {
			a := &apiServer{minor: "37"}
			spec := goldenSpec()
			spec.Lasts = true
			a.pod = a.podFor(t, a.on(t, kubernetes.Options{}), spec)
			delete(a.pod.Annotations, "code-sandbox-mcp.used")                                                // its container was removed
			a.pod.Status = core.PodStatus{Phase: core.PodRunning, ContainerStatuses: []core.ContainerStatus{{ // an end of the start
				Name: "main", State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ErrImagePull"}},
			}}}
			if test.change != nil {
				test.change(&spec)
			}
			_, err := a.on(t, test.options).Start(t.Context(), spec)
			should.Hold(t, !test.used || errors.Is(err, engine.ErrImageMissing), "the error is %v", err)
			if !test.used {
				said(t, err, nil, "made with other settings", "sessions export")
			}
			should.Hold(t, !a.deleted && a.claim == nil, "the pod was removed: %t, and it has the claim %v", a.deleted, a.claim)
		})
	}
}

func TestAPodOfALostNodeNamesIt(t *testing.T) {
	a := &apiServer{minor: "37"}
	spec := goldenSpec()
	a.pod = a.podFor(t, a.on(t, kubernetes.Options{}), spec)
	a.pod.DeletionTimestamp, a.pod.Spec.NodeName = new(meta.Now()), "node-7"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // nothing will come
	defer cancel()
	_, err := a.on(t, kubernetes.Options{}).Start(ctx, spec)
	said(t, err, engine.ErrEngineUnavailable, "node-7 may be lost", "kubectl delete node node-7")
}

// A pod whose node pulls an image is waited for, by the start that comes next.
func TestAFirstPullIsWaitedFor(t *testing.T) {
	a := &apiServer{minor: "37", status: core.PodStatus{Phase: core.PodPending, ContainerStatuses: []core.ContainerStatus{{
		Name: "main", State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ContainerCreating"}},
	}}}}
	e := a.on(t, kubernetes.Options{})
	for _, age := range []time.Duration{0, time.Minute, time.Hour} {
		if a.pod != nil {
			a.pod.CreationTimestamp = meta.NewTime(time.Now().Add(-age))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := e.Start(ctx, goldenSpec())
		if waits := age < time.Hour; waits != errors.Is(err, engine.ErrPreparing) || a.deleted {
			t.Errorf("after %v the error is %v, and the pod was removed: %t", age, err, a.deleted)
		}
	}
}

// A policy that somebody removed while pods go on is made again, and the log says so.
func TestAPolicyThatIsGoneIsMadeAgain(t *testing.T) {
	var log locked.Buffer
	a := &apiServer{minor: "37", missing: true}
	e := a.on(t, kubernetes.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must.OK(t, should.ErrOf(e.List(t.Context(), sandbox.LabelHost, "host")))
	said := func() bool { return strings.Contains(log.String(), "is made again") }
	e.MendPolicies(t.Context())
	should.Hold(t, !said(), "the log is %s", log.String())
	a.mu.Lock()
	should.Hold(t, !a.missing, "it was not made at first")
	a.missing = true
	a.mu.Unlock()
	e.MendPolicies(t.Context())
	must.Soon(t, "the log has it", said)
	a.mu.Lock()
	defer a.mu.Unlock()
	should.Hold(t, !a.missing, "it is not made again")
}

// A node that does not begin a pod with a user namespace is named soon.
func TestNodesWithoutUserNamespaces(t *testing.T) {
	a := &apiServer{minor: "37", status: core.PodStatus{Phase: core.PodPending, ContainerStatuses: []core.ContainerStatus{{
		Name: "main", State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ContainerCreating"}},
	}}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := a.on(t, kubernetes.Options{UserNamespaces: true}).Start(ctx, goldenSpec())
	said(t, err, nil, "--pod-user-namespaces", "kubectl get events")
	should.Hold(t, a.deleted, "the pod is left")
}

// An engine that is closed removes what its starts have made.
func TestAStartThatEndsWithItsServer(t *testing.T) {
	a := &apiServer{minor: "37", status: core.PodStatus{Phase: core.PodPending}}
	e := a.on(t, kubernetes.Options{StorageClass: "none"})
	spec := goldenSpec()
	spec.Lasts = true
	failed := make(chan error)
	go func() {
		_, err := e.Start(t.Context(), spec)
		failed <- err
	}()
	holds := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.claim != nil && a.pod != nil
	}
	must.Soon(t, "it has made them", holds)
	must.OK(t, e.Close())
	should.Fail(t, <-failed, "", "")
	should.Hold(t, a.claim == nil && a.pod == nil, "left behind: a claim %t, a pod %t", a.claim != nil, a.pod != nil)
}

// A claim of a class that makes no volumes does not bind its session to that class.
func TestAClaimThatWasNeverBound(t *testing.T) {
	for _, class := range []string{"", "fast"} {
		a := &apiServer{minor: "37"}
		spec := goldenSpec()
		spec.Lasts = true
		was := a.podFor(t, a.on(t, kubernetes.Options{StorageClass: "none"}), spec)
		a.claim = &core.PersistentVolumeClaim{ObjectMeta: was.ObjectMeta, Spec: core.PersistentVolumeClaimSpec{StorageClassName: new("none")}}
		a.claim.Name, a.claim.Status.Phase = was.Spec.Volumes[0].PersistentVolumeClaim.ClaimName, core.ClaimPending
		pod := a.podFor(t, a.on(t, kubernetes.Options{StorageClass: class}), spec)
		should.Hold(t, a.claim == nil && (pod.Spec.Volumes[0].PersistentVolumeClaim != nil) == (class != ""), "with %q there are %v, %v", class, a.claim, pod.Spec.Volumes[0])
	}
}

// A claim is its session's whichever server comes next: that has its pod made over it, lists it and removes it.
func TestAClaimIsKnownToAServerWithoutClaims(t *testing.T) {
	a := &apiServer{minor: "37"}
	spec := goldenSpec()
	spec.Lasts = true
	was := a.podFor(t, a.on(t, kubernetes.Options{StorageClass: "fast"}), spec)
	a.claim = &core.PersistentVolumeClaim{ObjectMeta: was.ObjectMeta} // a start that fails takes its own along
	a.claim.Name = was.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
	e := a.on(t, kubernetes.Options{})
	if pod := a.podFor(t, e, spec); pod.Spec.Volumes[0].PersistentVolumeClaim == nil {
		t.Errorf("the pod has %+v", pod.Spec.Volumes[0])
	}
	if list, err := e.List(t.Context(), sandbox.LabelHost, "host"); err != nil || len(list.Volumes) != 1 || list.Volumes[0].Name != spec.Volume {
		t.Errorf("the volumes are %+v, %v", list.Volumes, err)
	}
	err := e.Remove(t.Context(), nil, []string{spec.Volume})
	should.Hold(t, err == nil && a.claim == nil, "the claim %v is left, %v", a.claim, err)
}

// Every setting that a pod is made with is in the key of what a session may take over, and nothing of one session is.
func TestTheShapeOfAPod(t *testing.T) {
	shape := func(o kubernetes.Options, change func(*engine.Spec)) string {
		spec := goldenSpec()
		if change != nil {
			change(&spec)
		}
		return kubernetes.Open(o).Shape(spec)
	}
	seen := map[string]string{shape(kubernetes.Options{}, nil): "none"}
	for name, o := range map[string]kubernetes.Options{
		"storage class": {StorageClass: "fast"}, "another": {StorageClass: "slow"}, "RuntimeClass": {RuntimeClass: "gvisor"}, "programs": {ProgramsImage: "images.example/programs:2"},
		"users": {Users: "5000-6000"}, "seccomp": {SeccompProfile: "profiles/ours.json"}, "user namespaces": {UserNamespaces: true},
	} {
		key := shape(o, nil)
		other, has := seen[key]
		should.Hold(t, !has, "%s has the shape of %s", name, other)
		seen[key] = name
	}
	should.Equal(t, seen[shape(kubernetes.Options{}, func(s *engine.Spec) { s.Limits.TmpBytes++ })], "", "limits do not count")
	if seen[shape(kubernetes.Options{}, func(s *engine.Spec) {
		s.Name, s.Volume, s.Lasts, s.Ends, s.Grace, s.Labels["of"] = "csm-other-python", "csm-other", true, 0, time.Minute, "another session"
	})] != "none" {
		t.Error("what is one session's counts")
	}
}

// What a start has made goes when it fails, and the claim that its pod waits for is named.
func TestAClaimWithoutAVolume(t *testing.T) {
	for name, status := range map[string]core.PodStatus{
		"that the scheduler waits for": {Phase: core.PodPending},
		"that no node has room for": {Phase: core.PodPending, Conditions: []core.PodCondition{{
			Type: core.PodScheduled, Status: core.ConditionFalse, Message: "pod has unbound immediate PersistentVolumeClaims",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &apiServer{minor: "37", status: status}
			spec := goldenSpec()
			spec.Lasts = true
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := a.on(t, kubernetes.Options{StorageClass: "fast"}).Start(ctx, spec)
			words := []string{"No node takes the pod", "storage class fast", "claim csm-demo-", "kubectl get events --namespace sandboxes --field-selector involvedObject.name=csm-demo-"}
			for _, c := range status.Conditions {
				words = append(words, c.Message)
			}
			said(t, err, nil, words...)
			a.mu.Lock()
			defer a.mu.Unlock()
			should.Hold(t, a.pod == nil && a.claim == nil, "left behind: %+v, %+v", a.pod, a.claim)
		})
	}
	t.Run("of a pod that is not admitted", func(t *testing.T) {
		a := &apiServer{minor: "37"}
		spec := goldenSpec()
		spec.Lasts = true
		a.podFor(t, a.on(t, kubernetes.Options{StorageClass: "fast"}), spec)
		should.Equal(t, a.claim, nil, "left behind")
	})
}

// An object that another program has made under a name of ours is left alone.
func TestWhatIsAnothersIsNamed(t *testing.T) {
	others := meta.ObjectMeta{Name: "theirs", Namespace: "sandboxes"}
	for kind, a := range map[string]*apiServer{
		"pod":                   {minor: "37", pod: &core.Pod{ObjectMeta: others}},
		"persistentvolumeclaim": {minor: "37", claim: &core.PersistentVolumeClaim{ObjectMeta: others}},
	} {
		spec := goldenSpec()
		spec.Lasts = true
		_, err := a.on(t, kubernetes.Options{StorageClass: "fast"}).Start(t.Context(), spec)
		said(t, err, nil, "another "+kind, "theirs", "session_id", "`kubectl delete "+kind+" theirs --namespace sandboxes`")
		should.Hold(t, !a.deleted && (kind != "persistentvolumeclaim" || a.claim != nil), "the %s was removed", kind)
	}
}

func TestProgramsThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		status *meta.Status
		is     error
		words  []string
	}{
		"a right":      {forbidden(`User "u" cannot create resource "pods/exec"`), nil, []string{"not allowed", "pods/exec", "bind the Role"}},
		"unauthorized": {failure(http.StatusUnauthorized, meta.StatusReasonUnauthorized, "Unauthorized"), engine.ErrEngineUnavailable, []string{"token", "sign in"}},
		"a webhook":    {failure(http.StatusBadRequest, meta.StatusReasonBadRequest, `admission webhook "w" denied the request: no exec`), nil, []string{"no exec", "rule of the cluster"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &apiServer{minor: "37", exec: test.status}
			e := a.on(t, kubernetes.Options{})
			a.pod = a.podFor(t, e, goldenSpec())
			_, err := e.Exec(t.Context(), goldenSpec().Name, []string{"true"})
			said(t, err, test.is, test.words...)
		})
	}
}

var notFound = failure(http.StatusInternalServerError, meta.StatusReasonInternalError, `container not found ("main")`)

// A container that is down, as one that waits to come back after its memory was used up, can be removed.
func TestAContainerThatIsDownIsRemoved(t *testing.T) {
	a := &apiServer{minor: "37", exec: notFound}
	e := a.on(t, kubernetes.Options{})
	spec := goldenSpec()
	a.pod = a.podFor(t, e, spec)
	has, err := e.List(t.Context(), sandbox.LabelHost, "host")
	must.Hold(t, err == nil && len(has.Containers) == 1 && has.Containers[0].Running, "listed: %+v, %v", has, err)
	must.OK(t, e.Remove(t.Context(), []string{spec.Name}, nil))
	if has, err := e.List(t.Context(), sandbox.LabelHost, "host"); err != nil || len(has.Containers) > 0 || len(has.Volumes) != 1 || a.deleted {
		t.Errorf("listed: %+v, %v", has, err)
	}
}

func TestAnAPIServerThatGoesWhileAContainerComesUp(t *testing.T) {
	a := &apiServer{minor: "37", exec: notFound, thenGet: failure(http.StatusServiceUnavailable, meta.StatusReasonServiceUnavailable, "starting")}
	a.status = core.PodStatus{Phase: core.PodRunning, ContainerStatuses: []core.ContainerStatus{{Name: "main", State: core.ContainerState{Running: &core.ContainerStateRunning{}}}}}
	_, err := a.on(t, kubernetes.Options{}).Start(t.Context(), goldenSpec())
	said(t, err, engine.ErrEngineUnavailable, "does not answer")
}

// A call waits no longer than its own time for another's that meets the cluster.
func TestAClusterThatHangs(t *testing.T) {
	a := &apiServer{minor: "37", hangs: make(chan struct{})}
	e := a.on(t, kubernetes.Options{})
	failed := make(chan error)
	go func() {
		_, err := e.List(t.Context(), sandbox.LabelHost, "host")
		failed <- err
	}()
	<-a.hangs
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	should.Be(t, should.ErrOf(e.List(ctx, sandbox.LabelHost, "host")), context.DeadlineExceeded, "the error")
	a.hangs <- struct{}{}
	<-failed
}

// Names and labels of any length and in any letters become what a cluster takes.
func TestNamesThatAClusterTakes(t *testing.T) {
	long := strings.Repeat("Long_é ", 40)
	a := &apiServer{minor: "37"}
	spec := goldenSpec()
	spec.Name, spec.Volume, spec.Lasts = strings.ReplaceAll(long, " ", "."), strings.ReplaceAll(long, " ", "-"), true
	spec.Labels[sandbox.LabelSession] = long
	pod := a.podFor(t, a.on(t, kubernetes.Options{StorageClass: "fast"}), spec)
	wrong := append(validation.IsDNS1123Label(pod.Name), validation.IsDNS1123Label(pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)...)
	for key, value := range pod.Labels {
		wrong = append(wrong, append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)...)
	}
	for key := range pod.Annotations {
		wrong = append(wrong, validation.IsQualifiedName(key)...)
	}
	should.Hold(t, len(wrong) == 0, "%s: %q", pod.Name, wrong)
}
