package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// pinning is a script of a supervisor that keeps checkpoints. The fourth and later ones cost the oldest, which the next answer names.
func pinning(p peer) {
	p.ready(nil)
	var all []map[string]any
	for {
		m, ok := p.next()
		switch {
		case !ok:
			return
		case m.Type == "run":
			p.say(map[string]any{"type": "versions", "runs": []string{m.ID}, "checkpoints": all})
			p.done(m.ID, map[string]any{"dropped": []string{"lost\u202e"}})
		case m.Type == "checkpoint" && m.Name == "full":
			p.say(map[string]any{"type": "restored", "id": m.ID, "files": map[string]any{"error": "no room", "code": "full"}})
		case m.Type == "checkpoint":
			one := map[string]any{"name": m.Name, "after": m.Run, "at_ms": 1000, "languages": []string{"python", "klingon"}}
			all = append(slices.DeleteFunc(all, func(o map[string]any) bool { return o["name"] == m.Name }), one)
			var dropped []string
			if len(all) > 3 {
				dropped, all = []string{fmt.Sprint(all[0]["name"])}, all[1:]
			}
			p.say(map[string]any{
				"type": "restored", "id": m.ID, "checkpoint": one, "checkpoints": all, "dropped": dropped, "files": map[string]any{},
				"lost": []map[string]any{{"name": "conn", "why": "a connection"}}, "lost_total": 1,
			})
		case m.Type == "restore":
			answer := map[string]any{"type": "restored", "id": m.ID, "checkpoints": all, "error": "there is no checkpoint of that name"}
			for _, one := range all {
				if one["name"] == m.Name {
					answer["checkpoint"], answer["error"] = one, ""
					answer["files"], answer["went"] = map[string]any{"restored": 1}, slices.Collect(maps.Keys(m.Languages))
				}
			}
			p.say(answer)
		}
	}
}

func newPinning(t *testing.T) (*Manager, Config) {
	e := newEngine(t)
	e.play(pinning)
	config := testConfig(t, e)
	config.UndoBytes = 1 << 20
	return newTestManager(t, config), config
}

// Runs are marked as undone and done again as checkpoints are gone to, across branches.
func TestCheckpointsMarkRuns(t *testing.T) {
	m, config := newPinning(t)
	ids := map[string]string{}
	run := func(codes string) {
		for code := range strings.FieldsSeq(codes) {
			ids[code] = mustRun(t, m, RunOptions{Code: code, SessionID: "mine"}).RunID
		}
	}
	keep := func(name string) {
		t.Helper()
		must.Get(m.KeepCheckpoint(t.Context(), "mine", name, func() {}))(t)
	}
	to := func(way WayBack, undone, marked string) *Restoration {
		t.Helper()
		way.SessionID, way.Parts = "mine", Parts{Variables: true, Files: true}
		r, err := m.Restore(t.Context(), way, func() {})
		must.OK(t, err)
		should.Equal(t, linesOf(r.Undone), undone, "undone")
		now, variables, files := runs.Marks(config.StateDir, "mine").Now(), "", ""
		for _, code := range []string{"a", "b", "c", "d", "e", "f"} {
			if now.Variables[ids[code]] {
				variables += code
			}
			if now.Files[ids[code]] {
				files += code
			}
		}
		should.Equal(t, variables+" "+files, marked+" "+marked, "marks")
		return r
	}
	run("a")
	keep("clean data")
	run("b c")
	keep("A")
	to(WayBack{Checkpoint: "clean data"}, "b c", "bc")
	run("d e")
	keep("B")
	run("f")
	r := to(WayBack{Checkpoint: "A"}, "d e f", "def")
	should.Hold(t, r.Run == nil && r.Checkpoint.After == ids["c"] && fmt.Sprint(r.Checkpoint.Languages) == "[python]" && len(r.Checkpoints) == 3, "restored %+v", r)
	to(WayBack{Checkpoint: " B "}, "b c", "bcf")
	to(WayBack{Checkpoint: "clean data"}, "d e", "bcdef")
	keep("A") // what it was is forgotten
	to(WayBack{Checkpoint: "B"}, "", "bcf")
	to(WayBack{Checkpoint: "A"}, "d e", "bcdef")
}

func TestWhatCheckpointsSay(t *testing.T) {
	m, _ := newPinning(t)
	wantNote(t, mustRun(t, m, RunOptions{Code: "a", SessionID: "mine"}), `the oldest are gone: "lost`)
	for _, name := range []string{"", " ", "a\x00b", "a\nb", "a\u202eb", strings.Repeat("x", 1000), "run-a", "restore-a", "\xff"} {
		_, err := m.KeepCheckpoint(t.Context(), "mine", name, func() {})
		should.Hold(t, fault.From(err).Code == fault.InvalidArgument && len(fault.From(err).Message) < 300, "the name %.20q: %v", name, err)
	}
	_, err := m.KeepCheckpoint(t.Context(), "mine", "full", func() {})
	should.Equal(t, fault.From(err).Code, fault.QuotaExceeded, "a full volume")
	for n := range 5 {
		k := must.Get(m.KeepCheckpoint(t.Context(), "mine", fmt.Sprint("größe ", n), func() {}))(t)
		should.Hold(t, k.LostTotal == 1 && k.Lost[0].Name == "conn" && (len(k.Dropped) > 0) == (n > 2), "kept %+v", k)
	}
	mustRun(t, m, RunOptions{Code: "b", SessionID: "mine"})
	info, err := m.Session(t.Context(), "mine")
	must.OK(t, err)
	must.Soon(t, "they are listed", func() bool {
		info, err = m.Session(t.Context(), "mine")
		return err == nil && info.Versions != nil && len(info.Versions.Checkpoints) == 3 && info.Versions.Checkpoints[2].Name == "größe 4"
	})
	_, err = m.Restore(t.Context(), WayBack{SessionID: "mine", Checkpoint: "nobody's", Parts: Parts{Files: true}}, func() {})
	should.Hold(t, fault.From(err).Code == fault.InvalidArgument && strings.Contains(fault.From(err).Hint, `"größe 2", "größe 3", "größe 4"`), "an unknown one: %v", fault.From(err))
	_, err = m.Restore(t.Context(), WayBack{SessionID: "mine", Checkpoint: "größe 4"}, func() {})
	should.Hold(t, strings.Contains(fault.From(err).Message, "nothing is restored"), "no part: %v", err)

	config := testConfig(t, newEngine(t))
	config.UndoBytes = 0
	_, err = newTestManager(t, config).KeepCheckpoint(t.Context(), "mine", "a", func() {})
	should.Hold(t, strings.Contains(fault.From(err).Message, "--undo-limit"), "without versions: %v", err)
}
