//go:build unix

package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/jpeg" // what large figures come as
	_ "image/png"
	"slices"
	"strings"
	"testing"
)

func TestAFloodOfOutputIsCutInTheMiddle(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for tool, code := range map[string]string{
		python:     "for i in range(200_000): print('line', i)",
		javascript: "for (let i = 0; i < 200_000; i++) console.log('line', i)",
	} {
		res := s.complete(tool, object{"code": code})
		run := res.Meta.Run
		if !run.StdoutTruncated || run.StderrTruncated || len(res.text()) > 16_001 {
			t.Errorf("%s: cut %v, %d bytes of text", tool, run.StdoutTruncated, len(res.text()))
		}
		res.wantText(t, "line 0\nline 1\n", "line 199998\nline 199999\n", "lines (", "the whole text is in /mnt/data/.runs/"+run.RunID)
		if first, _, _ := strings.Cut(res.text(), "\n"); !strings.Contains(first, "/mnt/data/.runs/"+run.RunID+".stdout.txt") {
			t.Errorf("%s: the first line does not say where the whole is: %s", tool, first)
		}
		whole := fmt.Sprintf("open('/mnt/data/.runs/%s.stdout.txt').read() == ''.join(f'line {i}\\n' for i in range(200_000))", run.RunID)
		if got := s.py(whole).Meta.Run.value(); got != "True" {
			t.Errorf("%s: the file does not hold the whole text: %s", tool, got)
		}
	}
}

// Texts each of which would fit are cut together, and each is whole in a file.
func TestAllTextsOfAnAnswerShareItsRoom(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for tool, code := range map[string]string{
		python: `import sys
print('out\n' * 3500)
print('err\n' * 3500, file=sys.stderr)
'val ' * 2400`,
		javascript: "console.log('out\\n'.repeat(3500)); console.error('err\\n'.repeat(3500)); 'val '.repeat(2400)",
	} {
		res := s.complete(tool, object{"code": code})
		if n := len(res.text()); n > 16_001 || n < 15_000 {
			t.Errorf("%s: %d bytes of text", tool, n)
		}
		var files []string
		for _, stream := range []string{"stdout", "stderr", "result"} {
			files = append(files, "/mnt/data/.runs/"+res.Meta.Run.RunID+"."+stream+".txt")
		}
		first, _, _ := strings.Cut(res.text(), "\n")
		if want := "; cut here, see " + strings.Join(files, " and "); !strings.HasSuffix(first, want) {
			t.Errorf("%s: the first line is %q", tool, first)
		}
		for i, word := range []string{"out", "err", "val"} {
			want := []string{"3500", "3500", "2400"}[i]
			if got := s.py(fmt.Sprintf("open(%q).read().count(%q)", files[i], word)).Meta.Run.value(); got != want {
				t.Errorf("%s: %s has %s of %s", tool, files[i], got, want)
			}
		}
	}
}

func TestFloodsOfOtherKinds(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--output-limit", "2000"}})
	for name, test := range map[string]struct{ tool, code string }{
		"one line without an end":  {python, "print('x' * 5_000_000, end='')"},
		"stderr":                   {python, "import sys; sys.stderr.write('e' * 5_000_000)"},
		"a long value":             {python, "'v' * 5_000_000"},
		"a long value, JavaScript": {javascript, "'v'.repeat(5_000_000)"},
		"zero bytes":               {python, "import os; os.write(1, bytes(3_000_000))"},
		"from a child process":     {python, "!yes | head -c 5000000"},
	} {
		if res := s.complete(test.tool, object{"code": test.code}); len(res.line) > 60_000 {
			t.Errorf("%s: an answer of %d bytes", name, len(res.line))
		}
	}
	res := s.run(python, object{"code": "raise ValueError('m' * 5_000_000)"}, "failed")
	if len(res.line) > 60_000 || !strings.HasPrefix(res.text(), "ValueError: mmm") {
		t.Errorf("a long error: an answer of %d bytes", len(res.line))
	}
}

// decodeImage checks that a client can take an image, and gives its size.
func decodeImage(t *testing.T, c content) image.Point {
	t.Helper()
	const largestSide, largestImage = 1568, 700 << 10
	data, err := base64.StdEncoding.DecodeString(c.Data)
	if err != nil {
		t.Fatal(err)
	}
	img, format, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	size := img.Bounds().Size()
	if c.MimeType != "image/"+format || size.X > largestSide || size.Y > largestSide || len(data) > largestImage {
		t.Errorf("an image of %v, %d bytes, %s that is %s", size, len(data), c.MimeType, format)
	}
	return size
}

