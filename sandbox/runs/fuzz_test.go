package runs

import (
	"reflect"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
)

// FuzzHistoryEntry reads a result that anybody could have put into a history. What was read is the same when it is
// written and read again.
func FuzzHistoryEntry(f *testing.F) {
	for _, seed := range []string{
		`{"status":"completed","stdout":{"head":"x"},"displays":[{"data":{"image/png":"AAAA"}}]}`, `{}`, `[]`, `{"status":`,
		`{"goes_on":["x"],"background":[{"text":"x"}],"artifacts":[]}`, `{"goes_on":[],"background":[],"artifacts":[{"path":"../x"}]}`,
		`{"status":"odd","result":"\u001b","artifacts":[{"path":"../x","modified_ms":1e300}],"displays":[{"path":"../x"}],"notes":["<"]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		first := EntryOf(&history.Run{End: &history.End{Result: text}}, "s")
		if first.Result == nil {
			return
		}
		again, err := history.EncodeJSON(recordOf(first.Result, true))
		must.OK(t, err)
		if second := EntryOf(&history.Run{End: &history.End{Result: again}}, "s"); !reflect.DeepEqual(first, second) {
			t.Errorf("read was\n%+v\nand again\n%+v", first.Result, second.Result)
		}
	})
}
