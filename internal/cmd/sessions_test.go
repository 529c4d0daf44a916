package cmd

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

func writes(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func TestAFileIsWrittenWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	broken := errors.New("in the middle")
	if err := writeWhole(path, false, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return broken
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	left, _ := os.ReadDir(dir)
	should.Hold(t, len(left) == 0, "left: %v", left)
	// Somebody is quicker, after it was looked whether the name is free.
	err := writeWhole(path, false, func(w io.Writer) error { return os.WriteFile(path, []byte("theirs"), 0o600) })
	should.Equal(t, fault.From(err).Code, fault.FileExists, "%v", err)
	text, _ := os.ReadFile(path)
	should.Hold(t, string(text) == "theirs", "the file has %q", text)
	should.OK(t, writeWhole(path, true, writes("ours")))
	text, _ = os.ReadFile(path)
	should.Hold(t, string(text) == "ours", "the file has %q", text)
	left, _ = os.ReadDir(dir)
	should.Hold(t, len(left) == 1, "left: %v", left)
}

func TestALinkIsReplacedAndNotFollowed(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	must.OK(t, errors.Join(os.WriteFile(target, []byte("safe"), 0o600), os.Symlink(target, link)))
	err := writeWhole(link, false, writes("x"))
	should.Hold(t, fault.From(err).Code == fault.FileExists, "got %v", err)
	should.OK(t, writeWhole(link, true, writes("x")))
	text, _ := os.ReadFile(target)
	should.Hold(t, string(text) == "safe", "the target has %q", text)
}

func TestWhereNoFileCanBe(t *testing.T) {
	dir := t.TempDir()
	for name, path := range map[string]string{"a folder": dir, "no folder": filepath.Join(dir, "no", "such")} {
		for _, force := range []bool{false, true} {
			err := writeWhole(path, force, writes("x"))
			should.Hold(t, fault.From(err).Code == fault.InvalidArgument, "%s: %v", name, err)
		}
	}
}

func TestCodeIsShownInOneHarmlessLine(t *testing.T) {
	for text, want := range map[string]string{
		"x = 1\n\tprint(x)":   "x = 1 print(x)",
		"\x1b[2Jgone\u009b1m": "·[2Jgone·1m",
		"ü":                   "ü",
	} {
		should.Equal(t, Printable(text), want, "%q is shown as", text)
	}
}

func TestWhoseSessionsAreListed(t *testing.T) {
	for name, of := range map[string]struct {
		owners []string
		rows   []string
	}{
		"the user's own": {[]string{""}, []string{"SESSION STATE", "mine asleep"}},
		"of several":     {[]string{"", "ann@corp", "\x1b[2Jbob"}, []string{"PRINCIPAL SESSION STATE", "- mine asleep", "ann@corp mine asleep", "·[2Jbob mine asleep"}},
	} {
		var list []listedSession
		for _, whose := range of.owners {
			list = append(list, listedSession{sandbox.SessionInfo{ID: "mine", State: "asleep"}, whose})
		}
		var table, asJSON strings.Builder
		should.OK(t, errors.Join(tabulate(&table, list), writeSessions(&asJSON, list)))
		lines := strings.Split(table.String(), "\n")
		for i, row := range of.rows {
			line := strings.Join(strings.Fields(lines[i]), " ")
			should.Hold(t, strings.HasPrefix(line, row), "%s: line %d is %q, want %q", name, i, line, row)
		}
		got := strings.Count(asJSON.String(), `"principal"`)
		should.Hold(t, got == len(of.owners)-1, "%s: %d have a principal in %s", name, got, &asJSON)
	}
}

func TestHowLongASessionIsKept(t *testing.T) {
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.Local)
	for want, info := range map[string]sandbox.SessionInfo{
		"until 2026-11-27": {Named: true, State: sandbox.StateOpen, Owner: sandbox.OwnerOther, KeptUntil: noon},
		"pinned":           {Named: true, State: sandbox.StateAsleep, Pinned: true},
		"with its server":  {State: sandbox.StateOpen, Owner: sandbox.OwnerOther},
	} {
		var table, one strings.Builder
		should.OK(t, errors.Join(tabulate(&table, []listedSession{{info, ""}}), describe(&one, info, ranFields{})))
		if !strings.HasSuffix(table.String(), "  "+want+"\n") || !regexp.MustCompile(`(?m)^kept +`+want+`$`).MatchString(one.String()) {
			t.Errorf("want %q in\n%s\n%s", want, &table, &one)
		}
	}
}

func TestWhoseSessionsACommandMeans(t *testing.T) {
	s := &server.Program{Set: &setting.Set{Settings: setting.Settings{StateDir: t.TempDir()}}}
	ann := owner{"ann"}
	must.OK(t, state.SaveTenant(s.SessionDir(), ann.key(), ann.name))
	for name, want := range map[string]string{"": s.SessionDir(), "ann": filepath.Join(s.StateDir, "principals", ann.key(), "sessions")} {
		dir, err := (owner{name}).dir(s)
		should.Hold(t, err == nil && dir == want, "of %q: %q, %v", name, dir, err)
	}
	_, err := (owner{"bob"}).dir(s)
	should.Hold(t, fault.From(err).Code == fault.InvalidArgument, "of nobody: %v", err)
	should.Equal(t, nameOf(s.SessionDir(), ann.key()), "ann", "it is of")
	if name := nameOf(s.SessionDir(), "other"); name != "other" { // its file is lost
		t.Errorf("it is of %q", name)
	}
}
