package cluster

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

func load(k *settings, args []string, env map[string]string) (*server.Program, error) {
	return server.Read([]server.Feature{k.feature()}, args, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
}

func TestSettingsOfAnotherEngineAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--engine=docker": "--engine \"docker\" is not podman or kubernetes",

		"--kubeconfig=/k":       "--kubeconfig /k has no effect without --engine kubernetes",
		"--context=c":           "--context c has no effect without --engine kubernetes",
		"--namespace=n":         "--namespace n has no effect without --engine kubernetes",
		"--storage-class=s":     "--storage-class s has no effect without --engine kubernetes",
		"--runtime-class=r":     "--runtime-class r has no effect without --engine kubernetes",
		"--programs-image=i":    "--programs-image i has no effect without --engine kubernetes",
		"--pod-users=none":      "--pod-users none has no effect without --engine kubernetes",
		"--pod-seccomp=p":       "--pod-seccomp p has no effect without --engine kubernetes",
		"--pod-user-namespaces": "--pod-user-namespaces has no effect without --engine kubernetes",

		"--engine=kubernetes --engine-url=unix:///p":   "--engine-url unix:///p has no effect with --engine kubernetes",
		"--engine=kubernetes --oci-runtime=runc":       "--oci-runtime runc has no effect with --engine kubernetes",
		"--engine=kubernetes --mount=/usr:usr":         "the machines of --engine kubernetes do not have this machine's folders",
		"--engine=kubernetes --namespace=Mine":         "--namespace \"Mine\" is not a namespace's name",
		"--engine=kubernetes --namespace=-a":           "is not a namespace's name",
		"--engine=kubernetes --storage-class=a_b":      "--storage-class \"a_b\" is not the name of a class",
		"--engine=kubernetes --runtime-class=a/b":      "--runtime-class \"a/b\" is not the name of a class",
		"--engine=kubernetes --programs-image=A:b:c":   "--programs-image \"A:b:c\" is not an image's name",
		"--engine=kubernetes --pod-seccomp=../p.json":  "is not a path below the kubelet's folder",
		"--engine=kubernetes --pod-seccomp=/etc/p":     "is not a path below the kubelet's folder",
		"--engine=kubernetes --pod-users=0-65535":      "--pod-users \"0-65535\"",
		"--engine=kubernetes --pod-users=70000-60000":  "--pod-users \"70000-60000\"",
		"--engine=kubernetes --namespace=a.b":          "is not a namespace's name",
		"--engine=kubernetes --namespace=" + tooLong(): "is not a namespace's name",

		"--engine=kubernetes --python-image=a:1 --js-image=b:1": "--python-image a:1, --js-image b:1 and --bash-image a:1 are several images",
		"--engine=kubernetes --bash-image=c:1 --js-image=off":   "and --bash-image c:1 are several images",
	} {
		should.Fail(t, should.ErrOf(load(new(settings), strings.Fields(args), nil)), want, "%s", args)
	}
}

func tooLong() string { return strings.Repeat("n", 64) }

func TestSettingsOfKubernetes(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, []byte(`
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "https://one.example.com"}}, {name: d, cluster: {server: "https://two.example.com"}}]
contexts: [{name: one, context: {cluster: c, namespace: team}}, {name: same, context: {cluster: c}}, {name: two, context: {cluster: d, namespace: team}}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	var k *settings
	loaded := func(args ...string) *server.Program {
		t.Helper()
		// Podman's variables are of no engine that is named here.
		k = new(settings)
		s, err := load(k, append([]string{"--engine=kubernetes", "--state-dir=/state", "--kubeconfig", kubeconfig, "--js-image=off"}, args...), map[string]string{"CONTAINER_HOST": "unix:///p"})
		must.OK(t, err)
		return s
	}
	at := loaded().SessionDir()
	for args, same := range map[string]bool{
		"--namespace=team": true, "--context=same --namespace=team": true, "--storage-class=fast --pod-users=70000-80000 --pod-seccomp=profiles/a.json": true,
		"--namespace=other": false, "--context=same": false, "--context=two": false, "--context=absent": false,
	} {
		got := loaded(strings.Fields(args)...).SessionDir()
		should.Hold(t, (got == at) == same, "%s: sessions are in %s, of the first in %s", args, got, at)
	}
	should.Hold(t, at != (&server.Program{Set: &setting.Set{Settings: setting.Settings{StateDir: "/state"}}}).SessionDir(),
		"Podman's sessions are in the same folder")

	standard := containers.PublishedImages().Pull(containers.Standard())
	for _, language := range []sandbox.Language{sandbox.Python, sandbox.Bash} {
		image, on := loaded().Image(language)
		should.Hold(t, on && image == standard, "%s is in %q", language, image)
	}
	image, _ := loaded("--python-image=full").Image(sandbox.Python)
	should.Hold(t, image == containers.PublishedImages().Pull(containers.Full()), "the full image is %q", image)
	s := loaded("--python-image=registry.example.com/all:1", "--js-image=registry.example.com/all:1")
	should.EqualSlice(t, k.images(s), []string{containers.ProgramsRef(), "registry.example.com/all:1"}, "the cluster has to have")
}

// A pod that a shell command makes for a session's files is the server's that runs code in it later.
func TestVisitsMakePodsAsServersDo(t *testing.T) {
	s, err := load(new(settings), []string{"--engine=kubernetes", "--network=open", "--js-image=off", "--state-dir", t.TempDir()}, nil)
	must.OK(t, err)
	on := s.Engine(slog.New(slog.DiscardHandler))
	visit := s.VisitConfig(on, slog.New(slog.DiscardHandler))
	spec := must.Get(s.Spec(on, slog.New(slog.DiscardHandler)))(t)
	if visit.WayOut == nil || visit.WayOut.Environment(sandbox.WayOutPort)["HTTPS_PROXY"] == "" || visit.WayOut.Environment(sandbox.WayOutPort)["HTTPS_PROXY"] != spec.Env["HTTPS_PROXY"] {
		t.Errorf("the way out is %v", visit.WayOut)
	}
}
