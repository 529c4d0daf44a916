package checkpoint

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// The bounds of an archive besides those of its files.
const (
	maxWindow   = 32 << 20  // of the decompression, which is memory
	maxManifest = 64 << 10  // of manifest.json and of end.json
	maxHistory  = 256 << 20 // the history's own reader takes less
	maxOverhead = 8 << 10   // of one member's headers
	maxTarget   = 4 << 10   // of a link's target
)

// Next returns one entry after the other, with the content of each file, and then one without a kind: [sandbox.Manager.ImportFiles].
type Next func() (sandbox.Entry, io.Reader, error)

// Import reads a checkpoint and passes it to receive: the manifest, the history and then the entries, each to its end. The checkpoint may
// come from anybody. After an error the caller must remove receive's result, which is incomplete. The error is a fault, or receive's own.
func Import(ctx context.Context, from io.Reader, limits Limits, receive func(Manifest, io.Reader, Next) error) (Summary, error) {
	packed, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return Summary{}, blame(err)
	}
	defer packed.Close()
	bounded := &boundedReader{ctx: ctx, from: packed, left: limits.Bytes + limits.Entries*maxOverhead + maxHistory}
	i := &importer{tar: tar.NewReader(bounded), limits: limits, seen: make(names), links: make(names)}
	if err := i.read(receive); err != nil {
		return i.summary, err
	}
	// The rest of the stream holds its checksum, and nothing else.
	if _, err := io.Copy(io.Discard, bounded); err != nil {
		return i.summary, blame(err)
	}
	return i.summary, nil
}

// boundedReader ends a stream that gives more than any checkpoint within the limits, or that nobody waits for.
type boundedReader struct {
	ctx  context.Context
	from io.Reader
	left int64
}

var errEndless = errors.New("more data than the files and their names can take")

func (r *boundedReader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.from.Read(b)
	if r.left -= int64(n); r.left < 0 {
		return 0, errEndless
	}
	return n, err
}

// blame makes a fault of an error that the archive's reader told.
func blame(err error) error {
	var f *fault.Error
	switch {
	case err == nil, errors.As(err, &f), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, zstd.ErrMagicMismatch):
		return badArchive("it is not compressed with zstd").Because(err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return badArchive("it ends too early").Because(err)
	case errors.Is(err, errEndless), errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return fault.New(fault.UploadTooLarge, "Allow more with --max-bytes if you trust the file.", "The checkpoint unpacks to more than it may.").Because(err)
	}
	return badArchive("it is damaged").Because(err)
}

func badArchive(why string, args ...any) *fault.Error {
	return fault.New(fault.InvalidContent, "Use a file that `"+fault.Program+" sessions export` wrote, and copy it whole.",
		"The file is no checkpoint that can be imported: %s.", fmt.Sprintf(why, args...))
}

type importer struct {
	tar     *tar.Reader
	limits  Limits
	summary Summary
	ended   bool
	seen    names // every path so far
	links   names // those that are links
}

func (i *importer) read(receive func(Manifest, io.Reader, Next) error) error {
	m, err := i.manifest()
	if err != nil {
		return err
	}
	if h, err := i.next(); err != nil {
		return err
	} else if h.Name != historyName || h.Typeflag != tar.TypeReg || h.Size > maxHistory {
		return badArchive("its second member is no history")
	}
	if err := receive(m, blamed{i.tar}, i.entry); err != nil {
		return err
	}
	if !i.ended {
		return errors.New("import: the checkpoint was not taken to its end")
	}
	return nil
}

// entry returns the next file, folder or link. The end is the proof that nothing is missing.
func (i *importer) entry() (e sandbox.Entry, content io.Reader, err error) {
	h, err := i.next()
	if err != nil {
		return e, nil, err
	}
	if h.Name == endName {
		err := i.end(h)
		i.ended = err == nil
		return e, nil, err
	}
	if e, err = i.place(h); err != nil {
		return e, nil, err
	}
	return e, blamed{i.tar}, i.summary.add(e, i.limits)
}

