package artifactstore

import (
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// What Google's own library signs with the same key at the same time, for names that are written in several ways.
func TestAddressesAreSignedAsGooglesLibraryDoes(t *testing.T) {
	text, err := os.ReadFile("testdata/google-signed.json")
	must.OK(t, err)
	var signed map[string]string
	if err := json.Unmarshal(text, &signed); err != nil || len(signed) == 0 {
		t.Fatal(signed, err)
	}
	a, err := Parse("gs://artifacts")
	must.OK(t, err)
	b, err := openGoogle(a, nil, func(name string) (string, bool) {
		return map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": "testdata/google-key.json"}[name], true
	})
	must.OK(t, err)
	for key, theirs := range signed {
		want, err := url.Parse(theirs)
		must.OK(t, err)
		when, err := time.Parse(googleTime, want.Query().Get("X-Goog-Date"))
		must.OK(t, err)
		lifetime, _ := strconv.Atoi(want.Query().Get("X-Goog-Expires"))
		address, err := b.(*google).sign("GET", key, time.Duration(lifetime)*time.Second, when)
		must.OK(t, err)
		got, err := url.Parse(address)
		if err != nil || got.Host != want.Host || got.EscapedPath() != want.EscapedPath() || !maps.EqualFunc(got.Query(), want.Query(), slices.Equal) {
			t.Errorf("%q is signed as\n%s, and should be\n%s", key, got, want)
		}
	}
}
