package files

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path"
	"slices"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
)

const (
	// patience bounds a supervisor's single step: a message that it reads, an answer, a piece of a file.
	patience = 15 * time.Second
	// importPatience bounds the end of an import: a stream may contain thousands of small files.
	importPatience = time.Minute
	// maxWalk bounds the entries of a walk; a supervisor stops before.
	maxWalk = 250_000
)

var (
	// ErrSilent ends a stream that does not go on.
	ErrSilent = errors.New("the supervisor does not go on with files")
	// ErrUnknownRun is below the fault of a run before which no state is kept.
	ErrUnknownRun = errors.New("what was before the run is not kept")
	// ErrFrame ends a stream with answers that break the protocol.
	ErrFrame = errors.New("an answer about files breaks the protocol")
)

// longAgo is a deadline that ends pending reads and writes.
var longAgo = time.Unix(1, 0)

// Streams opens streams to a supervisor: a [channel.Conn].
type Streams interface{ Open() (net.Conn, error) }

// Client brings files into a session's work directory and out of it, by a stream for each request. Errors are faults, the cause of
// the context's end, those of content and visit, and else ErrSilent or ErrFrame.
type Client struct{ Streams Streams }

// Put sends a file.
func (c Client) Put(ctx context.Context, u Upload) (File, error) {
	r := filewire.Request{
		Op: filewire.Put, Path: u.Path, Forms: otherForms(u.Path), Overwrite: u.Overwrite, LimitBytes: u.Limits.Bytes, LimitFiles: u.Limits.Files,
	}
	a, err := c.send(ctx, r, func(wanted context.Context, s *stream) (contentErr, sendErr error) { return s.pour(wanted, u.Content) })
	if err != nil {
		return File{}, err
	}
	return File{Path: pathOr(a.Path, u.Path), SizeBytes: max(a.SizeBytes, 0), Modified: time.Now()}, nil
}

// Import sends the entries of next, up to one without a kind: folders before their entries, and files with their content.
func (c Client) Import(ctx context.Context, limits Limits, next func() (Entry, io.Reader, error)) error {
	r := filewire.Request{Op: filewire.Import, LimitBytes: limits.Bytes, LimitFiles: limits.Files}
	_, err := c.send(ctx, r, func(wanted context.Context, s *stream) (contentErr, sendErr error) {
		for {
			e, content, err := next()
			if err != nil {
				return err, nil
			}
			var sent filewire.Entry
			if e.Kind != 0 {
				sent = filewire.Entry{Path: e.Path, Kind: string(e.Kind), ModifiedMS: e.Modified.UnixMilli(), Mode: cmp.Or(uint32(e.Mode.Perm()), 0o644), Target: e.Target}
			}
			err = s.step(wanted, s.conn.SetWriteDeadline, func() error { return filewire.Write(s.conn, sent) })
			if err != nil || e.Kind == 0 {
				s.patience = importPatience
				return nil, err
			}
			if sent.Kind == filewire.Regular {
				if contentErr, sendErr = s.pour(wanted, content); contentErr != nil || sendErr != nil {
					return contentErr, sendErr
				}
			}
		}
	})
	return err
}

// send sends a request and its content. The supervisor may refuse before the end of that, so send listens for its answer all the
// time.
func (c Client) send(ctx context.Context, r filewire.Request, pour func(wanted context.Context, s *stream) (contentErr, sendErr error)) (filewire.Answer, error) {
	s, err := c.begin(ctx, r)
	if err != nil {
		return filewire.Answer{}, err
	}
	defer s.close()
	// These belong to the goroutine until done; nobody waits for that while nothing comes.
	var a filewire.Answer
	var answered error
	wanted, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		a, answered = s.read()
		stop()
		_ = s.conn.SetWriteDeadline(longAgo)
	}()
	contentErr, sendErr := pour(wanted, s)
	if contentErr != nil {
		return filewire.Answer{}, contentErr
	}
	if err := s.step(ctx, s.conn.SetReadDeadline, func() error {
		if sendErr != nil { // after an early answer, or there will be none
			_ = s.conn.SetReadDeadline(longAgo)
		}
		<-done
		return answered
	}); err != nil {
		return filewire.Answer{}, err
	}
	if a.Error != nil {
		return filewire.Answer{}, inWords(a.Error, pathOr(a.Path, s.name))
	}
	return a, nil
}

