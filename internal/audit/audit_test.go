package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func open(t testing.TB, o Options) *Log {
	t.Helper()
	l := must.Get(Open(o))(t)
	t.Cleanup(func() { closed(t, l) })
	return l
}

func closed(t testing.TB, l *Log) {
	t.Helper()
	should.OK(t, l.Close(context.Background()))
}

// written has a log write events, and returns its path.
func written(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, Options{Path: path})
	for i := range n {
		l.Record(Event{Kind: KindCall, Tool: fmt.Sprint("tool-", i), Outcome: Success})
	}
	closed(t, l)
	return path
}

func verify(t testing.TB, path string) *Report {
	t.Helper()
	return verifyHead(t, path, "")
}

func verifyHead(t testing.TB, path, head string) *Report {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	r := must.Get(Verify(bytes.NewReader(text), head))(t)
	return r
}

func linesOf(t testing.TB, path string) []string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
}

// said is what is read of a log, without the times.
func said(t testing.TB, path string) (list []Line) {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	must.OK(t, Read(bytes.NewReader(text), func(_ []byte, l *Line) error {
		list = append(list, *l)
		return nil
	}))
	return list
}

func TestALineHasWhatAnEventHas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, Options{Path: path, FullCode: true})
	when := time.UnixMilli(1_700_000_000_123)
	l.Record(Event{
		Time: when, Kind: KindRun, Action: "Terminate", Principal: "alice@example.com", Source: "oidc", Address: "192.0.2.7", Session: "s1", Run: "run-1",
		Tool: "run_python_code", Outcome: "timed_out", Code: "print('<é>')", Detail: map[string]any{"ms": 12, "language": "python", "odd": 1.5, "list": []string{"x"}, "none": nil, "empty": []string(nil)},
	})
	l.Record(Event{Time: when, Kind: KindServer})
	closed(t, l)
	want := []string{
		`{"seq":1,"time":"2023-11-14T22:13:20.123Z","kind":"run","action":"Terminate","principal":"alice@example.com","source":"oidc","address":"192.0.2.7","session":"s1",` +
			`"run":"run-1","tool":"run_python_code","outcome":"timed_out","code":"print('<é>')","detail":{"language":"python","list":["x"],"ms":12,"odd":"1.5"},"prev":"` + genesis,
		`{"seq":2,"time":"2023-11-14T22:13:20.123Z","kind":"server","prev":"` + said(t, path)[0].Hash,
	}
	for i, line := range linesOf(t, path) {
		got, _, _ := strings.Cut(line, `","hash"`)
		should.Hold(t, got == want[i], "it has\n%s\nnot\n%s", got, want[i])
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
}

func TestATornTextThatIsRemovedIsFound(t *testing.T) {
	path := written(t, 3)
	lines := linesOf(t, path)
	torn := lines[2][:40]
	must.OK(t, os.WriteFile(path, []byte(lines[0]+lines[1]+torn), 0o600))
	l := open(t, Options{Path: path})
	l.Record(Event{Kind: KindCall})
	closed(t, l)
	text, _ := os.ReadFile(path)
	must.OK(t, os.WriteFile(path, bytes.Replace(text, []byte(torn+"\n"), nil, 1), 0o600))
	r := verify(t, path)
	should.Hold(t, len(r.Problems) == 1 && strings.Contains(r.Problems[0].What, "torn text"), "%+v", r)
}

func TestServersShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var all sync.WaitGroup
	for server := range 4 {
		l := open(t, Options{Path: path})
		all.Go(func() {
			for i := range 100 {
				should.OK(t, l.RecordNow(t.Context(), Event{Kind: KindCall, Principal: fmt.Sprint(server), Tool: fmt.Sprint(i)}))
			}
			closed(t, l)
		})
	}
	all.Wait()
	r := verify(t, path)
	should.Hold(t, r.OK() && r.Lines == 400, "got %+v", r)
	next := make(map[string]int)
	for _, l := range said(t, path) {
		if who := l.Principal; l.Tool != fmt.Sprint(next[who]) {
			t.Errorf("%s has %s where %d belongs", who, l.Tool, next[who])
		} else {
			next[who]++
		}
	}
}

func TestWhatIsTamperedWithIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		tamper func(lines []string) []string
		line   int // of the first problem
		says   string
	}{
		"changed":             {func(l []string) []string { l[4] = strings.Replace(l[4], "tool-4", "tool-9", 1); return l }, 5, "changed"},
		"changed in its hash": {func(l []string) []string { l[4] = strings.Replace(l[4], `"hash":"`, `"hash":"z`, 1); return l }, 5, "no line"},
		"changed in its end":  {func(l []string) []string { l[4] = strings.Replace(l[4], "\n", "\r\n", 1); return l }, 5, "no line"},
		"changed with its hash": {func(l []string) []string {
			l[4] = resealed(strings.Replace(l[4], "tool-4", "tool-9", 1))
			return l
		}, 6, "does not follow"},
		"changed at the end":  {func(l []string) []string { l[9] = strings.Replace(l[9], "tool-9", "tool-8", 1); return l }, 10, "changed"},
		"emptied":             {func(l []string) []string { l[4] = "\n"; return l }, 5, "no line"},
		"replaced":            {func(l []string) []string { l[4] = "{}\n"; return l }, 5, "no line"},
		"removed":             {func(l []string) []string { return slices.Delete(l, 4, 5) }, 5, "lines before it are missing"},
		"three removed":       {func(l []string) []string { return slices.Delete(l, 4, 7) }, 5, "lines before it are missing"},
		"the first removed":   {func(l []string) []string { l[1] = renumbered(l[1], 1); return l[1:] }, 1, "does not begin"},
		"inserted":            {func(l []string) []string { return slices.Insert(l, 4, renumbered(l[3], 5)) }, 5, "does not follow"},
		"doubled":             {func(l []string) []string { return slices.Insert(l, 4, l[3]) }, 5, "not in its place"},
		"text inserted":       {func(l []string) []string { return slices.Insert(l, 4, "hello\n") }, 5, "no line"},
		"text at the end":     {func(l []string) []string { return append(l, "\n{\"a\":1}") }, 11, "no line"},
		"reordered":           {func(l []string) []string { l[4], l[5] = l[5], l[4]; return l }, 5, "missing or elsewhere"},
		"half of a line left": {func(l []string) []string { l[4] = l[4][:40] + "\n"; return l }, 5, "no line"},
	} {
		t.Run(name, func(t *testing.T) {
			path := written(t, 10)
			must.OK(t, os.WriteFile(path, []byte(strings.Join(test.tamper(linesOf(t, path)), "")), 0o600))
			r := verify(t, path)
			must.Hold(t, !r.OK() && r.Problems[0].Line == test.line && strings.Contains(r.Problems[0].What, test.says), "got %+v", r)
			// Servers that start do not make it good.
			l := open(t, Options{Path: path})
			l.Record(Event{Kind: KindCall})
			closed(t, l)
			after := verify(t, path)
			should.Hold(t, !after.OK() && after.Problems[0] == r.Problems[0], "then it is %+v", after)
		})
	}
}

// resealed is a line with the hash that belongs to it.
func resealed(line string) string {
	body := strings.TrimSpace(line)
	body = body[:len(body)-tailLength]
	return body + hashMember + sumOf([]byte(body+"}")) + "\"}\n"
}

func renumbered(line string, n int64) string {
	l, _ := parse([]byte(strings.TrimSpace(line)))
	return resealed(strings.Replace(line, fmt.Sprintf(`"seq":%d`, l.Sequence), fmt.Sprintf(`"seq":%d`, n), 1))
}

func TestACutEndIsFoundWithAKeptHeadOnly(t *testing.T) {
	path := written(t, 10)
	head := verify(t, path).Head
	r := verifyHead(t, path, head)
	should.Hold(t, r.OK() && r.KeptAt == 10, "got %+v", r)
	l := open(t, Options{Path: path})
	l.Record(Event{Kind: KindCall})
	closed(t, l)
	r = verifyHead(t, path, head)
	should.Hold(t, r.OK() && r.KeptAt == 10 && r.Last == 11, "later: %+v", r)
	must.OK(t, os.WriteFile(path, []byte(strings.Join(linesOf(t, path)[:7], "")), 0o600))
	r = verify(t, path)
	should.Hold(t, r.OK() && r.Last == 7, "without a head: %+v", r)
	r = verifyHead(t, path, head)
	should.Hold(t, !r.OK() && strings.Contains(r.Problems[0].What, "cut off"), "with one: %+v", r)
}

