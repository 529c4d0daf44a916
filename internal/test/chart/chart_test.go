//go:build linux

// Package chart has the tests of the Helm chart.
package chart

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const (
	root      = "../../.."
	folder    = root + "/docs/deploy/kubernetes"
	chart     = folder + "/chart"
	manifests = folder + "/manifests.yaml"

	helmVersion        = "v3.18.6"
	kubeconformVersion = "v0.8.0"
)

// versions are those of Kubernetes whose API the chart is held to. Each is a download of 50 MB, once.
var versions = []string{"v1.35.4", "v1.36.3", "v1.37.2"}

// run runs a program and returns what it prints.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	must.Hold(t, err == nil, "%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	return string(out)
}

func helmProgram(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(run(t, nil, root+"/scripts/go-tool", "helm.sh/helm/v3/cmd/helm", helmVersion))
}

func helm(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, nil, helmProgram(t), append(args, "--kube-version", strings.TrimPrefix(versions[0], "v"))...)
}

func render(t *testing.T, args ...string) string {
	t.Helper()
	return helm(t, append([]string{"template", "code-sandbox-mcp", chart, "--namespace", "code-sandbox-mcp"}, args...)...)
}

// everything are the values of all that the chart has.
const everything = "testdata/all.yaml"

// `make manifests` writes them.
func TestTheManifestsAreWhatTheChartMakes(t *testing.T) {
	text := must.Get(os.ReadFile(manifests))(t)
	_, want, _ := strings.Cut(string(text), "---\n")
	_, got, _ := strings.Cut(render(t, "--set", "token.existingSecret=code-sandbox-mcp-token"), "---\n")
	should.Equal(t, got, want, "docs/deploy/kubernetes/manifests.yaml is of another chart; run make manifests")
}

func TestTheChartIsLinted(t *testing.T) {
	for _, args := range [][]string{nil, {"--values", everything}} {
		helm(t, append([]string{"lint", "--strict", "--quiet", chart}, args...)...)
	}
}

func TestSettingsOfTheChart(t *testing.T) {
	all := render(t, "--values", everything)
	for _, want := range []string{
		"http: '[::]:8000'", "namespace: sandboxes", "js-image: \"off\"", "pod-users: none", "- here.example.com", "- sandbox.example.com",
		"max-sessions: 50", "tls-key: /etc/code-sandbox-mcp-tls/tls.key", "policy: /etc/code-sandbox-mcp/policy.yaml", "scheme: HTTPS",
		"credentials: {name: own, key: http}", "storageClassName: fast", "drain, --wait, --timeout, 20s", "programs-image: registry.example.com/programs:1",
	} {
		should.Hold(t, strings.Contains(all, want), "it has no %s", want)
	}
	if t.Failed() {
		t.Log(all)
	}
	should.Hold(t, !strings.Contains(all, "kind: Secret\n"), "it makes a token beside the one that there is")
	should.Hold(t, !strings.Contains(all, "fsGroup"), "it names a group where the cluster is to choose one")
	for _, want := range []string{"kind: Secret\n", "kind: StatefulSet\n", "accessModes: [ReadWriteOnce]", "fsGroup: 65532", "fsGroupChangePolicy: OnRootMismatch"} {
		plain := render(t)
		should.Hold(t, strings.Contains(plain, want), "by itself it has no %s", want)
	}
}

func TestWhatTheChartRefuses(t *testing.T) {
	for set, want := range map[string]string{
		"replicas=3":                    "replicas: 3: there is one server, which has all sessions of its principals and takes them over when it starts again. Leave replicas out; who outgrows one server installs several releases",
		"sandboxes.runtimeclass=gvisor": "at '/sandboxes': additional properties 'runtimeclass' not allowed",
		"image.pullpolicy=Never":        "at '/image': additional properties 'pullpolicy' not allowed",
		"nonsense=1":                    "additional properties 'nonsense' not allowed",
		"service.port=http":             "at '/service/port'",
	} {
		out, err := exec.CommandContext(t.Context(), helmProgram(t), "template", "x", chart, "--set", set, "--kube-version", strings.TrimPrefix(versions[0], "v")).CombinedOutput()
		should.Hold(t, err != nil && strings.Contains(string(out), want), "%s: %v: %s", set, err, out)
	}
}

// A key that the schema has and the chart does not would be ignored in silence; of one that the schema lacks no rendering works.
func TestTheSchemaHasNoOtherKeys(t *testing.T) {
	var values map[string]any
	must.OK(t, yaml.Unmarshal(must.Get(os.ReadFile(chart+"/values.yaml"))(t), &values))
	var walk func(at string, schema, values map[string]any)
	walk = func(at string, schema, values map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		for key, of := range properties {
			value, has := values[key]
			should.Hold(t, has || at == "" && (key == "global" || key == "replicas"), "values.yaml has no %s%s", at, key)
			if within, is := value.(map[string]any); is {
				walk(at+key+".", of.(map[string]any), within)
			}
		}
	}
	var schema map[string]any
	must.OK(t, json.Unmarshal(must.Get(os.ReadFile(chart+"/values.schema.json"))(t), &schema))
	walk("", schema, values)
}

