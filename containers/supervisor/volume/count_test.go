//go:build linux

package volume

import (
	"fmt"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestDeletedMappings(t *testing.T) {
	const mapped = "7f0000000000-7f0000003000 rw-s 00001000 00:2f 77                         /work/a (deleted)\n"
	for name, test := range map[string]struct{ maps, want string }{
		"a deleted file":          {mapped, "map[77:16384] true"},
		"one that is there":       {strings.ReplaceAll(mapped, " (deleted)", ""), "map[] true"},
		"one elsewhere":           {strings.ReplaceAll(mapped, "/work/", "/other/"), "map[] true"},
		"its further end":         {mapped + strings.ReplaceAll(mapped, "00001000", "00003000"), "map[77:24576] true"},
		"a path that is too long": {mapped + strings.ReplaceAll(mapped, "/a", "/"+strings.Repeat("a", mapsLine)) + mapped, "map[77:16384] false"},
		"too many":                {strings.Repeat(mapped, mapsBytes/len(mapped)+2), "map[77:16384] false"},
	} {
		should.Equal(t, fmt.Sprint(deletedIn(strings.NewReader(test.maps), []string{"/work/"})), test.want, "%s", name)
	}
}
