package checkpoint

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

var generous = Limits{Bytes: 1 << 20, Entries: 100}

// item is one thing in a session.
type item struct {
	sandbox.Entry
	text string
}

func file(path, text string) item {
	f := sandbox.File{Path: path, SizeBytes: int64(len(text)), Modified: time.Unix(1700000000, 123e6)}
	return item{sandbox.Entry{File: f, Kind: 'f', Mode: 0o640}, text}
}

func other(kind byte, path, target string) item {
	return item{sandbox.Entry{File: sandbox.File{Path: path}, Kind: kind, Mode: 0o755, Target: target}, ""}
}

func sample() []item {
	return []item{
		other('d', "output", ""), file("output/a.csv", "a,b\n"), file(".runs/größe 1.txt", "x"),
		file("output/"+strings.Repeat("long/", 40)+"end", "deep"), other('l', "a link", "/usr/bin/python3"),
	}
}

const history = `{"begin":{"run_id":"run-1"}}` + "\n"

func export(t *testing.T, items []item, limits Limits) ([]byte, Report, error) {
	t.Helper()
	return exportUpTo(t, items, sandbox.ExportEnd{WalkEnd: sandbox.WalkEnd{Complete: true, Skipped: 2}, Gone: 1, Changed: 1}, limits)
}

func exportUpTo(t *testing.T, items []item, end sandbox.ExportEnd, limits Limits) ([]byte, Report, error) {
	t.Helper()
	var b bytes.Buffer
	m := Manifest{SessionID: "s", Created: time.Unix(1700000000, 0).UTC(), Program: "test", Languages: []sandbox.Language{sandbox.Python}, PassThroughEnv: []string{"TOKEN"}}
	report, err := Export(&b, m, strings.NewReader(history), int64(len(history)), func(visit func(sandbox.Entry, io.Reader) error) (sandbox.ExportEnd, error) {
		for _, i := range items {
			if err := visit(i.Entry, strings.NewReader(i.text)); err != nil {
				return sandbox.ExportEnd{}, err
			}
		}
		return end, nil
	}, limits)
	return b.Bytes(), report, err
}

// load imports into nothing, and returns what came.
func load(t *testing.T, from io.Reader, limits Limits) (items []item, m Manifest, told string, err error) {
	t.Helper()
	_, err = Import(t.Context(), from, limits, func(manifest Manifest, h io.Reader, next Next) error {
		text, err := io.ReadAll(h)
		m, told = manifest, string(text)
		for err == nil {
			var i item
			var content io.Reader
			if i.Entry, content, err = next(); err == nil {
				if i.Kind == 0 {
					break
				}
				text, err = io.ReadAll(content)
				i.text = string(text)
				items = append(items, i)
			}
		}
		return err
	})
	return items, m, told, err
}

