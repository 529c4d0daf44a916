//go:build linux

package files

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
)

// streamsTo opens streams whose other end is hostile: it is handed each, with the request read.
type streamsTo func(conn net.Conn)

func (s streamsTo) Open() (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer func() { _ = there.Close() }()
		if _, err := filewire.ReadText(there, filewire.MaxRequest); err == nil {
			s(there)
		}
	}()
	return here, nil
}

// says makes bytes of answers: a text of pieces where one begins with '+', else JSON, and raw bytes after '='.
func says(parts ...string) []byte {
	var out []byte
	for _, p := range parts {
		if rest, raw := strings.CutPrefix(p, "="); raw {
			out = append(out, rest...)
			continue
		}
		p = strings.TrimPrefix(p, "+")
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(p))), p...)
	}
	return out
}

func answering(parts ...string) Client {
	return Client{streamsTo(func(conn net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		_, _ = conn.Write(says(parts...))
	})}
}

func TestWhatIsReadIsBelievedOnlySoFar(t *testing.T) {
	const facts = `{"path":"a","size_bytes":6}`
	for name, test := range map[string]struct {
		says []string
		want string
		err  error
		code fault.Code
	}{
		"whole":                 {[]string{facts, "+abc", "+def", "+", `{"bytes":6,"complete":true}`}, "abcdef", nil, ""},
		"it ends":               {[]string{facts, "+abc"}, "abc", ErrSilent, ""},
		"it ends in a piece":    {[]string{facts, "=\x00\x00\x00\x09abc"}, "abc", ErrSilent, ""},
		"it ends in a length":   {[]string{facts, "+abc", "=\x00\x00"}, "abc", ErrSilent, ""},
		"it says no end":        {[]string{facts, "+abc", "+"}, "abc", ErrSilent, ""},
		"an error on the way":   {[]string{facts, "+abc", "+", `{"error":{"code":"failed","message":"I/O \u001b[31merror"}}`}, "abc", nil, fault.ExecutionFailed},
		"too large a piece":     {[]string{facts, "=\x00\x10\x00\x00"}, "", ErrFrame, ""},
		"too large an answer":   {[]string{facts, "+abc", "+", "=\x7f\xff\xff\xff"}, "abc", ErrFrame, ""},
		"too many values":       {[]string{facts, "+abc", "+", `{"x":[0` + strings.Repeat(",0", answerLimits.Values) + `]}`}, "abc", ErrFrame, ""},
		"too deep":              {[]string{facts, "+abc", "+", strings.Repeat("[", 1000)}, "abc", ErrFrame, ""},
		"no JSON, and no paths": {[]string{`{"path":"../../etc/passwd","size_bytes":-1,"modified_ms":9223372036854775807}`, "+abc", "+", "{{"}, "abc", ErrFrame, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := must.Get(answering(test.says...).Open(t.Context(), "a", ReadOptions{Limit: -1}))(t)
			defer func() { _ = r.Close() }()
			if _, err := json.Marshal(r.File()); err != nil || r.File().Path != "a" || r.File().SizeBytes < 0 {
				t.Errorf("the file is %+v, %v", r.File(), err)
			}
			got, err := io.ReadAll(r)
			should.Hold(t, string(got) == test.want && (test.code != "" || errors.Is(err, test.err)) && !errors.Is(err, io.EOF),
				"read %q, %v", got, err)
			switch {
			case test.code != "":
				f := must.Code(t, err, test.code)
				should.Hold(t, !strings.Contains(f.Message, "\x1b"), "control characters come through: %q", f.Message)
			case test.err == nil && !r.End().Complete:
				t.Errorf("the end is %+v", r.End())
			}
		})
	}
}

func TestForgedEntriesOfAListAreLeftOut(t *testing.T) {
	forged := []filewire.Entry{
		{Path: "good.txt", Kind: "f", SizeBytes: 5, ModifiedMS: 1000, Mode: 0o644},
		{Path: "../../etc/passwd", Kind: "f"}, {Path: "/etc/passwd", Kind: "f"}, {Path: "a\nb", Kind: "f"}, {Path: "a\u009b31mb", Kind: "f"},
		{Path: "kind", Kind: "device"}, {Path: "no kind"}, {Kind: "f"}, {Path: "far", Kind: "l", Target: strings.Repeat("x", maxPath+1)},
		{Path: "negative", Kind: "f", SizeBytes: -5, ModifiedMS: math.MinInt64, Mode: 0o7777},
	}
	batch, _ := json.Marshal(filewire.Answer{Entries: forged})
	var got []Entry
	end, err := answering(string(batch), `{"end":true,"complete":true,"skipped":2}`).List(t.Context(), true, func(e Entry) error {
		got = append(got, e)
		return nil
	})
	should.OK(t, should.ErrOf(json.Marshal(got)))
	if err != nil || end != (WalkEnd{Complete: true, Skipped: 10}) || len(got) != 2 || got[0].Path != "good.txt" || got[1].SizeBytes != 0 || got[1].Mode != 0o777 {
		t.Errorf("walked %+v, %+v, %v", got, end, err)
	}
}

