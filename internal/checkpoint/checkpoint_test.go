package checkpoint

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

var generous = Limits{Bytes: 1 << 20, Entries: 100}

// memory is a volume without a container.
type memory struct {
	entries map[string]sandbox.Entry
	content map[string][]byte
	open    func(path string) (Reader, error) // nil: what content has
	partial bool                              // a walk does not tell all
}

func newMemory() *memory {
	return &memory{entries: make(map[string]sandbox.Entry), content: make(map[string][]byte)}
}

func (m *memory) Walk(_ context.Context, visit func(sandbox.Entry) error) (sandbox.WalkEnd, error) {
	for _, path := range slices.Sorted(maps.Keys(m.entries)) {
		if err := visit(m.entries[path]); err != nil {
			return sandbox.WalkEnd{}, err
		}
	}
	return sandbox.WalkEnd{Complete: !m.partial, Skipped: 2}, nil
}

func (m *memory) Open(_ context.Context, path string) (Reader, error) {
	if m.open != nil {
		return m.open(path)
	}
	e := m.entries[path]
	return &reader{Reader: bytes.NewReader(m.content[path]), file: e.File, end: sandbox.ReadEnd{Complete: true}}, nil
}

func (m *memory) Put(_ context.Context, path string, content io.Reader, mode fs.FileMode, modified time.Time) error {
	text, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	m.add(sandbox.Entry{File: sandbox.File{Path: path, Modified: modified}, Kind: 'f', Mode: mode}, text)
	return nil
}

func (m *memory) MakeDir(_ context.Context, path string) error {
	m.add(sandbox.Entry{File: sandbox.File{Path: path}, Kind: 'd'}, nil)
	return nil
}

func (m *memory) MakeLink(_ context.Context, path, target string) error {
	m.add(sandbox.Entry{File: sandbox.File{Path: path}, Kind: 'l', Target: target}, nil)
	return nil
}

func (m *memory) add(e sandbox.Entry, content []byte) {
	e.SizeBytes = int64(len(content))
	m.entries[e.Path] = e
	if e.Kind == 'f' {
		m.content[e.Path] = content
	}
}

type reader struct {
	io.Reader
	file sandbox.File
	end  sandbox.ReadEnd
}

func (r *reader) Close() error         { return nil }
func (r *reader) File() sandbox.File   { return r.file }
func (r *reader) End() sandbox.ReadEnd { return r.end }

func file(path, text string) (sandbox.Entry, []byte) {
	return sandbox.Entry{File: sandbox.File{Path: path, Modified: time.Unix(1700000000, 123e6)}, Kind: 'f', Mode: 0o640}, []byte(text)
}

func sample() *memory {
	m := newMemory()
	m.add(sandbox.Entry{File: sandbox.File{Path: "output"}, Kind: 'd', Mode: 0o755}, nil)
	m.add(file("output/a.csv", "a,b\n"))
	m.add(file(".runs/größe 1.txt", "x"))
	m.add(file("output/"+strings.Repeat("long/", 40)+"end", "deep"))
	m.add(sandbox.Entry{File: sandbox.File{Path: "a link"}, Kind: 'l', Target: "/usr/bin/python3"}, nil)
	return m
}

const history = `{"begin":{"run_id":"run-1"}}` + "\n"

func export(t *testing.T, v Volume, limits Limits) ([]byte, Report, error) {
	t.Helper()
	var b bytes.Buffer
	m := Manifest{SessionID: "s", Created: time.Unix(1700000000, 0).UTC(), Program: "test", Languages: []sandbox.Language{sandbox.Python}, PassThroughEnv: []string{"TOKEN"}}
	report, err := Export(t.Context(), &b, m, strings.NewReader(history), int64(len(history)), v, limits)
	return b.Bytes(), report, err
}

// load imports into a new volume.
func load(t *testing.T, from io.Reader, limits Limits) (v *memory, m Manifest, told string, err error) {
	t.Helper()
	v = newMemory()
	_, err = Import(t.Context(), from, limits, func(manifest Manifest, h io.Reader) (Volume, error) {
		text, err := io.ReadAll(h)
		m, told = manifest, string(text)
		return v, err
	})
	return v, m, told, err
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code || f.Hint == "" {
		t.Errorf("got %v, want %s with a hint", err, code)
	}
}

