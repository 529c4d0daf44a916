package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// filesPatience is how long the files program may take over one step: a frame that it reads, an
// answer, a piece of a file.
const filesPatience = 30 * time.Second

// errFilesSilent ends a connection whose program does not go on.
var errFilesSilent = errors.New("the files program does not answer")

// filesConn is the server's end of one files program. One request at a time.
type filesConn struct {
	proc   Process
	in     *bufio.Reader
	broken bool      // no more requests: the program is gone, or its answers cannot be believed
	kernel *kernel   // whose container it is in
	idle   time.Time // since when nobody uses it
}

func newFilesConn(proc Process) *filesConn {
	return &filesConn{proc: proc, in: bufio.NewReaderSize(proc, 64<<10)}
}

// step does something that reads or writes, in bounded time. Where it fails or ctx ends, the
// connection is of no more use.
func (c *filesConn) step(ctx context.Context, do func() error) error {
	watch := time.AfterFunc(filesPatience, func() { _ = c.proc.Close() })
	stop := context.AfterFunc(ctx, func() { _ = c.proc.Close() })
	err := do()
	late := !watch.Stop()
	cut := !stop()
	switch {
	case err == nil && !late && !cut:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case late:
		err = errFilesSilent
	}
	c.close()
	if err == nil {
		err = errFilesSilent
	}
	return err
}

func (c *filesConn) close() {
	c.broken = true
	_ = c.proc.Close()
}

func (c *filesConn) send(ctx context.Context, r filesRequest, blob []byte) error {
	return c.step(ctx, func() error { return writeFilesFrame(c.proc, r, blob) })
}

// receive reads one frame; an error that the program tells of about name is a fault.
func (c *filesConn) receive(ctx context.Context, name string, room []byte) (a filesAnswer, blob []byte, err error) {
	err = c.step(ctx, func() (err error) {
		a, blob, err = readFilesFrame(c.in, room)
		return err
	})
	if err == nil && a.Error != nil {
		return a, nil, a.Error.fault(name)
	}
	return a, blob, err
}

func (c *filesConn) ask(ctx context.Context, r filesRequest, name string) (filesAnswer, error) {
	if err := c.send(ctx, r, nil); err != nil {
		return filesAnswer{}, err
	}
	a, _, err := c.receive(ctx, name, nil)
	return a, err
}

// put sends a file. The program may refuse while the content still comes, so its answers are
// listened for all the time.
func (c *filesConn) put(ctx context.Context, u Upload, limitBytes, limitFiles int64) (File, error) {
	r := filesRequest{
		Op: "put", Path: u.Path, Overwrite: u.Overwrite, LimitBytes: limitBytes, LimitFiles: limitFiles,
		Mode: uint32(u.Mode.Perm()), Exact: u.Exact,
	}
	if !u.Modified.IsZero() {
		r.ModifiedMS = u.Modified.UnixMilli()
	}
	if _, err := c.ask(ctx, r, u.Path); err != nil {
		return File{}, err
	}
	answers := make(chan putAnswer, 1)
	go func() {
		a, _, err := readFilesFrame(c.in, nil)
		answers <- putAnswer{a, err}
	}()
	early, err := c.pour(ctx, u.Content, answers)
	if early != nil {
		// It passes over the data until it is told that no more comes, and says nothing to that.
		_ = c.send(ctx, filesRequest{Op: "abort"}, nil)
		return early.file(c, u.Path)
	}
	end := "commit"
	if err != nil {
		end = "abort"
	}
	if sent := c.send(ctx, filesRequest{Op: end}, nil); sent != nil {
		return File{}, errors.Join(err, sent)
	}
	var last putAnswer
	waited := c.step(ctx, func() error {
		last = <-answers
		return last.err
	})
	if err != nil || waited != nil {
		return File{}, errors.Join(err, waited)
	}
	return last.file(c, u.Path)
}

type putAnswer struct {
	filesAnswer
	err error
}

func (a *putAnswer) file(c *filesConn, name string) (File, error) {
	switch {
	case a.err != nil:
		c.close()
		return File{}, a.err
	case a.Error != nil:
		return File{}, a.Error.fault(name)
	case !a.OK:
		c.close()
		return File{}, errFilesFrame
	}
	return File{Path: name, SizeBytes: max(a.SizeBytes, 0), Modified: time.Now()}, nil
}