func TestFiguresComeAsImages(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	res := s.py("import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.title('squares')\nplt.show()\nprint('done')")
	if images := res.images(); len(images) != 1 {
		t.Fatalf("%d images:\n%s", len(images), res.text())
	}
	if size := decodeImage(t, res.images()[0]); size.X < 200 || size.Y < 200 {
		t.Errorf("a figure of %v", size)
	}
	res.wantText(t, "done", "output/figure-1.png")
	if paths := res.Meta.Run.paths(); !slices.Contains(paths, "output/figure-1.png") {
		t.Errorf("artifacts: %v", paths)
	}
	left := s.py("fig, ax = plt.subplots(); ax.bar(['a'], [1]);")
	if len(left.images()) != 1 {
		t.Errorf("a figure that is left open is not shown:\n%s", left.text())
	}
	left.wantText(t, "output/figure-2.png")
	if again := s.py("1"); len(again.images()) != 0 {
		t.Error("a figure is shown again by the next run")
	}
}

func TestCapturedFiguresAreNotShown(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.py("import matplotlib.pyplot as plt")
	for _, code := range []string{"_ = plt.plot([1, 2])", "plt.plot([1, 2]); plt.show()"} {
		if res := s.py("%%capture kept\n" + code); len(res.images()) != 0 {
			t.Errorf("%s: shown:\n%s", code, res.text())
		}
		if got := s.py("len(kept.outputs), plt.get_fignums()").Meta.Run.value(); got != "(1, [])" {
			t.Errorf("%s: captured: %s", code, got)
		}
		if res := s.py("kept.show()"); len(res.images()) != 1 {
			t.Errorf("%s: not shown when asked for:\n%s", code, res.text())
		}
	}
}

func TestSeveralFiguresKeepTheirOrder(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	res := s.py(`
import matplotlib.pyplot as plt
for width in (3, 4, 5, 6, 7):
    plt.figure(figsize=(width, 2), dpi=100)
    plt.plot([1, 2])
    plt.show()
`)
	images := res.images()
	if len(images) != 4 {
		t.Fatalf("%d images:\n%s", len(images), res.text())
	}
	var widths []int
	for _, c := range images {
		widths = append(widths, decodeImage(t, c).X)
	}
	if !slices.IsSorted(widths) || widths[0] == widths[3] {
		t.Errorf("widths: %v", widths)
	}
	res.wantText(t, "output/figure-5.png", "not attached")
}

func TestLargeFiguresAreScaledAndKeptWhole(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	res := s.py("import matplotlib.pyplot as plt\nplt.figure(figsize=(40, 20), dpi=100)\nplt.plot([1, 4, 9])\nplt.show()")
	if len(res.images()) != 1 {
		t.Fatalf("%d images:\n%s", len(res.images()), res.text())
	}
	decodeImage(t, res.images()[0])
	if got := s.py("from PIL import Image\nmax(Image.open('output/figure-1.png').size) > 2000").Meta.Run.value(); got != "True" {
		t.Errorf("the file is not the whole figure: %s", got)
	}
	huge := s.py("import numpy as np\nImage.fromarray(np.random.randint(0, 255, (2000, 2500, 3), 'uint8'))")
	for _, c := range huge.images() {
		decodeImage(t, c)
	}
	if len(huge.images()) == 0 {
		huge.wantText(t, "not attached")
	}
	huge.wantText(t, "output/image-1.png")
}

