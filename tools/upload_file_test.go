package tools

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
)

func wantCode(t *testing.T, err error, code fault.Code, words string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code || f.Hint == "" || !strings.Contains(f.Message, words) {
		t.Errorf("got %v, want %s: … %s …", err, code, words)
	}
}

func TestFilenamesOfUploads(t *testing.T) {
	for _, test := range []struct{ filename, source, want string }{
		{"data.csv", "", "input/data.csv"},
		{"a/b/data.csv", "", "input/a/b/data.csv"},
		{"input/data.csv", "", "input/data.csv"},
		{"/mnt/data/input/data.csv", "", "input/data.csv"},
		{"./a//b.csv", "", "input/a/b.csv"},
		{"two words.csv", "", "input/two words.csv"},
		{".env", "", "input/.env"},
		{"re\u0301sume\u0301.csv", "", "input/résumé.csv"},
		{"👩‍💻.png", "", "input/👩‍💻.png"},
		{"folder/", "from.csv", "input/folder/from.csv"},
		{"input/", "from.csv", "input/from.csv"},
		{"/mnt/data/input/", "from.csv", "input/from.csv"},
	} {
		if got, err := inputPath(test.filename, test.source); err != nil || got != test.want {
			t.Errorf("%q: got %q, %v", test.filename, got, err)
		}
	}
	for filename, words := range map[string]string{
		"":                          "is empty",
		"   ":                       "is empty",
		"folder/":                   "no name of its own",
		"../x":                      "has ..",
		"a/../../x":                 "has ..",
		"/etc/passwd":               "absolute path",
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
		_, err := inputPath(filename, "")
		wantCode(t, err, fault.InvalidFilename, words)
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
			if got, err := io.ReadAll(newBase64Reader(from)); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
		}
	}
	if got, err := io.ReadAll(newBase64Reader(strings.NewReader(""))); err != nil || len(got) != 0 {
		t.Errorf("nothing: got %q, %v", got, err)
	}
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
		_, err := io.ReadAll(newBase64Reader(strings.NewReader(text)))
		wantCode(t, err, fault.InvalidContent, words)
	}
}

func FuzzBase64(f *testing.F) {
	f.Add([]byte("abc"))
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := io.ReadAll(newBase64Reader(strings.NewReader(base64.StdEncoding.EncodeToString(content))))
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("got %q, %v", got, err)
		}
		_, _ = io.ReadAll(newBase64Reader(bytes.NewReader(content)))
	})
}

// A long text is read like json.Unmarshal reads it.
func FuzzLongText(f *testing.F) {
	for _, text := range []string{`plain`, `é\u00e9\n\t\"\\\/`, `\ud83d\ude00`, `\ud83d`, `\ude00x`, `\ud83d\u0041`, "\xff\xfe", `\u`, `\x`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, inside string) {
		raw := []byte(`"` + inside + `"`)
		var want string
		if json.Unmarshal(raw, &want) != nil {
			return // the message loop lets only JSON through
		}
		for _, from := range []io.Reader{longText(raw).reader(), iotest.OneByteReader(longText(raw).reader())} {
			if got, err := io.ReadAll(from); err != nil || string(got) != want {
				t.Errorf("%q: got %q, %v, want %q", raw, got, err, want)
			}
		}
		if got := longText(raw).decoded(); got != want {
			t.Errorf("decoded: got %q", got)
		}
	})
}

