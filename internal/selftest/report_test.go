package selftest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

var example = Report{[]Row{
	{Name: "network", Promise: "There is none.", Language: sandbox.Python, Status: Proven, Tried: "all", Refusals: map[string]int{"EPERM": 1, "ENETUNREACH": 17}, Notes: []string{"alone"}},
	{Name: "memory", Promise: "It ends.", Language: sandbox.Python, Status: Unenforced, Tried: "more", Why: "version\n1", Fix: "boot"},
	{Name: "frames", Promise: "No.", Language: sandbox.JavaScript, Status: NotTried, Tried: "forging", Why: "no socket"},
}}

func TestTable(t *testing.T) {
	var text strings.Builder
	if err := example.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	want := `proven             network  python      There is none.
                              tried     all
                              met       ENETUNREACH ×17, EPERM ×1, alone
not enforced here  memory   python      It ends.
                              tried     more
                              why       version 1
                              fix       boot
not tried          frames   javascript  No.
                              tried     forging
                              why       no socket

1 proven, 1 not enforced here, 1 not tried.
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

func TestJSON(t *testing.T) {
	var out, compact bytes.Buffer
	r := Report{[]Row{{Name: "frames", Promise: "a > b", Language: sandbox.Python, Status: Broken, Failed: true, Refusals: map[string]int{}, Notes: []string{}}}}
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	want := `{"ok":false,"rows":[{"name":"frames","promise":"a > b","language":"python","status":"broken","tried":"","refusals":{},"notes":[],"failed":true}]}`
	if err := json.Compact(&compact, out.Bytes()); err != nil || compact.String() != want {
		t.Errorf("got %s, %v", compact.String(), err)
	}
}

func TestOneFailedRowFailsTheWhole(t *testing.T) {
	if !example.OK() {
		t.Error("nothing failed")
	}
	if (Report{append(example.Rows, Row{Failed: true})}).OK() {
		t.Error("a row failed")
	}
}

// Every attack that needs no more than a container is a row, and every row has its attack in every
// language that it is tried in.
func TestEveryAttackIsARow(t *testing.T) {
	rows := make(map[string]bool)
	for _, p := range promises {
		languages := []sandbox.Language{sandbox.Python}
		if p.each {
			languages = append(languages, sandbox.JavaScript)
		}
		for _, language := range languages {
			if a, err := p.load(language); err != nil || a.Tried == "" {
				t.Errorf("%s in %s: %+v, %v", p.name, language, a, err)
			}
		}
		rows[p.name] = true
	}
	names, err := attacks.ContainerNames()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		a, err := attacks.Container(name)
		if err != nil || rows[name] != (a.Tried != "") {
			t.Errorf("%s: %v, a row %v", name, err, rows[name])
		}
	}
}
