//go:build linux

package files

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"golang.org/x/sys/unix"
)

// source is a file on its way out, no further than its size was when it was opened.
type source struct {
	file  *os.File
	was   unix.Stat_t
	size  int64
	at    int64 // the position of reading
	to    io.Writer
	piece *filewire.Piece
	told  filewire.Answer // about the content sent
}

func newSource(file *os.File, to io.Writer, piece *filewire.Piece) (*source, error) {
	s := &source{file: file, to: to, piece: piece}
	err := unix.Fstat(int(file.Fd()), &s.was)
	s.size = s.was.Size
	return s, err
}

// get sends a part of the file that open finds.
func (w *workDir) get(r filewire.Request, to io.Writer, open func([]forms) (*os.File, string, error)) (filewire.Answer, error) {
	names, err := namesOf(r)
	if err != nil {
		return filewire.Answer{}, err
	}
	file, path, err := open(names)
	if err != nil {
		return filewire.Answer{}, err
	}
	defer func() { _ = file.Close() }()
	s, err := newSource(file, to, new(filewire.Piece))
	if err != nil {
		return filewire.Answer{}, err
	}
	if err := filewire.Write(to, filewire.Answer{Path: path, SizeBytes: s.size, ModifiedMS: milliseconds(&s.was)}); err != nil {
		return filewire.Answer{}, err
	}
	if r.Lines {
		err = s.sendLines(max(0, r.Offset), r.Limit, r.MaxBytes)
	} else {
		err = s.sendBytes(max(0, r.Offset), r.Limit)
	}
	return s.end(err)
}

// draw sends a page as a picture or a document, unless its reader left before.
func (w *workDir) draw(r filewire.Request, to io.Writer, pages *browser.Browser, left <-chan struct{}) (filewire.Answer, error) {
	names, err := namesOf(r)
	if err != nil {
		return filewire.Answer{}, err
	}
	file, path, err := w.file(names)
	if err != nil {
		return filewire.Answer{}, err
	}
	_ = file.Close()
	drawn, err := pages.Draw(browser.Page{File: w.root + "/" + path, PDF: r.As == filewire.Document, MostBytes: int(r.MaxBytes), Dropped: left})
	if err != nil {
		return filewire.Answer{}, err
	}
	told := filewire.Answer{Path: path, SizeBytes: int64(len(drawn.Data)), ModifiedMS: time.Now().UnixMilli()}
	if err := filewire.Write(to, told); err != nil {
		return filewire.Answer{}, err
	}
	piece := new(filewire.Piece)
	for rest := drawn.Data; len(rest) > 0; {
		n := copy(piece.Room(), rest)
		if err := piece.Send(to, n); err != nil {
			return filewire.Answer{}, err
		}
		rest = rest[n:]
	}
	return filewire.Answer{Bytes: told.SizeBytes, Complete: true}, piece.Send(to, 0)
}

// end ends the content, perhaps cut off by err, and returns the answer about it.
func (s *source) end(err error) (filewire.Answer, error) {
	var now unix.Stat_t
	if err := errors.Join(err, s.piece.Send(s.to, 0), unix.Fstat(int(s.file.Fd()), &now)); err != nil {
		return filewire.Answer{}, err
	}
	s.told.Complete = s.at >= s.size
	s.told.Changed = now.Size != s.size || now.Mtim != s.was.Mtim || now.Ctim != s.was.Ctim
	return s.told, nil
}

func milliseconds(s *unix.Stat_t) int64 { return time.Unix(s.Mtim.Unix()).UnixMilli() }

// read reads the next bytes, at most so many, into the piece; none at the end.
func (s *source) read(most int64) ([]byte, error) {
	room := s.piece.Room()
	n, err := s.file.ReadAt(room[:max(0, min(int64(len(room)), most, s.size-s.at))], s.at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	s.at += int64(n)
	return room[:n], err
}

// send sends the first n bytes of the piece.
func (s *source) send(n int) error {
	s.told.Bytes += int64(n)
	return s.piece.Send(s.to, n)
}

func (s *source) sendBytes(offset, limit int64) error {
	s.at = min(offset, s.size)
	left := limit
	if limit < 0 {
		left = s.size
	}
	for left > 0 {
		b, err := s.read(left)
		if err != nil || len(b) == 0 {
			return err
		}
		if err := s.send(len(b)); err != nil {
			return err
		}
		left -= int64(len(b))
	}
	return nil
}

// sendLines sends so many lines after the first offset ones, in no more bytes than most, where that is not zero.
func (s *source) sendLines(offset, limit, most int64) error {
	if limit < 0 {
		limit = s.size
	}
	if most <= 0 {
		most = s.size
	}
	if err := s.passLines(offset, limit); err != nil {
		return err
	}
	s.told.Start = s.at
	open := false // a line without its end so far
	for most > 0 && limit > 0 {
		b, err := s.read(most)
		if err != nil {
			return err
		}
		if len(b) == 0 {
			break
		}
		kept, ends := firstLines(b, limit)
		if kept == len(b) && int64(kept) == most && s.at < s.size { // the last that there is room for
			kept -= halfCharacter(b)
			most = int64(kept)
		}
		s.at -= int64(len(b) - kept)
		open = b[kept-1] != '\n'
		if err := s.send(kept); err != nil {
			return err
		}
		s.told.Lines += ends
		limit -= ends
		most -= int64(kept)
	}
	if open {
		s.told.Lines++
	}
	return nil
}

// passLines reads over the first lines, unless none are to follow.
func (s *source) passLines(lines, limit int64) error {
	for lines > 0 && limit > 0 {
		b, err := s.read(int64(len(s.piece.Room())))
		if err != nil || len(b) == 0 {
			return err
		}
		end, ends := firstLines(b, lines)
		s.at -= int64(len(b) - end)
		lines -= ends
	}
	return nil
}

// firstLines returns where the first so many lines of a piece end, and how many of their ends it has.
func firstLines(b []byte, lines int64) (end int, ends int64) {
	for ends < lines {
		at := bytes.IndexByte(b[end:], '\n')
		if at < 0 {
			return len(b), ends
		}
		end += at + 1
		ends++
	}
	return end, ends
}

// halfCharacter returns how many bytes at the end begin a character that is not complete; none where that is all.
func halfCharacter(b []byte) int {
	for n := 1; n < min(len(b), utf8.UTFMax); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
