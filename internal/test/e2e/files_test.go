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

func TestArtifactsAreReadAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.py(`
import os, struct, wave
open('output/table.csv', 'w').write('a,b\n1,2\n')
open('output/long.txt', 'w').write(''.join(f'line {i}\n' for i in range(20_000)))
open('output/wide.txt', 'w', encoding='utf-16').write('één\ntwee\n')
open('output/small.bin', 'wb').write(bytes(range(256)))
open('output/large.bin', 'wb').write(bytes(range(256)) * 4096)
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
		{object{"path": "output/wide.txt"}, "text/plain", "utf-16", []string{"één\ntwee\n"}},
		{object{"path": "output/small.bin"}, "application/octet-stream", "resource", []string{", attached]"}},
		{object{"path": "output/small.bin", "unit": "bytes"}, "application/octet-stream", "base64", []string{"AAECAwQF"}},
		{object{"path": "output/large.bin", "offset": 256, "limit": 3}, "application/octet-stream", "base64", []string{"AAEC"}},
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
open('output/x.txt', 'w').write('x')
`)
	for path, code := range map[string]string{
		"../etc/passwd": "invalid_path", "output": "invalid_path", "output/tofifo": "invalid_path", "output/out": "invalid_path",
		"output/up/etc/passwd": "invalid_path", "output/nothing.txt": "not_found",
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
		"limit":         {"path": "output/x.txt", "limit": -1},
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
	for to, code := range map[string]string{"there.txt": "file_exists", "out/new": "invalid_path", dir: "file_exists"} {
		s.call("read_artifact", object{"path": "output/big.bin", "save_to": to}).wantCode(t, code)
	}
	s.call("read_artifact", object{"path": "output/nothing", "save_to": "there.txt", "overwrite": true}).wantCode(t, "not_found")
	s.call("read_artifact", object{"path": "output/big.bin", "save_to": "there.txt", "overwrite": true}).wantText(t, "Saved")
	names, _ := os.ReadDir(dir)
	if len(names) != 5 {
		t.Errorf("in the folder: %v", names)
	}
	if names, _ := os.ReadDir(secret); len(names) != 1 {
		t.Errorf("outside: %v", names)
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
