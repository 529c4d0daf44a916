//go:build unix

package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/png"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
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
		res.wantText(t, "no picture of output/page-", why, " s drawing")
		should.Equal(t, s.py("x").Meta.Run.value(), "5", "x")
	}
}

// A figure is drawn on the page of the one before: nothing of that is on it, neither data nor scripts.
func TestAPageThatStaysShowsNothingOfTheFigureBefore(t *testing.T) {
	t.Parallel()
	s := drawingServer(t)
	const code = `import plotly.graph_objects as go; go.Figure(go.Bar(y=[1, 2]), {"title": "B"})`
	first := s.py(code)
	first.wantPicture(t)
	for _, other := range []string{
		`go.Figure(go.Scatter(y=[5, 1, 9]), {"title": "<script>document.body.append(1)</script><b>A</b>", "width": 1200, "height": 900})`,
		`go.Figure(go.Scattermap(lat=[48], lon=[15]))`,
		`page = open("output/figure-1.html").read(); open("output/x.html", "w").write(page.replace("let place;", "let place; document.write('<h1>mine</h1>');")); None`,
	} {
		s.py(other).wantPicture(t)
		if again := s.py(code); len(again.images()) != 1 || again.images()[0].Data != first.images()[0].Data {
			t.Errorf("another picture behind %s", other)
		}
	}
}

// ways are the usual lines of a library: a chart as last value, one that is shown, and files that the library saves.
type ways struct{ name, chart, show, png, svg, html string }

const picturesPage = "../../../docs/images.md"

// The table of docs/images.md: what comes of each library's usual lines. -update writes it anew.
func TestWhatComesOfTheUsualLinesOfEachLibrary(t *testing.T) {
	t.Parallel()
	s := drawingServer(t)
	var table strings.Builder
	table.WriteString("| library | last value | shown | saved as PNG | SVG | HTML |\n|---|---|---|---|---|---|\n")
	session := ""
	for n, w := range []ways{
		{"matplotlib", `fig, ax = plt.subplots(); ax.plot([1, 2]); fig`, `plt.plot([1, 2]); plt.show()`, `fig.savefig("%s")`, `fig.savefig("%s")`, ``},
		{"seaborn", `import seaborn as sns; sns.lineplot(df)`, `sns.lineplot(df); plt.show()`, `sns.lineplot(df).figure.savefig("%s"); plt.close()`,
			`sns.lineplot(df).figure.savefig("%s"); plt.close()`, ``},
		{"pandas `plot`", `df.plot()`, `df.plot(); plt.show()`, `df.plot().figure.savefig("%s"); plt.close()`, `df.plot().figure.savefig("%s"); plt.close()`, ``},
		{"networkx", `import networkx as nx; nx.draw(nx.path_graph(3))`, `nx.draw(nx.path_graph(3)); plt.show()`,
			`nx.draw(nx.path_graph(3)); plt.savefig("%s"); plt.close()`, `nx.draw(nx.path_graph(3)); plt.savefig("%s"); plt.close()`, ``},
		{"Pillow", `from PIL import Image; im = Image.new("RGB", (60, 40), "red"); im.paste("blue", (9, 9, 30, 30)); im`, `im.show()`, `im.save("%s")`, ``, ``},
		{"plotly", `import plotly.express as px; fig = px.bar(df); fig`, `fig.show()`, `fig.write_image("%s")`, `fig.write_image("%s")`, `fig.write_html("%s", include_plotlyjs="cdn")`},
		{"altair", `import altair as alt; c = alt.Chart(df).mark_bar().encode(x="a:N", y="b"); c`, `c.show()`, `c.save("%s")`, `c.save("%s")`, `c.save("%s")`},
		{"bokeh", `from bokeh.plotting import figure, show, save; from bokeh.io import export_png, export_svg; p = figure(title="B"); p.line([1, 2], [1, 2]); p`, `show(p)`,
			`export_png(p, filename="%s")`, `p.output_backend = "svg"; export_svg(p, filename="%s")`, `save(p, "%s", resources="cdn", title="B")`},
		{"folium", `import folium; m = folium.Map([48, 15]); folium.Marker([48, 15]).add_to(m); m`, `display(m)`, `open("%s", "wb").write(m._to_png())`, ``, `m.save("%s")`},
		{"great-tables", `from great_tables import GT; g = GT(df); g`, `g.show()`, `g.gtsave("%s")`, ``, `open("%s", "w").write(g.as_raw_html(make_page=True))`},
		{"polars `style`", `import polars as pl; st = pl.DataFrame({"a": [1]}).style; st`, `display(st)`, `st.gtsave("%s")`, ``, `open("%s", "w").write(st.as_raw_html())`},
		{"pandas `style`", `df.style.highlight_max()`, `display(df.style)`, ``, ``, `df.style.to_html("%s")`},
	} {
		if n%4 == 0 { // all libraries at once take more memory than a session has
			session = "libraries-" + strconv.Itoa(n)
			s.outcome(session, `import pandas as pd; df = pd.DataFrame({"a": [1, 2], "b": [3, 1]}); import matplotlib.pyplot as plt`, "")
		}
		row := []string{w.name}
		for i, code := range []string{w.chart, w.show, w.png, w.svg, w.html} {
			file := ""
			if i > 1 {
				file = "output/" + strings.Fields(strings.ReplaceAll(w.name, "`", ""))[0] + strconv.Itoa(i) + []string{".png", ".svg", ".html"}[i-2]
			}
			row = append(row, s.outcome(session, code, file))
		}
		table.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	page := string(must.Get(os.ReadFile(picturesPage))(t))
	const begin, end = "<!-- usual lines -->\n", "<!-- end -->\n"
	before, rest, _ := strings.Cut(page, begin)
	was, after, _ := strings.Cut(rest, end)
	if *update {
		must.OK(t, os.WriteFile(picturesPage, []byte(before+begin+table.String()+end+after), 0o644))
	} else if was != table.String() {
		t.Errorf("docs/images.md has another table (go test ./internal/test/e2e -run UsualLines -update):\n%s", table.String())
	}
}

// outcome runs code, and says what came of it: a picture, the file, a hint, or text alone.
func (s *server) outcome(session, code, file string) string {
	if code == "" {
		return "–"
	}
	if file != "" {
		code = fmt.Sprintf(code, file)
	}
	res := s.call(python, object{"code": code, "session_id": session})
	text := res.text()
	switch hasFile := file != "" && strings.Contains(text, file+"  "); {
	case hasFile && len(res.images()) == 1:
		return "file, picture"
	case hasFile:
		return "file"
	case len(res.images()) == 1:
		return "picture"
	case strings.Contains(text, "Hint: "):
		return "hint"
	case strings.Contains(text, "(failed in "):
		return "error"
	}
	return "text"
}
