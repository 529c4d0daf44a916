//go:build unix

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fileFields is what upload_file and read_artifact tell of a file.
type fileFields struct {
	SessionID  string `json:"session_id"`
	Path       string `json:"path"`
	SizeBytes  int64  `json:"size_bytes"`
	SHA256     string `json:"sha256"`
	MIMEType   string `json:"mime_type"`
	Encoding   string `json:"encoding"`
	NextOffset *int64 `json:"next_offset"`
	Artifacts  []struct {
		Path        string `json:"path"`
		SizeBytes   int64  `json:"size_bytes"`
		MIMEType    string `json:"mime_type"`
		Modified    string `json:"modified"`
		DownloadURL string `json:"download_url"`
	} `json:"artifacts"`
	DownloadURL string `json:"download_url"`
	UploadURL   string `json:"upload_url"`
	LimitBytes  int64  `json:"limit_bytes"`
	Total       int    `json:"total"`
}

// fields decodes the fields of an answer that must not be an error.
func (r toolResult) fields(t *testing.T) (f fileFields) {
	t.Helper()
	if r.IsError {
		t.Fatalf("refused:\n%s", r.text())
	}
	decode(t, r.StructuredContent, &f)
	return f
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

// arrived checks that code sees a file as it was uploaded.
func (s *server) arrived(path string, content []byte) {
	s.t.Helper()
	got := s.py(fmt.Sprintf("import hashlib; hashlib.sha256(open(%q, 'rb').read()).hexdigest()", "/mnt/data/"+path)).Meta.Run.value()
	if got != "'"+sum(content)+"'" {
		s.t.Errorf("%s: the code sees %s, sent was %s", path, got, sum(content))
	}
}

func TestUploadsArrive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, setup{args: []string{"--allow-host-dir", dir}})
	noise := bytes.Repeat([]byte{0, 255, 254, '\n', '\r', 'a'}, 1<<20)
	write(t, filepath.Join(dir, "host.bin"), noise)
	for name, test := range map[string]struct {
		arguments object
		path      string
		content   []byte
		mime      string
	}{
		"text":            {object{"filename": "a.csv", "text": "x,y\n1,2\n"}, "input/a.csv", []byte("x,y\n1,2\n"), "text/csv"},
		"nothing":         {object{"filename": "empty.txt", "text": ""}, "input/empty.txt", nil, "text/plain"},
		"large text":      {object{"filename": "long.txt", "text": strings.Repeat("é\"\\\n😀", 1<<17)}, "input/long.txt", []byte(strings.Repeat("é\"\\\n😀", 1<<17)), "text/plain"},
		"base64":          {object{"filename": "d/b.bin", "content_base64": base64.StdEncoding.EncodeToString(noise)}, "input/d/b.bin", noise, "application/octet-stream"},
		"from the host":   {object{"filename": "h/", "host_path": "host.bin"}, "input/h/host.bin", noise, "application/octet-stream"},
		"decomposed name": {object{"filename": "re\u0301sume\u0301.txt", "text": "x"}, "input/résumé.txt", []byte("x"), "text/plain"},
	} {
		res := s.call("upload_file", test.arguments)
		f := res.fields(t)
		if f.Path != test.path || f.SizeBytes != int64(len(test.content)) || f.SHA256 != sum(test.content) || f.MIMEType != test.mime || f.SessionID == "" {
			t.Errorf("%s: %s", name, sprint(f))
		}
		res.wantText(t, "/mnt/data/"+test.path, test.mime)
		s.arrived(test.path, test.content)
	}
}

