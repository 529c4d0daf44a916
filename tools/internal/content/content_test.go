package content

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestFilenamesOfUploads(t *testing.T) {
	for _, test := range []struct{ filename, source, want string }{
		{"data.csv", "", "input/data.csv"},
		{"a/b/data.csv", "", "input/a/b/data.csv"},
		{"input/data.csv", "", "input/data.csv"},
		{"/mnt/data/input/data.csv", "", "input/data.csv"},
		{"/mnt/data/output/x", "", "output/x"},
		{"/mnt/data/output/", "from.csv", "output/from.csv"},
		{"/mnt/data/x.csv", "", "x.csv"},
		{"output/x", "", "input/output/x"},
		{"./a//b.csv", "", "input/a/b.csv"},
		{"two words.csv", "", "input/two words.csv"},
		{".env", "", "input/.env"},
		{"re\u0301sume\u0301.csv", "", "input/résumé.csv"},
		{"👩‍💻.png", "", "input/👩‍💻.png"},
		{"folder/", "from.csv", "input/folder/from.csv"},
		{"input/", "from.csv", "input/from.csv"},
		{"/mnt/data/input/", "from.csv", "input/from.csv"},
	} {
		should.Give(InputPath(test.filename, test.source))(t, test.want, "%q", test.filename)
	}
	for filename, words := range map[string]string{
		"":                          "is empty",
		"   ":                       "is empty",
		"folder/":                   "no name of its own",
		"../x":                      "has ..",
		"a/../../x":                 "has ..",
		"/etc/passwd":               "absolute path",
		"/mnt/data/":                "no name of its own",
		"/mnt/data/.":               "no name of a file",
		"/mnt/data//etc/passwd":     "absolute path",
		"/mnt/data/../x":            "has ..",
		"/mnt/data2/x":              "absolute path",
		`C:\data.csv`:               `has a \`,
		"a\x00b":                    "control characters",
		"a\nb":                      "control characters",
		"invoice\u202Efdp.exe":      "control characters",
		"a\u2028b":                  "control characters",
		"bad\ufffd":                 "not text",
		" x":                        "blanks",
		"a /b":                      "blanks",
		".":                         "no name of a file",
		strings.Repeat("x", 4096):   "too long",
		strings.Repeat("é", 200):    "too long",
		strings.Repeat("abc/", 400): "no name of its own",
	} {
		must.Code(t, should.ErrOf(InputPath(filename, "")), fault.InvalidFilename, words)
	}
}

func TestBase64IsReadAsItIsWritten(t *testing.T) {
	content := []byte("\xfb\xff\xfe any carnal pleas")
	standard := base64.StdEncoding.EncodeToString(content)
	for name, text := range map[string]string{
		"standard":    standard,
		"no padding":  strings.TrimRight(standard, "="),
		"for URLs":    base64.URLEncoding.EncodeToString(content),
		"lines":       standard[:7] + "\r\n" + standard[7:] + "\n",
		"as a URL":    "data:text/plain;charset=utf-8;base64," + standard,
		"with blanks": " " + standard[:3] + " \t" + standard[3:],
	} {
		for _, from := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			got, err := io.ReadAll(NewBase64Reader(from))
			should.Hold(t, err == nil && bytes.Equal(got, content), "%s: got %q, %v", name, got, err)
		}
	}
	got, err := io.ReadAll(NewBase64Reader(strings.NewReader("")))
	should.Hold(t, err == nil && len(got) == 0, "nothing: got %q, %v", got, err)
}

func TestWhatIsNoBase64(t *testing.T) {
	for text, words := range map[string]string{
		"this is text!":          "no digit",
		"QUJD*":                  "no digit",
		"QUJDR":                  "middle of a group",
		"QQ=":                    "middle of a group",
		"QUI===":                 "middle of a group",
		"QQ==QQ==":               "behind its padding",
		"====":                   "middle of a group",
		"data:text/plain,hello,": "no digit",
	} {
		must.Code(t, should.ErrOf(io.ReadAll(NewBase64Reader(strings.NewReader(text)))), fault.InvalidContent, words)
	}
}

func FuzzBase64(f *testing.F) {
	f.Add([]byte("abc"))
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := io.ReadAll(NewBase64Reader(strings.NewReader(base64.StdEncoding.EncodeToString(content))))
		should.Hold(t, err == nil && bytes.Equal(got, content), "got %q, %v", got, err)
		_, _ = io.ReadAll(NewBase64Reader(bytes.NewReader(content)))
	})
}

// A long text is read like json.Unmarshal reads it.
func FuzzLongText(f *testing.F) {
	for _, text := range []string{`plain`, `é\u00e9\n\t\"\\\/`, `\ud83d\ude00`, `\ud83d`, `\ude00x`, `\ud83d\u0041`, `a\uD83D\uDe00\ud83d\ud83d\ude00é日本\\u`, "\xff\xfe", `\u`, `\x`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, inside string) {
		raw := []byte(`"` + inside + `"`)
		var want string
		if json.Unmarshal(raw, &want) != nil {
			return // the message loop lets only JSON through
		}
		for _, from := range []io.Reader{LongText(raw).Reader(), iotest.OneByteReader(LongText(raw).Reader()), &pieces{rest: []byte(inside), size: 1}} {
			got, err := io.ReadAll(from)
			should.Hold(t, err == nil && string(got) == want, "%q: got %q, %v, want %q", raw, got, err, want)
		}
		should.Equal(t, LongText(raw).Decoded(), want, "decoded")
	})
}

