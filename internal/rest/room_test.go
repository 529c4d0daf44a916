package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// What makes something takes room for the worst case first: with a byte less it is refused, and all of it comes back.
func TestWhatIsMadeTakesRoomFirst(t *testing.T) {
	f := start(t, everything)
	const length = 3000
	f.want(200, "POST", "/v1/sessions/terminal/runs?wait_seconds=60", fmt.Sprintf(`{"code": "open('a.txt', 'w').write('a' * %d); open('b.bin', 'wb').write(bytes(2000))"}`, length))
	f.want(200, "POST", "/v1/sessions/mine/runs?wait_seconds=60", `{"code": "1"}`)
	var history int64
	for history == 0 { // it is written behind the run
		files, _ := filepath.Glob(filepath.Join(f.manager.Config().StateDir, "*", "history", "*-run-*.over"))
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), `"code":"1"`) {
				history = int64(len(text))
			}
		}
	}
	_, listed := f.do("GET", "/v1/sessions/mine/runs", "")
	_, id, _ := strings.Cut(listed, `"run-`)
	id = "run-" + id[:13]
	const form = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nx\r\n--b--\r\n"
	for _, door := range []struct {
		name, method, path, body, kind string
		worst                          int64
	}{
		{"a text of a file", "GET", "/open-terminal/files/read?path=a.txt", "", "", textRoom(length)},
		{"a text with replacements", "POST", "/open-terminal/files/replace", `{"path": "a.txt", "replacements": [{"target": "a", "replacement": "b", "allow_multiple": true}]}`, "", replaceRoom},
		{"a file that a model reads", "", "/read_artifact", "b.bin", "", 2 * 6 * 2000}, // looked at, and read
		{"a folder", "GET", "/open-terminal/files/list", "", "", 2 * room.Small},
		{"the heads of a form", "POST", "/librechat/upload", form, "multipart/form-data; boundary=b", headsRoom},
		{"the files of a form", "POST", "/librechat/upload", form, "multipart/form-data; boundary=b", 2 * room.Small},
		{"the output of a run", "POST", "/librechat/exec", `{"lang": "py", "code": "print('x' * 2999)"}`, "", textRoom(length)},
		{"a list of runs", "GET", "/v1/sessions/mine/runs", "", "", historyRoom * history},
		{"a run", "GET", "/v1/sessions/mine/runs/" + id, "", "", historyRoom*history + 2*jsonRoom*2},
	} {
		for _, lacks := range []int64{0, 1} {
			m := room.New()
			ctx, giveBack := m.Serve(t.Context(), "192.0.2.1")
			r := httptest.NewRequestWithContext(ctx, door.method, door.path, strings.NewReader(door.body))
			r.Header.Set("Content-Type", door.kind)
			held := []int64{room.Each - door.worst + lacks}
			if door.worst <= room.Small {
				held = nil
				for left := room.EachSmall - door.worst + lacks; left > 0; left -= room.Small {
					held = append(held, min(left, room.Small))
				}
			}
			for _, bytes := range held {
				if _, err := room.Take(ctx, bytes); err != nil {
					t.Fatal(err)
				}
			}
			if lacks > 0 {
				m.Wait = 100 * time.Millisecond // in which what takes less than it should has it
			}
			w := httptest.NewRecorder()
			if door.method == "" { // a tool
				o, err := f.call(ctx, door.path[1:], arguments{"path": web.Encode(door.body), "session_id": web.Encode("terminal")})
				if w.Code = http.StatusOK; err != nil || o.fault != nil {
					w.Code = web.StatusOf(faultOf(o.fault))
				}
			} else {
				f.ServeHTTP(w, r)
			}
			if want := map[int64]int{0: http.StatusOK, 1: http.StatusServiceUnavailable}[lacks]; w.Code != want {
				t.Errorf("%s, of %d bytes, of which %d lack: %d %s", door.name, door.worst, lacks, w.Code, w.Body)
			}
			if giveBack(); !m.IsFree() {
				t.Errorf("%s does not give all back", door.name)
			}
		}
	}
}

// What is kept of chats, and what a search may ask for, is bounded in number and in length.
func TestTheTerminalsBounds(t *testing.T) {
	t.Parallel()
	f := startWith(t, everything, sandbox.Python, sandbox.Bash)
	long, kept := strings.Repeat("x", 8<<10), f.terminals
	for i := range maxTerminalKept {
		kept.folders[fmt.Sprint(i)], kept.commands = "", append(kept.commands, terminalCommand{})
	}
	for path, body := range map[string]string{"files/cwd": `{"path": "."}`, "execute?wait=60": fmt.Sprintf(`{"command": ": %s"}`, long)} {
		if status, text := f.do("POST", "/open-terminal/"+path, body, "X-Session-Id", long); status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, text)
		}
	}
	for chat := range kept.folders {
		if len(kept.folders) > maxTerminalKept || len(chat) > 32 {
			t.Fatalf("%d folders are kept, by %d bytes", len(kept.folders), len(chat))
		}
	}
	if last := kept.commands[len(kept.commands)-1]; len(kept.commands) != maxTerminalKept || len(last.command) > maxTerminalCommand || len(last.chat) > 32 {
		t.Errorf("%d commands are kept, of %d bytes, by %d", len(kept.commands), len(last.command), len(last.chat))
	}
	for _, query := range []string{"pattern=" + long[:maxGlob+1], "pattern=x&exclude=" + long[:maxGlob+1], "pattern=x" + strings.Repeat("&exclude=x", maxPatterns+1)} {
		f.want(400, "GET", "/open-terminal/files/glob?"+query, "")
	}
	gone, leave := context.WithCancel(t.Context())
	seen := 0
	err := f.eachEntry(gone, "terminal", func(sandbox.Entry) error { seen++; leave(); return nil })
	if err == nil || seen != 1 {
		t.Errorf("behind a client that has left %d files are looked at: %v", seen, err)
	}
}
