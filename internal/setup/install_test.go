package setup

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/internet"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
)

// installs runs install.sh as the build does, with an apt-get that only says that it was called.
const installs = `
USER root
COPY . /recipe
COPY host /run/host
RUN . /recipe/host/env; cd /recipe; PATH=/recipe/fake:$PATH; chmod +x fake/apt-get; rm -rf /usr/local/lib/python3.13/dist-packages/* /usr/local/share/code-sandbox/why; \
    sh install.sh /usr/local/share/code-sandbox/why; \
    echo "why: $(cat /usr/local/share/code-sandbox/why 2>/dev/null)"; python3 -c 'import tiny; print("tiny", tiny.__version__)'; false
`

// uv plays the one that install.sh starts, by pip.
const uv = `#!python
import subprocess, sys
pip = [sys.executable, "-m", "pip", "--python", "/usr/bin/python3", "install", "--break-system-packages", "--retries", "0"]
sys.exit(subprocess.run([*pip, "--require-hashes", "-r", "requirements.lock"]).returncode)
`

func TestTheLocksPackagesAreInstalledOrDebians(t *testing.T) {
	ctx := connection(t)
	python, _ := containers.Slim("python")
	image := containers.Standard().Ref() // which has what this one has
	certificates := t.TempDir()
	must.OK(t, internet.Certify(certificates, "localhost"))
	certificate, err := tls.LoadX509KeyPair(certificates+"/host.pem", certificates+"/host.key")
	must.OK(t, err)
	for name, test := range map[string]struct {
		tiny  pypi.Package
		setUp func(h *host) // what is wrong with the way there
		cut   bool          // the index stops within the file
		want  []string
		never string
	}{
		"an index with a certificate of its own": {want: []string{"tiny 1.0"}, never: "Debian's are"},
		"a certificate that nobody knows":        {setUp: func(h *host) { h.ca = nil }, want: []string{"apt-get", "why: ", "CERTIFICATE_VERIFY_FAILED"}},
		"an index at a closed port": {
			setUp: func(h *host) { h.env["PIP_INDEX_URL"] = "https://" + refusing(t) + "/simple/" },
			want:  []string{"apt-get", "why: ", "Connection refused"},
		},
		"an index that ends in the middle of a file": {cut: true, want: []string{"apt-get", "why: ", "not enough bytes were received"}},
		"a file with another hash":                   {tiny: pypi.Package{Padding: 1}, want: []string{"apt-get", "why: ", "DO NOT MATCH"}},
		"no file for this platform":                  {tiny: pypi.Package{Tag: "cp39-cp39-win_amd64"}, want: []string{"apt-get", "why: ", "tiny==1.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			index := pypi.Start(t)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.cut && strings.Contains(r.URL.Path, "tiny-") {
					w.Header().Set("Content-Length", "1000")
					_, _ = w.Write([]byte("PK"))
					return
				}
				index.ServeHTTP(w, r)
			}))
			server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
			server.StartTLS()
			t.Cleanup(server.Close)
			_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
			locked := []pypi.Package{{Name: "uv", Version: "1.0", Modules: map[string]string{"uv-1.0.data/scripts/uv": uv}}, {Name: "tiny", Version: "1.0"}}
			test.tiny.Name = "tiny"
			if test.tiny.Version == "" {
				test.tiny.Version = "1.0"
			}
			index.Add(locked[0], test.tiny)
			h := host{
				env: map[string]string{"PIP_INDEX_URL": "https://localhost:" + port + "/simple/"},
				ca:  readFirst(certificates + "/ca.pem"),
			}
			if test.setUp != nil {
				test.setUp(&h)
			}
			over := h.files()
			over["Containerfile"] = []byte("FROM " + image + installs)
			over["requirements.lock"] = []byte(lockOf(locked...))
			over["fake/apt-get"] = []byte("#!/bin/sh\necho apt-get \"$1\"\nmkdir -p /usr/lib/python3/dist-packages/fsspec\n")
			var said strings.Builder
			_, _ = buildImage(ctx, python.Files, over, (&work{hostNetwork: true}).buildOptions(nil), &lines{emit: func(line string) { said.WriteString(line + "\n") }})
			for _, want := range test.want {
				if !strings.Contains(said.String(), want) {
					t.Errorf("%q is not in:\n%s", want, said.String())
				}
			}
			if test.never != "" && strings.Contains(said.String(), test.never) {
				t.Errorf("%q is in:\n%s", test.never, said.String())
			}
		})
	}
}

// lockOf is a requirements.lock with these wheels.
func lockOf(packages ...pypi.Package) string {
	var lock strings.Builder
	for _, p := range packages {
		_, wheel, _ := p.Wheel()
		fmt.Fprintf(&lock, "%s==%s \\\n    --hash=sha256:%x\n", p.Name, p.Version, sha256.Sum256(wheel))
	}
	return lock.String()
}
