package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// readText reads a part of a text the way that the files program gives it, and returns the answer.
func readText(d *Deps, text string, r reading, most int64) (string, readFields) {
	file := sandbox.File{Path: "output/a.txt", SizeBytes: int64(len(text)), Modified: time.Unix(0, 0)}
	r.d = d
	fields := readFields{Path: file.Path, SizeBytes: file.SizeBytes, MIMEType: "text/plain"}
	var a *render.Answer
	if r.unit == "bytes" {
		whole := piece{file: file, data: []byte(text), end: sandbox.ReadEnd{Complete: true}}
		r, part := r.letters(whole, r.from(), r.amount(most, most))
		a = r.renderBytes(fields, part)
	} else {
		limit := int64(-1)
		if r.limit != nil {
			limit = *r.limit
		}
		a = r.renderPart(fields, cutLines(piece{file: file}, []byte(text), r.from(), limit, most))
	}
	return a.Content[0].(mcp.TextContent).Text, a.Fields.(readFields)
}

func number(n int64) *int64 { return &n }

func TestTextIsReadInParts(t *testing.T) {
	long := "one\ntwo\nthree\nfour\n"
	for name, test := range map[string]struct {
		text string
		r    reading
		most int64
		want string
		next int64 // 0: none
	}{
		"whole":             {long, reading{}, 100, "[output/a.txt, 19 B, text/plain]\n" + long, 0},
		"empty":             {"", reading{}, 100, "[output/a.txt, 0 B, text/plain]", 0},
		"no last newline":   {"one\ntwo", reading{}, 100, "[output/a.txt, 7 B, text/plain]\none\ntwo", 0},
		"some lines":        {long, reading{offset: number(1), limit: number(2)}, 100, "[output/a.txt, 19 B, text/plain, lines 2 to 3; go on with offset 3]\ntwo\nthree\n", 3},
		"the last lines":    {long, reading{offset: number(2)}, 100, "[output/a.txt, 19 B, text/plain, lines 3 to 4]\nthree\nfour\n", 0},
		"behind the end":    {long, reading{offset: number(9)}, 100, "[output/a.txt, 19 B, text/plain, no lines behind 9]", 0},
		"as many as fit":    {long, reading{}, 10, "[output/a.txt, 19 B, text/plain, lines 1 to 2; go on with offset 2]\none\ntwo\n", 2},
		"one that is large": {long, reading{offset: number(2)}, 3, "[output/a.txt, 19 B, text/plain, lines 3 to 3; go on with offset 3; this line is longer and is cut here, unit: bytes with offset 11 reads it on]\nthr", 3},
		"bytes":             {long, reading{unit: "bytes", offset: number(4), limit: number(3)}, 100, "[output/a.txt, 19 B, text/plain, bytes 4 to 7; go on with offset 7]\ntwo", 7},
		"all bytes":         {long, reading{unit: "bytes"}, 100, "[output/a.txt, 19 B, text/plain]\n" + long, 0},
		"whole characters":  {"aéb", reading{unit: "bytes", limit: number(2)}, 100, "[output/a.txt, 4 B, text/plain, bytes 0 to 1; go on with offset 1]\na", 1},
		"one at least":      {"€x", reading{unit: "bytes", limit: number(1)}, 100, "[output/a.txt, 4 B, text/plain, bytes 0 to 3; go on with offset 3]\n€", 3},
		"from within one":   {"a日本語", reading{unit: "bytes", offset: number(6), limit: number(4)}, 100, "[output/a.txt, 10 B, text/plain, bytes 4 to 10]\n本語", 0},
		"bytes behind it":   {long, reading{unit: "bytes", offset: number(40)}, 100, "[output/a.txt, 19 B, text/plain, bytes 40 to 40]", 0},
		"a byte order mark": {"\xef\xbb\xbfone\n", reading{}, 100, "[output/a.txt, 7 B, text/plain]\none\n", 0},
		"Latin-1":           {"caf\xe9\n", reading{}, 100, "[output/a.txt, 5 B, text/plain; not UTF-8, what cannot be read is \ufffd]\ncaf\ufffd\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, fields := readText(&Deps{}, test.text, test.r, test.most)
			next := int64(0)
			if fields.NextOffset != nil {
				next = *fields.NextOffset
			}
			should.Hold(t, got == test.want && next == test.next, "got %q, next %d", got, next)
		})
	}
}