func TestAnUploadIsWholeOrNotThere(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--upload-limit", "300000"}})
	first := s.call("upload_file", object{"filename": "a.txt", "text": "first"}).fields(t)
	s.call("upload_file", object{"filename": "a.txt", "text": "second"}).wantCode(t, "file_exists")
	s.arrived(first.Path, []byte("first"))
	// The end of what cannot be decoded comes when most of it is on its way already.
	bad := strings.Repeat("QUJD", 90_000) + "!"
	s.call("upload_file", object{"filename": "a.txt", "content_base64": bad, "overwrite": true}).wantCode(t, "invalid_content")
	s.call("upload_file", object{"filename": "a.txt", "text": strings.Repeat("x", 300_001), "overwrite": true}).wantCode(t, "upload_too_large")
	s.arrived(first.Path, []byte("first"))
	s.call("upload_file", object{"filename": "a.txt", "text": "second", "overwrite": true}).fields(t)
	s.arrived(first.Path, []byte("second"))
	s.py("import os; os.mkdir('/mnt/data/input/folder'); os.symlink('/etc', '/mnt/data/input/out'); os.symlink('nowhere', '/mnt/data/input/dangling')")
	s.call("upload_file", object{"filename": "folder", "text": "x", "overwrite": true}).wantCode(t, "invalid_path")
	if res := s.call("upload_file", object{"filename": "out/passwd", "text": "x", "overwrite": true}); !res.IsError {
		t.Errorf("written through a link: %s", res.text())
	}
	s.call("upload_file", object{"filename": "dangling", "text": "x"}).wantCode(t, "file_exists")
	if got := s.py("sorted(os.listdir('/mnt/data/input')), os.listdir('/mnt/data/.uploads') if os.path.exists('/mnt/data/.uploads') else []").Meta.Run.value(); got != "(['a.txt', 'dangling', 'folder', 'out'], [])" {
		t.Errorf("left: %s", got)
	}
}

func TestUploadsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for name, test := range map[string]struct {
		arguments object
		code      string
	}{
		"no content":   {object{"filename": "x"}, "invalid_argument"},
		"two contents": {object{"filename": "x", "text": "x", "content_base64": "eA=="}, "invalid_argument"},
		"no name":      {object{"text": "x"}, "invalid_argument"},
		"..":           {object{"filename": "../x", "text": "x"}, "invalid_filename"},
		"absolute":     {object{"filename": "/etc/passwd", "text": "x"}, "invalid_filename"},
		"NUL":          {object{"filename": "a\x00b", "text": "x"}, "invalid_filename"},
		"newline":      {object{"filename": "a\nb", "text": "x"}, "invalid_filename"},
		"4 KB name":    {object{"filename": strings.Repeat("x", 4096), "text": "x"}, "invalid_filename"},
		"no base64":    {object{"filename": "x", "content_base64": "not base64!"}, "invalid_content"},
		"host":         {object{"filename": "x", "host_path": "/etc/passwd"}, "invalid_path"},
		"file URL":     {object{"filename": "x", "url": "file:///etc/passwd"}, "invalid_argument"},
		"loopback":     {object{"filename": "x", "url": "http://127.0.0.1:8080/x?key=s3cret"}, "download_failed"},
		"by its name":  {object{"filename": "x", "url": "http://localhost/x"}, "download_failed"},
		"metadata":     {object{"filename": "x", "url": "http://169.254.169.254/latest/meta-data/"}, "download_failed"},
		"private":      {object{"filename": "x", "url": "http://192.168.0.1/"}, "download_failed"},
		"mapped":       {object{"filename": "x", "url": "http://[::ffff:10.0.0.1]/"}, "download_failed"},
		"session":      {object{"filename": "x", "text": "x", "session_id": "no/good"}, "invalid_session_id"},
	} {
		res := s.call("upload_file", test.arguments)
		if res.Meta.Error == nil || res.Meta.Error.Code != test.code || strings.Contains(res.text(), "s3cret") {
			t.Errorf("%s: not refused with %s:\n%s", name, test.code, res.text())
		}
	}
}

func TestArtifactsAreReadAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.py(`
import os, struct, wave
os.makedirs('output/deep', exist_ok=True)
open('output/table.csv', 'w').write('a,b\n1,2\n')
open('output/long.txt', 'w').write(''.join(f'line {i}\n' for i in range(20_000)))
open('output/latin.txt', 'wb').write('crème\n'.encode('latin-1'))
open('output/wide.txt', 'w', encoding='utf-16').write('één\ntwee\n')
open('output/small.bin', 'wb').write(bytes(range(256)))
open('output/large.bin', 'wb').write(bytes(range(256)) * 4096)
open('output/liar.png', 'w').write('only text')
open('output/deep/re\u0301.txt', 'w').write('decomposed')
with wave.open('output/tone.wav', 'wb') as w:
    w.setnchannels(1); w.setsampwidth(2); w.setframerate(8000); w.writeframes(struct.pack('<h', 0) * 800)
import matplotlib.pyplot as plt
plt.figure(figsize=(30, 20)); plt.plot([1, 2]); plt.savefig('output/plot.png', dpi=100); plt.savefig('output/huge.png', dpi=200); plt.close()
`)
	for _, test := range []struct {
		arguments object
		mime      string
		encoding  string
		text      []string
	}{
		{object{"path": "output/table.csv"}, "text/csv", "utf-8", []string{"[output/table.csv, 8 B, text/csv]\na,b\n1,2\n"}},
		{object{"path": "/mnt/data/output/table.csv"}, "text/csv", "utf-8", []string{"a,b\n1,2\n"}},
		{object{"path": "output/table.csv", "offset": 1}, "text/csv", "utf-8", []string{"lines 2 to 2]\n1,2\n"}},
		{object{"path": "output/long.txt", "offset": 1000, "limit": 2}, "text/plain", "utf-8", []string{"lines 1,001 to 1,002; go on with offset 1002]\nline 1000\nline 1001\n"}},
		{object{"path": "output/long.txt", "offset": 5, "limit": 6, "unit": "bytes"}, "text/plain", "utf-8", []string{"bytes 5 to 11; go on with offset 11]\n0\nline"}},
		{object{"path": "output/latin.txt"}, "text/plain", "utf-8", []string{"not UTF-8", "cr\ufffdme"}},
		{object{"path": "output/wide.txt"}, "text/plain", "utf-16", []string{"één\ntwee\n"}},
		{object{"path": "output/small.bin"}, "application/octet-stream", "resource", []string{", attached]"}},
		{object{"path": "output/small.bin", "unit": "bytes"}, "application/octet-stream", "base64", []string{"AAECAwQF"}},
		{object{"path": "output/large.bin", "offset": 256, "limit": 3}, "application/octet-stream", "base64", []string{"AAEC"}},
		{object{"path": "output/liar.png"}, "text/plain", "utf-8", []string{"only text"}},
		{object{"path": "output/deep/ré.txt"}, "text/plain", "utf-8", []string{"decomposed"}},
		{object{"path": "output/tone.wav"}, "audio/wav", "audio", nil},
		{object{"path": "output/plot.png"}, "image/png", "image", []string{"scaled down"}},
	} {
		res := s.call("read_artifact", test.arguments)
		f := res.fields(t)
		if f.MIMEType != test.mime || f.Encoding != test.encoding {
			t.Errorf("%v: %s", test.arguments, sprint(f))
		}
		res.wantText(t, test.text...)
		if kinds := map[string]string{"audio": "audio", "image": "image"}; kinds[test.encoding] != "" {
			if last := res.Content[len(res.Content)-1]; last.Type != kinds[test.encoding] || last.Data == "" || last.MimeType != test.mime {
				t.Errorf("%v: content is %.100s", test.arguments, sprint(last))
			}
		}
	}
	long := s.call("read_artifact", object{"path": "output/long.txt"})
	if f := long.fields(t); f.NextOffset == nil || len(long.text()) > 16_001 {
		t.Errorf("%d bytes of a long text, next is %v", len(long.text()), f.NextOffset)
	}
	slice := s.call("read_artifact", object{"path": "output/large.bin", "unit": "bytes", "limit": 100_000})
	if f := slice.fields(t); f.NextOffset == nil || len(slice.text()) > 16_001 || len(slice.text()) < 15_000 {
		t.Errorf("%d bytes of a long slice, next is %v", len(slice.text()), f.NextOffset)
	}
	for _, path := range []string{"output/large.bin", "output/huge.png"} {
		s.call("read_artifact", object{"path": path}).wantCode(t, "artifact_too_large")
	}
}

func TestArtifactsThatAreNotRead(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.call("read_artifact", object{"path": "output/x"}).wantCode(t, "session_not_found")
	s.py(`
import os
os.mkfifo('output/fifo')
os.symlink('/etc/passwd', 'output/out')
os.symlink('../../..', 'output/up')
os.symlink('fifo', 'output/tofifo')
os.symlink('loop', 'output/loop')
os.symlink('/dev/zero', 'output/zero')
open('output/x.txt', 'w').write('x')
`)
	for path, code := range map[string]string{
		"":                        "invalid_path",
		"..":                      "invalid_path",
		"../etc/passwd":           "invalid_path",
		"/etc/passwd":             "invalid_path",
		"output/../../etc/passwd": "invalid_path",
		"output/x.txt\x00":        "invalid_path",
		"output/x\n.txt":          "invalid_path",
		strings.Repeat("x", 4096): "invalid_path",
		"output":                  "invalid_path",
		"output/fifo":             "invalid_path",
		"output/tofifo":           "invalid_path",
		"output/out":              "invalid_path",
		"output/up/etc/passwd":    "invalid_path",
		"output/loop":             "invalid_path",
		"output/zero":             "invalid_path",
		"output/nothing.txt":      "not_found",
		"output/x.txt/more":       "invalid_path",
	} {
		res := s.call("read_artifact", object{"path": path})
		if res.Meta.Error == nil || res.Meta.Error.Code != code {
			t.Errorf("%.40q: not refused with %s:\n%s", path, code, res.text())
		}
	}
	for name, arguments := range map[string]object{
		"unit":          {"path": "output/x.txt", "unit": "words"},
		"offset":        {"path": "output/x.txt", "offset": -1},
		"part offset":   {"path": "output/x.txt", "offset": 0.5},
		"limit":         {"path": "output/x.txt", "limit": 0},
		"save and part": {"path": "output/x.txt", "save_to": "x", "limit": 1},
	} {
		if res := s.call("read_artifact", arguments); res.Meta.Error == nil || res.Meta.Error.Code != "invalid_argument" {
			t.Errorf("%s: %s", name, res.text())
		}
	}
	s.call("read_artifact", object{"path": "output/x.txt", "save_to": "/tmp/x.txt"}).wantCode(t, "invalid_path")
}