func TestASessionComesBackAsItWas(t *testing.T) {
	from := sample()
	archive, report, err := export(t, from, generous)
	if err != nil || report != (Report{Summary: Summary{Files: 3, Folders: 1, Links: 1, Bytes: 9}, Skipped: 2}) {
		t.Fatalf("exported %+v, %v", report, err)
	}
	to, m, told, err := load(t, bytes.NewReader(archive), generous)
	if err != nil {
		t.Fatal(err)
	}
	if m.SessionID != "s" || m.Program != "test" || !m.Created.Equal(time.Unix(1700000000, 0)) || m.Exported.IsZero() || len(m.PassThroughEnv) != 1 || told != history {
		t.Errorf("the manifest is %+v, the history %q", m, told)
	}
	if !reflect.DeepEqual(to.content, from.content) {
		t.Errorf("the files are %q", to.content)
	}
	for path, want := range from.entries {
		got := to.entries[path]
		if got.Kind != want.Kind || got.Target != want.Target || (want.Kind == 'f' && (got.Mode != want.Mode || !got.Modified.Equal(want.Modified))) {
			t.Errorf("%s is %+v, want %+v", path, got, want)
		}
	}
}

func TestWhatAnExportCannotKeepIsTold(t *testing.T) {
	v := newMemory()
	v.add(file("changed", "1234"))
	v.add(file("gone", "x"))
	v.add(file(strings.Repeat("x/", 600)+"y", "too deep"))
	v.add(sandbox.Entry{File: sandbox.File{Path: "link"}, Kind: 'l', Target: "a\x00b"}, nil)
	v.add(sandbox.Entry{File: sandbox.File{Path: "fifo"}, Kind: 'p'}, nil)
	v.open = func(path string) (Reader, error) {
		if path == "gone" {
			return nil, fault.New(fault.NotFound, "Look.", "Gone.")
		}
		return &reader{strings.NewReader("1234"), v.entries[path].File, sandbox.ReadEnd{Complete: true, Changed: true}}, nil
	}
	_, report, err := export(t, v, generous)
	if err != nil || report != (Report{Summary: Summary{Files: 1, Bytes: 4}, Skipped: 4, Gone: 1, Changed: 1}) {
		t.Errorf("exported %+v, %v", report, err)
	}
}

func TestAnExportThatIsNotWholeFails(t *testing.T) {
	size := func(bytes int64) func(string) (Reader, error) {
		return func(string) (Reader, error) {
			return &reader{strings.NewReader("1234"), sandbox.File{Path: "f", SizeBytes: bytes}, sandbox.ReadEnd{}}, nil
		}
	}
	for name, test := range map[string]struct {
		open    func(string) (Reader, error)
		partial bool
		limits  Limits
		code    fault.Code
	}{
		"a file that shrinks":  {size(5), false, generous, fault.SessionBusy},
		"a file that grows":    {size(3), false, generous, fault.SessionBusy},
		"a sparse terabyte":    {size(1 << 40), false, generous, fault.UploadTooLarge},
		"too many files":       {nil, false, Limits{Bytes: 10, Entries: 0}, fault.UploadTooLarge},
		"a walk without end":   {nil, true, generous, fault.UploadTooLarge},
		"a file out of bounds": {nil, false, Limits{Bytes: 3, Entries: 9}, fault.UploadTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			v := newMemory()
			v.add(file("f", "1234"))
			v.open, v.partial = test.open, test.partial
			_, _, err := export(t, v, test.limits)
			wantCode(t, err, test.code)
		})
	}
}

// member is one of an archive that is made by hand.
type member struct {
	header tar.Header
	text   string
}

func plain(name, text string) member {
	return member{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, text}
}

func special(kind byte, name, target string) member {
	return member{tar.Header{Typeflag: kind, Name: name, Linkname: target, Mode: 0o644}, ""}
}

