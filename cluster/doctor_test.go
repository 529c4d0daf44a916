//go:build unix

package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kubernetes"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// api stands for an API server, as far as nothing has to be started.
type api struct {
	minor     string
	denied    []string // rights, as a Right prints itself
	namespace int      // the status of its answer
	level     string
	skew      string // of the Date header; empty: none
}

func (a api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if a.skew != "" {
		w.Header().Set("Date", a.skew)
	}
	switch {
	case r.URL.Path == "/version":
		fmt.Fprintf(w, `{"major":"1","minor":%q,"gitVersion":"v1.%s.0"}`, a.minor, a.minor)
	case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
		_, _ = io.WriteString(w, `{"status":{"userInfo":{"username":"system:serviceaccount:team:runner"}}}`)
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		var review struct {
			Spec struct{ ResourceAttributes kube.Right }
		}
		_ = json.NewDecoder(r.Body).Decode(&review)
		allowed := !slices.Contains(a.denied, review.Spec.ResourceAttributes.String())
		fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":%t}}`, allowed)
	case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/") && a.namespace == http.StatusOK:
		fmt.Fprintf(w, `{"metadata":{"labels":{%q:%q}}}`, "pod-security.kubernetes.io/enforce", a.level)
	default:
		status, reason := http.StatusNotFound, "NotFound"
		if a.namespace == http.StatusForbidden {
			status, reason = a.namespace, "Forbidden"
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"namespaces \"box\" not found"}`, status, reason)
	}
}

func TestWhatAClusterLacks(t *testing.T) {
	able := api{minor: "37", namespace: http.StatusOK, level: "restricted"}
	for name, test := range map[string]struct {
		change  func(*api)
		options kubernetes.Options
		check   string
		status  doctor.Status
		found   string
		fix     string
		answers bool
	}{
		"nothing":        {check: "rights", status: doctor.OK, found: "all that are needed in namespace box", answers: true},
		"its account":    {check: "Kubernetes", status: doctor.OK, found: "as system:serviceaccount:team:runner", answers: true},
		"its version":    {check: "Kubernetes", status: doctor.OK, found: "version v1.37.0", answers: true},
		"where it is":    {check: "Kubernetes", status: doctor.OK, found: "by context there of ", answers: true},
		"image volumes":  {change: func(a *api) { a.minor = "35+" }, check: "programs", status: doctor.Info, found: "init container", answers: true},
		"their presence": {check: "programs", status: doctor.OK, found: "mounted as an image", answers: true},
		"rights": {
			change: func(a *api) { a.denied = []string{"create pods/exec", "get pods/exec"} }, check: "rights", status: doctor.Fail,
			found: "missing in namespace box: create pods/exec, get pods/exec",
			fix:   "kubectl create role code-sandbox-mcp-pods-exec --namespace box --verb=create,get --resource=pods/exec && kubectl create rolebinding code-sandbox-mcp-pods-exec --namespace box --role=code-sandbox-mcp-pods-exec --serviceaccount=team:runner",
		},
		"rights for claims": {
			change: func(a *api) { a.denied = []string{"delete persistentvolumeclaims"} }, options: kubernetes.Options{StorageClass: "fast"},
			check: "rights", status: doctor.Fail, found: "delete persistentvolumeclaims", fix: "--resource=persistentvolumeclaims",
		},
		"rights that no claim needs": {change: func(a *api) { a.denied = []string{"delete persistentvolumeclaims"} }, check: "rights", status: doctor.OK, answers: true},
		"a namespace":                {change: func(a *api) { a.namespace = http.StatusNotFound }, check: "namespace", status: doctor.Fail, found: "Namespace box is not there", fix: "kubectl create namespace box"},
		"the right to see it":        {change: func(a *api) { a.namespace = http.StatusForbidden }, check: "namespace", status: doctor.Info, found: "may not see", answers: true},
		"Pod Security":               {change: func(a *api) { a.level = "" }, check: "namespace", status: doctor.Info, found: "no Pod Security", answers: true},
		"its level":                  {check: "namespace", status: doctor.OK, found: "enforces Pod Security restricted", answers: true},
		"a RuntimeClass":             {options: kubernetes.Options{RuntimeClass: "gvisor"}, check: "RuntimeClass", status: doctor.Fail, found: "There is no RuntimeClass gvisor", fix: "kubectl get runtimeclasses"},
		"the same clock":             {change: func(a *api) { a.skew = "Fri, 01 Jan 2100 00:00:00 GMT" }, check: "connection", status: doctor.Info, found: "ahead of this machine's", answers: true},
		"our system calls":           {check: "seccomp", status: doctor.Warn, found: "default", fix: "--pod-seccomp", answers: true},
		"their list":                 {options: kubernetes.Options{SeccompProfile: "ours.json"}, check: "seccomp", status: doctor.OK, found: "ours.json", answers: true},
		"users":                      {options: kubernetes.Options{Users: "none"}, check: "session users", status: doctor.Warn, found: "chosen by the cluster", fix: "--pod-users", answers: true},
		"few users":                  {options: kubernetes.Options{Users: "5000-5999"}, check: "session users", status: doctor.Warn, found: "5000 to 5999", fix: "--pod-users", answers: true},
		"user namespaces":            {check: "user namespaces", status: doctor.Warn, fix: "--pod-user-namespaces", answers: true},
		"their use":                  {options: kubernetes.Options{UserNamespaces: true}, check: "user namespaces", status: doctor.OK, answers: true},
		"a limit of processes":       {check: "pids limit", status: doctor.Warn, fix: "podPidsLimit", answers: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := able
			if test.change != nil {
				test.change(&cluster)
			}
			server := httptest.NewServer(cluster)
			defer server.Close()
			test.options.Cluster = kube.Options{Kubeconfig: kubeconfig(t, server.URL)}
			checks, answers := seen(t, test.options)
			should.Equal(t, answers, test.answers, "answers")
			at := slices.IndexFunc(checks, func(c doctor.Check) bool { return c.Name == test.check })
			must.Hold(t, at >= 0, "there is no check of %s in %+v", test.check, checks)
			c := checks[at]
			should.Hold(t, c.Status == test.status && strings.Contains(c.Found, test.found) && strings.Contains(c.Fix, test.fix), "%+v", c)
		})
	}
}

func TestWithoutACluster(t *testing.T) {
	server := httptest.NewServer(api{})
	server.Close()
	for name, test := range map[string]struct {
		cluster    kube.Options
		found, fix string
	}{
		"no context of that name": {kube.Options{Kubeconfig: kubeconfig(t, server.URL), Context: "elsewhere"}, "The kubeconfig cannot be used", "--context"},
		"no file":                 {kube.Options{Kubeconfig: "/nowhere"}, "The kubeconfig cannot be used", "--kubeconfig"},
		"nobody answers":          {kube.Options{Kubeconfig: kubeconfig(t, server.URL)}, "The Kubernetes API server does not answer", "kubectl get pods"},
	} {
		t.Run(name, func(t *testing.T) {
			checks, answers := seen(t, kubernetes.Options{Cluster: test.cluster})
			if len(checks) != 1 || answers || checks[0].Status != doctor.Fail || !strings.Contains(checks[0].Found, test.found) || !strings.Contains(checks[0].Fix, test.fix) {
				t.Errorf("%+v", checks)
			}
		})
	}
}

func seen(t *testing.T, o kubernetes.Options) ([]doctor.Check, bool) {
	t.Helper()
	on := kubernetes.Open(o)
	defer on.Close()
	return look(on)(t.Context(), doctor.Options{Engine: on})
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"there","users":[{"name":"u","user":{}}],
"clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"there","context":{"cluster":"c","user":"u","namespace":"box"}}]}`, server)
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
