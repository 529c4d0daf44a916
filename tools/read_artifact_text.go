// Parts of texts in lines and bytes, of documents and of UTF-16.

package tools

import (
	"bytes"
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"golang.org/x/text/encoding/unicode"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// readLines returns lines of text, by default as many as an answer shows of a run's output.
func (r reading) readLines(ctx context.Context, fields readFields) (*render.Answer, error) {
	most := r.textLimit()
	lines := int64(-1)
	if r.limit != nil {
		lines = *r.limit
	}
	part, err := r.fetch(ctx, sandbox.ReadOptions{Offset: r.from(), Limit: lines, Lines: true, MaxBytes: most}, most)
	if err != nil {
		return nil, err
	}
	return r.renderLines(ctx, fields, part), nil
}

func (r reading) textLimit() int64 { return int64(r.d.Manager.Config().OutputBytes) }

func (r reading) renderLines(ctx context.Context, fields readFields, whole piece) *render.Answer {
	return r.d.renderer().Fit(ctx, len(whole.data), func(most int) *render.Answer {
		part := whole
		if most < len(whole.data) {
			part = cutLines(whole, whole.data, 0, -1, int64(most))
		}
		return r.renderPart(fields, part)
	})
}

func (r reading) renderPart(fields readFields, part piece) *render.Answer {
	cut := part.dropCutLine()
	fields.Encoding, fields.Unit = "utf-8", "lines"
	fields.took(r, part, part.end.Lines)
	note := lineNote(fields)
	if cut {
		note += fmt.Sprintf("; this line is longer and is cut here, unit: bytes with offset %d reads it on", part.end.Start+int64(len(part.data)))
	}
	if r.readsCells(fields.MIMEType) {
		note += "; as: text returns its cells"
	}
	text, broken := content.Plain(part.data, r.from() == 0)
	return r.textAnswer(fields, note+broken, r.d.Secrets.MaskPart(text))
}

// dropCutLine leaves out a last line that is not whole, so that it comes whole with the next part. It
// reports whether the only line is a cut one, which stays.
func (p *piece) dropCutLine() bool {
	if p.end.Complete || len(p.data) == 0 || p.data[len(p.data)-1] == '\n' {
		return false
	}
	last := bytes.LastIndexByte(p.data, '\n')
	if last < 0 {
		p.data = content.WholeCharacters(p.data)
		return true
	}
	p.data = p.data[:last+1]
	p.end.Lines--
	return false
}

// lineNote names the lines in an answer, if it does not hold all.
func lineNote(fields readFields) string {
	switch {
	case fields.Returned == 0 && fields.Offset > 0:
		return fmt.Sprintf(", no lines behind %s", humanize.Comma(fields.Offset))
	case fields.Offset == 0 && fields.NextOffset == nil:
		return ""
	}
	note := fmt.Sprintf(", lines %s to %s", humanize.Comma(fields.Offset+1), humanize.Comma(fields.Offset+fields.Returned))
	if fields.NextOffset != nil {
		note += fmt.Sprintf("; go on with offset %d", *fields.NextOffset)
	}
	return note
}

// readBytes returns text by its bytes, in whole letters: the bytes around show where those begin and end.
func (r reading) readBytes(ctx context.Context, fields readFields) (*render.Answer, error) {
	const around = utf8.UTFMax - 1
	most, before := r.amount(r.textLimit(), r.textLimit()), min(r.from(), around)
	part, err := r.fetch(ctx, sandbox.ReadOptions{Offset: r.from() - before, Limit: before + most + around}, before+most+around)
	if err != nil {
		return nil, err
	}
	r, part = r.letters(part, before, most)
	return r.renderBytesFitted(ctx, fields, part), nil
}

// letters returns the letters that most bytes behind the first of a text are, and the reading as if it had asked for them.
func (r reading) letters(of piece, before, most int64) (reading, piece) {
	at := int(min(before, int64(len(of.data))))
	start, end := content.Letters(of.data, at, int(most))
	offset, part := r.from()-int64(at-start), of.upTo(end)
	r.offset, part.data = &offset, part.data[start:]
	return r, part
}

func (r reading) renderBytesFitted(ctx context.Context, fields readFields, part piece) *render.Answer {
	return r.d.renderer().Fit(ctx, len(part.data), func(most int) *render.Answer { return r.renderBytes(fields, part.upTo(most)) })
}

// upTo returns the part's first bytes.
func (p piece) upTo(most int) piece {
	p.end.Complete = p.end.Complete && most == len(p.data)
	p.data = p.data[:most]
	return p
}

func (r reading) renderBytes(fields readFields, part piece) *render.Answer {
	if !part.end.Complete {
		part.data = content.WholeCharacters(part.data)
	}
	fields.Encoding, fields.Unit = "utf-8", "bytes"
	fields.took(r, part, int64(len(part.data)))
	text, broken := content.Plain(part.data, r.from() == 0)
	return r.textAnswer(fields, byteNote(fields)+broken, r.d.Secrets.MaskPart(text))
}

// byteNote names the bytes in an answer, if it does not hold all.
func byteNote(fields readFields) (note string) {
	if fields.Offset > 0 || fields.NextOffset != nil {
		note = fmt.Sprintf(", bytes %d to %d", fields.Offset, fields.Offset+fields.Returned)
	}
	if fields.NextOffset != nil {
		note += fmt.Sprintf("; go on with offset %d", *fields.NextOffset)
	}
	return note
}

// readWide returns lines of UTF-16 text, which must be decoded before it is split.
func (r reading) readWide(ctx context.Context, fields readFields) (*render.Answer, error) {
	if fields.SizeBytes > maxDecodeBytes {
		return nil, tooLarge(fields, maxDecodeBytes, "It is in UTF-16: write it anew in UTF-8 with code, and read that")
	}
	whole, err := r.fetch(ctx, sandbox.ReadOptions{Limit: -1}, maxDecodeBytes)
	if err != nil {
		return nil, err
	}
	decoded, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder().Bytes(whole.data)
	if err != nil {
		return r.readBinary(ctx, fields)
	}
	return r.renderDecoded(ctx, fields, "utf-16", whole, decoded), nil
}

// readsCells reports whether a file is a notebook with readable cells. Python reads them.
func (r reading) readsCells(mime string) bool {
	if mime != content.Notebook {
		return false
	}
	_, on := r.d.Manager.Config().Kernels[sandbox.Python]
	return on
}

// readDocument returns lines or bytes of the text in a binary document.
func (r reading) readDocument(ctx context.Context, fields readFields) (*render.Answer, error) {
	if _, err := room.Take(ctx, documentRoom*maxDecodeBytes); err != nil {
		return nil, err
	}
	file := sandbox.File{Path: fields.Path, SizeBytes: fields.SizeBytes}
	document, err := r.d.Manager.ReadDocument(ctx, r.session, file, fields.MIMEType, maxDecodeBytes)
	if err != nil {
		return nil, err
	}
	a := r.renderDecoded(ctx, fields, "document", piece{}, []byte(document.Text))
	if !document.Complete {
		left := ""
		if document.LinesLeft > 0 {
			left = fmt.Sprintf(", at least %s", render.Count(document.LinesLeft, "line"))
		}
		a.Noting(fmt.Sprintf("[only the first %s of its text can be read so, the rest%s with code]", humanize.Bytes(uint64(len(document.Text))), left))
	}
	return a, nil
}

// renderDecoded returns a part of a text that had to be made whole first.
func (r reading) renderDecoded(ctx context.Context, fields readFields, encoding string, of piece, text []byte) *render.Answer {
	lines := int64(-1)
	if r.limit != nil {
		lines = *r.limit
	}
	var a *render.Answer
	if r.unit == "bytes" {
		whole := piece{file: of.file, data: text, end: sandbox.ReadEnd{Complete: true}}
		r, part := r.letters(whole, r.from(), r.amount(r.textLimit(), r.textLimit()))
		a = r.renderBytesFitted(ctx, fields, part)
	} else {
		a = r.renderLines(ctx, fields, cutLines(of, text, r.from(), lines, r.textLimit()))
	}
	f := a.Fields.(readFields)
	f.Encoding = encoding
	a.Fields = f
	return a
}

// cutLines does to a text in memory as the supervisor does to a file: it skips offset lines and returns up to limit lines (-1: all) of at
// most most bytes.
func cutLines(of piece, text []byte, offset, limit, most int64) piece {
	part := piece{file: of.file, end: of.end}
	for ; offset > 0 && len(text) > 0; offset-- {
		passed := content.LineEnd(text)
		text = text[passed:]
		part.end.Start += int64(passed)
	}
	taken, lines := 0, int64(0)
	for taken < len(text) && lines != limit {
		end := taken + content.LineEnd(text[taken:])
		if int64(end) > most {
			if lines == 0 {
				taken, lines = len(content.WholeCharacters(text[:most])), 1
			}
			break
		}
		taken, lines = end, lines+1
	}
	part.data = text[:taken]
	part.end.Lines, part.end.Complete = lines, taken == len(text)
	return part
}
