package screen

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// bounds of screens: small ones reach every path with little text.
var bounds = [][2]int{{Rows, LineChars}, {2, 4}, {3, 3}, {5, 8}}

// shown returns what pieces look like in the end, and reports what is not as promised on the way.
func shown(t *testing.T, bounds [2]int, pieces ...[]byte) string {
	t.Helper()
	var text []byte
	s := New(bounds[0], bounds[1], func(p []byte) { text = append(text, p...) }, func() { text = nil })
	for _, piece := range pieces {
		s.Write(piece)
		checkBounded(t, s)
	}
	s.Finish()
	text = s.AppendRest(text)
	if !utf8.Valid(text) {
		t.Errorf("%q is shown as what is no text: %q", bytes.Join(pieces, nil), text)
	}
	return string(text)
}

func checkBounded(t *testing.T, s *Screen) {
	t.Helper()
	longest := max(2*s.lineChars, columns+1)
	chars := 0
	for _, l := range s.lines[:cap(s.lines)] {
		chars += cap(l.chars)
	}
	if len(s.lines) > s.rows || chars > 2*s.rows*longest || len(s.parameters) > parameters || len(s.partial) > 3 || cap(s.encoded) > 8*longest {
		t.Errorf("it holds %d lines, %d characters, %d of a sequence, %d of a character, %d of what was settled",
			len(s.lines), chars, len(s.parameters), len(s.partial), cap(s.encoded))
	}
}

func split(p []byte, next func() int) [][]byte {
	var pieces [][]byte
	for len(p) > 0 {
		n := min(next(), len(p))
		pieces = append(pieces, p[:n])
		p = p[n:]
	}
	return pieces
}

func checkShown(t *testing.T, written, expected string) {
	t.Helper()
	for size := range 3 {
		pieces := [][]byte{[]byte(written)}
		if size > 0 {
			pieces = split([]byte(written), func() int { return size })
		}
		should.Equal(t, shown(t, bounds[0], pieces...), expected, "%.200q in pieces of %d is shown as", written, size)
	}
}

func TestPlainTextIsAsItWas(t *testing.T) {
	for _, text := range []string{
		"", "a", "a\n", "\n\n", "a  \n b\t\n", "\ufeffa\ufffd\v\f\x00\x7f", strings.Repeat("é€😀\n", 500), strings.Repeat("😀", 5000),
		strings.Repeat("x", 100_000), strings.Repeat("line\n", 10_000), strings.Repeat(strings.Repeat("y", 5000)+"\n", 100),
	} {
		checkShown(t, text, text)
	}
}

func TestTheSharedTable(t *testing.T) {
	for name, cases := range table(t) {
		t.Run(name, func(t *testing.T) {
			for _, c := range cases {
				checkShown(t, c[0], c[1])
			}
		})
	}
}

// table returns the cases that all languages share, what was written and what is shown.
func table(t testing.TB) map[string][][2]string {
	data := must.Get(os.ReadFile("../../testdata/screen.json"))(t)
	var all map[string][][2]string
	must.OK(t, json.Unmarshal(data, &all))
	return all
}

func TestShown(t *testing.T) {
	for written, expected := range map[string]string{
		"a\xff\xc3b\xe2\x82":                       "a\ufffd\ufffdb\ufffd", // as many as could have begun one are one
		"\xf0\x9f\x98x\xed\xa0\x80":                "\ufffdx\ufffd\ufffd\ufffd",
		"\xc2\x9b31m":                              "31m",
		"\x1b(Ba\x1b#8b\x1b(7\x1b(8c":              "abc", // what has more in between is another sequence
		"ab\x1b[1 D\x1b[2 qc":                      "abc",
		"abc\x1b[?1D\x1b[1?D\x1b[>Dd":              "abcd",
		"ab\x1b[" + strings.Repeat("1", 64) + "Dc": "cb",
		"ab\x1b[" + strings.Repeat("1", 65) + "Dc": "ab1Dc",
		"\x1b[:2Ha\x1b[;3Hb":                       " ab", // parameters that are absent
		"a\x1b[3\nb":                               "a\nb",
		"\x1b]title\x1b[1mtext":                    "text",
		"\x1b]title\x18text\x1bXa\x1atext":         "texttext",
		"\x1b\x1b[Ca":                              " a",
		"a\x1bDb\x1bEc\x1bMd":                      "a\n d\nc",
		"ab\ncd\x1bcx":                             "x\n",
		"ab\x1b[sc\x1b[1Gd\x1b[ue":                 "dbe",
		"top\nwait\x1b[2K\x1b[A\na  \n" + strings.Repeat("b\n", 60): "top\na\n" + strings.Repeat("b\n", 60),
		"a\x1b[3db": "a\n\n b",
		strings.Repeat("a\n", 99) + "\x1b[H\x1b[2J\x1b[3Jb": "b",
		strings.Repeat("a\n", 51) + "\x1b[3Jb":              strings.Repeat("a\n", 49) + "b",
	} {
		checkShown(t, written, expected)
	}
}

