//go:build unix

package e2e

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/stores"
)

// stored is what an answer tells of files in a store.
type stored struct {
	StoreURL      string   `json:"store_url"`
	ArtifactStore string   `json:"artifact_store"`
	Path          string   `json:"path"`
	Notes         []string `json:"notes"`
	Artifacts     []struct {
		Path     string `json:"path"`
		StoreURL string `json:"store_url"`
	} `json:"artifacts"`
}

func (r toolResult) stored(t *testing.T) (f stored) {
	t.Helper()
	decode(t, r.StructuredContent, &f)
	return f
}

func signature(address string) string {
	_, signature, _ := strings.Cut(address, "X-Amz-Signature=")
	return signature
}

func wantContent(t *testing.T, address, content string) {
	t.Helper()
	answer, err := http.Get(address)
	if err != nil {
		t.Errorf("%q: %v", address, err)
		return
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || string(body) != content {
		t.Errorf("%s: %d, %.200q, %v", address, answer.StatusCode, body, err)
	}
}

func TestArtifactsGoToTheStore(t *testing.T) {
	t.Parallel()
	db, _ := database(t)
	env := []string{"AWS_ACCESS_KEY_ID=" + stores.Key, "AWS_SECRET_ACCESS_KEY=" + stores.Secret, "SANDBOX_SQL_MAIN=" + db.DSN(testpg.Superuser)}
	s := start(t, setup{env: env, args: []string{"--artifact-store", "s3://artifacts/of/me?endpoint=" + stores.S3(t)}})
	res := s.py(`
import os, matplotlib.pyplot as plt
open('output/a b?.txt', 'w').write('first')
open('zero', 'w')
plt.plot([1, 2]); plt.show()
print(sorted(name for name in os.environ if name.startswith('AWS')))`)
	res.wantText(t, "[]\n", "output/a b?.txt  5 B  text/plain\n  http://")
	f := res.stored(t)
	if len(f.Artifacts) != 3 {
		t.Fatalf("artifacts: %+v", f)
	}
	text := ""
	for _, a := range f.Artifacts {
		if !strings.Contains(a.StoreURL, "/artifacts/of/me/"+res.Meta.Run.SessionID+"/") || strings.Count(string(res.line), signature(a.StoreURL)) != 3 {
			t.Errorf("%s is at %q, which the text, the fields and _meta do not all say", a.Path, a.StoreURL)
		}
		if strings.HasSuffix(a.Path, ".txt") {
			text = a.StoreURL
			wantContent(t, text, "first")
		}
	}
	// A later version is in the same place.
	wantContent(t, s.py("open('output/a b?.txt', 'w').write('second')").stored(t).Artifacts[0].StoreURL, "second")
	wantContent(t, text, "second")

	if info := s.call("session_info", object{}).stored(t); info.ArtifactStore != "s3://artifacts/of/me" {
		t.Errorf("session_info says %+v", info)
	}
	table := s.call(execSQL, object{"query": "SELECT 1 AS n", "save_as": "t.csv"}).stored(t)
	wantContent(t, table.StoreURL, "n\n1\n")
	if none := s.py("1").stored(t); len(none.Artifacts) > 0 {
		t.Errorf("of a run without files: %+v", none)
	}
}

func TestARunThatGoesOnIsUploadedWhenItIsOver(t *testing.T) {
	t.Parallel()
	gateway, err := url.Parse(stores.S3(t))
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan string, 10)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(gateway)
		r.Out.Host = r.In.Host // which is signed
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.ServeHTTP(w, r)
		if r.Method == http.MethodPut {
			arrived <- r.URL.Path
		}
	}))
	t.Cleanup(front.Close)
	s := start(t, setup{
		env:  []string{"AWS_ACCESS_KEY_ID=" + stores.Key, "AWS_SECRET_ACCESS_KEY=" + stores.Secret},
		args: []string{"--soft-wait", "100ms", "--artifact-store", "s3://artifacts?region=us-east-1&endpoint=" + front.URL},
	})
	res := s.run(python, object{"code": "import time, os\nwhile not os.path.exists('input/go'): time.sleep(.05)\nopen('late.txt', 'w').write('late')"}, "running")
	s.call("upload_file", object{"filename": "go", "text": ""}).fields(t)
	for path := range arrived { // though nobody asks for the run's end
		if strings.HasSuffix(path, "/late.txt") {
			break
		}
	}
	f := s.wait(res.Meta.Run.RunID).stored(t)
	if len(f.Artifacts) != 1 {
		t.Fatalf("artifacts: %+v", f)
	}
	wantContent(t, f.Artifacts[0].StoreURL, "late")
}

func TestAStoreThatIsDownCostsNoRun(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	s := start(t, setup{env: []string{
		"AZURE_BLOB_CONNECTION_STRING=AccountName=" + stores.Key + ";AccountKey=" + stores.Secret + ";BlobEndpoint=http://" + closed.Addr().String() + "/testing;",
	}})
	res := s.py("open('a.txt', 'w').write('a'); open('b.txt', 'w').write('b')")
	res.wantText(t, "a.txt  1 B", "Note: 2 of 2 files not uploaded to azblob://code-interpreter-artifacts: the store cannot be reached")
	if strings.Contains(string(res.line)+s.stderr.String(), stores.Secret) {
		t.Error("the key of the store is told")
	}
	eventually(t, "the log says why", func() (bool, string) {
		return strings.Contains(s.stderr.String(), "upload an artifact"), s.stderr.String()
	})
	s.py("print("+"'c3RvcmFnZS1hY2NvdW50' + 'LWtleS1mb3ItdGVzdHM=')").wantText(t, "masked: AZURE_BLOB_CONNECTION_STRING")
}