func TestAForgedExportEnds(t *testing.T) {
	const file = `{"entries":[{"path":"a","kind":"f","size_bytes":3}]}`
	for name, test := range map[string]struct {
		says []string
		err  error
	}{
		"whole":              {[]string{file, "+abc", "+", `{"bytes":3}`, `{"end":true,"complete":true}`}, nil},
		"no content":         {[]string{file, `{"end":true}`}, ErrFrame},
		"more than it says":  {[]string{file, "+abcd"}, ErrFrame},
		"of no kind":         {[]string{`{"entries":[{"path":"a","kind":"x","size_bytes":3}]}`}, ErrFrame},
		"outside":            {[]string{`{"entries":[{"path":"../a","kind":"f"}]}`}, ErrFrame},
		"two at once":        {[]string{`{"entries":[{"path":"a","kind":"d"},{"path":"b","kind":"d"}]}`}, ErrFrame},
		"nothing, for ever":  {[]string{`{}`, `{}`}, ErrFrame},
		"it ends in a file":  {[]string{file, "+ab"}, ErrSilent},
		"it ends behind one": {[]string{file, "+abc", "+", `{"bytes":3}`}, ErrSilent},
	} {
		end, err := answering(test.says...).Export(t.Context(), func(Entry, io.Reader) error { return nil })
		should.Hold(t, errors.Is(err, test.err) && end.Complete == (err == nil), "%s: %+v, %v", name, end, err)
	}
}

func TestAListHasAnEnd(t *testing.T) {
	full, _ := json.Marshal(filewire.Answer{Entries: make([]filewire.Entry, 2000)})
	for name, test := range map[string]struct {
		again string
		err   error
	}{"too many": {string(full), nil}, "none": {`{}`, ErrFrame}, "another type": {`{"entries":[["a","f"]]}`, ErrFrame}} {
		c := Client{streamsTo(func(conn net.Conn) {
			for {
				if _, err := conn.Write(says(test.again)); err != nil {
					return
				}
			}
		})}
		end, err := c.List(t.Context(), true, func(Entry) error { return nil })
		should.Hold(t, errors.Is(err, test.err) && !end.Complete, "%s: %+v, %v", name, end, err)
	}
}

// TestWhatDoesNotGoOnIsGivenUp has supervisors that stop at any step.
func TestWhatDoesNotGoOnIsGivenUp(t *testing.T) {
	silent := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	deaf := func(net.Conn) { time.Sleep(24 * time.Hour) }
	upload := Upload{Path: "a", Content: io.LimitReader(unending{}, 1<<20)}
	put := func(ctx context.Context, c Client) error {
		_, err := c.Put(ctx, upload)
		return err
	}
	get := func(ctx context.Context, c Client) error {
		r, err := c.Open(ctx, "a", ReadOptions{Limit: -1})
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			_ = r.Close()
		}
		return err
	}
	list := func(ctx context.Context, c Client) error {
		_, err := c.List(ctx, true, func(Entry) error { return nil })
		return err
	}
	bring := func(ctx context.Context, c Client) error {
		return c.Import(ctx, Limits{}, func() (Entry, io.Reader, error) {
			return Entry{File: File{Path: "a"}, Kind: 'f'}, io.LimitReader(unending{}, 1<<20), nil
		})
	}
	export := func(ctx context.Context, c Client) error {
		_, err := c.Export(ctx, func(Entry, io.Reader) error { return nil })
		return err
	}
	exporting := func(conn net.Conn) {
		_, _ = conn.Write(says(`{"entries":[{"path":"a","kind":"f","size_bytes":9}]}`, "+abc"))
		silent(conn)
	}
	begun := func(conn net.Conn) {
		_, _ = conn.Write(says(`{"path":"a"}`, "+abc"))
		silent(conn)
	}
	for name, test := range map[string]struct {
		streams Streams
		do      func(context.Context, Client) error
	}{
		"put, not answered":      {streamsTo(silent), put},
		"put, not read":          {streamsTo(deaf), put},
		"get, not answered":      {streamsTo(silent), get},
		"get, half an answer":    {streamsTo(func(c net.Conn) { _, _ = c.Write([]byte{0, 0}); silent(c) }), get},
		"get, begun":             {streamsTo(begun), get},
		"list":                   {streamsTo(silent), list},
		"import, not read":       {streamsTo(deaf), bring},
		"export, not answered":   {streamsTo(silent), export},
		"export, begun":          {streamsTo(exporting), export},
		"no request taken":       {opens(func() (net.Conn, error) { here, _ := net.Pipe(); return here, nil }), list},
		"no stream opened":       {opens(func() (net.Conn, error) { time.Sleep(time.Hour); return nil, io.EOF }), get},
		"the connection is over": {opens(func() (net.Conn, error) { return nil, io.EOF }), put},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := test.do(t.Context(), Client{test.streams})
				should.Hold(t, errors.Is(err, ErrSilent) && time.Since(began) <= 2*patience, "told as %v after %v", err, time.Since(began))
				if strings.HasPrefix(name, "the connection") {
					return
				}
				gone := errors.New("the caller has gone")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(gone) })
				began = time.Now()
				err = test.do(ctx, Client{test.streams})
				should.Hold(t, errors.Is(err, gone) && time.Since(began) <= 2*time.Second, "given up as %v after %v", err, time.Since(began))
				time.Sleep(48 * time.Hour) // the other ends end
			})
		})
	}
}