func TestMovesHaveBounds(t *testing.T) {
	for _, final := range "ABCDEFGHdPJK`aefu" {
		for _, number := range []string{"", "0", strings.Repeat("9", 60), "1;" + strings.Repeat("9", 60), "5;5;5;5", ":"} {
			text := shown(t, bounds[0], []byte("x\x1b["+number+string(final)+"y"))
			should.Hold(t, len(text) <= 500, "%q%c: %d bytes", number, final, len(text))
		}
	}
}

func TestItHoldsABoundedPart(t *testing.T) {
	s := New(Rows, LineChars, func([]byte) {}, func() {})
	for _, part := range []string{
		"😀", "x", "x\n", "\x1b[999;999Hx", "x\b", "\x1b]", "\x1b[1;1;", "\x1b[200C\x1b[9999P", "\r x", strings.Repeat("y", 4095) + "\n",
		strings.Repeat("y", 4095) + "\x1b[B\r", "\x1b[H" + strings.Repeat(strings.Repeat("z", 4095)+"\x1b[B\r", Rows), "\xf0\x9f",
	} {
		s.Write(bytes.Repeat([]byte(part), 300_000/len(part)+1))
		checkBounded(t, s)
	}
}

func TestLastLine(t *testing.T) {
	for written, expected := range map[string]string{
		"":                                  "",
		" \n\t\n":                           "",
		"first\nlatest line  \n\n":          "latest line",
		"\r1%\r99%":                         "99%",
		strings.Repeat("é", 300) + "  ":     strings.Repeat("é", 200),
		"  a\x1b[1mb\x1b[0m\n\x1b[2Kwait\r": "wait",
	} {
		s := New(Rows, LineChars, func([]byte) {}, func() {})
		s.Write([]byte(written))
		should.Equal(t, s.LastLine(), expected, "%q: the last line", written)
	}
}

func TestClearKeepsWhatHasBegun(t *testing.T) {
	s := New(Rows, LineChars, func(p []byte) { t.Errorf("settled: %q", p) }, func() {})
	s.Write([]byte("one\ntwo\xe2\x82"))
	s.Clear()
	s.Write([]byte("\xac\x1b[3"))
	s.Clear()
	s.Write([]byte("1mred"))
	should.Equal(t, string(s.AppendRest(nil)), "red", "shown")
}

var parts = []string{
	"\r", "\n", "\b", "\a", "\r\n", "\x1b", "\x1b[", "\x1b[1", "\x1b[1;2", "m", "[", " ", "   ", "\x18", "\xff\xe2\x82", "\x9f\x98",
	"\xf0\x9f\x98\x80", "é", "\x1b[A", "\x1b[2A", "\x1b[B", "\x1b[E", "\x1b[F", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[J",
	"\x1b[1J", "\x1b[2J", "\x1b[3J", "\x1b[H", "\x1b[3;5H", "\x1b[5C", "\x1b[999C", "\x1b[3D", "\x1b[10G", "\x1b[7d", "\x1b[2P",
	"\x1b[31;1m", "\x1b[0m", "\x1b\x1b[1m", "\x1b]0;title\a", "\x1b]8;;u\x1b\\", "\x1b]x", "\x1bP", "\x1b7", "\x1b8",
	"\x1bM", "\x1bD", "\x1bc", "\x1b[s", "\x1b[u", "\x1b[?25l", "\x1b(B", "\u009b", "\u009d", "\xc2",
}

func randomStream(source *rand.Rand) []byte {
	var p []byte
	for range source.Intn(120) {
		words := []string{"a", "word ", strings.Repeat("x", source.Intn(30)), strings.Repeat("line\n", source.Intn(8))}
		if source.Float64() < 0.6 {
			words = parts
		}
		p = append(p, words[source.Intn(len(words))]...)
	}
	return p
}

func checkSplits(t *testing.T, p []byte, source *rand.Rand) {
	t.Helper()
	sizes := []int{1, 1, 2, 3, 7, 50, 1000}
	for _, bound := range bounds {
		whole := shown(t, bound, p)
		for _, next := range []func() int{func() int { return 1 }, func() int { return sizes[source.Intn(len(sizes))] }} {
			must.Equal(t, shown(t, bound, split(p, next)...), whole, "%q on %v is shown as", p, bound)
		}
	}
}

func TestHoweverItIsSplit(t *testing.T) {
	for seed := range int64(2000) {
		source := rand.New(rand.NewSource(seed))
		checkSplits(t, randomStream(source), source)
	}
}

func FuzzHoweverItIsSplit(f *testing.F) {
	for _, cases := range table(f) {
		for _, c := range cases {
			f.Add([]byte(c[0]), int64(1))
		}
	}
	f.Add([]byte(strings.Join(parts, "x")), int64(2))
	f.Fuzz(func(t *testing.T, p []byte, seed int64) { checkSplits(t, p, rand.New(rand.NewSource(seed))) })
}