// What the answers say to go on with leads through the whole text, with nothing left out or twice.
func TestReadingOnReadsEverything(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "line %d %s\n", i, strings.Repeat("é", i%40))
	}
	for _, unit := range []string{"", "bytes"} {
		var whole strings.Builder
		r := reading{unit: unit}
		for steps := 0; ; steps++ {
			text, fields := readText(&Deps{}, b.String(), r, 101)
			_, text, _ = strings.Cut(text, "]\n")
			whole.WriteString(text)
			if fields.NextOffset == nil {
				break
			}
			if *fields.NextOffset <= r.from() || steps > 1000 {
				t.Fatalf("stuck at %d", r.from())
			}
			r.offset = fields.NextOffset
		}
		should.Hold(t, whole.String() == b.String(), "unit %q: %d bytes of %d", unit, whole.Len(), b.Len())
	}
}

func TestSecretsAreMaskedInFilesThatAreRead(t *testing.T) {
	d := &Deps{Secrets: secrets.New(map[string]string{"KEY": "hunter22"})}
	text := "password=hunter22\n"
	for name, r := range map[string]reading{
		"whole":         {},
		"cut behind it": {unit: "bytes", limit: number(15)},
		"cut before it": {unit: "bytes", offset: number(11)},
	} {
		got, _ := readText(d, text, r, 100)
		for n := 3; n <= len("hunter22"); n++ {
			part := "hunter22"[:n]
			should.Hold(t, !strings.Contains(got, part), "%s: %q", name, got)
			part = "hunter22"[len("hunter22")-n:]
			should.Hold(t, !strings.Contains(got, part), "%s: %q", name, got)
		}
	}
}

func TestGlobsChooseFiles(t *testing.T) {
	files := []string{"a.csv", "output/b.csv", "output/deep/c.csv", "output/plot.png", "output/logo.svg", "input/in.csv", "input/more/in.txt", "input.txt"}
	for pattern, want := range map[string]string{
		"":                       "a.csv output/b.csv output/deep/c.csv output/plot.png output/logo.svg input.txt",
		"*.csv":                  "a.csv output/b.csv output/deep/c.csv",
		"output/*.csv":           "output/b.csv",
		"output/**":              "output/b.csv output/deep/c.csv output/plot.png output/logo.svg",
		"output/":                "output/b.csv output/deep/c.csv output/plot.png output/logo.svg",
		"**":                     "a.csv output/b.csv output/deep/c.csv output/plot.png output/logo.svg input.txt",
		"**/c.csv":               "output/deep/c.csv",
		"*.{png,svg}":            "output/plot.png output/logo.svg",
		"[ab].csv":               "a.csv output/b.csv",
		"/mnt/data/output/*.png": "output/plot.png",
		"/mnt/data/":             "a.csv output/b.csv output/deep/c.csv output/plot.png output/logo.svg input.txt",
		"input/**":               "input/in.csv input/more/in.txt",
		"input/*.csv":            "input/in.csv",
		"in.*":                   "input/in.csv input/more/in.txt", // nothing else matches
		"{input,output}/*.csv":   "output/b.csv",
		"nothing":                "",
	} {
		g, err := newGlob(pattern)
		if err != nil {
			t.Errorf("%q: %v", pattern, err)
			continue
		}
		list := newListing(g)
		for i, file := range files {
			_ = list.visit(sandbox.Entry{Kind: 'f', File: sandbox.File{Path: file, Modified: time.Unix(int64(-i), 0)}})
		}
		var got []string
		for _, file := range list.found().sorted() {
			got = append(got, file.Path)
		}
		should.Hold(t, strings.Join(got, " ") == want, "%q: got %q, want %q", pattern, got, want)
	}
}

func TestGlobsThatAreRefused(t *testing.T) {
	for _, pattern := range []string{"[", "{a", "/etc/*", strings.Repeat("x", 301), strings.Repeat("**/", 9) + "x", strings.Repeat("{a,b}", 9)} {
		_, err := newGlob(pattern)
		must.Code(t, err, fault.InvalidArgument, "The glob")
	}
}

func listText(a *render.Answer) string { return a.Content[0].(mcp.TextContent).Text }

