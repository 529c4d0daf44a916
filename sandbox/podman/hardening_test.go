//go:build unix

package podman

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// Every attack attacks a container of its own, as Start makes it.
func TestAttacks(t *testing.T) {
	names, err := attacks.ContainerNames()
	if err != nil || len(names) == 0 {
		t.Fatal("no attacks", err)
	}
	facts := testFacts(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needsLimit(t, name)
			attack, err := attacks.Container(name)
			if err != nil {
				t.Fatal(err)
			}
			program, err := attack.Program(facts)
			if err != nil {
				t.Fatal(err)
			}
			spec := testSpec(t, "python3", "-c", program)
			if name == "works" {
				// Its pool of processes needs more than the others have.
				spec.Limits.MemoryBytes = 512 << 20
			}
			out := output(t, spec)
			if verdict, err := attacks.ParseVerdict(out); err != nil || verdict.Outcome != attacks.Held {
				t.Errorf("%s\n%v %+v\n%s", attack.Promise, err, verdict, out)
			}
		})
	}
}

// testFacts tell attacks of the limits that testSpec sets, and of this host.
func testFacts(t *testing.T) attacks.Facts {
	t.Helper()
	limits := testLimits
	facts := attacks.Facts{Alone: true, Namespaces: make(map[string]string), Limits: attacks.Limits{
		MemoryBytes: limits.MemoryBytes, CPUs: limits.CPUs, PIDs: limits.PIDs,
		TmpBytes: limits.TmpBytes, FileBytes: limits.FileBytes, OpenFiles: limits.OpenFiles,
	}}
	for _, kind := range []string{"net", "pid", "mnt", "uts", "ipc", "cgroup"} {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		facts.Namespaces[kind] = own
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	facts.Files = []string{file}
	return facts
}

// limitOf is the limit that an attack is up against.
var limitOf = map[string]Limit{"memory": LimitMemory, "pids": LimitPIDs, "cpu": LimitCPU}

// needsLimit fails at once where the host cannot hold the limit: a bomb would only take
// the host down.
func needsLimit(t *testing.T, attack string) {
	t.Helper()
	limit, needed := limitOf[attack]
	if !needed {
		return
	}
	info, err := testEngine.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !info.Enforces(limit) {
		t.Fatalf("this host cannot limit %s: rootless Podman needs cgroup version 2 with the controller delegated", limit)
	}
}

// The ends of a memory bomb and of a fork bomb leave the container's first process alive;
// what it costs when the bomb is process 1 itself is the container, and nothing else.
func TestMemoryBombInProcessOneEndsTheContainer(t *testing.T) {
	needsLimit(t, "memory")
	spec := python(t, "x = []\nwhile True: x.append(bytearray(1 << 24))")
	if got := output(t, spec); got != "" {
		t.Errorf("it said %q", got)
	}
}

func TestEnvironmentHoldsOnlyWhatIsGiven(t *testing.T) {
	for _, name := range []string{"http_proxy", "HTTPS_PROXY", "SANDBOX_SQL_SECRET"} {
		t.Setenv(name, "http://user:secret@proxy.invalid:1")
	}
	// A service of its own, started under this environment.
	e := Open(Options{Sockets: []string{}})
	t.Cleanup(func() { e.Close() })
	spec := python(t, "import os, json; print(json.dumps(dict(os.environ)))")
	p, err := e.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var got map[string]string
	if err := json.NewDecoder(p).Decode(&got); err != nil {
		t.Fatal(err)
	}
	// Podman's own, and what Python adds.
	own := []string{"PATH", "TERM", "HOME", "HOSTNAME", "container", "LC_CTYPE", "PWD"}
	for name, value := range got {
		if name != "GIVEN" && !slices.Contains(own, name) || strings.Contains(value, "secret") {
			t.Errorf("%s=%s is in the container", name, value)
		}
	}
	if got["GIVEN"] != "value" {
		t.Errorf("GIVEN=%q, want what the spec says", got["GIVEN"])
	}
}

// The images that users have must work under the profile: these are the calls that the
// bare image has no programs for.
func TestImagesWorkUnderTheProfile(t *testing.T) {
	for _, test := range []struct {
		name, image string
		command     []string
	}{
		{"numpy, pandas, matplotlib and scipy", containers.ImageRef("python"), []string{"python3", "-c", `
import os
os.environ["MPLCONFIGDIR"] = "/tmp"
import numpy as np, pandas as pd, scipy.linalg, matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
a = np.random.default_rng(1).random((300, 300))
assert np.allclose(a @ np.linalg.inv(a), np.eye(300), atol=1e-6)
scipy.linalg.svd(a)
pd.DataFrame({"x": range(1000)}).rolling(3).mean().to_csv("/mnt/data/x.csv")
plt.plot([1, 2]); plt.savefig("/mnt/data/x.png")
from sklearn.ensemble import RandomForestClassifier
RandomForestClassifier(10, n_jobs=2).fit(a, a[:, 0] > .5)
print("held")`}},
		{"node with its compiler, workers, processes and sockets", containers.ImageRef("javascript"), []string{"node", "-e", `
const assert = require("node:assert"), { Worker } = require("node:worker_threads"), os = require("node:os")
const { execFileSync } = require("node:child_process"), fs = require("node:fs"), net = require("node:net")
const sum = n => { let s = 0; for (let i = 0; i < n; i++) s += i % 7; return s }
assert(sum(3e6) > 0)
assert.deepEqual(Object.keys(os.networkInterfaces()), ["lo"])
assert.equal(execFileSync("/bin/sh", ["-c", "echo 42"]).toString(), "42\n")
fs.writeFileSync("/mnt/data/x", "x"); fs.copyFileSync("/mnt/data/x", "/mnt/data/y"); fs.watch("/mnt/data").close()
const wasm = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]); new WebAssembly.Module(wasm)
new Worker("require('node:worker_threads').parentPort.postMessage(process.pid)", { eval: true }).once("message", () => {
  const server = net.createServer(s => s.end("hi")).listen(0, "127.0.0.1", () => {
    net.connect(server.address().port, "127.0.0.1").on("data", d => { assert.equal(String(d), "hi"); console.log("held"); server.close() })
  })
})`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := testEngine.Image(t.Context(), test.image); err != nil {
				t.Fatalf("the image is needed: make it with `code-sandbox-mcp setup`: %v", err)
			}
			spec := testSpec(t, test.command...)
			spec.Image = test.image
			spec.Limits = engine.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 256, TmpBytes: 256 << 20, FileBytes: 1 << 30, OpenFiles: 1024}
			if got := output(t, spec); got != "held\n" {
				t.Error(got)
			}
		})
	}
}

