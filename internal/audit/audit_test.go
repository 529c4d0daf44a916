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
	l, err := Open(o)
	must.OK(t, err)
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
	r, err := Verify([]string{path}, "")
	must.OK(t, err)
	return r
}

func linesOf(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.OK(t, err)
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
}

// said is what is read of a log, without the times.
func said(t testing.TB, path string) (list []Line) {
	t.Helper()
	err := Read(t.Context(), path, false, func(_ []byte, l *Line) error {
		list = append(list, *l)
		return nil
	})
	must.OK(t, err)
	return list
}

func TestALineHasTheNamesOfOCSF(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, Options{Path: path, FullCode: true})
	when := time.UnixMilli(1_700_000_000_123)
	l.Record(Event{
		Time: when, Kind: KindRun, Action: "Terminate", Principal: "alice@example.com", Source: "oidc", Address: "192.0.2.7", Session: "s1", Run: "run-1",
		Tool: "run_python_code", Outcome: "timed_out", Code: "print('<é>')", Detail: map[string]any{"ms": 12, "language": "python", "kind": "forged"},
	})
	l.Record(Event{Time: when, Kind: KindNetwork, Outcome: Success, Detail: map[string]any{
		"host": "example.com", "method": "GET", "path": "/a", "http_status": 200, "sent": int64(3), "received": int64(4), "file": "output/a", "size": 5, "list": []string{"x"},
	}})
	l.Record(Event{Time: when, Kind: KindServer, Action: "Stop", Code: "1", Detail: map[string]any{"odd": 1.5, "host": 1}})
	closed(t, l)
	golden, err := os.ReadFile("testdata/lines.jsonl")
	must.OK(t, err)
	got, _ := os.ReadFile(path)
	if !bytes.Equal(got, golden) {
		t.Errorf("it has\n%s", got)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
}

// Old files, and that some are gone, are an older version's.
func TestAChainInSeveralFilesIsVerified(t *testing.T) {
	lines := linesOf(t, written(t, 6))
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	prev, _, _ := strings.Cut(lines[4][len(lines[4])-1-tailLength+len(prevMember):], `"`)
	body := strings.Replace(lines[4][:len(lines[4])-1-tailLength]+"}", `"kind":"call"`, `"first":3,"kind":"log"`, 1)
	told, _ := chained([]byte(strings.Replace(body, `"Call"`, `"Old"`, 1)), prev)
	older, newer, telling := write("old", strings.Join(lines[:2], "")), write("new", strings.Join(lines[2:], "")), write("telling", strings.Join(lines[2:4], "")+string(told)+"\n")
	for _, test := range []struct {
		paths []string
		says  string
	}{{[]string{older, newer}, ""}, {[]string{newer}, "an older file is to be named first"}, {[]string{telling}, ""}, {[]string{newer, older}, "not in its place"}} {
		r, err := Verify(test.paths, "")
		if err != nil || r.OK() != (test.says == "") || !r.OK() && !strings.Contains(r.Problems[0].What, test.says) {
			t.Errorf("%v: %+v, %v", test.paths, r, err)
		}
	}
	// A server goes on where a file ends, whichever number that has.
	l := open(t, Options{Path: newer})
	l.Record(Event{Kind: KindCall})
	closed(t, l)
	if r, err := Verify([]string{older, newer}, ""); err != nil || !r.OK() || r.Last != 7 {
		t.Errorf("gone on with: %+v, %v", r, err)
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
	if r := verify(t, path); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, "torn text") {
		t.Errorf("%+v", r)
	}
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
	if !r.OK() || r.Lines != 400 {
		t.Errorf("got %+v", r)
	}
	next := make(map[string]int)
	for _, l := range said(t, path) {
		if who := l.Actor.User.Name; l.API.Operation != fmt.Sprint(next[who]) {
			t.Errorf("%s has %s where %d belongs", who, l.API.Operation, next[who])
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
		"changed with its hash": {func(l []string) []string {
			l[4] = resealed(strings.Replace(l[4], "tool-4", "tool-9", 1))
			return l
		}, 6, "does not follow"},
		"changed at the end":  {func(l []string) []string { l[9] = strings.Replace(l[9], "tool-9", "tool-8", 1); return l }, 10, "changed"},
		"emptied":             {func(l []string) []string { l[4] = "\n"; return l }, 5, "no line"},
		"replaced":            {func(l []string) []string { l[4] = "{}\n"; return l }, 5, "no line"},
		"removed":             {func(l []string) []string { return slices.Delete(l, 4, 5) }, 5, "a line before it is missing"},
		"three removed":       {func(l []string) []string { return slices.Delete(l, 4, 7) }, 5, "3 lines before it are missing"},
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
			if r.OK() || r.Problems[0].Line != test.line || !strings.Contains(r.Problems[0].What, strings.ReplaceAll(test.says, "are missing", "")) {
				t.Fatalf("got %+v", r)
			}
			// Servers that start do not make it good.
			l := open(t, Options{Path: path})
			l.Record(Event{Kind: KindCall})
			closed(t, l)
			if after := verify(t, path); after.OK() || after.Problems[0] != r.Problems[0] {
				t.Errorf("then it is %+v", after)
			}
		})
	}
}