func TestArtifactsAreSavedToTheHost(t *testing.T) {
	t.Parallel()
	dir, secret := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "there.txt"), []byte("mine"))
	write(t, filepath.Join(secret, "key"), []byte("key"))
	if err := os.Symlink(secret, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, setup{args: []string{"--allow-host-dir", dir}})
	s.py("open('output/big.bin', 'wb').write(bytes(range(256)) * 40_000)")
	want := bytes.Repeat(everyByte(), 40_000)
	for to, at := range map[string]string{"first.bin": "first.bin", filepath.Join(dir, "abs.bin"): "abs.bin", dir: "big.bin"} {
		saved := s.call("read_artifact", object{"path": "output/big.bin", "save_to": to})
		if saved.wantText(t, "Saved output/big.bin", filepath.Join(dir, at)); saved.fields(t).SHA256 != sum(want) {
			t.Errorf("%s: %s", to, saved.line)
		}
		if got, err := os.ReadFile(filepath.Join(dir, at)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", to, len(got), err)
		}
	}
	for to, code := range map[string]string{
		"there.txt": "file_exists", "fifo": "invalid_path", "out/new": "invalid_path", "out/key": "invalid_path",
		"../new": "invalid_path", filepath.Join(secret, "new"): "invalid_path", "nothing/new": "not_found", dir: "file_exists",
	} {
		res := s.call("read_artifact", object{"path": "output/big.bin", "save_to": to})
		if res.Meta.Error == nil || res.Meta.Error.Code != code {
			t.Errorf("%s: not refused with %s:\n%s", to, code, res.text())
		}
	}
	s.call("read_artifact", object{"path": "output/big.bin", "save_to": dir}).wantText(t, filepath.Join(dir, "big.bin"))
	s.call("read_artifact", object{"path": "output/nothing", "save_to": "there.txt", "overwrite": true}).wantCode(t, "not_found")
	if got, _ := os.ReadFile(filepath.Join(dir, "there.txt")); string(got) != "mine" {
		t.Errorf("what was there is %q", got)
	}
	s.call("read_artifact", object{"path": "output/big.bin", "save_to": "there.txt", "overwrite": true}).wantText(t, "Saved")
	names, _ := os.ReadDir(dir)
	if len(names) != 6 {
		t.Errorf("in the folder: %v", names)
	}
	if names, _ := os.ReadDir(secret); len(names) != 1 {
		t.Errorf("outside: %v", names)
	}
}

// A file that grows while it is read gives what it had at the beginning, and is not saved in part.
func TestAFileThatGrowsWhileItIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, setup{args: []string{"--allow-host-dir", dir}})
	s.py(`
import subprocess, sys, os
open('output/grows.txt', 'wb').write(b'line\n' * 6_000_000)
subprocess.Popen([sys.executable, '-c', """
f = open('output/grows.txt', 'ab', buffering=0)
while True: f.write(b'more\\n')
"""])
size = os.path.getsize('output/grows.txt')
while os.path.getsize('output/grows.txt') == size: pass
`)
	s.call("read_artifact", object{"path": "output/grows.txt", "limit": 2}).wantText(t, "go on with offset 2]", "line\nline\n")
	res := s.call("read_artifact", object{"path": "output/grows.txt", "save_to": "saved.txt"})
	res.wantCode(t, "execution_failed")
	res.wantText(t, "was changed while it was read")
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("saved in part: %v", names)
	}
}

