//go:build unix

package e2e

import (
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
		{code: "await fetch('https://example.com/')", status: "failed", text: []string{"\nHint: Code has no network here (--network none); upload_file with url"}},
		{code: "require('left-pad')", status: "failed", text: []string{"\nHint: left-pad is not installed"}},
	})
}
