package rest

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest/resttest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// What makes something takes room for the worst case first: with a byte less it is refused, and all of it comes back.
func TestWhatIsMadeTakesRoomFirst(t *testing.T) {
	f := start(t, everything)
	f.Want(200, "POST", "/v1/sessions/mine/runs?wait_seconds=60", `{"code": "1"}`)
	var history int64
	for history == 0 { // it is written behind the run
		files, _ := filepath.Glob(filepath.Join(f.Deps.Manager.Config().StateDir, "*", "history", "*-run-*.over"))
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), `"code":"1"`) {
				history = int64(len(text))
			}
		}
	}
	_, listed := f.Do("GET", "/v1/sessions/mine/runs", "")
	_, id, _ := strings.Cut(listed, `"run-`)
	id = "run-" + id[:13]
	f.Want(200, "POST", "/v1/sessions/files/runs?wait_seconds=60", `{"code": "open('b.bin', 'wb').write(bytes(2000))"}`)
	read := func(ctx context.Context) int { // looked at, and read
		if _, err := f.Call(ctx, "read_artifact", Arguments{"path": web.Encode("b.bin"), "session_id": web.Encode("files")}); err != nil {
			return web.StatusOf(err)
		}
		return http.StatusOK
	}
	for _, door := range []resttest.Door{
		{Name: "a file that a model reads", Worst: 2 * 6 * 2000, Answer: read},
		{Name: "a list of runs", Method: "GET", Path: "/v1/sessions/mine/runs", Worst: historyRoom * history},
		{Name: "a run", Method: "GET", Path: "/v1/sessions/mine/runs/" + id, Worst: historyRoom*history + 2*JSONRoom*2},
	} {
		f.TakesRoomFirst(door)
	}
}
