package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Place is the place of a line.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1
}

// String returns the place as compilers write it.
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// opened is a log's file, open for reading.
type opened struct {
	*os.File
	info  os.FileInfo
	from  int64 // where to begin
	lines int   // before that
}

func openFile(path string) (*opened, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &opened{File: file, info: info}, nil
}

// each calls do with the lines of a file from from on, without their ends, until do returns false. ended is false for a last line without
// an end. It moves from and lines behind the last ended line.
func (f *opened) each(do func(at Place, raw []byte, ended bool) bool) error {
	if _, err := f.Seek(f.from, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		raw, length, err := readLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		ended := err == nil
		if length == 0 {
			return nil
		}
		if !do(Place{f.Name(), f.lines + 1}, raw, ended) || !ended {
			return nil
		}
		f.from += length
		f.lines++
	}
}

// readLine reads a line of any length. It returns at most maxLine bytes of it, and its length with the end.
func readLine(r *bufio.Reader) (raw []byte, length int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		length += int64(len(part))
		if room := maxLine - len(raw); room > 0 {
			raw = append(raw, part[:min(room, len(part))]...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(raw, []byte("\n")), length, err
		}
	}
}

// Report is Verify's result.
type Report struct {
	Files int `json:"files"`
	Lines int `json:"lines"`
	// First and Last are the first and last sequence numbers.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Head is the hash of the last line.
	Head string `json:"head"`
	// Torn are the leftovers of killed processes or full disks, which the chain skips.
	Torn []Place `json:"torn,omitempty"`
	// Unfinished reports that the last text is no line yet: it is being written, or the next server finds it torn.
	Unfinished bool `json:"unfinished,omitempty"`
	// Lost is the number of events that the log reports as lost.
	Lost int64 `json:"lost,omitempty"`
	// KeptAt is the sequence number of the line with the wanted hash.
	KeptAt int64 `json:"kept_at,omitempty"`
	// Problems are the first breaks of the chain.
	Problems []Problem `json:"problems,omitempty"`
}

// Problem is a break of the chain.
type Problem struct {
	Place
	Sequence int64  `json:"sequence,omitempty"` // the line's claim; 0: none
	What     string `json:"what"`
}

// maxProblems bounds those in a Report.
const maxProblems = 20

// verifier checks the lines of a chain.
type verifier struct {
	Report
	kept    string
	started bool
	last    link
	begins  int64 // the first kept line, as the log says
	// text is no line, and begins at at; nil: there is none.
	text []byte
	at   Place
}

// Verify checks a log, in one file or in several of an older version, the oldest first. keptHead is the hash of a line that must exist;
// empty: none. The error is one of reading; breaks of the chain are in the Report.
func Verify(paths []string, keptHead string) (*Report, error) {
	v := &verifier{kept: keptHead, Report: Report{Files: len(paths)}}
	for _, path := range paths {
		f, err := openFile(path)
		if err != nil {
			return nil, err
		}
		err = f.each(v.line)
		_ = f.Close()
		if err != nil {
			return nil, err
		}
	}
	v.end(Place{paths[len(paths)-1], 0})
	return &v.Report, nil
}

func (v *verifier) wrong(at Place, sequence int64, format string, args ...any) {
	if len(v.Problems) < maxProblems {
		v.Problems = append(v.Problems, Problem{at, sequence, fmt.Sprintf(format, args...)})
	}
}

func (v *verifier) line(at Place, raw []byte, _ bool) bool {
	l, here, err := parse(raw)
	if errors.Is(err, errNoLine) {
		if v.text == nil {
			v.at, v.text = at, append([]byte{}, raw...)
		} else if v.text = append(append(v.text, '\n'), raw...); len(v.text) > 2*maxLine {
			v.text = v.text[:2*maxLine] // no torn line leaves so much
		}
		return true
	}
	v.Lines++
	switch isTorn := l.Kind() == KindLog && l.Activity == actionTorn; {
	case v.text != nil:
		v.settle(&l, isTorn)
	case isTorn:
		v.wrong(at, here.sequence, "the torn text before it, of which it tells, was removed")
	}
	v.follows(at, here)
	if err != nil {
		v.wrong(at, here.sequence, "it was changed: its hash is not that of its text")
	} else if here.hash == v.kept {
		v.KeptAt = here.sequence
	}
	if l.Kind() == KindLog {
		v.befell(at, here, &l)
	}
	v.last, v.started = here, true
	return true
}