func TestAStreamIsMeasured(t *testing.T) {
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	m := Measure(iotest.OneByteReader(strings.NewReader("hello")), 5, -1, nil)
	if _, err := io.Copy(io.Discard, m); err != nil || m.Size != 5 || m.SHA256() != sum || string(m.Head) != "hello" {
		t.Errorf("got %d bytes, %s, %q, %v", m.Size, m.SHA256(), m.Head, err)
	}
	_, err := io.Copy(io.Discard, Measure(strings.NewReader("hello!"), 5, -1, nil))
	must.Code(t, err, fault.UploadTooLarge, "more than 5 B")
}

// packed is an archive with an empty file.
func packed(name string) string {
	var made strings.Builder
	w := zip.NewWriter(&made)
	_, _ = w.Create(name)
	_ = w.Close()
	return made.String()
}

func TestATypeIsToldByContent(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
	for _, test := range []struct{ content, name, mime string }{
		{png, "x.txt", "image/png"},
		{png, "x", "image/png"},
		{"GIF89a....", "x.png", "image/gif"},
		{"hello", "x.png", "text/plain"}, // the name lies
		{"hello", "x.md", "text/markdown"},
		{"a,b\n1,2\n3,4\n", "x.csv", "text/csv"},
		{"only\none\ncolumn\n", "x.csv", "text/csv"},
		{"a: 1\n", "x.yaml", "application/yaml"},
		{`{"type":"x"}`, "x.json", "application/json"},
		{`{"cells":[]}`, "x.ipynb", "application/x-ipynb+json"},
		{`{"cells":[{"source":"` + strings.Repeat("x ", SniffBytes/2), "x.ipynb", "application/x-ipynb+json"},
		{"cells, and what is in them", "x.ipynb", "text/plain"},
		{"import os\n", "x.py", "text/x-python"},
		{"", "x.csv", "text/csv"},
		{"", "x", "text/plain"},
		{"\x00\x01\x02\x03", "x.png", "application/octet-stream"},
		{"\x00\x01\x02\x03", "x", "application/octet-stream"},
		{"\x93NUMPY\x01\x00", "x.npy", "application/x-npy"},
		{"%PDF-1.7\n", "x.csv", "application/pdf"},
		{"RIFF\x24\x00\x00\x00WAVEfmt ", "x", "audio/wav"},
		{"\xff\xfeh\x00i\x00", "x.txt", "text/plain"},
		{"From: a@b\nTo: c@d\n\nx", "x", Letter},
		{"From: a@b\nTo: c@d\n\nx", "x.md", "text/markdown"},
		{"From a@b Mon Nov  2 10:00:00 2026\nSubject: x\n", "x.mbox", "application/mbox"},
		{`{\pard x}`, "x.rtf", "text/rtf"},
		{`{\rtf1 x}`, "x", "text/rtf"},
		{packed("b.opf"), "x.epub", "application/epub+zip"},
		{packed("content.xml"), "x.otp", "application/vnd.oasis.opendocument.presentation-template"},
		{packed("content.xml"), "x", "application/zip"},
		{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("\x00", 600), "x.doc", "application/msword"},
		{"caf\xe9 cr\xe8me, a b c", "x.txt", "text/plain"},
	} {
		should.Equal(t, Detect([]byte(test.content), test.name).MIME, test.mime, "%q as %s", test.content, test.name)
	}
}

func TestUTF16IsSeen(t *testing.T) {
	for head, want := range map[string]bool{
		"\xff\xfeh\x00": true, "\xfe\xff\x00h": true, "\xff\xfe": true,
		"\xff\xfe\x00\x00h\x00\x00\x00": false, "hello": false, "": false,
	} {
		should.Equal(t, IsWide([]byte(head)), want, "%q", head)
	}
}

func TestPixelsOfAnImage(t *testing.T) {
	var small, large bytes.Buffer
	if png.Encode(&small, image.NewGray(image.Rect(0, 0, 10, 20))) != nil || png.Encode(&large, image.NewGray(image.Rect(0, 0, 2*maxImageSide, 2*maxImageSide))) != nil {
		t.Fatal("no image")
	}
	const side = maxImageSide
	for name, test := range map[string]struct {
		head []byte
		want int64
	}{
		"one that fits":          {small.Bytes()[:40], 4 * (200 + 200 + 3*200)},
		"one that is scaled":     {large.Bytes()[:40], 4 * (4*side*side + 2*side*side + 3*side*side)},
		"no beginning of one":    {small.Bytes()[:10], math.MaxInt64 / 2},
		"something that is none": {[]byte("text"), math.MaxInt64 / 2},
	} {
		should.Equal(t, PixelBytes(test.head), test.want, "%s", name)
	}
}
