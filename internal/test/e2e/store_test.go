//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/stores"
)

// stored is what an answer tells of files in a store.
type stored struct {
	StoreURL  string `json:"store_url"`
	Artifacts []struct {
		Path     string `json:"path"`
		StoreURL string `json:"store_url"`
	} `json:"artifacts"`
}

func (r toolResult) stored(t *testing.T) (f stored) {
	t.Helper()
	decode(t, r.StructuredContent, &f)
	return f
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
	must.Equal(t, len(f.Artifacts), 3, "artifacts: %+v", f)
	for _, a := range f.Artifacts {
		should.Contain(t, a.StoreURL, "/artifacts/of/me/"+res.Meta.Run.SessionID+"/", "%s is at", a.Path)
		if strings.HasSuffix(a.Path, ".txt") {
			wantContent(t, a.StoreURL, "first")
		}
	}
	table := s.call(execSQL, object{"query": "SELECT 1 AS n", "save_as": "t.csv"}).stored(t)
	wantContent(t, table.StoreURL, "n\n1\n")
}

// storeURL is the address that an answer's text has of a file in Azure.
var storeURL = regexp.MustCompile(`http://\S+[?&]sig=\S+`)

func TestStoresOfClientsAreTheirOwn(t *testing.T) {
	t.Parallel()
	azure := stores.Azure(t)
	db, _ := database(t)
	s := startHTTPWith(t, setup{args: []string{"--header-credentials"}, env: []string{"SANDBOX_SQL_MAIN=" + db.DSN(testpg.Superuser), "AZURE_BLOB_CONTAINER_NAME=by-default"}})
	var answers []string
	for name, test := range map[string]struct {
		headers   withHeaders
		container string
	}{
		"first":        {withHeaders{"X-Blob-Connection-String": azure, "X-Blob-Container-Name": "first", "X-Blob-SAS-Expiry-Hours": "2"}, "first"},
		"second":       {withHeaders{"X-Blob-Connection-String": azure, "X-Blob-Container-Name": "second", "X-Blob-SAS-Expiry-Hours": "48"}, "second"},
		"no container": {withHeaders{"X-Blob-Connection-String": azure}, "by-default"},
	} {
		c := s.client(t, test.headers)
		ran := c.call(t, python, object{"code": fmt.Sprintf("open('a.txt', 'w').write('of %s'); print('%s' + '%s')", name, stores.Secret[:9], stores.Secret[9:])})
		address := storeURL.FindString(ran)
		if !strings.Contains(address, "/testing/"+test.container+"/") || !strings.Contains(ran, "[masked: X-Blob-Connection-String") {
			t.Errorf("%s: %s", name, ran)
			continue
		}
		wantContent(t, address, "of "+name)
		should.Equal(t, strings.Contains(ran, "X-Blob-SAS-Expiry-Hours was lowered from 48 to 24"), name == "second", "%s: %s", name, ran)
		info := c.call(t, "session_info", object{})
		should.Contain(t, info, `"artifact_store":"azblob://`+test.container+`"`, "%s", name)
		table := c.call(t, execSQL, object{"query": "SELECT 1 AS n", "save_as": "t.csv"})
		should.Contain(t, table, "/testing/"+test.container+"/", "%s", name)
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
