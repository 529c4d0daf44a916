package cmd

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
)

// command runs a command line, and returns what it prints.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := core.Command()
	root.SetOut(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestWhatIsAllowedForGoodIsListedAndRemoved(t *testing.T) {
	state := t.TempDir()
	allowed := func(args ...string) (string, error) {
		return command(t, append([]string{"allowed", "--state-dir", state}, args...)...)
	}
	if out, err := allowed("list"); err != nil || out != "nothing is allowed for good\n" {
		t.Errorf("%q, %v", out, err)
	}
	alice := filepath.Join(state, "principals", principal.Principal{Name: "alice"}.Key(), ask.FileName)
	for _, path := range []string{filepath.Join(state, ask.FileName), alice} {
		d := ask.New(ask.Options{File: path})
		go func() {
			for {
				open, changed := d.Waiting()
				if len(open) > 0 {
					d.Answer(open[0].ID, ask.ForGood, "test")
					return
				}
				<-changed
			}
		}()
		if answer, err := d.Ask(context.Background(), ask.Question{Session: "s", Host: "gitlab.corp:443", Method: "GET", Path: "/a b"}); answer != ask.ForGood || err != nil {
			t.Fatal(answer, err)
		}
	}
	for _, args := range [][]string{nil, {"--principal", "alice"}} {
		const rule = "gitlab.corp:443 GET /a b"
		if out, err := allowed(append(args, "list")...); err != nil || !strings.Contains(out, "s            "+rule+"\n") {
			t.Errorf("%v: %q, %v", args, out, err)
		}
		if out, err := allowed(append(args, "list", "--json")...); err != nil || !strings.Contains(out, `"rule": "`+rule+`"`) {
			t.Errorf("%v: %q, %v", args, out, err)
		}
		if out, err := allowed(append(args, "remove", rule)...); err != nil || out != "removed "+rule+"\n" {
			t.Errorf("%v: %q, %v", args, out, err)
		}
		if _, err := allowed(append(args, "remove", rule)...); err == nil {
			t.Errorf("%v: removed again: %v", args, err)
		}
	}
	if _, err := allowed("list", "--principal", "\x01"); err == nil {
		t.Error("a principal that is none was taken")
	}
}