func TestATornLineIsKeptAndChainedOver(t *testing.T) {
	whole := linesOf(t, written(t, 3))
	for _, size := range []int{1, 2, 40, len(whole[2]) - 3} {
		for name, torn := range map[string]string{
			"once":           whole[2][:size],
			"twice":          whole[2][:size] + "\n" + whole[2][:size],
			"with a newline": whole[2][:size] + "\n",
		} {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			before := whole[0] + whole[1] + torn
			must.OK(t, os.WriteFile(path, []byte(before), 0o600))
			r := verify(t, path)
			should.Hold(t, r.OK() && r.Unfinished && r.Last == 2, "%s, %d: before %+v", name, size, r)
			l := open(t, Options{Path: path})
			l.Record(Event{Kind: KindCall})
			closed(t, l)
			after, _ := os.ReadFile(path)
			if r := verify(t, path); !r.OK() || r.Unfinished || r.Last != 4 || len(r.Torn) != 1 || r.Torn[0] != 3 || !strings.HasPrefix(string(after), before) {
				t.Errorf("%s, %d: after %+v in\n%s", name, size, r, after)
			}
		}
	}
}

func TestATornLineIsFoundAgainAfterAFailedWrite(t *testing.T) {
	path := written(t, 3)
	l := &Log{o: Options{Path: path}}
	must.OK(t, l.append(nil))
	text, err := os.ReadFile(path)
	must.OK(t, err)
	must.OK(t, os.WriteFile(path, append(text, text[:40]...), 0o600))
	writable := l.file
	l.file, err = os.Open(path) // where nothing can be written
	must.OK(t, err)
	should.Hold(t, l.append([]Event{{Kind: KindCall}}) != nil, "it was written")
	l.closeFile()
	l.file = writable
	must.OK(t, l.append([]Event{{Kind: KindCall}}))
	l.closeFile()
	r := verify(t, path)
	should.Hold(t, r.OK() && len(r.Torn) == 1, "got %+v", r)
}

func TestALineWithoutItsEndIsALine(t *testing.T) {
	path := written(t, 3)
	text, _ := os.ReadFile(path)
	must.OK(t, os.WriteFile(path, bytes.TrimSpace(text), 0o600))
	l := open(t, Options{Path: path})
	l.Record(Event{Kind: KindCall})
	closed(t, l)
	r := verify(t, path)
	should.Hold(t, r.OK() && r.Last == 4 && len(r.Torn) == 0, "got %+v", r)
}

func TestSecretsAreMasked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, Options{Path: path, FullCode: true, Mask: secrets.New(map[string]string{"TOKEN": "correct-horse-battery"})})
	long := strings.Repeat("x", 8*maxText-7) + "correct-horse-battery"
	l.Record(Event{
		Mask: secrets.New(map[string]string{"OWN": "staple-of-a-tenant"}),
		Kind: KindRun, Tool: "correct-horse-battery", Session: "correct-horse-battery", Code: "login('correct-horse-battery', 'staple-of-a-tenant')",
		Detail: map[string]any{"path": "/correct-horse-battery", "correct-horse-battery": 1, "deep": map[string]any{"list": []string{"staple-of-a-tenant"}}, "long": long, "error": errors.New("staple-of-a-tenant")},
	})
	closed(t, l)
	text, _ := os.ReadFile(path)
	if bytes.Contains(text, []byte("correct")) || bytes.Contains(text, []byte("staple")) || bytes.Count(text, []byte("[masked: TOKEN]")) != 5 || bytes.Count(text, []byte("[masked: OWN]")) != 3 {
		t.Errorf("it has\n%s", text)
	}
	r := verify(t, path)
	should.Hold(t, r.OK(), "got %+v", r)
}

func TestLinesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, Options{Path: path, FullCode: true})
	detail := make(map[string]any)
	for i := range 1000 {
		detail[fmt.Sprint(i)] = strings.Repeat("\x00", 100_000)
	}
	huge := strings.Repeat("\x01\xff", 10<<20)
	l.Record(Event{Kind: KindCall, Principal: huge, Tool: huge, Code: huge, Session: huge, Run: huge, Outcome: huge, Action: huge, Detail: detail})
	closed(t, l)
	info, err := os.Stat(path)
	if r := verify(t, path); err != nil || !r.OK() || r.Lines != 1 || info.Size() > maxLine {
		t.Errorf("got %+v, and %d bytes", r, info.Size())
	}
}

