package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// tail is the end of a file.
type tail struct {
	head Head
	torn []byte // text behind the last line that is no line, perhaps an empty one; nil: there is none
	open bool   // the end of the file is no line end
}

// tailOf reads the end of a file. A changed line there counts as the chain's end: Verify finds it.
func tailOf(file io.ReaderAt, size int64) (t tail, err error) {
	for window := int64(64 << 10); ; window *= 8 {
		window = min(window, size)
		b := make([]byte, window)
		if n, err := file.ReadAt(b, size-window); err != nil && (!errors.Is(err, io.EOF) || n < len(b)) {
			return t, err
		}
		t = tail{open: window > 0 && b[len(b)-1] != '\n'}
		rest := bytes.TrimSuffix(b, []byte("\n"))
		for end := len(rest); end > 0; {
			from := bytes.LastIndexByte(rest[:end], '\n') + 1
			if from == 0 && window < size {
				break
			}
			if l, err := parse(rest[from:end]); !errors.Is(err, errNoLine) {
				t.head = Head{l.Sequence, l.Hash}
				if end < len(rest) {
					t.torn = rest[end+1:]
				}
				return t, nil
			}
			end = from - 1
		}
		if window == size || window > 2*maxLine {
			if size > 0 {
				t.torn = rest
			}
			return t, nil
		}
	}
}

// each calls do with the number, from 1, and the text of each line, without its end.
func each(r io.Reader, do func(number int, raw []byte) error) error {
	lines, number := bufio.NewScanner(r), 0
	lines.Buffer(nil, 2*maxLine)
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) { // bufio's own takes a carriage return away
		if at := bytes.IndexByte(data, '\n'); at >= 0 {
			return at + 1, data[:at], nil
		}
		if !atEOF || len(data) == 0 {
			return 0, nil, nil
		}
		return len(data), data, nil
	})
	for lines.Scan() {
		number++
		if err := do(number, lines.Bytes()); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than any that the log has", number+1)
	}
	return lines.Err()
}

// Read calls do with each line of a log, raw and parsed, and returns the error of reading or of do. It skips text that is no line: Verify
// finds that.
func Read(r io.Reader, do func(raw []byte, l *Line) error) error {
	return each(r, func(_ int, raw []byte) error {
		l, err := parse(raw)
		if errors.Is(err, errNoLine) {
			return nil
		}
		return do(raw, &l)
	})
}

// Report is Verify's result.
type Report struct {
	Lines int `json:"lines"`
	// Last is the sequence number of the last line, and Head its hash.
	Last int64  `json:"last"`
	Head string `json:"head"`
	// Torn are the numbers of text lines that killed processes or full disks left, which the chain skips.
	Torn []int `json:"torn,omitempty"`
	// Unfinished reports that the last text is no line yet: it is being written, or the next server finds it torn.
	Unfinished bool `json:"unfinished,omitempty"`
	// Lost is the number of events that the log reports as lost.
	Lost int64 `json:"lost,omitempty"`
	// KeptAt is the sequence number of the line with the wanted hash.
	KeptAt int64 `json:"kept_at,omitempty"`
	// Problems are the first breaks of the chain.
	Problems []Problem `json:"problems,omitempty"`

	kept string
	text []byte // is no line, and begins in line at; nil: there is none
	at   int
}

// Problem is a break of the chain, in a line of the file. Line 0: in none.
type Problem struct {
	Line int    `json:"line"`
	What string `json:"what"`
}

// OK reports whether the chain holds.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

const maxProblems = 20

// Verify checks a log. keptHead is the hash of a line that must exist; empty: none. The error is one of reading; breaks of the chain are in
// the Report.
func Verify(log io.Reader, keptHead string) (*Report, error) {
	r := &Report{kept: keptHead}
	if err := each(log, r.line); err != nil {
		return nil, err
	}
	if r.text != nil {
		if r.Unfinished = !json.Valid(r.text); !r.Unfinished {
			r.wrong(r.at, "it is no line of the log: it was changed or inserted")
		}
	}
	if r.kept != "" && r.KeptAt == 0 {
		r.wrong(0, "no line has the hash %s: the end was cut off, or the chain was written anew", r.kept)
	}
	return r, nil
}

func (r *Report) wrong(line int, format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, Problem{line, fmt.Sprintf(format, args...)})
	}
}

func (r *Report) line(number int, raw []byte) error {
	l, err := parse(raw)
	if errors.Is(err, errNoLine) {
		if r.text == nil {
			r.at, r.text = number, append([]byte{}, raw...)
		} else if r.text = append(append(r.text, '\n'), raw...); len(r.text) > 2*maxLine {
			r.text = r.text[:2*maxLine] // no torn line leaves so much
		}
		return nil
	}
	r.Lines++
	isTorn := l.Kind == KindLog && l.Action == actionTorn
	switch sum, _ := l.Detail["sha256"].(string); {
	case r.text == nil && isTorn:
		r.wrong(number, "the torn text before it, of which it tells, was removed")
	case r.text != nil && isTorn && sum == sumOf(r.text) && !json.Valid(r.text):
		r.Torn = append(r.Torn, r.at)
	case r.text != nil:
		r.wrong(r.at, "it is no line of the log: it was changed or inserted")
	}
	r.text = nil
	switch before := r.Last; {
	case r.Lines == 1 && (l.Sequence != 1 || l.Prev != genesis):
		r.wrong(number, "it does not begin the chain and has number %d: what was before it is missing", l.Sequence)
	case l.Sequence > before+1 && r.Lines > 1:
		r.wrong(number, "lines before it are missing or elsewhere: the one before has number %d and it has %d", before, l.Sequence)
	case l.Sequence <= before:
		r.wrong(number, "it is not in its place or was inserted: the one before has number %d and it has %d", before, l.Sequence)
	case r.Lines > 1 && l.Prev != r.Head:
		r.wrong(number, "it does not follow the line before: one of the two is not the original")
	}
	switch {
	case err != nil:
		r.wrong(number, "%v", err)
	case l.Hash == r.kept:
		r.KeptAt = l.Sequence
	}
	switch {
	case l.Kind == KindLog && l.Action == actionLost:
		n, _ := l.Detail["events"].(float64)
		r.Lost += int64(n)
	case l.Kind == KindLog && l.Action == actionGone:
		r.wrong(number, "lines before it were removed while a server ran")
	}
	r.Last, r.Head = l.Sequence, l.Hash
	return nil
}