func TestTheNewestFilesAreListed(t *testing.T) {
	const files = 10_000
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	found := &newest{most: listedArtifacts}
	for _, i := range rand.Perm(files) {
		found.add(sandbox.File{Path: fmt.Sprintf("output/%05d.csv", i), SizeBytes: 1000, Modified: start.Add(time.Duration(i/2) * time.Second)})
	}
	should.Hold(t, len(found.files) <= 2*listedArtifacts, "%d files are held", len(found.files))
	a := renderList(nil, "", found, found.sorted(), sandbox.WalkEnd{Complete: true})
	fields := a.Fields.(listFields)
	lines := strings.Split(listText(a), "\n")
	should.Hold(t, len(lines) == listedArtifacts+2 && fields.Total == files && len(fields.Artifacts) == listedArtifacts,
		"%d lines, %d of %d files", len(lines), len(fields.Artifacts), fields.Total)
	// Equally new: by name.
	for i, want := range map[int]string{
		0:                   "10,000 files, 10 MB, newest first (times in UTC)",
		1:                   "output/09998.csv  1.0 kB  text/csv  2026-01-01 01:23:19",
		2:                   "output/09999.csv  1.0 kB  text/csv  2026-01-01 01:23:19",
		3:                   "output/09996.csv  1.0 kB  text/csv  2026-01-01 01:23:18",
		listedArtifacts + 1: "… and 9,800 older ones; narrow the list with glob, such as output/*.csv",
	} {
		should.Equal(t, lines[i], want, "line %d", i)
	}
}

func TestAListStaysSmall(t *testing.T) {
	found := &newest{most: listedArtifacts}
	for i := range listedArtifacts {
		found.add(sandbox.File{Path: fmt.Sprintf("%d/%s", i, strings.Repeat("x", 1000))})
	}
	m := sandbox.NewManager(sandbox.DefaultConfig())
	defer m.Close(t.Context())
	files := found.sorted()
	a := (&Deps{Manager: m}).renderer().Fit(t.Context(), len(files), func(most int) *render.Answer {
		return renderList(nil, "", found, files[:most], sandbox.WalkEnd{Skipped: 1})
	})
	text := listText(a)
	if len(text) > 16_000 || !strings.Contains(text, "older ones") || !strings.Contains(text, "1 file with names") || !strings.Contains(text, "more files than are looked at") {
		t.Errorf("%d bytes: %s", len(text), text[len(text)-300:])
	}
}

func TestAnEmptyListSaysSo(t *testing.T) {
	should.Equal(t, listText(renderList(nil, "", &newest{most: 1}, nil, sandbox.WalkEnd{Complete: true})), "no files")
}

func TestLinksOfFiles(t *testing.T) {
	for path, want := range map[string]string{
		"output/a.csv":         "artifact://s_1/output/a.csv",
		"two words/é?#%&.txt":  "artifact://s_1/two%20words/%C3%A9%3F%23%25&.txt",
		"output/a+b@c;d=e.csv": "artifact://s_1/output/a+b@c%3Bd=e.csv",
	} {
		got := artifactLink("s_1", path)
		should.Equal(t, got, want, "%s", path)
		session, again, err := parseArtifactURI(got)
		should.Hold(t, err == nil && session == "s_1" && again == path, "%s: back as %q of %q, %v", path, again, session, err)
	}
}

func TestLinksThatAreRefused(t *testing.T) {
	for uri, code := range map[string]fault.Code{
		"artifact:///etc/passwd":       fault.InvalidSessionID,
		"artifact://-x/a":              fault.InvalidSessionID,
		"artifact://s/":                fault.InvalidPath,
		"artifact://s":                 fault.InvalidPath,
		"artifact://s/../x":            fault.InvalidPath,
		"artifact://s/%2e%2e/x":        fault.InvalidPath,
		"artifact://s/%2fetc%2fpasswd": fault.InvalidPath,
		"artifact://s/a%00b":           fault.InvalidPath,
		"artifact://s/a%zz":            fault.InvalidPath,
		"artifact://s/%ff":             fault.InvalidPath,
	} {
		_, _, err := parseArtifactURI(uri)
		must.Code(t, err, code, "")
	}
}

func TestALongArgumentIsNotDecodedBeforeItIsAskedFor(t *testing.T) {
	text := strings.Repeat("line\n", longFrom)
	raw, _ := json.Marshal(map[string]any{"filename": "x", "text": text, "overwrite": true})
	p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{RawArguments: raw}})
	given := readContent(p)
	name, overwrite := p.required("filename"), p.flag("overwrite")
	err := p.check()
	must.Hold(t, err == nil && name == "x" && overwrite, "got %q, %v, %v", name, overwrite, err)
	_, lazy := given.text.(content.LongText)
	should.Hold(t, lazy, "the text is a %T", given.text)
	got, err := io.ReadAll(given.text.Reader())
	should.Hold(t, err == nil && string(got) == text, "got %d bytes, %v", len(got), err)
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
			p := newParams(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: test.arguments}})
			given := readContent(p)
			must.Code(t, given.one((&Deps{}).contentNames()), fault.InvalidArgument, test.words)
		})
	}
}

