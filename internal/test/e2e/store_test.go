//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

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

// writesLater starts a server with a store at an address, and a run that writes "late" to a file when its call was answered.
func writesLater(t *testing.T, endpoint, file string) (*server, toolResult) {
	t.Helper()
	s := start(t, setup{
		env:  []string{"AWS_ACCESS_KEY_ID=" + stores.Key, "AWS_SECRET_ACCESS_KEY=" + stores.Secret},
		args: []string{"--soft-wait", "100ms", "--artifact-store", "s3://artifacts?region=us-east-1&endpoint=" + endpoint},
	})
	res := s.run(python, object{"code": "import time, os\nwhile not os.path.exists('input/go'): time.sleep(.05)\nopen('" + file + "', 'w').write('late')"}, "running")
	s.call("upload_file", object{"filename": "go", "text": ""}).fields(t)
	return s, res
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
	s, res := writesLater(t, front.URL, "late.txt")
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

func TestFilesOnTheirWayAtTheEndAreInTheLog(t *testing.T) {
	t.Parallel()
	arrived := make(chan string, 10)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or its end is not seen
		arrived <- r.URL.Path
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	s, res := writesLater(t, silent.URL, "lost.txt")
	<-arrived
	s.end()
	want := "files may not be in the store\" store=s3://artifacts session=" + res.Meta.Run.SessionID + " files=1 paths=[lost.txt]"
	if !strings.Contains(s.stderr.String(), want) {
		t.Errorf("%s is not in the log: %s", want, s.stderr.String())
	}
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

// storeURL is the address that an answer's text has of a file in Azure.
var storeURL = regexp.MustCompile(`http://\S+[?&]sig=\S+`)

// goodFor fails where an address is not good for so long from when the test began.
func goodFor(t *testing.T, address string, began time.Time, lifetime time.Duration) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	end, err := time.Parse(time.RFC3339, u.Query().Get("se"))
	if err != nil || end.Before(began.Truncate(time.Second).Add(lifetime)) || end.After(time.Now().Add(lifetime)) {
		t.Errorf("%s is not good for %v: %v", address, lifetime, err)
	}
}

func TestStoresOfClientsAreTheirOwn(t *testing.T) {
	t.Parallel()
	began := time.Now()
	azure := stores.Azure(t)
	db, _ := database(t)
	s := startHTTPWith(t, setup{args: []string{"--header-credentials"}, env: []string{"SANDBOX_SQL_MAIN=" + db.DSN(testpg.Superuser), "AZURE_BLOB_CONTAINER_NAME=by-default"}})
	var answers []string
	for name, test := range map[string]struct {
		headers   withHeaders
		container string
		lifetime  time.Duration
	}{
		"first":        {withHeaders{"X-Blob-Connection-String": azure, "X-Blob-Container-Name": "first", "X-Blob-SAS-Expiry-Hours": "2"}, "first", 2 * time.Hour},
		"second":       {withHeaders{"X-Blob-Connection-String": azure, "X-Blob-Container-Name": "second", "X-Blob-SAS-Expiry-Hours": "48"}, "second", 24 * time.Hour},
		"no container": {withHeaders{"X-Blob-Connection-String": azure}, "by-default", 24 * time.Hour},
	} {
		c := s.client(t, test.headers)
		ran := c.call(t, python, object{"code": fmt.Sprintf("open('a.txt', 'w').write('of %s'); print('%s' + '%s')", name, stores.Secret[:9], stores.Secret[9:])})
		address := storeURL.FindString(ran)
		if !strings.Contains(address, "/testing/"+test.container+"/") || !strings.Contains(ran, "[masked: X-Blob-Connection-String") {
			t.Errorf("%s: %s", name, ran)
			continue
		}
		wantContent(t, address, "of "+name)
		goodFor(t, address, began, test.lifetime)
		if lowered := strings.Contains(ran, "X-Blob-SAS-Expiry-Hours was lowered from 48 to 24"); lowered != (name == "second") {
			t.Errorf("%s: %s", name, ran)
		}
		info := c.call(t, "session_info", object{})
		if !strings.Contains(info, `"artifact_store":"azblob://`+test.container+`"`) {
			t.Errorf("%s: %s", name, info)
		}
		table := c.call(t, execSQL, object{"query": "SELECT 1 AS n", "save_as": "t.csv"})
		if !strings.Contains(table, "/testing/"+test.container+"/") {
			t.Errorf("%s: %s", name, table)
		}
		answers = append(answers, ran, info, table)
	}
	none := s.client(t, nil)
	if ran := none.call(t, python, object{"code": "open('a.txt', 'w').write('of nobody')"}); storeURL.MatchString(ran) || strings.Contains(ran, "Note:") {
		t.Errorf("a client without headers: %s", ran)
	}
	if info := none.call(t, "session_info", object{}); strings.Contains(info, "artifact_store") {
		t.Errorf("a client without headers: %s", info)
	}
	if strings.Contains(s.stderr.String()+strings.Join(answers, ""), stores.Secret) {
		t.Errorf("the key is in the log or in an answer: %q", answers)
	}
}

// Over REST a run is asked for by requests that may have other headers.
func TestAddressesInAClientsStoreAreForIt(t *testing.T) {
	t.Parallel()
	s := startHTTP(t, "--header-credentials")
	own := []string{"-H", "X-Blob-Connection-String: " + stores.Azure(t), "-H", "X-Blob-Container-Name: mine"}
	type answer struct {
		RunID     string `json:"run_id"`
		Notes     []string
		Artifacts []struct {
			StoreURL string `json:"store_url"`
		}
	}
	var ran, again, others answer
	s.ask(&ran, "/v1/sessions/rest/runs?wait_seconds=60", append(own, post(object{"code": "open('a.txt', 'w').write('a')"})...)...)
	s.ask(&again, "/v1/runs/"+ran.RunID, own...)
	s.ask(&others, "/v1/runs/"+ran.RunID)
	for _, a := range []answer{ran, again} {
		if len(a.Artifacts) != 1 || a.Notes != nil {
			t.Fatalf("%+v", a)
		}
		wantContent(t, a.Artifacts[0].StoreURL, "a")
	}
	if len(others.Artifacts) != 1 || others.Artifacts[0].StoreURL != "" || !strings.Contains(sprint(others.Notes), "the store of the client that ran the code") {
		t.Errorf("%+v", others)
	}
	var closed object
	s.ask(&closed, "/v1/sessions/rest", "-X", "DELETE")
}

// What the server's own credentials open is the server's to choose.
func TestClientsChooseNothingOfTheServersStore(t *testing.T) {
	t.Parallel()
	began := time.Now()
	azure := stores.Azure(t)
	env := []string{"AZURE_BLOB_CONNECTION_STRING=" + azure}
	strict, open := startHTTPWith(t, setup{env: env}), startHTTPWith(t, setup{env: env, args: []string{"--header-credentials"}})
	for name, test := range map[string]struct {
		server  *httpServer
		headers withHeaders
		note    string
	}{
		"no credentials allowed": {strict, withHeaders{"X-Blob-Connection-String": "AccountName=a;AccountKey=aHVudGVyMjI=", "X-Blob-Container-Name": "other"}, "ignored X-Blob-Connection-String, X-Blob-Container-Name"},
		"a container alone":      {strict, withHeaders{"X-Blob-Container-Name": "other"}, "ignored X-Blob-Container-Name"},
		"without its key":        {open, withHeaders{"X-Blob-Container-Name": "other"}, "X-Blob-Container-Name was ignored"},
	} {
		test.headers["X-Blob-SAS-Expiry-Hours"] = "3"
		ran := test.server.client(t, test.headers).call(t, python, object{"code": "open('a.txt', 'w').write('a')"})
		address := storeURL.FindString(ran)
		if !strings.Contains(address, "/testing/code-interpreter-artifacts/") || !strings.Contains(ran, test.note) {
			t.Errorf("%s: %s", name, ran)
			continue
		}
		goodFor(t, address, began, 3*time.Hour)
		wantContent(t, address, "a")
	}
}

func TestAClientsStoreThatCannotBeUsedCostsNoRun(t *testing.T) {
	t.Parallel()
	const key = "aHVudGVyMjItaHVudGVyMjI="
	s := startHTTP(t, "--header-credentials")
	for name, test := range map[string]struct {
		headers withHeaders
		want    string
	}{
		"no connection string": {withHeaders{"X-Blob-Connection-String": "AccountKey=" + key}, "the connection string is malformed"},
		"words":                {withHeaders{"X-Blob-Connection-String": key}, "the connection string is malformed"},
		"nobody listens":       {withHeaders{"X-Blob-Connection-String": "AccountName=a;AccountKey=" + key + ";BlobEndpoint=http://127.0.0.1:1/a"}, "the store cannot be reached"},
		"another protocol":     {withHeaders{"X-Blob-Connection-String": "AccountName=a;AccountKey=" + key + ";BlobEndpoint=file:///etc"}, "the store cannot be reached"},
		"no store":             {withHeaders{"X-Blob-Connection-String": "AccountName=a;AccountKey=" + key + ";BlobEndpoint=" + strings.TrimSuffix(s.url, "/mcp")}, "not uploaded to azblob://"},
		"another's key":        {withHeaders{"X-Blob-Connection-String": strings.Replace(stores.Azure(t), stores.Secret, key, 1)}, "the store refuses the credentials (403"},
		"no container":         {withHeaders{"X-Blob-Connection-String": stores.Azure(t), "X-Blob-Container-Name": "../Other"}, `"../Other" cannot be the name of a bucket`},
	} {
		t.Run(name, func(t *testing.T) {
			ran := s.client(t, test.headers).call(t, python, object{"code": "open('a.txt', 'w').write('a'); print('it ran')"})
			if !strings.Contains(ran, "it ran") || !strings.Contains(ran, "a.txt  1 B") || !strings.Contains(ran, "Note: 1 of 1 files not uploaded to azblob://") || !strings.Contains(ran, test.want) {
				t.Errorf("%s", ran)
			}
			if strings.Contains(ran+s.stderr.String(), key) {
				t.Errorf("the key is in the log or in %s", ran)
			}
		})
	}
}