// resealed is a line with the hash that belongs to it.
func resealed(line string) string {
	line = strings.TrimSpace(line)
	body := line[:len(line)-tailLength]
	prev := line[len(body)+len(prevMember):][:hashLength]
	sealed, _ := chained([]byte(body+"}"), prev)
	return string(sealed) + "\n"
}

func renumbered(line string, n int64) string {
	_, at, _ := parse([]byte(strings.TrimSpace(line)))
	return resealed(strings.Replace(line, fmt.Sprintf(`"sequence":%d`, at.sequence), fmt.Sprintf(`"sequence":%d`, n), 1))
}

func TestACutEndIsFoundWithAKeptHeadOnly(t *testing.T) {
	path := written(t, 10)
	head := verify(t, path).Head
	if r, err := Verify([]string{path}, head); err != nil || !r.OK() || r.KeptAt != 10 {
		t.Errorf("got %+v, %v", r, err)
	}
	l := open(t, Options{Path: path})
	l.Record(Event{Kind: KindCall})
	closed(t, l)
	if r, err := Verify([]string{path}, head); err != nil || !r.OK() || r.KeptAt != 10 || r.Last != 11 {
		t.Errorf("later: %+v, %v", r, err)
	}
	must.OK(t, os.WriteFile(path, []byte(strings.Join(linesOf(t, path)[:7], "")), 0o600))
	if r := verify(t, path); !r.OK() || r.Last != 7 {
		t.Errorf("without a head: %+v", r)
	}
	if r, err := Verify([]string{path}, head); err != nil || r.OK() || !strings.Contains(r.Problems[0].What, "cut off") {
		t.Errorf("with one: %+v, %v", r, err)
	}
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
			if r := verify(t, path); !r.OK() || !r.Unfinished || r.Last != 2 {
				t.Errorf("%s, %d: before %+v", name, size, r)
			}
			l := open(t, Options{Path: path})
			l.Record(Event{Kind: KindCall})
			closed(t, l)
			after, _ := os.ReadFile(path)
			if r := verify(t, path); !r.OK() || r.Unfinished || r.Last != 4 || len(r.Torn) != 1 || r.Torn[0].Line != 3 || !strings.HasPrefix(string(after), before) {
				t.Errorf("%s, %d: after %+v in\n%s", name, size, r, after)
			}
		}
	}
}

func TestATornLineIsFoundAgainAfterAFailedWrite(t *testing.T) {
	path := written(t, 3)
	l := &Log{}
	c := chain{path: path}
	must.OK(t, c.append(nil, l.clean))
	text, err := os.ReadFile(path)
	must.OK(t, err)
	must.OK(t, os.WriteFile(path, append(text, text[:40]...), 0o600))
	writable := c.file
	c.file, err = os.Open(path) // where nothing can be written
	must.OK(t, err)
	if c.append([]Event{{Kind: KindCall}}, l.clean) == nil {
		t.Error("it was written")
	}
	c.close()
	c.file = writable
	must.OK(t, c.append([]Event{{Kind: KindCall}}, l.clean))
	c.close()
	if r := verify(t, path); !r.OK() || len(r.Torn) != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestALineWithoutItsEndIsALine(t *testing.T) {
	path := written(t, 3)
	text, _ := os.ReadFile(path)
	must.OK(t, os.WriteFile(path, bytes.TrimSpace(text), 0o600))
	l := open(t, Options{Path: path})
	l.Record(Event{Kind: KindCall})
	closed(t, l)
	if r := verify(t, path); !r.OK() || r.Last != 4 || len(r.Torn) != 0 {
		t.Errorf("got %+v", r)
	}
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
	if r := verify(t, path); !r.OK() {
		t.Errorf("got %+v", r)
	}
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

// What cannot be written waits, and what has no room is counted.
func TestNothingIsLostInSilence(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "logs")
	must.OK(t, os.Mkdir(folder, 0o700))
	path := filepath.Join(folder, "audit.jsonl")
	l := open(t, Options{Path: path, Required: true})
	must.OK(t, l.RecordNow(t.Context(), Event{Kind: KindRun}))
	away := folder + "-away"
	must.OK(t, os.Rename(folder, away))
	err := l.RecordNow(t.Context(), Event{Kind: KindRun, Run: "refused"})
	if err == nil || !strings.Contains(err.Error(), "audit_unavailable") || strings.Contains(err.Error(), folder) {
		t.Errorf("got %v", err)
	}
	const over = 10
	for i := range maxWaiting + over {
		l.Record(Event{Kind: KindCall, Tool: fmt.Sprint(i)})
	}
	if l.Err() == nil {
		t.Error("it says that it can be written")
	}
	must.OK(t, os.Rename(away, folder))
	closed(t, l)
	r := verify(t, path)
	if !r.OK() || r.Lost != over || r.Lines != 1+1+maxWaiting {
		t.Errorf("got %+v", r)
	}
	for _, line := range said(t, path) {
		if line.Process.UID == "refused" {
			t.Error("it tells of a run that was refused")
		}
	}
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
	if r := verify(t, path); r.First != 3 || r.Last != 4 || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, "removed while a server ran") {
		t.Errorf("got %+v", r)
	}
	if err := os.Truncate(path, int64(len(linesOf(t, path)[0])+40)); err != nil { // within the line
		t.Fatal(err)
	}
	record()
	if r := verify(t, path); len(r.Problems) != 3 || len(r.Torn) != 1 || r.Problems[2].Line != 4 {
		t.Errorf("cut off: %+v", r)
	}
}