// Open asks for a part of a file and reads its facts.
func (c Client) Open(ctx context.Context, name string, o ReadOptions) (*Reader, error) {
	s, err := c.begin(ctx, filewire.Request{
		Op: filewire.Get, Path: name, Forms: otherForms(name), Offset: o.Offset, Limit: o.Limit, Lines: o.Lines, MaxBytes: o.MaxBytes, As: o.As, Before: o.Before,
	})
	if err != nil {
		return nil, err
	}
	a, err := s.answer()
	if err != nil {
		s.close()
		return nil, err
	}
	return &Reader{
		stream: s, content: filewire.Content{From: s.conn},
		file: File{Path: pathOr(a.Path, name), SizeBytes: max(a.SizeBytes, 0), Modified: Moment(a.ModifiedMS), Before: o.Before},
	}, nil
}

// List calls visit with each entry. An error of visit ends it.
func (c Client) List(ctx context.Context, everything bool, visit func(Entry) error) (WalkEnd, error) {
	return c.list(ctx, filewire.Request{Op: filewire.List, Everything: everything}, visit)
}

// ListBefore calls visit with each file from before a run. An error of visit ends it. ErrUnknownRun is below that fault.
func (c Client) ListBefore(ctx context.Context, run string, visit func(Entry) error) (WalkEnd, error) {
	return c.list(ctx, filewire.Request{Op: filewire.List, Before: run}, func(e Entry) error {
		e.Before = run
		return visit(e)
	})
}

// maxVersions bounds the versions of a file in an answer.
const maxVersions = 100

// Versions returns the versions of a file, the newest first; none of one that no kept run has changed.
func (c Client) Versions(ctx context.Context, name string) ([]Version, error) {
	s, err := c.begin(ctx, filewire.Request{Op: filewire.Past, Path: name, Forms: otherForms(name)})
	if err != nil {
		return nil, err
	}
	defer s.close()
	a, err := s.answer()
	list := []Version{}
	for _, v := range a.Versions[:min(len(a.Versions), maxVersions)] {
		list = append(list, Version{
			Before: text.Safe(v.Before, 80), How: text.Safe(v.How, 80), Why: text.Safe(v.Why, 200),
			File: File{Path: name, SizeBytes: max(v.SizeBytes, 0), Modified: Moment(v.ModifiedMS), Before: text.Safe(v.Before, 80)},
		})
	}
	return list, err
}

func (c Client) list(ctx context.Context, r filewire.Request, visit func(Entry) error) (WalkEnd, error) {
	s, err := c.begin(ctx, r)
	if err != nil {
		return WalkEnd{}, err
	}
	defer s.close()
	var bad int64
	for seen := 0; ; {
		a, err := s.answer()
		switch {
		case err != nil:
			return WalkEnd{}, err
		case a.End:
			return WalkEnd{Complete: a.Complete, Skipped: max(a.Skipped, 0) + bad, NotKept: max(a.Gone, 0)}, nil
		case len(a.Entries) == 0: // it would say nothing for ever
			return WalkEnd{}, ErrFrame
		}
		if seen += len(a.Entries); seen > maxWalk {
			return WalkEnd{Skipped: bad}, nil
		}
		for _, sent := range a.Entries {
			entry, ok := checkEntry(sent)
			if !ok {
				bad++
			} else if err := visit(entry); err != nil {
				return WalkEnd{}, err
			}
		}
	}
}

// Export calls visit with everything in the work directory and the content of each file, folders before their entries and links
// last. An error of visit ends it. Without Complete there was more.
func (c Client) Export(ctx context.Context, visit func(Entry, io.Reader) error) (end ExportEnd, err error) {
	s, err := c.begin(ctx, filewire.Request{Op: filewire.Export})
	if err != nil {
		return end, err
	}
	defer s.close()
	for range maxWalk {
		a, err := s.answer()
		if err != nil {
			return end, err
		}
		if a.End {
			end.Complete, end.Skipped, end.Gone = a.Complete, max(a.Skipped, 0), max(a.Gone, 0)
			return end, nil
		}
		if len(a.Entries) != 1 {
			return end, ErrFrame
		}
		e, ok := checkEntry(a.Entries[0])
		if !ok {
			return end, ErrFrame
		}
		r := &Reader{stream: s, content: filewire.Content{From: s.conn}, file: e.File}
		if err := visit(e, r); err != nil {
			return end, err
		}
		if string(e.Kind) == filewire.Regular {
			if _, err := io.CopyN(io.Discard, r, e.SizeBytes+1); err == nil {
				return end, ErrFrame // more than announced
			} else if !errors.Is(err, io.EOF) {
				return end, err
			}
			if r.End().Changed {
				end.Changed++
			}
		}
	}
	return end, nil
}