// pour sends the content. An answer that comes meanwhile ends it. An error is the content's, or the
// connection's.
func (c *filesConn) pour(ctx context.Context, content io.Reader, answers <-chan putAnswer) (*putAnswer, error) {
	buffer := make([]byte, filesChunk)
	for {
		n, err := io.ReadFull(content, buffer)
		select {
		case early := <-answers:
			return &early, nil
		default:
		}
		if n > 0 {
			if err := c.send(ctx, filesRequest{Op: "data"}, buffer[:n]); err != nil {
				return nil, err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && n < len(buffer) && isEnd(content):
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		}
	}
}

// isEnd tells a short last piece from content that was cut off, which ReadFull reports alike.
func isEnd(content io.Reader) bool {
	_, err := content.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

func (c *filesConn) list(ctx context.Context, everything bool, visit func(Entry) error) (WalkEnd, error) {
	if err := c.send(ctx, filesRequest{Op: "list", Everything: everything}, nil); err != nil {
		return WalkEnd{}, err
	}
	var bad int64
	for seen := 0; ; {
		a, _, err := c.receive(ctx, WorkDir, nil)
		if err != nil {
			return WalkEnd{}, err
		}
		if a.End {
			return WalkEnd{Complete: a.Complete, Skipped: max(a.Skipped, 0) + bad}, nil
		}
		if len(a.Entries) == 0 {
			c.close()
			return WalkEnd{}, errFilesFrame
		}
		if seen += len(a.Entries); seen > maxWalk {
			c.close()
			return WalkEnd{Skipped: bad}, nil
		}
		for _, raw := range a.Entries {
			entry, ok := readEntry(raw)
			if !ok {
				bad++
				continue
			}
			if err := visit(entry); err != nil {
				c.close() // the rest of the list is still on its way
				return WalkEnd{}, err
			}
		}
	}
}

// maxWalk is how many entries a walk tells at the most; the program stops before.
const maxWalk = 250_000

// readEntry takes [path, kind, size_bytes, modified_ms, mode, target] apart.
func readEntry(raw []json.RawMessage) (Entry, bool) {
	var e Entry
	var name, kind, target string
	var modified int64
	var mode uint32
	for i, into := range []any{&name, &kind, &e.SizeBytes, &modified, &mode, &target} {
		if i >= len(raw) {
			break
		}
		if json.Unmarshal(raw[i], into) != nil {
			return e, false
		}
	}
	e.Path = safePath(name)
	if e.Path == "" || len(kind) != 1 || len(target) > maxPathBytes {
		return e, false
	}
	e.SizeBytes, e.Modified = max(e.SizeBytes, 0), moment(modified)
	e.Kind, e.Mode, e.Target = kind[0], fs.FileMode(mode).Perm(), target
	return e, true
}

// fault puts the program's error about a file into words of our own: its message is hostile text.
func (e *filesError) fault(name string) *fault.Error {
	name = clip(name, 120)
	switch e.Code {
	case "not_found":
		return fault.New(fault.NotFound, "list_artifacts tells which files there are.", "There is no file %q.", name)
	case "file_exists":
		return fault.New(fault.FileExists, "Pass overwrite: true to replace it, or use another name.", "There is a file %q already.", name).
			With("size_bytes", e.SizeBytes)
	case "is_directory":
		return fault.New(fault.InvalidPath, "Name a file; list_artifacts with a glob such as "+path.Join(name, "**")+" tells what is in it.",
			"%q is a folder.", name)
	case "invalid_path":
		return fault.New(fault.InvalidPath, "Name a regular file below "+WorkDir+".",
			"%q is no regular file below %s, or a link leads out of it.", name, WorkDir)
	case "quota_exceeded":
		return errQuota(e.SizeBytes)
	}
	return fault.New(fault.ExecutionFailed, "Look at the file from code; the system said what the message tells.",
		"The sandbox could not do this with %q: %s", name, clip(e.Message, 200))
}

func errQuota(bytes int64) *fault.Error {
	return fault.New(fault.QuotaExceeded, "Delete files that are not needed (run code for that), or close the session; the setting is --volume-limit.",
		"The session's files would take more than they may.").With("size_bytes", bytes)
}

// FileReader reads a part of a session's file. It must be closed. It is for one goroutine.
type FileReader struct {
	ctx  context.Context
	conn *filesConn
	file File
	end  ReadEnd
	room []byte
	rest []byte
	done func()
	// session is its id.
	session string
	// explain puts an error of the connection into words.
	explain func(context.Context, error) error
	err     error
}

// File tells what is read: its size is that of the whole.
func (r *FileReader) File() File { return r.file }

// SessionID names the session that the file is in.
func (r *FileReader) SessionID() string { return r.session }

// End tells what was read, once Read has given io.EOF.
func (r *FileReader) End() ReadEnd { return r.end }

// Read gives the part of the file that was asked for.
func (r *FileReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		var a filesAnswer
		a, r.rest, r.err = r.conn.receive(r.ctx, r.file.Path, r.room)
		switch {
		case r.err != nil:
			r.conn.close()
			r.err = r.explain(r.ctx, r.err) // also the end of the connection, which is not that of the file
		case !a.End && len(r.rest) == 0: // it says nothing, for ever
			r.conn.close()
			r.err = r.explain(r.ctx, errFilesFrame)
		case a.End:
			r.end = ReadEnd{
				Bytes: max(a.Bytes, 0), FirstLine: max(a.FirstLine, 0), Lines: max(a.Lines, 0),
				Complete: a.Complete, Changed: a.Changed,
			}
			r.err = io.EOF
		}
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close lets go of the file. What was not read of it is left.
func (r *FileReader) Close() error {
	if r.done == nil {
		return nil
	}
	if !errors.Is(r.err, io.EOF) {
		r.conn.close()
	}
	r.done()
	r.done = nil
	return nil
}

// open asks for a file and reads its facts.
func (c *filesConn) open(ctx context.Context, name string, o ReadOptions) (*FileReader, error) {
	r := filesRequest{Op: "get", Path: name, Offset: o.Offset, Limit: o.Limit, MaxBytes: o.MaxBytes, Unit: "bytes"}
	if o.Lines {
		r.Unit = "lines"
	}
	a, err := c.ask(ctx, r, name)
	if err != nil {
		return nil, err
	}
	if !a.OK {
		c.close()
		return nil, fmt.Errorf("%w: get", errFilesFrame)
	}
	found := safePath(a.Path)
	if found == "" {
		found = name
	}
	return &FileReader{
		ctx: ctx, conn: c, room: make([]byte, filesChunk),
		file: File{Path: found, SizeBytes: max(a.SizeBytes, 0), Modified: moment(a.ModifiedMS)},
	}, nil
}
