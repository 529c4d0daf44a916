package hostdir

import (
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestHomeFoldersAreNeverMounted(t *testing.T) {
	for folder, want := range map[string]string{
		"/home":                "or holds one",
		"/home/bob":            "is a home folder",
		"/home/bob/.ssh/keys":  "hidden folder",
		"/home/bob/none":       "no such file",
		"/home/.hidden":        "is a home folder",
		"/Users":               "or holds one",
		"/Users/bob":           "is a home folder",
		"/Users/bob/.config":   "hidden folder",
		"/root":                "is a home folder",
		"/root/.config":        "hidden folder",
		"/srv/people":          "or holds one",
		"/srv/people/me":       "is a home folder",
		"/srv/people/me/.aws":  "hidden folder",
		"/srv/people/you/none": "no such file",
	} {
		should.Fail(t, refuseMount(folder, "/srv/people/me", nil), want, "%s", folder)
	}
}