// Usage counts the files and bytes of the work directory; complete is false if some were not seen.
func (c Client) Usage(ctx context.Context) (files, bytes int64, complete bool, err error) {
	s, err := c.begin(ctx, filewire.Request{Op: filewire.Usage})
	if err != nil {
		return 0, 0, false, err
	}
	defer s.close()
	a, err := s.answer()
	return max(a.Files, 0), max(a.Bytes, 0), a.Complete, err
}

// begin opens a stream, which must be closed, and sends a request.
func (c Client) begin(ctx context.Context, r filewire.Request) (*stream, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	s := &stream{ctx: ctx, conn: conn, name: cmp.Or(r.Path, engine.WorkDir), patience: patience}
	s.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(longAgo) })
	if err := s.step(ctx, conn.SetWriteDeadline, func() error { return filewire.Write(conn, r) }); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// connect opens a stream in bounded time: a multiplexer waits if a supervisor answered none of many.
func (c Client) connect(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, ErrSilent)
	defer cancel()
	type opened struct {
		conn net.Conn
		err  error
	}
	result := make(chan opened)
	go func() {
		conn, err := c.Streams.Open()
		select {
		case result <- opened{conn, err}:
		case <-ctx.Done():
			if err == nil {
				_ = conn.Close()
			}
		}
	}()
	select {
	case r := <-result:
		if r.err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSilent, r.err)
		}
		return r.conn, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// stream is the server's end of one request.
type stream struct {
	ctx  context.Context
	conn net.Conn
	name string // of the file, for messages
	stop func() bool
	// patience bounds a step.
	patience time.Duration
}

func (s *stream) close() {
	s.stop()
	_ = s.conn.Close()
}

// step calls do, which reads or writes, in bounded time. set sets its deadline.
func (s *stream) step(ctx context.Context, set func(time.Time) error, do func() error) error {
	_ = set(time.Now().Add(s.patience))
	err := ctx.Err() // the end of the context sets a deadline afterwards
	if err == nil {
		err = do()
	}
	switch {
	case err == nil, errors.Is(err, ErrFrame):
		return err
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case errors.Is(err, filewire.ErrTooLarge):
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return fmt.Errorf("%w: %w", ErrSilent, err)
}

// answer reads a message in bounded time. An error in it is a fault.
func (s *stream) answer() (a filewire.Answer, err error) {
	err = s.step(s.ctx, s.conn.SetReadDeadline, func() error {
		a, err = s.read()
		return err
	})
	if err == nil && a.Error != nil {
		err = inWords(a.Error, pathOr(a.Path, s.name))
	}
	return a, err
}

func (s *stream) read() (a filewire.Answer, err error) {
	raw, err := filewire.ReadText(s.conn, filewire.MaxAnswer)
	if errors.Is(err, io.EOF) { // the end of the stream is no file's end
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return a, err
	}
	if err = answerLimits.Check(raw); err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		return filewire.Answer{}, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return a, nil
}

// pour sends the content and its end, as long as that is wanted.
func (s *stream) pour(wanted context.Context, content io.Reader) (contentErr, sendErr error) {
	var piece filewire.Piece
	for {
		n, err := fill(piece.Room(), content)
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err, nil
		}
		err = s.step(wanted, s.conn.SetWriteDeadline, func() error {
			if n > 0 {
				if err := piece.Send(s.conn, n); err != nil {
					return err
				}
			}
			if ended {
				return piece.Send(s.conn, 0)
			}
			return nil
		})
		if err != nil || ended {
			return nil, err
		}
	}
}

// fill reads until b is full, or an error. Unlike io.ReadFull it distinguishes an end from truncated content.
func fill(b []byte, from io.Reader) (n int, err error) {
	for n < len(b) && err == nil {
		var more int
		more, err = from.Read(b[n:])
		n += more
	}
	return n, err
}

// Reader reads a part of a file. It must be closed. It is for one goroutine.
type Reader struct {
	stream  *stream
	content filewire.Content
	file    File
	end     ReadEnd
	err     error
}