// Close says how much is lost, whether it is told why or has no more time.
func TestAnEndSaysWhatIsLost(t *testing.T) {
	for name, test := range map[string]struct {
		hinder func(t *testing.T, path string) (stop func())
		ctx    func() context.Context
	}{
		"another process has the lock": {func(t *testing.T, path string) func() {
			lock, err := os.OpenFile(path+".lock", os.O_RDWR, 0)
			if err != nil || filelock.Try(lock) != nil {
				t.Fatal(err)
			}
			return func() { _ = lock.Close() }
		}, func() context.Context {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return ctx
		}},
		"it cannot be written": {func(t *testing.T, path string) func() {
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				t.Skip(err)
			}
			return func() {}
		}, context.Background},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "logs")
			must.OK(t, os.Mkdir(folder, 0o700))
			path := filepath.Join(folder, "audit.jsonl")
			var out bytes.Buffer
			l, err := Open(Options{Path: path, Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))})
			must.OK(t, err)
			stop := test.hinder(t, path)
			for range 3 {
				l.Record(Event{Kind: KindCall})
			}
			should.Fail(t, l.Close(test.ctx()), "3 events", "it ends with")
			if said := out.String(); !strings.Contains(said, "level=ERROR") || !strings.Contains(said, "lost=3") || strings.Contains(said, "audit log is closed") {
				t.Errorf("it says\n%s", said)
			}
			stop()
			<-l.synced // it is written after all, before the folder is removed
		})
	}
}

// A run that was refused is withdrawn: nothing waits then that would show that the log can be written again.
func TestAFailureIsOfWhatWaits(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "logs")
	must.OK(t, os.Mkdir(folder, 0o700))
	l := open(t, Options{Path: filepath.Join(folder, "audit.jsonl"), Required: true})
	must.OK(t, os.Rename(folder, folder+"-away"))
	if l.RecordNow(t.Context(), Event{Kind: KindRun}) == nil || l.Err() != nil {
		t.Errorf("nothing waits, and it fails by %v", l.Err())
	}
	l.Record(Event{Kind: KindCall})
	if l.Err() == nil {
		t.Error("an event waits, and it does not fail")
	}
	must.OK(t, os.Rename(folder+"-away", folder))
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

func TestFollowingSeesWhatComes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, Options{Path: path})
	l.Record(Event{Kind: KindCall, Tool: "0"})
	ctx, stop := context.WithCancel(t.Context())
	const all = 20
	seen := make(chan string, 2*all)
	ended := make(chan error, 1)
	go func() {
		ended <- Read(ctx, path, true, func(_ []byte, line *Line) error {
			seen <- line.API.Operation
			return nil
		})
	}()
	for i := range all {
		if i > 0 {
			l.Record(Event{Kind: KindCall, Tool: fmt.Sprint(i)})
		}
		if got := <-seen; got != fmt.Sprint(i) {
			t.Fatalf("saw %s, not %d", got, i)
		}
	}
	stop()
	should.Be(t, <-ended, context.Canceled, "ended with")
}

func FuzzReader(f *testing.F) {
	for _, line := range linesOf(f, written(f, 3)) {
		f.Add([]byte(line))
		f.Add([]byte(line[:len(line)/2]))
	}
	f.Add([]byte("{}\n\n" + strings.Repeat(" ", tailLength+1)))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		must.OK(t, os.WriteFile(path, text, 0o600))
		before := verify(t, path)
		c := chain{path: path}
		defer c.close()
		must.OK(t, c.append([]Event{{Kind: KindCall}}, func(*Event) cleaner { return nil }))
		after := verify(t, path)
		if now, _ := os.ReadFile(path); !bytes.HasPrefix(now, text) {
			t.Errorf("%q became %q", text, now)
		}
		should.Equal(t, before.OK(), after.OK(), "%q was %+v and is %+v", text, before, after)
		should.OK(t, should.ErrOf(json.Marshal(after)))
	})
}