func TestASessionComesBackAsItWas(t *testing.T) {
	from := sample()
	archive, report, err := export(t, from, generous)
	if err != nil || report.Summary != (Summary{Files: 3, Folders: 1, Links: 1, Bytes: 9}) || report.Skipped != 2 || report.Gone != 1 || report.Changed != 1 {
		t.Fatalf("exported %+v, %v", report, err)
	}
	to, m, told, err := load(t, bytes.NewReader(archive), generous)
	must.OK(t, err)
	if m.SessionID != "s" || m.Program != "test" || !m.Created.Equal(time.Unix(1700000000, 0)) || m.Exported.IsZero() || len(m.PassThroughEnv) != 1 || told != history {
		t.Errorf("the manifest is %+v, the history %q", m, told)
	}
	must.Equal(t, len(to), len(from), "came back")
	for n, want := range from {
		got := to[n]
		if got.Path != want.Path || got.Kind != want.Kind || got.Target != want.Target || got.text != want.text ||
			want.Kind == 'f' && (got.SizeBytes != want.SizeBytes || got.Mode != want.Mode || !got.Modified.Equal(want.Modified)) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestWhatNoImportWouldTakeIsLeftOut(t *testing.T) {
	items := []item{file("a", "1234"), file(strings.Repeat("x/", 600)+"y", "too deep"), other('l', "link", "a\x00b")}
	_, report, err := export(t, items, generous)
	should.Hold(t, err == nil && report.Summary == (Summary{Files: 1, Bytes: 4}) && report.Skipped == 4, "exported %+v, %v", report, err)
}

func TestAnExportThatIsNotWholeFails(t *testing.T) {
	sized := func(bytes int64) item {
		i := file("f", "1234")
		i.SizeBytes = bytes
		return i
	}
	for name, test := range map[string]struct {
		item    item
		partial bool
		limits  Limits
		code    fault.Code
	}{
		"a file that shrinks":  {sized(5), false, generous, fault.SessionBusy},
		"a file that grows":    {sized(3), false, generous, fault.SessionBusy},
		"a sparse terabyte":    {sized(1 << 40), false, generous, fault.UploadTooLarge},
		"too many files":       {sized(4), false, Limits{Bytes: 10, Entries: 0}, fault.UploadTooLarge},
		"a walk without end":   {sized(4), true, generous, fault.UploadTooLarge},
		"a file out of bounds": {sized(4), false, Limits{Bytes: 3, Entries: 9}, fault.UploadTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := exportUpTo(t, []item{test.item}, sandbox.ExportEnd{WalkEnd: sandbox.WalkEnd{Complete: !test.partial}}, test.limits)
			must.Code(t, err, test.code)
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
	z := must.Get(zstd.NewWriter(&b))(t)
	w := tar.NewWriter(z)
	for _, m := range members {
		m.header.Size = int64(len(m.text))
		must.OK(t, w.WriteHeader(&m.header))
		must.OK(t, should.ErrOf(io.WriteString(w, m.text)))
	}
	must.OK(t, errors.Join(w.Close(), z.Close()))
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
			must.Code(t, err, test.code)
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
	must.OK(t, err)
	_, err = io.WriteString(z, text)
	must.OK(t, errors.Join(err, z.Close()))
	return b.Bytes()
}

func TestACheckpointThatIsCutOffIsRefusedWhereverItEnds(t *testing.T) {
	noise := make([]byte, 20_000)
	_, _ = rand.Read(noise)
	archive, _, err := export(t, []item{file("noise", string(noise))}, generous)
	must.OK(t, err)
	for n := 0; n < len(archive); n += 97 {
		_, _, _, err := load(t, bytes.NewReader(archive[:n]), generous)
		should.Hold(t, fault.From(err).Code == fault.InvalidContent, "after %d of %d bytes: %v", n, len(archive), err)
	}
	for n := 100; n < len(archive); n += 997 {
		bad := slices.Clone(archive)
		bad[n] ^= 0x55
		_, _, _, err := load(t, bytes.NewReader(bad), generous)
		should.Hold(t, err != nil, "byte %d is another, and nobody saw it", n)
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
	must.Code(t, err, fault.InvalidContent)
}

// Behind a checkpoint that is whole there may be more, but not without end.
func TestWhatFollowsACheckpointHasAnEnd(t *testing.T) {
	limits := Limits{Bytes: 1 << 20, Entries: 10}
	archive, _, err := export(t, []item{file("a", "x")}, limits)
	must.OK(t, err)
	reader, writer := io.Pipe()
	go func() {
		z, _ := zstd.NewWriter(writer)
		_, err := io.Copy(z, &zeros{1 << 30})
		_ = writer.CloseWithError(errors.Join(err, z.Close()))
	}()
	_, _, _, err = load(t, io.MultiReader(bytes.NewReader(archive), reader), limits)
	_ = reader.Close()
	must.Code(t, err, fault.UploadTooLarge)
}

func TestALargeSessionTakesNoMoreMemoryThanASmallOne(t *testing.T) {
	const size = 256 << 20
	large := file("large", "")
	large.SizeBytes = size
	in, out := io.Pipe()
	go func() {
		_, err := Export(out, Manifest{}, strings.NewReader(""), 0, func(visit func(sandbox.Entry, io.Reader) error) (sandbox.ExportEnd, error) {
			return sandbox.ExportEnd{WalkEnd: sandbox.WalkEnd{Complete: true}}, visit(large.Entry, io.LimitReader(rand.Reader, size))
		}, Limits{Bytes: size, Entries: 1})
		_ = out.CloseWithError(err)
	}()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	summary, err := Import(t.Context(), in, Limits{Bytes: size, Entries: 1}, func(_ Manifest, _ io.Reader, next Next) error {
		for {
			e, content, err := next()
			if err != nil || e.Kind == 0 {
				return err
			}
			if _, err := io.Copy(io.Discard, content); err != nil {
				return err
			}
		}
	})
	runtime.ReadMemStats(&after)
	must.Hold(t, err == nil && summary.Bytes == size, "imported %+v, %v", summary, err)
	grown := int64(after.HeapSys) - int64(before.HeapSys)
	should.Hold(t, grown <= 96<<20, "the heap grew by %d bytes", grown)
}

func TestAnImportThatIsCancelledEnds(t *testing.T) {
	archive, _, err := export(t, sample(), generous)
	must.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Import(ctx, bytes.NewReader(archive), generous, func(_ Manifest, h io.Reader, next Next) error {
		_, err := io.Copy(io.Discard, h)
		cancel()
		for kind := byte('d'); err == nil && kind != 0; {
			var e sandbox.Entry
			e, _, err = next()
			kind = e.Kind
		}
		return err
	})
	// What is in a buffer already may still be taken; then the stream's rest is not.
	should.Be(t, err, context.Canceled)
}

func TestAnErrorOfTheReceiverIsNotTheCheckpointsFault(t *testing.T) {
	archive, _, err := export(t, sample(), generous)
	must.OK(t, err)
	own := errors.New("no disk")
	should.Be(t, should.ErrOf(Import(t.Context(), bytes.NewReader(archive), generous, func(Manifest, io.Reader, Next) error { return own })), own)
	_, err = Import(t.Context(), bytes.NewReader(archive), generous, func(Manifest, io.Reader, Next) error { return nil })
	should.Hold(t, err != nil, "nobody missed what was not taken")
}
