//go:build linux

package volume

import (
	"fmt"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestMappings(t *testing.T) {
	const mapped = "7f0000000000-7f0000003000 rw-s 00001000 00:2f 77                         /work/a (deleted)\n"
	for name, test := range map[string]struct{ maps, want string }{
		"a deleted file":          {mapped, "[{77 16384 /work/a true}] true"},
		"one that is there":       {strings.ReplaceAll(mapped, " (deleted)", ""), "[{77 16384 /work/a false}] true"},
		"one elsewhere":           {strings.ReplaceAll(mapped, "/work/", "/other/"), "[] true"},
		"a folder in another":     {strings.ReplaceAll(mapped, "/work/", "/state/work/"), "[{77 16384 /state/work/a true}] true"},
		"a folder elsewhere":      {strings.ReplaceAll(mapped, "/work/", "/other/work/"), "[] true"},
		"its further end":         {mapped + strings.ReplaceAll(mapped, "00001000", "00003000"), "[{77 16384 /work/a true} {77 24576 /work/a true}] true"},
		"a path that is too long": {mapped + strings.ReplaceAll(mapped, "/a", "/"+strings.Repeat("a", mapsLine)) + mapped, "[{77 16384 /work/a true} {77 16384 /work/a true}] false"},
		"a path with spaces":      {strings.ReplaceAll(mapped, "/work/a", "/work/a  b"), "[{77 16384 /work/a  b true}] true"},
	} {
		should.Equal(t, fmt.Sprint(mappingsIn(strings.NewReader(test.maps), []string{"/work/", "/state/"})), test.want, "%s", name)
	}
	list, complete := mappingsIn(strings.NewReader(strings.Repeat(mapped, mapsBytes/len(mapped)+2)), []string{"/work/"})
	should.Hold(t, len(list) > 0 && !complete, "of too many there are %d, complete: %v", len(list), complete)
}