func TestALongArgumentIsNotDecodedBeforeItIsAskedFor(t *testing.T) {
	text := strings.Repeat("line\n", longFrom)
	raw, _ := json.Marshal(map[string]any{"filename": "x", "text": text, "overwrite": true})
	p := newParams(mcp.CallToolRequest{Params: mcp.CallToolParams{RawArguments: raw}})
	given := readContent(p)
	name, overwrite := p.required("filename"), p.flag("overwrite")
	if err := p.check(); err != nil || name != "x" || !overwrite {
		t.Fatalf("got %q, %v, %v", name, overwrite, err)
	}
	if _, lazy := given.text.(longText); !lazy {
		t.Errorf("the text is a %T", given.text)
	}
	if got, err := io.ReadAll(given.text.reader()); err != nil || string(got) != text {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestContentIsGivenInOneWay(t *testing.T) {
	for name, test := range map[string]struct {
		arguments map[string]any
		words     string
	}{
		"none":     {map[string]any{}, "this call has none"},
		"only nil": {map[string]any{"text": nil}, "this call has none"},
		"two":      {map[string]any{"text": "x", "url": "https://x"}, "this call has text, url"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParams(mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: test.arguments}})
			given := readContent(p)
			wantCode(t, given.one(), fault.InvalidArgument, test.words)
		})
	}
}

func TestFetchingCanBeSwitchedOff(t *testing.T) {
	d := &Deps{UploadBytes: 10}
	_, err := d.open(t.Context(), uploadContent{url: "https://example.com", given: []string{"url"}})
	wantCode(t, err, fault.DownloadFailed, "fetches no addresses")
	definition := d.uploadFile().definition
	if _, offered := definition.InputSchema.Properties["url"]; offered || *definition.Annotations.OpenWorldHint {
		t.Errorf("offered all the same: %+v", definition)
	}
}

func TestHostFilesNeedAnAllowedFolder(t *testing.T) {
	d := &Deps{UploadBytes: 10}
	_, err := d.open(t.Context(), uploadContent{hostPath: "/etc/passwd", given: []string{"host_path"}})
	wantCode(t, err, fault.InvalidPath, "No folder of the host is allowed")
}

func TestHostFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	dirs, err := hostdir.New([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	out, err := dirs.Create("twelve.txt", "", false)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(out, "twelve bytes")
	if err := out.Commit(); err != nil {
		t.Fatal(err)
	}
	given := uploadContent{hostPath: "twelve.txt", given: []string{"host_path"}}
	_, err = (&Deps{DownloadBytes: 11, HostDirs: dirs}).open(t.Context(), given)
	wantCode(t, err, fault.UploadTooLarge, "more than 11 B")
	from, err := (&Deps{DownloadBytes: 12, HostDirs: dirs}).open(t.Context(), given)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if from.name != "twelve.txt" || from.size != 12 {
		t.Errorf("got %+v", from)
	}
}

func TestAStreamIsMeasured(t *testing.T) {
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	m := newMeasured(iotest.OneByteReader(strings.NewReader("hello")), 5, -1, nil)
	if _, err := io.Copy(io.Discard, m); err != nil || m.size != 5 || m.sha256() != sum || string(m.head) != "hello" {
		t.Errorf("got %d bytes, %s, %q, %v", m.size, m.sha256(), m.head, err)
	}
	_, err := io.Copy(io.Discard, newMeasured(strings.NewReader("hello!"), 5, -1, nil))
	wantCode(t, err, fault.UploadTooLarge, "more than 5 B")
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
		{"import os\n", "x.py", "text/x-python"},
		{"", "x.csv", "text/csv"},
		{"", "x", "text/plain"},
		{"\x00\x01\x02\x03", "x.png", "application/octet-stream"},
		{"\x00\x01\x02\x03", "x", "application/octet-stream"},
		{"\x93NUMPY\x01\x00", "x.npy", "application/x-npy"},
		{"%PDF-1.7\n", "x.csv", "application/pdf"},
		{"RIFF\x24\x00\x00\x00WAVEfmt ", "x", "audio/wav"},
		{"\xff\xfeh\x00i\x00", "x.txt", "text/plain"},
		{"caf\xe9 cr\xe8me, a b c", "x.txt", "text/plain"},
	} {
		if got := detect([]byte(test.content), test.name).mime; got != test.mime {
			t.Errorf("%q as %s is %s, want %s", test.content, test.name, got, test.mime)
		}
	}
}