func TestOtherThingsThatAreShown(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	if res := s.py("from PIL import Image\nImage.new('RGB', (30, 20), 'red')"); len(res.images()) != 1 || decodeImage(t, res.images()[0]) != image.Pt(30, 20) {
		t.Errorf("a PIL image as the last value:\n%s", res.text())
	}
	res := s.py("from IPython.display import Image, display\ndisplay(Image(data=b'\\x89PNG no image', format='png'))\nprint('goes on')")
	if len(res.images()) != 0 {
		t.Error("broken data is handed on as an image")
	}
	res.wantText(t, "goes on", "not attached")
	for _, renderer := range []string{"notebook", "colab", "browser", "png"} {
		s.py("import plotly.graph_objects as go\ngo.Figure().show('"+renderer+"')").wantText(t, ".html  ", "an interactive figure")
	}
	res = s.py("from IPython.display import HTML\nHTML('<div id=\"a\"></div><script>draw(\"a\")</script>')")
	res.wantText(t, "output/page-")
	if strings.Contains(res.text(), "draw") {
		t.Errorf("a page's script is shown:\n%s", res.text())
	}
	s.py("from tqdm.notebook import tqdm\nfor _ in tqdm(range(3)): pass").wantText(t, "3/3")
	js := s.js("const sharp = require('sharp'); display(await sharp({ create: { width: 30, height: 20, channels: 3, background: 'red' } }).png().toBuffer())")
	if len(js.images()) != 1 || decodeImage(t, js.images()[0]) != image.Pt(30, 20) {
		t.Errorf("an image from JavaScript:\n%s", js.text())
	}
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	made := s.py(`
import os, pathlib
for name in ('plain.csv', 'output/deep/er/report.txt', 'grüße 世界.txt', 'input/brought.csv', '.hidden', '.cache/x', 'output/.secret'):
    path = pathlib.Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('12345')
os.symlink('/etc/passwd', 'link')
os.mkfifo('pipe')
`)
	paths := made.Meta.Run.paths()
	slices.Sort(paths)
	if want := []string{"grüße 世界.txt", "output/deep/er/report.txt", "plain.csv"}; !slices.Equal(paths, want) {
		t.Errorf("artifacts: %q, want %q", paths, want)
	}
	for _, a := range made.Meta.Run.Artifacts {
		if a.SizeBytes != 5 || a.MIMEType == "" || !strings.HasSuffix(a.Path, a.Filename) {
			t.Errorf("artifact: %+v", a)
		}
	}
	made.wantText(t, "[files]", "plain.csv", "text/csv")
	if again := s.py("open('plain.csv').read()").Meta.Run.paths(); len(again) > 0 {
		t.Errorf("what is only read is an artifact: %v", again)
	}
	if changed := s.py("open('plain.csv', 'a').write('6')").Meta.Run.paths(); !slices.Equal(changed, []string{"plain.csv"}) {
		t.Errorf("what is changed: %v", changed)
	}
	failed := s.run(javascript, object{"code": "require('fs').writeFileSync('half.txt', 'x'); throw new Error('no')"}, "failed")
	if got := failed.Meta.Run.paths(); !slices.Equal(got, []string{"half.txt"}) {
		t.Errorf("of a run that failed: %v", got)
	}
}

func TestManyArtifactsAreCounted(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	res := s.py("for i in range(500): open(f'f{i}.txt', 'w').write('x')")
	if n := len(res.Meta.Run.Artifacts); n == 0 || n > 100 {
		t.Errorf("%d artifacts", n)
	}
	res.wantText(t, "… and 480 more")
}

func TestBothLanguagesSeeTheSameFiles(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.py("import json; json.dump({'n': [1, 2, 3]}, open('shared.json', 'w'))")
	if got := s.js("require('./shared.json').n.length").Meta.Run.value(); got != "3" {
		t.Errorf("JavaScript sees %s", got)
	}
	s.js("require('fs').appendFileSync('shared.json', '\\n')")
	if got := s.py("open('shared.json').read()[-2:]").Meta.Run.value(); got != `'}\n'` {
		t.Errorf("Python sees %s", got)
	}
	if a, b := s.py("import os; os.getuid(), os.getcwd()").Meta.Run.value(), s.js("process.getuid() + process.cwd()").Meta.Run.value(); strings.HasPrefix(a, "(0,") || strings.HasPrefix(b, "'0/") {
		t.Errorf("runs as root: %s %s", a, b)
	}
}

// What a thread of an earlier run prints is told by a later run's answer as that, and is this one's own where it joins the
// thread.
func TestLateOutputIsItsOwnRuns(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	late := "import os, threading, time\ndef late(name):\n    while not os.path.exists(name): time.sleep(.01)\n    print('from the first run')\n" +
		"t, u = (threading.Thread(target=late, args=(name,), daemon=True) for name in ('go', 'on'))\nt.start(); u.start()"
	s.py(late)
	if got := s.py("open('go', 'w').close(); t.join(); print('second')").Meta.Run.Stdout; got != "from the first run\nsecond\n" {
		t.Errorf("a run that joins the thread printed %q", got)
	}
	s.py("open('on', 'w').close()")
	eventually(t, "what the thread prints is told", func() (bool, string) {
		text := s.call(python, object{"code": "1"}).text()
		return strings.Contains(text, "[printed meanwhile by an earlier run, all in .runs/") && strings.Contains(text, "from the first run"), text
	})
}