// File describes the file: its size is that of the whole.
func (r *Reader) File() File { return r.file }

// End describes the part read, once Read returned io.EOF.
func (r *Reader) End() ReadEnd { return r.end }

// Read reads the requested part of the file.
func (r *Reader) Read(b []byte) (n int, err error) {
	if r.err != nil || len(b) == 0 {
		return 0, r.err
	}
	s, ended := r.stream, false
	err = s.step(s.ctx, s.conn.SetReadDeadline, func() error {
		n, err = r.content.Read(b)
		if ended = errors.Is(err, io.EOF); ended {
			return nil
		}
		return err
	})
	if ended && err == nil {
		var a filewire.Answer
		if a, err = s.answer(); err == nil {
			r.end = ReadEnd{Bytes: max(a.Bytes, 0), Lines: max(a.Lines, 0), Start: max(a.Start, 0), Complete: a.Complete, Changed: a.Changed}
			r.err = io.EOF
			return n, r.err
		}
	}
	r.err = err
	return n, err
}

// Close closes the file and skips its unread rest.
func (r *Reader) Close() error {
	r.stream.close()
	return nil
}

func otherForms(name string) []string {
	forms := []string{name, norm.NFC.String(name), norm.NFD.String(name)}
	slices.Sort(forms)
	return slices.DeleteFunc(slices.Compact(forms), func(form string) bool { return form == name })
}

func pathOr(sent, asked string) string {
	if sent = SafePath(sent); sent != "" {
		return sent
	}
	return asked
}

func checkEntry(sent filewire.Entry) (Entry, bool) {
	e := Entry{
		File: File{Path: SafePath(sent.Path), SizeBytes: max(sent.SizeBytes, 0), Modified: Moment(sent.ModifiedMS)},
		Mode: fs.FileMode(sent.Mode).Perm(), Target: sent.Target,
	}
	switch sent.Kind {
	case filewire.Regular, filewire.Folder, filewire.Link:
	default:
		return e, false
	}
	if e.Path == "" || len(e.Target) > maxPath {
		return e, false
	}
	e.Kind = sent.Kind[0]
	return e, true
}

// inWords puts a supervisor's error about a file into words of our own: its message is hostile text.
func inWords(e *filewire.Error, name string) *fault.Error {
	name = text.Safe(name, 120)
	switch e.Code {
	case filewire.NotFound:
		return fault.New(fault.NotFound, "list_artifacts lists the files.", "There is no file %q.", name)
	case filewire.FileExists:
		return fault.New(fault.FileExists, "Pass overwrite: true to replace it, or use another name.", "There is a file %q already.", name).
			With("size_bytes", e.SizeBytes)
	case filewire.IsDirectory:
		return fault.New(fault.InvalidPath, "Name a file; list_artifacts with a glob such as "+path.Join(name, "**")+" lists what is in it.",
			"%q is a folder.", name)
	case filewire.InvalidPath:
		return fault.New(fault.InvalidPath, "Name a regular file below "+engine.WorkDir+".",
			"%q is no regular file below %s, or a link leads out of it.", name, engine.WorkDir)
	case filewire.QuotaExceeded:
		return errQuota(e.SizeBytes)
	case filewire.UnknownRun:
		return fault.New(fault.InvalidArgument, "session_info names the runs whose files can be seen.", "The files from before this run are not kept.").Because(ErrUnknownRun)
	case filewire.NotKept:
		return fault.New(fault.NotFound, "Read it as it is now, or as it was before another run; session_info names those.",
			"The content of %q from before this run is not kept: %s.", name, text.Safe(e.Message, 200))
	}
	return fault.New(fault.ExecutionFailed, "Look at the file from code; the message has what the system said.",
		"The sandbox could not do this with %q: %s", name, text.Safe(e.Message, 200))
}

// errQuota is for files that exceed the limit: bytes are their size. Zero: the system itself lacked room.
func errQuota(bytes int64) *fault.Error {
	if bytes == 0 {
		return fault.New(fault.QuotaExceeded, "Delete files that are not needed (`df -h "+engine.WorkDir+"` in code shows the room), or have the user give that disk or claim more.",
			"The disk or claim that has the session's files is full, or the file is larger than a single one may be.")
	}
	return fault.New(fault.QuotaExceeded, "Delete files that are not needed (run code for that), or close the session; the setting is --volume-limit.",
		"The session's files would take more than they may.").With("size_bytes", bytes)
}
