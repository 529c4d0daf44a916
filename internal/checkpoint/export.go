package checkpoint

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Export writes a checkpoint. Of the manifest it sets Format, Version and Exported itself. history is
// historyBytes long. What was written is of no use where it fails. A file that vanishes meanwhile is
// left out, and one that changes is taken as it was read: the report tells of both.
func Export(ctx context.Context, to io.Writer, m Manifest, history io.Reader, historyBytes int64, v Volume, limits Limits) (Report, error) {
	// One goroutine and a small window: memory matters more than speed here.
	packed, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowBytes))
	if err != nil {
		return Report{}, fmt.Errorf("export: %w", err)
	}
	e := &exporter{tar: tar.NewWriter(packed), volume: v, limits: limits, now: time.Now().UTC()}
	m.Format, m.Version, m.Exported = format, version, e.now
	err = e.write(ctx, m, history, historyBytes)
	if closed := packed.Close(); err == nil {
		err = closed
	}
	return e.report, err
}

const windowBytes = 4 << 20

type exporter struct {
	tar    *tar.Writer
	volume Volume
	limits Limits
	report Report
	now    time.Time
}

func (e *exporter) write(ctx context.Context, m Manifest, history io.Reader, historyBytes int64) error {
	if err := e.json(manifestName, m); err != nil {
		return err
	}
	if err := e.member(historyName, historyBytes, history); err != nil {
		return err
	}
	for _, visit := range []func(context.Context, sandbox.Entry) error{e.plain, e.link} {
		if err := e.walk(ctx, visit); err != nil {
			return err
		}
	}
	if err := e.json(endName, e.report.Summary); err != nil {
		return err
	}
	return e.tar.Close()
}

// walk goes through the session once. Links come in a walk of their own, behind everything else, so that
// nothing is ever written through one, and none has to be remembered.
func (e *exporter) walk(ctx context.Context, visit func(context.Context, sandbox.Entry) error) error {
	e.report.Skipped = 0 // both walks pass over the same names
	end, err := e.volume.Walk(ctx, func(entry sandbox.Entry) error {
		if !goodPath(entry.Path) {
			e.report.Skipped++
			return nil
		}
		if err := visit(ctx, entry); err != nil {
			return err
		}
		return e.limits.check(e.report.Summary)
	})
	if err != nil {
		return err
	}
	e.report.Skipped += end.Skipped
	if !end.Complete {
		return fault.New(fault.UploadTooLarge, "Delete files that are not needed from the session first.", "The session has too many files to export.")
	}
	return nil
}

// goodPath reports whether an import would take the path.
func goodPath(path string) bool {
	clean, err := sandbox.CleanPath(path)
	return err == nil && clean == path
}

// plain writes a folder or a file.
func (e *exporter) plain(ctx context.Context, entry sandbox.Entry) error {
	switch entry.Kind {
	case 'd':
		e.report.Folders++
		return e.header(&tar.Header{Typeflag: tar.TypeDir, Name: filesPrefix + entry.Path + "/", Mode: int64(entry.Mode.Perm()), ModTime: entry.Modified})
	case 'f':
		return e.file(ctx, entry)
	}
	return nil
}

func (e *exporter) link(_ context.Context, entry sandbox.Entry) error {
	if entry.Kind != 'l' {
		return nil
	}
	if !goodTarget(entry.Target) {
		e.report.Skipped++
		return nil
	}
	e.report.Links++
	return e.header(&tar.Header{Typeflag: tar.TypeSymlink, Name: filesPrefix + entry.Path, Linkname: entry.Target, Mode: 0o777, ModTime: entry.Modified})
}

func (e *exporter) file(ctx context.Context, entry sandbox.Entry) error {
	r, err := e.volume.Open(ctx, entry.Path)
	if err != nil {
		if fault.From(err).Code == fault.NotFound {
			e.report.Gone++
			return nil
		}
		return err
	}
	defer func() { _ = r.Close() }()
	size := r.File().SizeBytes
	e.report.Files++
	e.report.Bytes += size
	if err := e.limits.check(e.report.Summary); err != nil {
		return err // before it is read: its size is only what the sandbox says
	}
	if err := e.header(&tar.Header{
		Typeflag: tar.TypeReg, Name: filesPrefix + entry.Path, Size: size, Mode: int64(entry.Mode.Perm()), ModTime: r.File().Modified,
	}); err != nil {
		return err
	}
	switch n, err := io.Copy(e.tar, r); {
	case errors.Is(err, tar.ErrWriteTooLong), err == nil && n < size:
		return fault.New(fault.SessionBusy, "Wait until nothing runs in the session, and export it again.",
			"The file %q was changed while it was read.", entry.Path)
	case err != nil:
		return err
	}
	if r.End().Changed {
		e.report.Changed++
	}
	return nil
}

func (e *exporter) json(name string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("export %s: %w", name, err)
	}
	if err := e.header(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o644, ModTime: e.now}); err != nil {
		return err
	}
	_, err = e.tar.Write(text)
	return err
}

func (e *exporter) member(name string, size int64, content io.Reader) error {
	if err := e.header(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: e.now}); err != nil {
		return err
	}
	if _, err := io.CopyN(e.tar, content, size); err != nil {
		return fmt.Errorf("export %s: %w", name, err)
	}
	return nil
}

func (e *exporter) header(h *tar.Header) error {
	h.Format = tar.FormatPAX // long names, and times of less than a second
	if err := e.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("export %s: %w", h.Name, err)
	}
	return nil
}
