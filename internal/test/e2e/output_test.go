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