func (i *importer) next() (*tar.Header, error) {
	h, err := i.tar.Next()
	return h, blame(err)
}

func (i *importer) manifest() (m Manifest, err error) {
	h, err := i.next()
	if err != nil {
		return m, err
	}
	if h.Name != manifestName {
		return m, badArchive("it does not begin with a manifest")
	}
	if err := i.json(h, &m); err != nil {
		return m, err
	}
	switch {
	case m.Format != format:
		return m, badArchive("its manifest names another format")
	case m.Version != version:
		return m, fault.New(fault.InvalidContent, "Use a newer code-sandbox-mcp.", "The checkpoint has version %d, and this program reads version %d.", m.Version, version)
	}
	return m, nil
}

func (i *importer) json(h *tar.Header, into any) error {
	if h.Typeflag != tar.TypeReg || h.Size > maxManifest {
		return badArchive("its %s is no file, or too long", h.Name)
	}
	text, err := io.ReadAll(blamed{i.tar})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return badArchive("its %s is no JSON of ours", h.Name)
	}
	return nil
}

func (i *importer) end(h *tar.Header) error {
	var told Summary
	if err := i.json(h, &told); err != nil {
		return err
	}
	if told != i.summary {
		return badArchive("it does not hold what it says")
	}
	switch _, err := i.tar.Next(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return blame(err)
	}
	return badArchive("something stands behind its end")
}

// kinds of members that a checkpoint may contain.
var kinds = map[byte]byte{tar.TypeReg: 'f', tar.TypeDir: 'd', tar.TypeSymlink: 'l'}

// place returns a member's entry in the session, and refuses members that do not belong in a checkpoint.
func (i *importer) place(h *tar.Header) (e sandbox.Entry, err error) {
	below, ok := strings.CutPrefix(h.Name, filesPrefix)
	if !ok {
		return e, badArchive("%q does not belong there", text.Shorten(h.Name, shownName))
	}
	if h.Typeflag == tar.TypeDir {
		below = strings.TrimSuffix(below, "/")
	}
	name, err := sandbox.CleanPath(below)
	if err != nil {
		return e, err
	}
	if name != below {
		return e, fault.New(fault.InvalidPath, "The file may have been made to do harm: do not import it.", "The path %q is not in its shortest form.", text.Shorten(below, shownName))
	}
	switch {
	case kinds[h.Typeflag] == 0:
		return e, badArchive("%q is neither a file nor a folder nor a link", text.Shorten(name, shownName))
	case i.seen.has(name):
		return e, badArchive("%q is there twice", text.Shorten(name, shownName))
	case h.Typeflag != tar.TypeSymlink && len(i.links) > 0:
		return e, badArchive("%q stands behind a link", text.Shorten(name, shownName))
	case h.Typeflag == tar.TypeSymlink && !goodTarget(h.Linkname):
		return e, badArchive("the target of the link %q is no path", text.Shorten(name, shownName))
	}
	for above := path.Dir(name); above != "."; above = path.Dir(above) {
		if i.links.has(above) {
			return e, badArchive("%q lies behind a link", text.Shorten(name, shownName))
		}
	}
	i.seen.add(name)
	if h.Typeflag == tar.TypeSymlink {
		i.links.add(name)
	}
	e.Path, e.Kind, e.SizeBytes, e.Modified = name, kinds[h.Typeflag], h.Size, h.ModTime
	e.Mode, e.Target = h.FileInfo().Mode().Perm(), h.Linkname
	return e, nil
}

// goodTarget accepts any path as a link's target, also one that leads out: code in the sandbox can make such
// a link itself, and everybody who reads the session's files reckons with that.
func goodTarget(target string) bool {
	return target != "" && len(target) <= maxTarget && utf8.ValidString(target) && !strings.ContainsRune(target, 0)
}

// blamed turns a damaged archive's errors into faults while a file of it is read.
type blamed struct{ from io.Reader }

func (r blamed) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = blame(err)
	}
	return n, err
}

// shownName is the most characters of a name in a message.
const shownName = 120
