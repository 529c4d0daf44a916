package sandbox

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// filesPeer plays the files program, or hostile code that took its place.
type filesPeer struct {
	in  io.Reader
	out io.Writer
}

func (p *filesPeer) next() (filesRequest, []byte, bool) {
	var head [8]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		return filesRequest{}, nil, false
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])+binary.BigEndian.Uint32(head[4:]))
	if _, err := io.ReadFull(p.in, body); err != nil {
		return filesRequest{}, nil, false
	}
	var r filesRequest
	n := binary.BigEndian.Uint32(head[:])
	err := json.Unmarshal(body[:n], &r)
	return r, body[n:], err == nil
}

func (p *filesPeer) say(header map[string]any, blob string) {
	body, _ := json.Marshal(header)
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(blob)))
	_, _ = p.out.Write(append(append(frame, body...), blob...))
}

// withFilesPeer runs a test against a manager whose files program is played by play, from the first
// request after hello on.
func withFilesPeer(t *testing.T, play func(p *filesPeer, r filesRequest), check func(t *testing.T, m *Manager)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{program: func(_ []string, in io.Reader, out io.Writer) {
			p := &filesPeer{in, out}
			for {
				r, _, ok := p.next()
				switch {
				case !ok:
					return
				case r.Op == "hello":
					p.say(map[string]any{"ok": true}, "")
				default:
					play(p, r)
					return
				}
			}
		}}
		m := newTestManager(t, testConfig(t, e))
		mustRun(t, m, RunOptions{Code: "1"})
		check(t, m)
	})
}

func TestAFileIsReadToItsEndOnly(t *testing.T) {
	for name, test := range map[string]struct {
		play func(p *filesPeer)
		want string
		code fault.Code
	}{
		"whole": {func(p *filesPeer) {
			p.say(map[string]any{"ok": true, "path": "a", "size_bytes": 6}, "")
			p.say(map[string]any{"data": true}, "abc")
			p.say(map[string]any{"data": true}, "def")
			p.say(map[string]any{"end": true, "bytes": 6, "complete": true}, "")
		}, "abcdef", ""},
		"the program ends": {func(p *filesPeer) {
			p.say(map[string]any{"ok": true, "path": "a", "size_bytes": 6}, "")
			p.say(map[string]any{"data": true}, "abc")
		}, "abc", fault.EngineError},
		"an error on the way": {func(p *filesPeer) {
			p.say(map[string]any{"ok": true, "path": "a", "size_bytes": 6}, "")
			p.say(map[string]any{"error": map[string]any{"code": "failed", "message": "I/O \x1b[31merror"}}, "")
		}, "", fault.ExecutionFailed},
		"a frame too large": {func(p *filesPeer) {
			p.say(map[string]any{"ok": true, "path": "a", "size_bytes": 6}, "")
			_, _ = p.out.Write([]byte{0, 0, 0, 2, 0xff, 0, 0, 0, '{', '}'})
		}, "", fault.EngineError},
		"too many values": {func(p *filesPeer) {
			p.say(map[string]any{"ok": true, "path": "a", "size_bytes": 3}, "")
			p.say(map[string]any{"data": true, "more": make([]int, maxFrameValues)}, "abc")
			p.say(map[string]any{"end": true, "bytes": 3, "complete": true}, "")
		}, "", fault.EngineError},
		"no JSON": {func(p *filesPeer) {
			p.say(map[string]any{"ok": true, "path": "../../etc/passwd", "size_bytes": -1, "modified_ms": math.MaxInt64}, "")
			_, _ = p.out.Write([]byte{0, 0, 0, 2, 0, 0, 0, 0, '{', '{'})
		}, "", fault.EngineError},
	} {
		t.Run(name, func(t *testing.T) {
			withFilesPeer(t, func(p *filesPeer, _ filesRequest) { test.play(p) }, func(t *testing.T, m *Manager) {
				r, err := m.OpenFile(t.Context(), "", "a", ReadOptions{Limit: -1})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if _, err := json.Marshal(r.File()); err != nil || r.File().Path != "a" || r.File().SizeBytes < 0 {
					t.Errorf("the file is %+v, %v", r.File(), err)
				}
				got, err := io.ReadAll(r)
				if string(got) != test.want {
					t.Errorf("read %q", got)
				}
				if test.code == "" {
					if err != nil || !r.End().Complete {
						t.Errorf("the end is %+v, %v", r.End(), err)
					}
					return
				}
				if f := wantCode(t, err, test.code); strings.Contains(f.Message, "\x1b") {
					t.Errorf("control characters come through: %q", f.Message)
				}
			})
		})
	}
}

