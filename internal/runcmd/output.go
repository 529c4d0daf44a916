package runcmd

import (
	"bufio"
	"io"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// printer prints one stream of a run as it comes: first as a terminal would show it, line by line, and the stream's file once that is too
// long.
type printer struct {
	to    io.Writer
	open  func(path string, offset int64) (io.ReadCloser, error)
	mask  *secrets.Masker
	shown string // the printed part of the terminal's text
	lines int64  // of that
	bytes int64  // of the file, printed or passed over
}

// soFar prints the new part of a stream that goes on.
func (p *printer) soFar(s sandbox.Stream) {
	if s.Truncated() {
		if p.mask == nil { // a secret may be received in half
			_ = p.printFile(s.Path)
		}
		return
	}
	whole := int64(strings.Count(s.Head, "\n"))
	open := int64(0)
	if s.Head != "" && !strings.HasSuffix(s.Head, "\n") {
		open = 1
	}
	if s.Lines == whole+open { // else the cursor moves, and lines may still change
		p.print(s.Head[:strings.LastIndexByte(s.Head, '\n')+1])
	}
}

// rest prints the rest of a stream that is over, and returns the number of its lost bytes.
func (p *printer) rest(s sandbox.Stream) (missing int64) {
	if !s.Truncated() {
		p.print(s.Head)
		return 0
	}
	if s.Path != "" && p.printFile(s.Path) == nil {
		return max(0, s.Bytes-p.bytes)
	}
	if p.bytes > 0 {
		return s.Bytes - p.bytes
	}
	p.print(s.Head)
	p.write("\n…\n" + s.Tail)
	return s.OmittedBytes
}

// print prints the new part of a text: all of it, if the printed part was cleared or changed since.
func (p *printer) print(text string) {
	if text == "" { // also where the supervisor did not answer in time
		return
	}
	if !strings.HasPrefix(text, p.shown) {
		p.shown = ""
	}
	p.write(text[len(p.shown):])
	p.shown, p.lines = text, int64(strings.Count(text, "\n"))
}

func (p *printer) write(text string) {
	_, _ = io.WriteString(p.to, text)
}

// printFile prints the new part of the stream's file.
func (p *printer) printFile(path string) error {
	file, err := p.open(path, p.bytes)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	from := bufio.NewReader(file)
	for p.lines > 0 {
		line, err := from.ReadString('\n')
		p.bytes += int64(len(line))
		if err != nil {
			return ignoreEOF(err)
		}
		p.lines--
	}
	if p.mask != nil { // whole: there are secrets of several lines
		all, err := io.ReadAll(from)
		p.bytes += int64(len(all))
		p.write(string(p.mask.MaskBytes(all)))
		return err
	}
	n, err := io.Copy(p.to, from)
	p.bytes += n
	return err
}

func ignoreEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // as a reader returns it
		return nil
	}
	return err
}
