package libpod

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/containers/podman/v5/pkg/bindings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// The answers are those of Podman 4.3, and of 5 and 6 in Docker's form.
func TestHowAPullGetsOn(t *testing.T) {
	for name, test := range map[string]struct {
		status               int
		answer, text, failed string
		layers               []Layer
	}{
		"4.3": {200, `{"stream":"Trying to pull x...\n"}{"stream":"Copying blob sha256:1\n"}{"images":["a"],"id":"a"}`,
			"Trying to pull x...\nCopying blob sha256:1\n", "", nil},
		"4.3, an error": {200, `{"stream":"Trying to pull x...\n"}{"error":"name unknown"}`, "Trying to pull x...\n", "name unknown", nil},
		"5": {200, `{"status":"Pulling fs layer","progressDetail":{},"id":"a"}{"status":"Downloading","progressDetail":{"current":5,"total":9},"progress":"[=> ] 5B/9B","id":"a"}
{"status":"Download complete","progressDetail":{},"id":"a"}`, "Copying blob a\n", "", []Layer{{"a", 5, 9}}},
		"5, an error in the middle": {200, `{"status":"Pulling fs layer","progressDetail":{},"id":"a"}{"progressDetail":{},"errorDetail":{"message":"unexpected EOF"},"error":"unexpected EOF"}`,
			"Copying blob a\n", "unexpected EOF", nil},
		"5, an error at once":                         {500, `{"message":"name unknown"}`, "", "name unknown", nil},
		"5, an error at once, in the form of its API": {200, `{"message":"name unknown"}`, "", "name unknown", nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/_ping") {
					w.Header().Set("Libpod-API-Version", "5.8.5")
					return
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.answer)
			}))
			t.Cleanup(server.Close)
			conn, err := bindings.NewConnection(t.Context(), strings.Replace(server.URL, "http", "tcp", 1))
			must.OK(t, err)
			var text strings.Builder
			var layers []Layer
			err = PullImage(conn, "x", false, &text, func(l Layer) { layers = append(layers, l) })
			if text.String() != test.text || !slices.Equal(layers, test.layers) || (err == nil) != (test.failed == "") || err != nil && !strings.Contains(err.Error(), test.failed) {
				t.Errorf("got %q, %v, %v", text.String(), layers, err)
			}
		})
	}
}
