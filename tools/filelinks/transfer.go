// A file read from where it is asked to; transfers in turns and in bounded time.

package filelinks

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

const (
	// sessionTransfers is how many files of one session are transferred by links at once, so that tools reach the others
	// of its turns.
	sessionTransfers = 4
	turnPatience     = 10 * time.Second
)

// source is a file that is read from where it is asked to. It is as it was when it was looked at, or reading it fails: so
// a download is cut off, and not taken for whole.
type source struct {
	open func(sandbox.ReadOptions) (*sandbox.FileReader, error)
	file sandbox.File
	at   int64
	from *sandbox.FileReader // the open rest of the file; nil: nothing is open
	err  error               // that ended the reading
}

var errChanged = errors.New("the file was changed while it was read")

// Seek implements io.Seeker.
func (s *source) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.file.SizeBytes
	}
	if offset < 0 {
		return 0, errors.New("an offset before the file")
	}
	if offset != s.at {
		s.close()
	}
	s.at = offset
	return offset, nil
}

// Read implements io.Reader.
func (s *source) Read(b []byte) (int, error) {
	left := s.file.SizeBytes - s.at
	switch {
	case s.err != nil:
		return 0, s.err
	case left <= 0:
		return 0, io.EOF
	}
	n, err := s.read(b[:min(int64(len(b)), left)])
	if s.at += int64(n); err == nil && s.at == s.file.SizeBytes {
		err = s.unchanged()
	}
	if err != nil {
		s.err = err
		return 0, err
	}
	return n, nil
}

func (s *source) read(b []byte) (int, error) {
	if s.from == nil {
		from, err := s.open(sandbox.ReadOptions{Offset: s.at, Limit: -1})
		if err != nil {
			return 0, err
		}
		s.from = from
		if now := from.File(); now != s.file {
			return 0, errChanged
		}
	}
	n, err := s.from.Read(b)
	if errors.Is(err, io.EOF) {
		err = errChanged // it is shorter now
	}
	return n, err
}

// unchanged reads the end, and compares the file with its first state.
func (s *source) unchanged() error {
	n, err := s.from.Read(make([]byte, 1))
	if n == 0 && errors.Is(err, io.EOF) && !s.from.End().Changed {
		return nil
	}
	return errors.Join(errChanged, err)
}

func (s *source) close() {
	if s.from != nil {
		_ = s.from.Close()
		s.from = nil
	}
}

// A transfer must move 34 KiB a second, so that nobody keeps a session's file open for nothing.
const (
	paceBytes = 1 << 20
	paceTime  = 30 * time.Second
)

// pace moves a deadline on as bytes move.
type pace struct {
	set  func(time.Time) error
	time time.Duration
	left int // until it is moved again
}

// step moves the deadline when it is due. A server without deadlines bounds its transfers itself.
func (p *pace) step() {
	if p.left <= 0 {
		p.left = paceBytes
		_ = p.set(time.Now().Add(p.time))
	}
}

// pacedReader reads a body that comes in bounded time.
type pacedReader struct {
	io.Reader
	pace
	err error // of the body
}

// Paced returns a reader of a request's body that fails with os.ErrDeadlineExceeded if the body comes slower than an upload's pace. It is
// for one goroutine.
func (l *Links) Paced(w http.ResponseWriter, from io.Reader) io.Reader { return l.pacedReader(w, from) }

func (l *Links) pacedReader(w http.ResponseWriter, from io.Reader) *pacedReader {
	return &pacedReader{Reader: from, pace: pace{set: http.NewResponseController(w).SetReadDeadline, time: l.paceTime}}
}

func (r *pacedReader) Read(b []byte) (int, error) {
	r.step()
	n, err := r.Reader.Read(b)
	r.left -= n
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// pacedWriter writes an answer with the headers of files, that is taken in bounded time.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	pace
	holdsRefusals bool // of http.ServeContent
	held          int  // the status of one; 0: there was none
}

// copyBytes is the size of the pieces of a file.
const copyBytes = 128 << 10

func (l *Links) pacedWriter(w http.ResponseWriter) *pacedWriter {
	header := w.Header()
	header.Set("Cache-Control", "private, no-store")
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer") // the address is a secret
	header.Set("X-Content-Type-Options", "nosniff")
	control := http.NewResponseController(w)
	return &pacedWriter{ResponseWriter: w, control: control, pace: pace{set: control.SetWriteDeadline, time: l.paceTime}}
}

// Unwrap is for http.ResponseController.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *pacedWriter) WriteHeader(status int) {
	if w.holdsRefusals && status >= http.StatusBadRequest {
		w.held = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes an answer of one part.
func (w *pacedWriter) Write(b []byte) (int, error) {
	if w.held != 0 {
		return len(b), nil
	}
	w.left = 0
	w.step()
	return w.ResponseWriter.Write(b)
}

// ReadFrom implements io.ReaderFrom, with more bytes at a time than io.Copy takes.
func (w *pacedWriter) ReadFrom(from io.Reader) (written int64, err error) {
	buffer := make([]byte, copyBytes)
	for err == nil {
		n := 0
		for n < len(buffer) && err == nil {
			var more int
			more, err = from.Read(buffer[n:])
			n += more
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return written, err
		}
		w.step()
		more, failed := w.ResponseWriter.Write(buffer[:n])
		w.left -= more
		if written += int64(more); failed != nil {
			return written, failed
		}
	}
	return written, nil
}

// end sends the rest, and removes the deadline for the connection's next use.
func (w *pacedWriter) end() {
	w.left = 0
	w.step()
	_ = w.control.Flush()
	_ = w.set(time.Time{})
}