// Podman's own report of the container must agree with what was asked for.
func TestInspectShowsTheHardening(t *testing.T) {
	needsLimit(t, "memory")
	spec := python(t, "input()")
	start(t, spec)
	got := inspect(t, spec.Name)
	for path, want := range map[string]string{
		"{{.HostConfig.Privileged}}": "false", "{{.HostConfig.NetworkMode}}": "none", "{{.HostConfig.ReadonlyRootfs}}": "true",
		"{{.HostConfig.Memory}}": "134217728", "{{.HostConfig.MemorySwap}}": "134217728", "{{.HostConfig.PidsLimit}}": "48",
		"{{.HostConfig.LogConfig.Type}}": "none", "{{.HostConfig.RestartPolicy.Name}}": "no",
		"{{len .EffectiveCaps}}": "0", "{{len .BoundingCaps}}": "0", "{{len .HostConfig.Devices}}": "0",
		"{{range .Mounts}}{{if .RW}}{{.Destination}};{{end}}{{end}}":     "/mnt/data;",
		"{{range .Mounts}}{{if not .RW}}{{.Destination}};{{end}}{{end}}": "/opt/code-sandbox-mcp;",
	} {
		if value := got(path); value != want {
			t.Errorf("%s is %q, want %q", path, value, want)
		}
	}
}

func inspect(t *testing.T, name string) func(format string) string {
	return func(format string) string {
		t.Helper()
		out, err := exec.CommandContext(context.Background(), "podman", "container", "inspect", "--format", format, name).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
}