type opens func() (net.Conn, error)

func (o opens) Open() (net.Conn, error) { return o() }

// scripted is a stream that reads fixed bytes and takes whatever is written.
type scripted struct {
	net.Conn
	io.Reader
}

func (s scripted) Read(b []byte) (int, error)     { return s.Reader.Read(b) }
func (scripted) Write(b []byte) (int, error)      { return len(b), nil }
func (scripted) Close() error                     { return nil }
func (scripted) SetDeadline(time.Time) error      { return nil }
func (scripted) SetReadDeadline(time.Time) error  { return nil }
func (scripted) SetWriteDeadline(time.Time) error { return nil }

// FuzzFileAnswers feeds the server whatever a supervisor that was taken over could send.
func FuzzFileAnswers(f *testing.F) {
	for _, seed := range [][]string{
		{`{"path":"a.txt","size_bytes":5}`, "+bytes", "+", `{"bytes":-1,"complete":true}`}, {`{"error":{"code":"not_found","message":"\u0000"}}`},
		{`{"entries":[{"path":"a","kind":"f"},{"path":"../b","kind":"f"},{"path":"c","kind":"l","target":"/etc"}]}`, `{"end":true}`},
		{strings.Repeat("[", 100)}, {"1"}, {"=\xff\xff\xff\xff"}, {"=\x00\x00"}, {`{"path":"/etc/passwd"}`, "=\x00\x03\x00\x00"},
	} {
		f.Add(says(seed...))
	}
	f.Fuzz(func(t *testing.T, answers []byte) {
		c := Client{opens(func() (net.Conn, error) { return scripted{Reader: bytes.NewReader(answers)}, nil })}
		inWords := func(err error) {
			var told *fault.Error
			should.Hold(t, !errors.As(err, &told) || utf8.ValidString(told.Message), "an error's words: %v", told)
		}
		isGood := func(file File) {
			should.Hold(t, SafePath(file.Path) == file.Path && file.Path != "" && file.SizeBytes >= 0, "a file %+v", file)
		}
		if file, err := c.Put(t.Context(), Upload{Path: "x", Content: strings.NewReader("x")}); err != nil {
			inWords(err)
		} else {
			isGood(file)
		}
		if r, err := c.Open(t.Context(), "x", ReadOptions{Limit: -1}); err != nil {
			inWords(err)
		} else {
			isGood(r.File())
			n, err := io.Copy(io.Discard, r)
			end := r.End()
			should.Hold(t, n <= int64(len(answers)) && end.Bytes >= 0 && end.Lines >= 0, "%d bytes, %+v", n, end)
			inWords(err)
		}
		_, err := c.List(t.Context(), true, func(e Entry) error {
			isGood(e.File)
			return nil
		})
		inWords(err)
		_, err = c.Export(t.Context(), func(e Entry, content io.Reader) error {
			isGood(e.File)
			n, _ := io.Copy(io.Discard, content)
			should.Hold(t, n <= int64(len(answers)), "%d bytes", n)
			return nil
		})
		inWords(err)
		n, bytes, _, err := c.Usage(t.Context())
		should.Hold(t, n >= 0 && bytes >= 0, "%d files, %d bytes, %v", n, bytes, err)
	})
}
