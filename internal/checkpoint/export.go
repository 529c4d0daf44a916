package checkpoint

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Walk visits everything in a session, links last, with the content of each file: [sandbox.Manager.ExportFiles].
type Walk func(visit func(sandbox.Entry, io.Reader) error) (sandbox.ExportEnd, error)

// Export writes a checkpoint. It sets Format, Version and Exported of the manifest itself. history is historyBytes long. After an error the
// output is of no use. A file that vanishes meanwhile is left out, and one that changes is taken as it was read: the report lists both.
func Export(to io.Writer, m Manifest, history io.Reader, historyBytes int64, walk Walk, limits Limits) (Report, error) {
	// One goroutine and a small window: memory matters more than speed here.
	packed, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowBytes))
	if err != nil {
		return Report{}, fmt.Errorf("export: %w", err)
	}
	e := &exporter{tar: tar.NewWriter(packed), limits: limits, now: time.Now().UTC()}
	m.Format, m.Version, m.Exported = format, version, e.now
	err = e.write(m, history, historyBytes, walk)
	if closed := packed.Close(); err == nil {
		err = closed
	}
	return e.report, err
}

const windowBytes = 4 << 20

type exporter struct {
	tar    *tar.Writer
	limits Limits
	report Report
	now    time.Time
}

func (e *exporter) write(m Manifest, history io.Reader, historyBytes int64, walk Walk) error {
	if err := e.json(manifestName, m); err != nil {
		return err
	}
	if err := e.member(historyName, historyBytes, history); err != nil {
		return err
	}
	var bad, again int64
	written := make(map[string]bool)
	end, err := walk(func(entry sandbox.Entry, content io.Reader) error {
		if !goodPath(entry.Path) || entry.Kind == 'l' && !goodTarget(entry.Target) {
			bad++
			return nil
		}
		if written[entry.Path] { // it became something else during the walk, and an import refuses a second one
			again++
			return nil
		}
		written[entry.Path] = true
		return e.entry(entry, content)
	})
	if err != nil {
		return err
	}
	if !end.Complete {
		return fault.New(fault.UploadTooLarge, "Delete files that are not needed from the session first.", "The session has too many files to export.")
	}
	end.Skipped += bad
	end.Changed += again
	e.report.ExportEnd = end
	if err := e.json(endName, e.report.Summary); err != nil {
		return err
	}
	return e.tar.Close()
}

// goodPath reports whether an import would take the path.
func goodPath(path string) bool {
	clean, err := sandbox.CleanPath(path)
	return err == nil && clean == path
}

// entry writes a folder, a file or a link.
func (e *exporter) entry(entry sandbox.Entry, content io.Reader) error {
	if err := e.report.add(entry, e.limits); err != nil {
		return err // before it is read: its size comes from the sandbox
	}
	h := &tar.Header{Name: filesPrefix + entry.Path, Mode: int64(entry.Mode.Perm()), ModTime: entry.Modified}
	switch entry.Kind {
	case 'd':
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		return e.header(h)
	case 'l':
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, entry.Target, 0o777
		return e.header(h)
	}
	h.Typeflag, h.Size = tar.TypeReg, entry.SizeBytes
	if err := e.header(h); err != nil {
		return err
	}
	switch n, err := io.Copy(e.tar, content); {
	case errors.Is(err, tar.ErrWriteTooLong), err == nil && n < h.Size:
		return fault.New(fault.SessionBusy, "Wait until nothing runs in the session, and export it again.",
			"The file %q was changed while it was read.", entry.Path)
	default:
		return err
	}
}

func (e *exporter) json(name string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("export %s: %w", name, err)
	}
	return e.member(name, int64(len(text)), bytes.NewReader(text))
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