// How large a file is, the sandbox says, and hostile code could say anything in its place.
func TestNoMoreIsSavedThanASessionMayHave(t *testing.T) {
	t.Parallel()
	const id = "e2e-lasting-large"
	state, dir := t.TempDir(), t.TempDir()
	first := start(t, setup{stateDir: state})
	first.complete(python, object{"session_id": id, "code": "for n in (2, 3): open(f'output/{n}.bin', 'wb').truncate(n << 20)"})
	first.end()
	second := start(t, setup{stateDir: state, args: []string{"--volume-limit", "2MiB", "--allow-host-dir", dir}})
	large := second.call("read_artifact", object{"session_id": id, "path": "output/3.bin", "save_to": "3.bin"})
	large.wantCode(t, "artifact_too_large")
	large.wantText(t, "has 3.0 MiB", "may take 2.0 MiB")
	second.call("read_artifact", object{"session_id": id, "path": "output/2.bin", "save_to": "2.bin"}).wantText(t, "Saved output/2.bin")
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("in the folder: %v", names)
	}
	second.call("close_session", object{"session_id": id})
}

func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

func TestFilesAreListed(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	if f := s.call("list_artifacts", nil).fields(t); f.Total != 0 {
		t.Errorf("before the first run: %s", sprint(f))
	}
	s.call("list_artifacts", object{"session_id": "e2e-nothing"}).wantCode(t, "session_not_found")
	s.call("list_artifacts", object{"glob": "["}).wantCode(t, "invalid_argument")
	s.call("upload_file", object{"filename": "in.csv", "text": "x"})
	s.py(`
import os, time
os.makedirs('output/many')
for i in range(10_000):
    open(f'output/many/{i:05}.txt', 'w').close()
for i, name in enumerate(['old.csv', 'output/new.csv', 'output/.hidden', 'output/plot.png']):
    open(name, 'w').write('x' * i)
    os.utime(name, (2_000_000_000 + i, 2_000_000_000 + i))
os.symlink('/etc/passwd', 'output/link')
os.mkfifo('output/fifo')
`)
	all := s.call("list_artifacts", nil)
	if f := all.fields(t); f.Total != 10_003 || len(f.Artifacts) != 200 || f.Artifacts[0].Path != "output/plot.png" || f.Artifacts[1].Path != "output/new.csv" || f.Artifacts[2].Path != "old.csv" {
		t.Errorf("%d files, %d listed, the first %s", f.Total, len(f.Artifacts), sprint(f.Artifacts[:3]))
	}
	all.wantText(t, "10,003 files", "output/plot.png  3 B  image/png  2033-05-18", "9,803 older ones")
	for glob, want := range map[string]string{
		"*.csv": "output/new.csv old.csv", "output/*.png": "output/plot.png", "input/*": "input/in.csv", "nothing/**": "", "output/{link,fifo,.hidden}": "",
	} {
		var got []string
		for _, a := range s.call("list_artifacts", object{"glob": glob}).fields(t).Artifacts {
			got = append(got, a.Path)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", glob, got)
		}
	}
}

func TestSecretsAreMaskedInFiles(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--pass-through-env", "TOKEN"}, env: []string{"TOKEN=hunter22hunter"}})
	s.py("import os; t = os.environ['TOKEN']; open('output/t.txt', 'w').write('x' * 50 + t + '\\n'); open('output/t.bin', 'wb').write(b'\\0\\1' + t.encode()); open(f'output/{t}.txt', 'w').close()")
	id := s.py("1").Meta.Run.SessionID
	for _, r := range []object{
		{"path": "output/t.txt"}, {"path": "output/t.txt", "unit": "bytes", "limit": 60}, {"path": "output/t.txt", "unit": "bytes", "offset": 54}, {"path": "output/t.bin"}, {"path": "output/t.bin", "unit": "bytes"},
	} {
		line := string(s.call("read_artifact", r).line)
		if !strings.Contains(line, "masked") || strings.Contains(line, "hunter") || strings.Contains(line, base64.StdEncoding.EncodeToString([]byte("\x00\x01hunter22hunter"))[4:16]) {
			t.Errorf("%v: %s", r, line)
		}
	}
	for _, line := range [][]byte{
		s.call("list_artifacts", nil).line,
		s.request("resources/read", object{"uri": "artifact://" + id + "/output/t.txt"}).line,
	} {
		if strings.Contains(string(line), "hunter") {
			t.Errorf("a secret: %s", line)
		}
	}
}
