package rest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestEarlierFilesAreSeen(t *testing.T) {
	f := start(t, everything)
	run := func(code string) string {
		return f.Want(200, "POST", "/v1/sessions/a/runs?wait_seconds=60", fmt.Sprintf(`{"code": %q}`, code))["run_id"].(string)
	}
	var first, second string
	var versions []any
	for began := time.Now(); ; { // a run that begins at once leaves no time for a copy
		first = run("_ = open('f.txt', 'w').write('one')")
		second = run("_ = open('f.txt', 'w').write('three'); import os; os.remove('g') if os.path.exists('g') else open('g', 'w').close()")
		versions = f.Want(200, "GET", "/v1/sessions/a/versions/f.txt", "")["versions"].([]any)
		if len(versions) > 1 && versions[0].(map[string]any)["path"] == "f.txt@"+second {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("there is no version: %v", versions)
		}
	}
	if _, text := f.Do("GET", "/v1/sessions/a/files/f.txt@"+second, ""); text != "one" {
		t.Errorf("it was %q", text)
	}
	if _, text := f.Do("GET", "/v1/sessions/a/files?before="+second, ""); !strings.Contains(text, `"f.txt@`+second+`"`) {
		t.Errorf("listed %s", text)
	}
	f.Want(201, "PUT", "/v1/sessions/a/files/f.txt@"+second, "a file of this name")
	if _, text := f.Do("GET", "/v1/sessions/a/files/f.txt@"+second, ""); text != "a file of this name" {
		t.Errorf("it is %q", text)
	}
	for began, last := time.Now(), (map[string]any)(nil); ; { // it is written after the answer
		last = f.Want(200, "GET", "/v1/sessions/a/runs", "")["runs"].([]any)[0].(map[string]any)
		if did, known := last["files"].(map[string]any); known {
			if did["changed"] != 1.0 || !strings.Contains(fmt.Sprint(did["paths"]), "map[how:changed path:f.txt]") {
				t.Errorf("it did %v", did)
			}
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("nothing is known: %v", last)
		}
	}
	for range 6 {
		run("1")
	}
	for path, want := range map[string]string{
		"files?before=run-none":     `"run_not_found"`,
		"files?before=" + first:     `"invalid_argument"`,
		"files/g@" + first:          `"invalid_argument"`,
		"files/f.txt@run-none":      `"run_not_found"`,
		"versions/..%2ff":           `"invalid_path"`,
		"versions/none":             `"versions":[]`,
		"files?before=../../../etc": `"run_not_found"`,
	} {
		if status, text := f.Do("GET", "/v1/sessions/a/"+path, ""); !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}