// settle judges the text before a line.
func (v *verifier) settle(l *Line, isTorn bool) {
	sum, _ := l.Unmapped["sha256"].(string)
	if isTorn && sum == sumOf(v.text) && !json.Valid(v.text) {
		v.Torn = append(v.Torn, v.at)
	} else {
		v.wrong(v.at, 0, "it is no line of the log: it was changed or inserted")
	}
	v.text = nil
}

// follows checks that a line continues the last one.
func (v *verifier) follows(at Place, here link) {
	if !v.started {
		v.First = here.sequence
		if here.prev == v.kept && v.kept != "" {
			v.KeptAt = here.sequence - 1
		}
		if (here.sequence == 1) != (here.prev == genesis) || here.sequence < 1 {
			v.wrong(at, here.sequence, "it does not begin the chain and has number %d", here.sequence)
		}
		return
	}
	next := v.last.sequence + 1
	switch {
	case here.sequence > next:
		v.wrong(at, here.sequence, "%s before it is missing or elsewhere: the one before has number %d and it has %d", lines(here.sequence-next), v.last.sequence, here.sequence)
	case here.sequence < next:
		v.wrong(at, here.sequence, "it is not in its place or was inserted: the one before has number %d and it has %d", v.last.sequence, here.sequence)
	case here.prev != v.last.hash:
		v.wrong(at, here.sequence, "it does not follow the line before: one of the two is not the original")
	}
}

func lines(n int64) string {
	if n == 1 {
		return "a line"
	}
	return fmt.Sprintf("%d lines", n)
}

func (v *verifier) befell(at Place, here link, l *Line) {
	switch l.Activity {
	case actionLost:
		n, _ := l.Unmapped["events"].(float64)
		v.Lost += int64(n)
	case actionOld:
		first, _ := l.Unmapped["first"].(float64)
		v.begins = max(v.begins, int64(first))
	case actionGone:
		v.wrong(at, here.sequence, "lines before it were removed while a server ran")
		v.begins = here.sequence
	}
}

func (v *verifier) end(log Place) {
	v.Last, v.Head = v.last.sequence, v.last.hash
	if v.First > max(1, v.begins) {
		v.wrong(log, v.First, "what was before number %d is missing: an older file is to be named first, or it was removed", v.First)
	}
	if v.text != nil {
		if v.Unfinished = !json.Valid(v.text); !v.Unfinished {
			v.wrong(v.at, 0, "it is no line of the log: it was changed or inserted")
		}
	}
	if v.kept != "" && v.KeptAt == 0 {
		v.wrong(log, 0, "no line has the hash %s: the end was cut off, or the chain was written anew", v.kept)
	}
}

// OK reports whether the chain holds.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// followTime is the pause after which Read looks for more.
const followTime = 250 * time.Millisecond

// Read calls do with each line of a log, raw and parsed. follow makes it wait for more until ctx ends, also in a file that replaces this
// one. It skips text that is no line or is not chained: Verify finds that. The error is one of reading, or do's.
func Read(ctx context.Context, path string, follow bool, do func(raw []byte, l *Line) error) error {
	var last *opened
	for {
		f, err := openFile(path)
		switch {
		case err == nil:
			if last != nil && os.SameFile(f.info, last.info) && f.info.Size() >= last.from {
				f.from, f.lines = last.from, last.lines
			}
			if err := f.read(ctx, follow, do); err != nil {
				return err
			}
			last = f
		case last == nil || !errors.Is(err, os.ErrNotExist):
			return err
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followTime):
		}
	}
}

// read reads the present lines, and closes the file.
func (f *opened) read(ctx context.Context, follow bool, do func(raw []byte, l *Line) error) (failed error) {
	defer func() { _ = f.Close() }()
	err := f.each(func(_ Place, raw []byte, ended bool) bool {
		l, _, err := parse(raw)
		if errors.Is(err, errNoLine) || follow && !ended {
			return true
		}
		failed = do(raw, &l)
		return failed == nil && ctx.Err() == nil
	})
	return cmp.Or(failed, err, ctx.Err())
}

// ReadHead returns the end of the chain of a log; zero: the log is empty.
func ReadHead(path string) (Head, error) {
	f, err := openFile(path)
	if err != nil {
		return Head{}, err
	}
	defer func() { _ = f.Close() }()
	last, err := tailOf(f, f.info.Size())
	return last.head, err
}