func TestAnUploadIsRefusedWhileItComes(t *testing.T) {
	withFilesPeer(t, func(p *filesPeer, _ filesRequest) {
		p.say(map[string]any{"ok": true}, "")
		_, _, _ = p.next()
		p.say(map[string]any{"error": map[string]any{"code": "quota_exceeded", "size_bytes": 7}}, "")
		for {
			if _, _, ok := p.next(); !ok {
				return
			}
		}
	}, func(t *testing.T, m *Manager) {
		content := io.MultiReader(strings.NewReader(strings.Repeat("x", 4*filesChunk)), unending{})
		_, _, err := m.Upload(t.Context(), Upload{Path: "input/a", Content: content})
		wantCode(t, err, fault.QuotaExceeded)
	})
}

// unending gives bytes for ever.
type unending struct{}

func (unending) Read(b []byte) (int, error) { return len(b), nil }

func TestContentThatFailsIsGivenUp(t *testing.T) {
	broken := errors.New("the source broke")
	var ops []string
	var sent bytes.Buffer
	withFilesPeer(t, func(p *filesPeer, _ filesRequest) {
		p.say(map[string]any{"ok": true}, "")
		for {
			r, blob, ok := p.next()
			if !ok {
				return
			}
			ops = append(ops, r.Op)
			sent.Write(blob)
			if r.Op != "data" {
				p.say(map[string]any{"ok": true}, "")
			}
		}
	}, func(t *testing.T, m *Manager) {
		for name, fail := range map[string]error{"any": broken, "cut off": io.ErrUnexpectedEOF} {
			ops = nil
			_, _, err := m.Upload(t.Context(), Upload{Path: "input/a", Content: io.MultiReader(strings.NewReader("half"), failing{fail})})
			if err == nil || len(ops) == 0 || ops[len(ops)-1] != "abort" {
				t.Errorf("%s: %v after %q", name, err, ops)
			}
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestForgedEntriesAreLeftOut(t *testing.T) {
	withFilesPeer(t, func(p *filesPeer, _ filesRequest) {
		p.say(map[string]any{"entries": []any{
			[]any{"good.txt", "f", 5, 1000, 0o644},
			[]any{"../../etc/passwd", "f", 5, 1000, 0o644},
			[]any{"/etc/passwd", "f", 5, 1000, 0o644},
			[]any{"a\nb", "f", 5, 1000, 0o644},
			[]any{"a\u009b31mb", "f", 5, 1000, 0o644},
			[]any{"kind", "device", 5, 1000, 0o644},
			[]any{"negative", "f", -5, math.MinInt64, 0o7777},
			[]any{5, "f"},
			[]any{},
		}}, "")
		p.say(map[string]any{"end": true, "complete": true, "skipped": 2}, "")
	}, func(t *testing.T, m *Manager) {
		var got []Entry
		end, err := m.WalkFiles(t.Context(), "", true, func(e Entry) error {
			got = append(got, e)
			return nil
		})
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
		if err != nil || !end.Complete || end.Skipped != 9 || len(got) != 2 || got[0].Path != "good.txt" || got[1].SizeBytes != 0 {
			t.Errorf("walked %+v, %+v, %v", got, end, err)
		}
	})
}

func TestPathsOfRequests(t *testing.T) {
	for given, want := range map[string]string{
		"a": "a", "a/b.txt": "a/b.txt", "./a//b": "a/b", "/mnt/data/x": "x", "/mnt/data/input/x": "input/x", "résumé": "résumé",
		"": "", ".": "", "/": "", "/mnt/data": "", "/mnt/data/": "", "..": "", "a/../b": "", "/etc/passwd": "", "/mnt/data/../x": "",
		"/mnt/datax": "", "a\x00b": "", "a\nb": "", "a\x7fb": "", "a\u009bb": "", "a\xffb": "", strings.Repeat("a", 256): "", strings.Repeat("a/", 600): "",
	} {
		got, err := CleanPath(given)
		if want == "" {
			wantCode(t, err, fault.InvalidPath)
		} else if err != nil || got != want {
			t.Errorf("CleanPath(%q) = %q, %v", given, got, err)
		}
	}
}