func TestFetchingCanBeSwitchedOff(t *testing.T) {
	d := &Deps{UploadBytes: 10}
	_, err := d.open(t.Context(), uploadContent{url: "https://example.com", given: []string{"url"}})
	must.Code(t, err, fault.DownloadFailed, "fetches no addresses")
	definition := d.uploadFile().definition
	_, offered := definition.InputSchema.Properties["url"]
	should.Hold(t, !offered && !(*definition.Annotations.OpenWorldHint), "offered all the same: %+v", definition)
}

func TestHostFilesNeedAnAllowedFolder(t *testing.T) {
	d := &Deps{UploadBytes: 10}
	_, err := d.open(t.Context(), uploadContent{hostPath: "/etc/passwd", given: []string{"host_path"}})
	must.Code(t, err, fault.InvalidPath, "No folder of the host is allowed")
}

func TestHostFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	dirs := must.Get(hostdir.New([]string{dir}))(t)
	out := must.Get(dirs.Create("twelve.txt", "", false))(t)
	_, _ = io.WriteString(out, "twelve bytes")
	must.OK(t, out.Commit())
	given := uploadContent{hostPath: "twelve.txt", given: []string{"host_path"}}
	_, err := (&Deps{DownloadBytes: 11, HostDirs: dirs}).open(t.Context(), given)
	must.Code(t, err, fault.UploadTooLarge, "more than 11 B")
	from := must.Get((&Deps{DownloadBytes: 12, HostDirs: dirs}).open(t.Context(), given))(t)
	defer from.Close()
	should.Hold(t, from.name == "twelve.txt" && from.size == 12, "got %+v", from)
}

func TestWideValuesAreCutInAnAnswer(t *testing.T) {
	columns := []sql.Column{{Name: "n", Kind: sql.Integer}, {Name: "t", Kind: sql.Text}}
	for n, want := range map[int]bool{100: false, 5000: true} {
		rows, cut := jsonRows([][][]byte{{[]byte("7"), []byte(strings.Repeat("é", n))}, {nil, []byte("x")}}, columns, 2000)
		written, err := json.Marshal(rows)
		text := string(written)
		if cut != want || strings.Contains(text, "… (5,000 characters)") != want || len(text) > 4200 || !strings.HasPrefix(text, `[[7,"é`) || !strings.HasSuffix(text, `[null,"x"]]`) || err != nil {
			t.Errorf("of %d characters: %v, %d bytes: %.100s", n, cut, len(text), text)
		}
	}
}

// slowStore is a store that takes files only when it is let.
type slowStore struct {
	*Store
	log     locked.Buffer
	arrived chan string   // the path of each request
	let     chan struct{} // closed: they are answered
	broken  chan string   // the path of each request whose client gave up
}

func newSlowStore(t *testing.T) *slowStore {
	s := &slowStore{arrived: make(chan string, 200), let: make(chan struct{}), broken: make(chan string, 10)}
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.arrived <- r.URL.Path
		select {
		case <-s.let:
		case <-r.Context().Done():
			s.broken <- r.URL.Path
		}
	}))
	t.Cleanup(web.Close)
	address := must.Get(artifactstore.Parse("s3://bucket?region=here&endpoint=" + web.URL))(t)
	variables := map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hunter22"}
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	s.Store = NewStore(artifactstore.Open(address, artifactstore.Options{
		LinkLifetime: 1e9, FileBytes: 1 << 20, Logger: log,
		Lookup: func(name string) (string, bool) { value, set := variables[name]; return value, set },
	}), nil, log)
	return s
}

// send brings files to the store.
func (s *slowStore) send(session string, paths ...string) *delivery {
	open := func(string) artifactstore.OpenFile {
		return func(context.Context, string) (io.ReadCloser, int64, error) {
			return io.NopCloser(strings.NewReader("content")), 7, nil
		}
	}
	return s.deliver(nil, open, func() (string, []artifactstore.File, int) {
		var list []artifactstore.File
		for _, path := range paths {
			list = append(list, storeFile(path, 7))
		}
		return session, list, 0
	})
}

