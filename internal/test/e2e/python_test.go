//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// What each way to stumble is answered with is tested beside the rules; here a real server says it.
func TestARunThatStumblesIsToldWhatWorks(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	play(t, s, python, []step{
		{code: "import cv2", status: "failed", text: []string{"\nHint: opencv-python-headless is not installed"}},
		{code: "open('output/helper.py', 'w').write('x = 41')\nimport helper", status: "failed", text: []string{"\nHint: helper.py is in the session", "sys.path.append('/mnt/data/output')"}},
		{code: "!node -e 1", text: []string{"\nHint: Only Python is in this container; run_js_code runs JavaScript"}},
		{code: "open('/usr/x', 'w')", status: "failed", text: []string{"\nHint: /usr/x cannot be written here: write below /mnt/data"}},
		{code: "x = 5", text: []string{"\nHint: No output."}},
		{code: "x", result: "5", absent: []string{"Hint:"}},
		{code: "1 / 0", status: "failed", absent: []string{"Hint:"}},
	})
	play(t, s, javascript, []step{
		{code: "await fetch('https://example.com/')", status: "failed", text: []string{"\nHint: Code has no network here (--network none); the user can allow HTTP(S): --network allowlist --allow-domain example.com"}},
		{code: "require('left-pad')", status: "failed", text: []string{"\nHint: left-pad is not installed"}},
	})
}

// Texts each of which would fit are cut together, and each is whole in a file.
func TestAllTextsOfAnAnswerShareItsRoom(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	res := s.py("import sys\nprint('out\\n' * 3500)\nprint('err\\n' * 3500, file=sys.stderr)\n'val ' * 2400")
	if n := len(res.text()); n > 16_001 || n < 15_000 {
		t.Errorf("%d bytes of text", n)
	}
	var files []string
	for _, stream := range []string{"stdout", "stderr", "result"} {
		files = append(files, "/mnt/data/.runs/"+res.Meta.Run.RunID+"."+stream+".txt")
	}
	first, _, _ := strings.Cut(res.text(), "\n")
	if want := "; cut here, see " + strings.Join(files, " and "); !strings.HasSuffix(first, want) {
		t.Errorf("the first line is %q", first)
	}
	for i, word := range []string{"out", "err", "val"} {
		want := []string{"3500", "3500", "2400"}[i]
		if got := s.py(fmt.Sprintf("open(%q).read().count(%q)", files[i], word)).Meta.Run.value(); got != want {
			t.Errorf("%s has %s of %s", files[i], got, want)
		}
	}
}
