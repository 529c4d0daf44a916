package door

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// open opens a door that answers with a handler.
func open(t *testing.T, stateDir, id string, h http.HandlerFunc) {
	t.Helper()
	l := must.Get(Listen(stateDir, id))(t)
	served := &http.Server{Handler: h}
	go func() { _ = served.Serve(l) }()
	t.Cleanup(func() { _ = served.Close() })
}

func card(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func TestServersAreFound(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	list, err := List(t.Context(), dir, true)
	must.Hold(t, err == nil && list == nil, "without a folder: %v, %v", list, err)
	open(t, dir, "old", card(`{"began": "2026-01-01T00:00:00Z", "session_dir": "sessions", "busy": 1,
		"tenants": [{"key": "", "sessions": [{"ID": "mine", "Owner": "this server"}]}, {"key": "ann", "sessions": [{"ID": "hers"}]}]}`))
	open(t, dir, "next", card(`{"began": "2026-01-02T00:00:00Z", "session_dir": "others", "tenants": [{"sessions": [{"ID": "far"}]}]}`))
	open(t, dir, "broken", card(`[`))
	list, err = List(t.Context(), dir, true)
	must.Hold(t, err == nil && len(list) == 2 && list[0].ID == "next" && list[1].ID == "old" && list[1].Busy == 1, "found %+v, %v", list, err)
	found := Of(list, filepath.Join(dir, "sessions"), "")
	must.Hold(t, len(found) == 1 && found["mine"] != nil, "of the owner: %v", found)
	known := Join([]sandbox.SessionInfo{{ID: "mine", Owner: sandbox.OwnerOther}, {ID: "far", Owner: sandbox.OwnerNone}}, found)
	should.Hold(t, known[0].At == found["mine"] && known[0].Owner == sandbox.OwnerOther && known[1].At == nil, "joined: %+v", known)
	info := must.Get(os.Lstat(filepath.Join(dir, serversFolder, "old")))(t)
	should.Equal(t, info.Mode().Perm(), 0o600, "the mode of the socket")
}

// What is no door of the user's is left alone, and a server that hangs costs no more than its time.
func TestWhatIsNoDoor(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	open(t, dir, "good", card(`{}`))
	hangs := make(chan struct{})
	open(t, dir, "hangs", func(http.ResponseWriter, *http.Request) { <-hangs })
	t.Cleanup(func() { close(hangs) })
	servers := filepath.Join(dir, serversFolder)
	leave := func(id string, age time.Duration) {
		l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(servers, id), Net: "unix"}))(t)
		l.SetUnlinkOnClose(false) // as one that is killed
		then := time.Now().Add(-age)
		must.OK(t, errors.Join(l.Close(), os.Chtimes(filepath.Join(servers, id), then, then)))
	}
	leave("killed", 2*settleTime)
	leave("begins", 0) // it does not listen yet
	must.OK(t, errors.Join(os.Symlink("good", filepath.Join(servers, "link")), os.WriteFile(filepath.Join(servers, "file"), nil, 0o600)))
	if os.Geteuid() == 0 {
		leave("theirs", 2*settleTime)
		must.OK(t, os.Lchown(filepath.Join(servers, "theirs"), 1, 1))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	list, err := List(ctx, dir, false)
	should.Hold(t, err == nil && len(list) == 1 && list[0].ID == "good", "found %+v, %v", list, err)
	for name, there := range map[string]bool{"killed": false, "begins": true, "link": true, "file": true, "hangs": true, "theirs": os.Geteuid() == 0} {
		_, err := os.Lstat(filepath.Join(servers, name))
		should.Equal(t, err == nil, there, "%s is there", name)
	}
	gone := At(dir, "killed")
	err = gone.Look(t.Context())
	should.Hold(t, HasEnded(err), "one that is gone: %v", err)
	must.OK(t, os.Chmod(servers, 0o777))
	for _, err := range []error{second(List(t.Context(), dir, false)), second(Listen(dir, "more"))} {
		should.Hold(t, err != nil, "in a folder that others can write to: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestRequestsToANeighbour(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	open(t, dir, "one", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == Path {
			_, _ = io.WriteString(w, `{"session_dir": "sessions", "tenants": [{"key": "ann", "sessions": [{"ID": "hers"}]}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"asked": "`+r.Header.Get(TenantHeader)+r.Header.Get("Cookie")+" "+r.URL.String()+`"}`)
	})
	hers := Of(must.Get(List(t.Context(), dir, true))(t), filepath.Join(dir, "sessions"), "ann")["hers"]
	must.Hold(t, hers != nil, "the session is not found")
	now, err := hers.Live(t.Context(), []string{"run-1"})
	should.Hold(t, err == nil && now.(map[string]any)["asked"] == "ann /v1/sessions/hers/live?run=run-1", "%v, %v", now, err)
	r := must.Get(http.NewRequest(http.MethodGet, "http://127.0.0.1/v1/x", nil))(t)
	r.Header.Set("Cookie", "secret")
	var said struct{ Asked string }
	answer := must.Get(hers.RoundTrip(r))(t)
	should.OK(t, errors.Join(json.NewDecoder(answer.Body).Decode(&said), answer.Body.Close()))
	should.Equal(t, said.Asked, "ann /v1/x", "asked")
}