func packed(t *testing.T, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, m := range members {
		m.header.Size = int64(len(m.text))
		if err := w.WriteHeader(&m.header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, m.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const goodManifest = `{"format":"code-sandbox-mcp checkpoint","version":1,"session_id":"s"}`

// around puts members between a good beginning and an end that counts files, folders and links.
func around(t *testing.T, files, folders, links, bytes int, members ...member) []byte {
	t.Helper()
	all := append([]member{plain(manifestName, goodManifest), plain(historyName, "")}, members...)
	return packed(t, append(all, plain(endName, fmt.Sprintf(`{"files":%d,"folders":%d,"links":%d,"bytes":%d}`, files, folders, links, bytes)))...)
}

func TestAHostileCheckpointIsRefused(t *testing.T) {
	good := func(name, text string) member { return plain(filesPrefix+name, text) }
	begin := []member{plain(manifestName, goodManifest), plain(historyName, "")}
	for name, test := range map[string]struct {
		archive []byte
		code    fault.Code
	}{
		"nothing":             {nil, fault.InvalidContent},
		"no zstd":             {[]byte("PK\x03\x04 a zip file, it seems"), fault.InvalidContent},
		"no tar":              {zstdOf(t, strings.Repeat("x", 4000)), fault.InvalidContent},
		"no manifest":         {packed(t, good("a", "x")), fault.InvalidContent},
		"manifest as a link":  {packed(t, special(tar.TypeSymlink, manifestName, "/etc/passwd")), fault.InvalidContent},
		"manifest too long":   {packed(t, plain(manifestName, strings.Repeat(" ", maxManifest+1))), fault.InvalidContent},
		"manifest no JSON":    {packed(t, plain(manifestName, "{")), fault.InvalidContent},
		"another format":      {packed(t, plain(manifestName, `{"format":"x","version":1}`)), fault.InvalidContent},
		"a later version":     {packed(t, plain(manifestName, strings.Replace(goodManifest, `:1`, `:2`, 1))), fault.InvalidContent},
		"no history":          {packed(t, plain(manifestName, goodManifest), good("a", "x")), fault.InvalidContent},
		"no end":              {packed(t, append(begin, good("a", "x"))...), fault.InvalidContent},
		"a wrong end":         {around(t, 2, 0, 0, 1, good("a", "x")), fault.InvalidContent},
		"behind the end":      {packed(t, append(begin, plain(endName, "{}"), good("a", "x"))...), fault.InvalidContent},
		"absolute":            {around(t, 1, 0, 0, 1, good("/etc/passwd", "x")), fault.InvalidPath},
		"dots":                {around(t, 1, 0, 0, 1, good("../../x", "x")), fault.InvalidPath},
		"dots within":         {around(t, 1, 0, 0, 1, good("a/../../x", "x")), fault.InvalidPath},
		"the work directory":  {around(t, 1, 0, 0, 1, good("/mnt/data/x", "x")), fault.InvalidPath},
		"not in short form":   {around(t, 1, 0, 0, 1, good("a//b", "x")), fault.InvalidPath},
		"a newline":           {around(t, 1, 0, 0, 1, good("a\nb", "x")), fault.InvalidPath},
		"no name":             {around(t, 1, 0, 0, 1, good(".", "x")), fault.InvalidPath},
		"a very long name":    {around(t, 1, 0, 0, 1, good(strings.Repeat("x", 300), "x")), fault.InvalidPath},
		"elsewhere":           {around(t, 1, 0, 0, 1, plain("etc/passwd", "x")), fault.InvalidContent},
		"twice":               {around(t, 2, 0, 0, 2, good("a", "x"), good("a", "y")), fault.InvalidContent},
		"folder and file":     {around(t, 1, 1, 0, 1, special(tar.TypeDir, "files/a/", ""), good("a", "x")), fault.InvalidContent},
		"a device":            {around(t, 0, 0, 0, 0, special(tar.TypeChar, "files/null", "")), fault.InvalidContent},
		"a fifo":              {around(t, 0, 0, 0, 0, special(tar.TypeFifo, "files/fifo", "")), fault.InvalidContent},
		"a hard link":         {around(t, 0, 0, 0, 0, special(tar.TypeLink, "files/hard", "/etc/passwd")), fault.InvalidContent},
		"behind a link":       {around(t, 1, 0, 1, 1, special(tar.TypeSymlink, "files/a", "/tmp"), good("a/b", "x")), fault.InvalidContent},
		"a link behind one":   {around(t, 0, 0, 2, 0, special(tar.TypeSymlink, "files/a", "/tmp"), special(tar.TypeSymlink, "files/a/b", "x")), fault.InvalidContent},
		"a link to nothing":   {around(t, 0, 0, 1, 0, special(tar.TypeSymlink, "files/a", "")), fault.InvalidContent},
		"a link of no text":   {around(t, 0, 0, 1, 0, special(tar.TypeSymlink, "files/a", "\xff")), fault.InvalidContent},
		"too many bytes":      {around(t, 1, 0, 0, 2<<20, good("a", strings.Repeat("x", 2<<20))), fault.UploadTooLarge},
		"too many bytes in 3": {around(t, 3, 0, 0, 3<<19, good("a", strings.Repeat("x", 1<<19)), good("b", strings.Repeat("x", 1<<19)), good("c", strings.Repeat("x", 1<<19))), fault.UploadTooLarge},
		"too many entries":    {around(t, 101, 0, 0, 0, many(101)...), fault.UploadTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := load(t, bytes.NewReader(test.archive), generous)
			wantCode(t, err, test.code)
		})
	}
}

func many(n int) []member {
	var all []member
	for i := range n {
		all = append(all, plain(fmt.Sprintf("files/%d", i), ""))
	}
	return all
}

func zstdOf(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(z, text)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestACheckpointThatIsCutOffIsRefusedWhereverItEnds(t *testing.T) {
	v := newMemory()
	noise := make([]byte, 20_000)
	_, _ = rand.Read(noise)
	v.add(file("noise", string(noise)))
	archive, _, err := export(t, v, generous)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(archive); n += 97 {
		if _, _, _, err := load(t, bytes.NewReader(archive[:n]), generous); fault.From(err).Code != fault.InvalidContent {
			t.Errorf("after %d of %d bytes: %v", n, len(archive), err)
		}
	}
	for n := 100; n < len(archive); n += 997 {
		bad := slices.Clone(archive)
		bad[n] ^= 0x55
		if _, _, _, err := load(t, bytes.NewReader(bad), generous); err == nil {
			t.Errorf("byte %d is another, and nobody saw it", n)
		}
	}
}

// zeros is a tar header of a file, and its content without end.
type zeros struct{ left int64 }

func (z *zeros) Read(b []byte) (int, error) {
	n := int(min(int64(len(b)), z.left))
	clear(b[:n])
	if z.left -= int64(n); n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestABombTakesNoMemory(t *testing.T) {
	reader, writer := io.Pipe()
	go func() { // a manifest without end, in a few kilobytes
		z, _ := zstd.NewWriter(writer)
		w := tar.NewWriter(z)
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax", PAXRecords: map[string]string{"comment": "x"}})
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: manifestName, Size: 1 << 40})
		_, err := io.Copy(w, &zeros{1 << 40})
		_ = writer.CloseWithError(err)
	}()
	_, _, _, err := load(t, reader, generous)
	_ = reader.Close()
	wantCode(t, err, fault.InvalidContent)
}

// discard is a volume that keeps nothing.
type discard struct{ *memory }

func (discard) Put(_ context.Context, _ string, content io.Reader, _ fs.FileMode, _ time.Time) error {
	_, err := io.Copy(io.Discard, content)
	return err
}

func TestALargeSessionTakesNoMoreMemoryThanASmallOne(t *testing.T) {
	const size = 256 << 20
	v := newMemory()
	v.add(sandbox.Entry{File: sandbox.File{Path: "large", SizeBytes: 0}, Kind: 'f', Mode: 0o644}, nil)
	v.open = func(path string) (Reader, error) {
		return &reader{io.LimitReader(rand.Reader, size), sandbox.File{Path: path, SizeBytes: size}, sandbox.ReadEnd{Complete: true}}, nil
	}
	in, out := io.Pipe()
	go func() {
		_, err := Export(context.Background(), out, Manifest{}, strings.NewReader(""), 0, v, Limits{Bytes: size, Entries: 1})
		_ = out.CloseWithError(err)
	}()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	summary, err := Import(t.Context(), in, Limits{Bytes: size, Entries: 1}, func(_ Manifest, h io.Reader) (Volume, error) {
		_, err := io.Copy(io.Discard, h)
		return discard{newMemory()}, err
	})
	runtime.ReadMemStats(&after)
	if err != nil || summary.Bytes != size {
		t.Fatalf("imported %+v, %v", summary, err)
	}
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 96<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func TestAnImportThatIsCancelledEnds(t *testing.T) {
	archive, _, err := export(t, sample(), generous)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Import(ctx, bytes.NewReader(archive), generous, func(_ Manifest, h io.Reader) (Volume, error) {
		_, err := io.Copy(io.Discard, h)
		cancel()
		return newMemory(), err
	})
	// What is in a buffer already may still be taken; then the stream's rest is not.
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAnErrorOfTheReceiverIsNotTheCheckpointsFault(t *testing.T) {
	archive, _, err := export(t, sample(), generous)
	if err != nil {
		t.Fatal(err)
	}
	own := errors.New("no disk")
	if _, err := Import(t.Context(), bytes.NewReader(archive), generous, func(Manifest, io.Reader) (Volume, error) { return nil, own }); !errors.Is(err, own) {
		t.Errorf("got %v", err)
	}
}