// CODE_SANDBOX_SCHEMAS is what make lint-chart sets.
func TestTheChartFitsTheAPI(t *testing.T) {
	if os.Getenv("CODE_SANDBOX_SCHEMAS") == "" {
		t.Skip("the API of three versions of Kubernetes is a download of 150 MB; make lint-chart does it")
	}
	files := t.TempDir()
	kinds := make(map[string]bool)
	for name, text := range map[string]string{"plain": render(t), "all": render(t, "--values", everything)} {
		for _, match := range regexp.MustCompile(`(?m)^kind: (\w+)$`).FindAllStringSubmatch(text, -1) {
			kinds[match[1]] = true
		}
		must.OK(t, os.WriteFile(filepath.Join(files, name+".yaml"), []byte(text), 0o600))
	}
	kubeconform := strings.TrimSpace(run(t, nil, root+"/scripts/go-tool", "github.com/yannh/kubeconform/cmd/kubeconform", kubeconformVersion))
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/kubernetes@"+version)
			cmd.Dir = files // in no module
			cmd.Env = append(os.Environ(), "GOFLAGS=")
			out, err := cmd.CombinedOutput()
			must.OK(t, err, "%s", out)
			var module struct{ Dir string }
			must.OK(t, json.Unmarshal(out, &module))
			schemas := t.TempDir()
			must.OK(t, writeSchemas(filepath.Join(module.Dir, "api/openapi-spec/swagger.json"), schemas, kinds))
			// The Prometheus operator's kind has no schema there.
			t.Log(run(t, nil, kubeconform, "-strict", "-summary", "-skip", "ServiceMonitor", "-schema-location",
				schemas+"/{{.ResourceKind}}{{.KindSuffix}}.json", filepath.Join(files, "plain.yaml"), filepath.Join(files, "all.yaml")))

			// That it would find something.
			wrong := strings.Replace(render(t), "  serviceName:", "  maxPods: 1\n  serviceName:", 1)
			must.OK(t, os.WriteFile(filepath.Join(schemas, "wrong.yaml"), []byte(wrong), 0o600))
			said, err := exec.CommandContext(t.Context(), kubeconform, "-schema-location", schemas+"/{{.ResourceKind}}{{.KindSuffix}}.json", filepath.Join(schemas, "wrong.yaml")).CombinedOutput()
			should.Hold(t, err != nil && strings.Contains(string(said), "maxPods"), "what is wrong is not found: %v, %s", err, said)
		})
	}
}

// A dry run goes through all that an API server has to say, and Pod Security judges the pods of a StatefulSet by a warning alone.
func TestAClusterTakesTheChart(t *testing.T) {
	if os.Getenv("CODE_SANDBOX_KUBERNETES") == "" {
		t.Skip("it needs a cluster; make test-kubernetes has one")
	}
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("kubectl", args...).CombinedOutput() //nolint:noctx // the namespace goes at the end too
		should.Hold(t, err == nil, "kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		return string(out)
	}
	namespace := "chart-" + strings.ToLower(rand.Text()[:8])
	kubectl("create", "namespace", namespace)
	t.Cleanup(func() { kubectl("delete", "namespace", namespace, "--wait=false") })
	kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted")
	file := filepath.Join(t.TempDir(), "chart.yaml")
	must.OK(t, os.WriteFile(file, []byte(helm(t, "template", "x", chart, "--namespace", namespace)), 0o600))
	said := kubectl("apply", "--dry-run=server", "-f", file)
	should.Hold(t, !strings.Contains(said, "Warning") && strings.Count(said, "created") == 8, "it says %s", said)
}

// writeSchemas writes JSON schemas for some kinds, of what a version of Kubernetes says of its API, in the files in which kubeconform
// looks for them. They allow no field that the API does not know.
func writeSchemas(swagger, folder string, kinds map[string]bool) error {
	text, err := os.ReadFile(swagger)
	if err != nil {
		return err
	}
	var api struct{ Definitions map[string]map[string]any }
	if err := json.Unmarshal(text, &api); err != nil {
		return err
	}
	for _, d := range api.Definitions {
		if _, open := d["additionalProperties"]; d["properties"] != nil && !open {
			d["additionalProperties"] = false
		}
	}
	for name := range api.Definitions { // these are texts to the API's description, and numbers to people
		if strings.HasSuffix(name, ".IntOrString") || strings.HasSuffix(name, ".Quantity") {
			api.Definitions[name] = map[string]any{"type": []string{"string", "number"}}
		}
	}
	for name, d := range api.Definitions {
		of, _ := d["x-kubernetes-group-version-kind"].([]any)
		if len(of) != 1 {
			continue
		}
		gvk := of[0].(map[string]any)
		kind, group, version := gvk["kind"].(string), gvk["group"].(string), gvk["version"].(string)
		if !kinds[kind] {
			continue
		}
		schema := map[string]any{"$ref": "#/definitions/" + name, "definitions": reached(api.Definitions, name)}
		text, err := json.Marshal(schema)
		if err != nil {
			return err
		}
		suffix := "-" + version
		if group != "" {
			suffix = "-" + strings.Split(group, ".")[0] + suffix
		}
		file := filepath.Join(folder, strings.ToLower(kind)+suffix+".json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return fmt.Errorf("schema of %s: %w", kind, err)
		}
	}
	return nil
}

// reached returns the definitions that one refers to, and itself.
func reached(all map[string]map[string]any, name string) map[string]any {
	found := make(map[string]any)
	var visit func(value any)
	visit = func(value any) {
		switch v := value.(type) {
		case []any:
			for _, each := range v {
				visit(each)
			}
		case map[string]any:
			for key, each := range v {
				if ref, is := each.(string); is && key == "$ref" {
					ref = strings.TrimPrefix(ref, "#/definitions/")
					if found[ref] == nil {
						found[ref] = all[ref]
						visit(all[ref])
					}
				}
				visit(each)
			}
		}
	}
	visit(map[string]any{"$ref": "#/definitions/" + name})
	return found
}
