//go:build unix

package e2e

import (
	"bytes"
	"encoding/base64"
	"image"
	_ "image/png"
	"os"
	"testing"
)

// drawingServer starts a server with an image that has a browser, or skips the test. E2E_PYTHON_IMAGE names another image.
func drawingServer(t *testing.T) *server {
	var with setup
	if name := os.Getenv("E2E_PYTHON_IMAGE"); name != "" {
		with.args = []string{"--python-image", name}
	}
	s := start(t, with)
	if s.py(`import shutil; shutil.which("chromium-headless-shell") or "none"`).Meta.Run.value() == "'none'" {
		t.Skip("the image has no browser")
	}
	return s
}

// wantPicture checks that the answer has one picture, and that there is something on it.
func (r toolResult) wantPicture(t *testing.T) {
	t.Helper()
	if len(r.images()) != 1 {
		t.Errorf("%d pictures:\n%s", len(r.images()), tail(r.text()))
		return
	}
	data, err := base64.StdEncoding.DecodeString(r.images()[0].Data)
	var drawn image.Image
	if err == nil {
		drawn, _, err = image.Decode(bytes.NewReader(data))
	}
	if err != nil {
		t.Error(err)
		return
	}
	for y := range drawn.Bounds().Dy() {
		for x := range drawn.Bounds().Dx() {
			if drawn.At(x, y) != drawn.At(0, 0) {
				return
			}
		}
	}
	t.Errorf("a blank picture:\n%s", tail(r.text()))
}

func TestAModelSeesThePagesThatCodeShows(t *testing.T) {
	t.Parallel()
	s := drawingServer(t)
	for name, code := range map[string]string{
		"plotly":       `import plotly.graph_objects as go; go.Figure(go.Bar(y=[1, 2]))`,
		"bokeh":        `from bokeh.plotting import figure, save; p = figure(); p.line([1, 2], [3, 4]); save(p, "output/b.html", resources="cdn", title="b")`,
		"great-tables": `import great_tables, pandas; great_tables.GT(pandas.DataFrame({"a": [1, 2]})).tab_header("T")`,
		"HTML":         `from IPython.display import HTML; HTML("<p id=p></p><script>setTimeout(() => { p.textContent = 'late' }, 50)</script>")`,
		"a frame":      `open("a.html", "w").write("<h1>A</h1>"); from IPython.display import IFrame; display(IFrame("a.html", 9, 9))`,
	} {
		t.Run(name, func(t *testing.T) { s.py(code).wantPicture(t) })
	}
	res := s.py(`open("output/map.html", "w").write("<h1>M</h1><img src=https://tiles.example/1.png>"); None`)
	res.wantPicture(t)
	res.wantText(t, "what comes from tiles.example is missing")
	s.call("read_artifact", object{"path": "a.html", "as": "image"}).wantPicture(t)
	s.call("read_artifact", object{"path": "a.html", "as": "pdf"}).wantText(t, "application/pdf, drawn and attached")
	s.call("read_artifact", object{"path": "none.html", "as": "pdf"}).wantCode(t, "not_found")
}

func TestAPageThatNeverEndsOrTakesAllMemoryCostsItsPictureAlone(t *testing.T) {
	t.Parallel()
	s := drawingServer(t)
	for script, why := range map[string]string{
		"for (;;);": "the page was not done", "for (const a = [];;) a.push(new Uint8Array(1 << 26).fill(1))": "the browser ended",
	} {
		res := s.py(`x = 5; from IPython.display import HTML; HTML("<script>` + script + `</script>")`)
		res.wantText(t, "no picture of output/page-", why)
		if got := s.py("x").Meta.Run.value(); got != "5" {
			t.Errorf("x is %q", got)
		}
	}
}