func TestFilesOnTheirWayAreWaitedForAtTheEnd(t *testing.T) {
	s := newSlowStore(t)
	way := s.send("s", "a.txt")
	<-s.arrived
	ended := make(chan struct{})
	go func() { s.Close(context.Background()); close(ended) }()
	close(s.let)
	<-ended
	if <-way.done; len(way.outcome.Links) != 1 || s.log.String() != "" {
		t.Errorf("%+v, the log is %s", way.outcome, s.log.String())
	}
}

func TestFilesThatAreGivenUpAtTheEndAreLogged(t *testing.T) {
	s := newSlowStore(t)
	way := s.send("s", "a.txt", "b c.txt")
	<-s.arrived
	<-s.arrived
	late, cancel := context.WithCancel(t.Context())
	cancel()
	s.Close(late)
	want := `msg="the server is ending; files may not be in the store" store=s3://bucket session=s files=2 paths="[a.txt b c.txt]"`
	should.Hold(t, strings.Contains(s.log.String(), want), "%s is not in the log: %s", want, s.log.String())
	<-s.broken // nothing goes on in secret
	<-s.broken
	<-way.done
	should.Hold(t, len(way.outcome.Links) == 0 && strings.Contains(way.outcome.Note, "the server is ending"), "%+v", way.outcome)
	// What ends only now has nowhere to go.
	if after := s.send("later", "c.txt"); after != nil {
		<-after.done
	}
	should.Contain(t, s.log.String(), "session=later files=1 paths=[c.txt]", "the log")
	var none *Store
	none.Close(t.Context())
}

// Of a run, in the process of a real supervisor: more files than its result lists, and a name that no list has.
func TestFilesThatARunDoesNotListAreNoted(t *testing.T) {
	config := sandbox.DefaultConfig()
	config.Engine, config.StateDir, config.Host = enginetest.New(t), t.TempDir(), "host"
	config.Kernels = map[sandbox.Language]sandbox.KernelConfig{
		sandbox.Python: {Image: enginetest.Image, Interpreter: "python3", Join: containers.Join()},
	}
	manager := sandbox.NewManager(config)
	t.Cleanup(func() { manager.Close(context.Background()) })
	s := newSlowStore(t)
	close(s.let)
	d := &Deps{Manager: manager, Store: s.Store}
	for _, test := range []struct {
		code  string
		links int
		note  string
	}{
		{"for i in range(104): open(f'{i}.txt', 'w').close()", 100, "4 of 104 files"},
		{"open('a\\tb', 'w').close(); open('c', 'w').close()", 1, "1 of 2 files"},
		{"open('a\\nb', 'w').close()", 0, "1 of 1 files"},
		{"open('d', 'w').close()", 1, ""},
	} {
		run := must.Get(manager.Run(sandbox.RunOptions{Language: sandbox.Python, Code: test.code}))(t)
		way := d.Store.deliverRun(t.Context(), d.Manager, run)
		<-way.done
		if test.note != "" {
			test.note += " not uploaded to s3://bucket: at most the 100 newest of a run are, and none with control characters in its name. Pack many into an archive."
		}
		o := way.outcome
		should.Hold(t, len(o.Links) == test.links && o.Note == test.note, "%s: %d links, %q", test.code, len(o.Links), o.Note)
	}
}

// Over REST a run is asked for by requests that may have other headers: addresses in a client's own store are for that client alone.
func TestAddressesInAClientsStoreAreForIt(t *testing.T) {
	done := make(chan struct{})
	close(done)
	own := map[string]string{"X-Blob-Connection-String": "AccountKey=abcdef", "X-Blob-Container-Name": "mine"}
	asks := func(headers map[string]string) context.Context {
		h := make(http.Header)
		for name, value := range headers {
			h.Set(name, value)
		}
		return clientheader.With(t.Context(), clientheader.Read(h, clientheader.Bounds{}, true))
	}
	w := &delivery{of: clientheader.Of(asks(own)).OwnStore(), done: done, outcome: artifactstore.Outcome{Links: map[string]string{"a.txt": "https://signed"}}}
	for name, test := range map[string]struct {
		headers map[string]string
		want    int
	}{
		"its own":           {own, 1},
		"none":              {nil, 0},
		"another container": {map[string]string{"X-Blob-Connection-String": own["X-Blob-Connection-String"], "X-Blob-Container-Name": "other"}, 0},
		"another key":       {map[string]string{"X-Blob-Connection-String": "AccountKey=x", "X-Blob-Container-Name": "mine"}, 0},
	} {
		links, note := w.await(asks(test.headers), "")
		should.Hold(t, len(links) == test.want && (note == "") == (test.want == 1), "%s: %v, %q", name, links, note)
	}
}