func TestNothingIsLostInSilence(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "logs")
	must.OK(t, os.Mkdir(folder, 0o700))
	path := filepath.Join(folder, "audit.jsonl")
	l := open(t, Options{Path: path, Required: true})
	must.OK(t, l.RecordNow(t.Context(), Event{Kind: KindRun}))
	away := folder + "-away"
	must.OK(t, os.Rename(folder, away))
	err := l.RecordNow(t.Context(), Event{Kind: KindRun, Run: "refused"})
	should.Hold(t, err != nil && strings.Contains(err.Error(), "audit_unavailable") && !strings.Contains(err.Error(), folder),
		"got %v", err)
	// The run that was refused is not lost: only another event shows whether writing still fails.
	should.OK(t, l.Err(), "before an event is lost")
	for range 10 {
		l.Record(Event{Kind: KindCall})
	}
	should.Hold(t, l.Err() != nil, "it says that it can be written")
	must.OK(t, os.Rename(away, folder))
	should.OK(t, l.Err(), "afterwards")
	must.OK(t, l.RecordNow(t.Context(), Event{Kind: KindRun}))
	closed(t, l)
	r := verify(t, path)
	should.Hold(t, r.OK() && r.Lost == 10 && r.Lines == 1+1+1, "got %+v", r)
	text, _ := os.ReadFile(path)
	should.Hold(t, !strings.Contains(string(text), "refused"), "it tells of a run that was refused")
}

func TestARemovedFileIsMadeAnewAndSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, Options{Path: path, Required: true})
	record := func() {
		t.Helper()
		must.OK(t, l.RecordNow(t.Context(), Event{Kind: KindRun}))
	}
	record()
	record()
	must.OK(t, os.Remove(path))
	record()
	if r := verify(t, path); r.Last != 4 || len(r.Problems) != 2 || !strings.Contains(r.Problems[1].What, "removed while a server ran") {
		t.Errorf("got %+v", r)
	}
	if err := os.Truncate(path, int64(len(linesOf(t, path)[0])+40)); err != nil { // within the line
		t.Fatal(err)
	}
	record()
	r := verify(t, path)
	should.Hold(t, len(r.Problems) == 4 && len(r.Torn) == 1 && r.Problems[3].Line == 4, "cut off: %+v", r)
}

func TestAnEndSaysWhatIsLost(t *testing.T) {
	for name, hinder := range map[string]func(t *testing.T, path string){
		"another process has the lock": func(t *testing.T, path string) {
			lock, err := os.OpenFile(path+".lock", os.O_RDWR, 0)
			must.Hold(t, err == nil && filelock.Try(lock) == nil, "%v", err)
			t.Cleanup(func() { _ = lock.Close() })
		},
		"it cannot be written": func(t *testing.T, path string) {
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				t.Skip(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "logs")
			must.OK(t, os.Mkdir(folder, 0o700))
			path := filepath.Join(folder, "audit.jsonl")
			var out bytes.Buffer
			l, err := Open(Options{Path: path, Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))})
			must.OK(t, err)
			hinder(t, path)
			for range 3 {
				l.Record(Event{Kind: KindCall})
			}
			should.Fail(t, l.Close(t.Context()), "3 events", "it ends with")
			if said := out.String(); !strings.Contains(said, "level=ERROR") || !strings.Contains(said, "lost=3") || strings.Contains(said, "audit log is closed") {
				t.Errorf("it says\n%s", said)
			}
			should.OK(t, l.Close(t.Context()), "closed again")
		})
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	folder := t.TempDir()
	if err := os.Symlink(filepath.Join(folder, "elsewhere"), filepath.Join(folder, "link")); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{folder, filepath.Join(folder, "missing", "audit.jsonl"), filepath.Join(folder, "link")} {
		if l, err := Open(Options{Path: path}); err == nil {
			closed(t, l)
			t.Errorf("%s is opened", path)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, line := range linesOf(f, written(f, 3)) {
		f.Add([]byte(line))
		f.Add([]byte(line[:len(line)/2]))
	}
	f.Add([]byte("\n"))
	f.Add([]byte("{}\n\n" + strings.Repeat(" ", tailLength+1)))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		must.OK(t, os.WriteFile(path, text, 0o600))
		before := verify(t, path)
		l := &Log{o: Options{Path: path}}
		defer l.closeFile()
		must.OK(t, l.append([]Event{{Kind: KindCall}}))
		after := verify(t, path)
		now, _ := os.ReadFile(path)
		should.Hold(t, bytes.HasPrefix(now, text), "%q became %q", text, now)
		should.Equal(t, before.OK(), after.OK(), "%q was %+v and is %+v", text, before, after)
		should.OK(t, should.ErrOf(json.Marshal(after)))
	})
}
