//go:build unix

package postgres

import (
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/sqltest"
)

func TestTokensAreThoseOfPostgreSQL(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string // kind letter and value or text
	}{
		{`SELECT Ünicode_1$x`, []string{"n:select", "n:Ünicode_1$x"}},
		{`'a''b' E'\'c' e'\\' + 'd\'`, []string{"l:a'b", `l:\'c`, `l:\\`, "o:+", `l:d\`}},
		{"E'a' -- c\n '\\'b' c", []string{"l:a", "b:"}},
		{`U&'\0041' B'01' x'1F' N'n'`, []string{`l:\0041`, "l:01", "l:1F", "l:n"}},
		{`"A ""b"`, []string{`q:A "b`}},
		{`U&"d\0061"`, []string{"b:"}},
		{`U & "x"`, []string{"n:u", "o:&", "q:x"}},
		{`$$a'b$$ $T$ $t$ $T$ a$$b`, []string{"l:a'b", "l: $t$ ", "n:a$$b"}},
		{`$1$$x$$`, []string{"p:$1", "l:x"}},
		{`/* a /* b */ c */ d /***/e/*/*/**/*/*/`, []string{"n:d", "n:e"}},
		{"a -- b\rc", []string{"n:a", "n:c"}},
		{`1e5 0x1F 1_000 .5 1.5e-3 1.`, []string{"0:1e5", "0:0x1F", "0:1_000", "0:.5", "0:1.5e-3", "0:1."}},
		{`1a`, []string{"b:"}},
		{`a+/*x*/b<=--c`, []string{"n:a", "o:+", "n:b", "o:<="}},
		{`a::int[1:2]`, []string{"n:a", "::", "::", "n:int", ":[", "0:1", "::", "0:2", ":]"}},
		{`'open`, []string{"b:"}},
		{`"open`, []string{"b:"}},
		{`/* open /* */`, []string{"b:"}},
		{`$a$ open $A$`, []string{"b:"}},
		{`\`, []string{"b:"}},
	} {
		var got []string
		for _, tok := range tokenize(c.text) {
			switch tok.kind {
			case name:
				got = append(got, "n:"+tok.value)
			case quotedName:
				got = append(got, "q:"+tok.value)
			case literal:
				got = append(got, "l:"+tok.value)
			case number:
				got = append(got, "0:"+tok.text)
			case parameter:
				got = append(got, "p:"+tok.text)
			case operator:
				got = append(got, "o:"+tok.text)
			case punctuation:
				got = append(got, ":"+tok.text)
			case broken:
				got = append(got, "b:")
			}
		}
		should.EqualSlice(t, got, c.want, "%s", c.text)
	}
}

func FuzzTokens(f *testing.F) {
	for _, file := range []string{"attacks", "legitimate"} {
		for _, s := range sqltest.Corpus(f, file) {
			f.Add(s)
		}
	}
	f.Add("$a$ $b")
	f.Add("'a\r\n'b\x00\xff")
	f.Fuzz(func(t *testing.T, text string) {
		var whole strings.Builder
		line := 1
		for _, tok := range tokenize(text) {
			if tok.text == "" || tok.line < line {
				t.Fatalf("%q: a token is empty or goes back: %+v", text, tok)
			}
			line = tok.line
			whole.WriteString(tok.text)
		}
		if whole.String() != text {
			t.Fatalf("the tokens of %q are %q", text, whole.String())
		}
		_, _ = check(text)
	})
}
