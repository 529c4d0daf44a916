package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const secret = `s3cret/Pa+ss "word"&%`

func TestSecretsAreMaskedInEveryForm(t *testing.T) {
	m := New(map[string]string{"API_KEY": secret, "SHORT": "abc", "OUTER": secret + "-more"})
	quoted, _ := json.Marshal(secret)
	inner, _ := json.Marshal(string(quoted))
	encoded := base64.StdEncoding.EncodeToString([]byte("Authorization: " + secret + strings.Repeat("z", 60)))
	for name, text := range map[string]string{
		"plain":                   "key=" + secret + ";",
		"twice":                   secret + secret,
		"longer one first":        secret + "-more",
		"JSON":                    string(quoted),
		"JSON in JSON":            string(inner),
		"JSON as others write it": `s3cret\/Pa+ss \"word\"&%`,
		"bytes in Python's bytes": `b'[b\'s3cret/Pa+ss "word"&%\']'`,
		"quoted-printable":        `s3cret/Pa+ss "word"&%=20`,
		"a shell's word":          `s3cret/Pa+ss\ \"word\"\&%`,
		"HTML":                    html.EscapeString(secret),
		"HTML with names":         "s3cret/Pa+ss &quot;word&quot;&amp;%",
		"query":                   url.QueryEscape(secret),
		"path":                    url.PathEscape(secret),
		"URL in lower case":       "s3cret%2fPa%2bss%20%22word%22%26%25",
		"URL, all of it":          percent(secret, "", "%%%02x"),
		"base64":                  base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64, shifted 1":       base64.StdEncoding.EncodeToString([]byte("a" + secret + "zz")),
		"base64, shifted 2":       base64.StdEncoding.EncodeToString([]byte("ab" + secret + "z")),
		"base64 URL":              base64.RawURLEncoding.EncodeToString([]byte("user:" + secret)),
		"base64 in lines":         encoded[:25] + "\n" + encoded[25:40] + "\r\n" + encoded[40:],
		"base64 in a URL":         url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(secret))),
		"hex":                     hex.EncodeToString([]byte(secret)),
		"hex in capitals":         strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"hex in groups":           fmt.Sprintf("% x", secret),
	} {
		t.Run(name, func(t *testing.T) {
			got := m.Mask(text)
			if !strings.Contains(got, "[masked: ") || strings.Contains(got, "s3cret") || strings.Contains(got, "word") || strings.Contains(got, "more") {
				t.Errorf("%q became %q", text, got)
			}
		})
	}
	should.Equal(t, m.Mask("abc stays, and so does the rest"), "abc stays, and so does the rest", "harmless text")
}

func TestASecretIsMaskedAsTheSandboxShowsItsControlCharacters(t *testing.T) {
	m := New(map[string]string{"KEY": "\x1bone\x7ftwo\u009bthree"})
	should.Equal(t, m.Mask("␛one␡two\ufffdthree"), "[masked: KEY]")
}

const key = `-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw
ggSjAgEAAoIBAQC7VJTUt9Us8cKjMzEfYyji
0vQ=
-----END PRIVATE KEY-----
`

func TestEveryLineOfALongSecretIsMasked(t *testing.T) {
	for name, value := range map[string]string{"in lines": key, "in one line": strings.ReplaceAll(key, "\n", `\n`)} {
		m := New(map[string]string{"KEY": value})
		for _, text := range []string{key, strings.ReplaceAll(key, "\n", "\r\n"), strings.ReplaceAll(key, "\n", `\n`), strings.ReplaceAll(key, "\n", " ")} {
			got := m.Mask("x" + text + "y")
			should.Hold(t, !strings.Contains(got, "MIIE") && !strings.Contains(got, "ggSj"), "%s: %q became %q", name, text, got)
		}
		should.Equal(t, m.Mask("  3: ggSjAgEAAoIBAQC7VJTUt9Us8cKjMzEfYyji."), "  3: [masked: KEY].", "%s: a line", name)
		for _, text := range []string{"-----BEGIN PRIVATE KEY-----", "0vQ=", "a line\nand another"} {
			should.Equal(t, m.Mask(text), text, "%s", name)
		}
	}
}

func TestWhatHidesNothingIsNotMasked(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, "short": false, "true": false, "localhost": false, "Password": false, "production": false, "1234567": false, "/mnt/data/": false, "12345678901": true, "------": false, "00000000": false,
		"abababab": false, "abc   \n": false, "hunter22": true, "\nhunter22\n": true, "5f4dcc": true, "p@ssword": true,
	} {
		should.Equal(t, Maskable(value), want, "%q", value)
	}
	m := New(map[string]string{"A": "localhost", "B": "hunter22 "})
	should.Equal(t, m.Mask("localhost hunter22"), "localhost [masked: B]")
}

func TestOverlappingSecretsAreMaskedWhole(t *testing.T) {
	m := New(map[string]string{"FIRST": "abcdef", "SECOND": "abcdef-ghi", "THIRD": "ghi-klm"})
	for text, want := range map[string]string{
		"abcdef-ghi": "[masked: SECOND]", "abcdef-gh": "[masked: FIRST]-gh", "abcdef-ghi-klm.": "[masked: SECOND].", "abcdefabcdef": "[masked: FIRST][masked: FIRST]",
	} {
		should.Equal(t, m.Mask(text), want, "%q", text)
	}
	should.Equal(t, New(map[string]string{"X": "aXbaXbaX"}).Mask("aXbaXbaXbaXbaX!"), "[masked: X]!", "a secret in itself")
	should.Equal(t, m.MaskHead("abcdef-gh"), "[masked]", "the beginning of the longer one")
}

func TestBytesAreMaskedInTheirPlace(t *testing.T) {
	m := New(map[string]string{"KEY": "hunter22"})
	for text, want := range map[string]string{"\x00hunter22\xff": "\x00********\xff", "ter22\xff": "*****\xff", "\xffhunt": "\xff****", "ter2": "****", "\xff": "\xff"} {
		should.Equal(t, string(m.MaskBytes([]byte(text))), want, "%q", text)
	}
}

// A table and a repr show the beginning of a long text.
func TestTheBeginningBeforeAnEllipsisIsMasked(t *testing.T) {
	m := New(map[string]string{"KEY": "0123456789abcdef/ghij"})
	for text, want := range map[string]string{
		"x 0123456789ab...": "x [masked: KEY]...", "x 0123456789abcd… y": "x [masked: KEY]… y", "0123456789abcdef%2Fg...": "[masked: KEY]...", "MDEyMzQ1Njc4OWFi...": "[masked: KEY]...",
		"0123456789a...": "0123456789a...", "0123456789ab.. ": "0123456789ab.. ", "0123456789abcdef/ghij...": "[masked: KEY]...",
	} {
		should.Equal(t, m.Mask(text), want, "%q", text)
	}
}

// Each form of a long value takes memory.
func TestALongValueTakesLittleMemory(t *testing.T) {
	random := make([]byte, 6<<10)
	rand.NewChaCha8([32]byte{}).Read(random)
	value := base64.StdEncoding.EncodeToString(random)
	m := New(map[string]string{"KEY": value})
	nodes := 0
	for _, a := range m.all() {
		nodes += len(a.nodes)
	}
	should.Hold(t, nodes <= 16*len(value), "%d nodes for %d bytes", nodes, len(value))
	quoted, _ := json.Marshal(value)
	for _, text := range []string{value, string(quoted), url.QueryEscape(value), base64.StdEncoding.EncodeToString([]byte(value)), hex.EncodeToString([]byte(value))} {
		got := m.Mask(text)
		should.Hold(t, strings.Contains(got, "[masked: KEY]") && len(got) <= 20, "%.40q became %.40q", text, got)
	}
}

func TestALogIsMasked(t *testing.T) {
	var b strings.Builder
	m := New(map[string]string{"KEY": `hunt"er22`})
	slog.New(slog.NewJSONHandler(m.Writer(&b), nil)).Info("x", "said", `hunt"er22`)
	slog.New(slog.NewTextHandler(m.Writer(&b), nil)).Info("x", "error", errors.New(`it is hunt"er22`))
	text := b.String()
	should.Hold(t, !strings.Contains(text, "er22") && strings.Count(text, "[masked: KEY]") == 2, "the log: %s", text)
}

// Text that was made to be slow to look through takes no longer than other text: were every way to read
// it tried in turn, this would never end.
func TestHostileTextIsMaskedInOneGo(t *testing.T) {
	m := New(map[string]string{"KEY": strings.Repeat(`\`, 40) + "ab"})
	text := strings.Repeat(`\`, 2000)
	should.Equal(t, m.Mask(text+"!"), text+"!", "became")
}

func TestEveryTextOfFieldsIsMasked(t *testing.T) {
	m := New(map[string]string{"KEY": "hunter22"})
	fields, _ := json.Marshal(m.MaskJSON(struct {
		A string
		B []map[string]string
		N []json.RawMessage
	}{"hunter22", []map[string]string{{"x hunter22": "hunter22"}}, []json.RawMessage{[]byte("9007199254740993"), []byte("10.00")}}))
	should.Equal(t, string(fields), `{"A":"[masked: KEY]","B":[{"x [masked: KEY]":"[masked: KEY]"}],"N":[9007199254740993,10.00]}`, "fields")
}

func TestASecretCutInTwoIsMasked(t *testing.T) {
	m := New(map[string]string{"KEY": "hunter22"})
	for text, want := range map[string]string{
		"it is hunt": "it is [masked]", "it is hunter2": "it is [masked]", "hunter22 and hun": "[masked: KEY] and [masked]", "hu": "hu", "": "",
	} {
		should.Equal(t, m.MaskHead(text), want, "head %q", text)
	}
	should.Equal(t, New(map[string]string{"KEY": "hunter2-hunter2"}).MaskHead("0 hunter2-hunter2"), "0 [masked: KEY]", "a secret that ends as it begins")
	for text, want := range map[string]string{"er22 it was": "[masked] it was", "22": "22", "nter22hunter22": "[masked][masked: KEY]"} {
		should.Equal(t, m.MaskTail(text), want, "tail %q", text)
	}
	for text, want := range map[string]string{"unter2": "[masked]", "ter22 and hun": "[masked] and [masked]", "te": "te", "nothing": "nothing"} {
		should.Equal(t, m.MaskPart(text), want, "part %q", text)
	}
	for _, form := range []string{url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret)), html.EscapeString(secret)} {
		m := New(map[string]string{"KEY": secret})
		for at := 8; at+12 < len(form); at++ {
			should.Equal(t, m.MaskHead("x "+form[:at]), "x [masked]", "head %q", form[:at])
			if got := m.MaskTail(form[at:] + "."); !strings.HasPrefix(got, "[masked]") || strings.Contains(got, form[len(form)-6:]) && !strings.HasSuffix(form, "==") {
				t.Errorf("tail %q became %q", form[at:], got)
			}
		}
	}
}

func TestWithoutSecretsNothingChanges(t *testing.T) {
	for _, m := range []*Masker{nil, New(nil), New(map[string]string{"A": "short"})} {
		should.Equal(t, m.Mask("short text"), "short text")
	}
}

func FuzzMask(f *testing.F) {
	f.Add("hunter22", "a", "b")
	f.Add(secret, "", "\x00")
	f.Fuzz(func(t *testing.T, value, before, after string) {
		m := New(map[string]string{"X": value})
		if m == nil || strings.Contains(before+"[masked: X]", value) {
			return
		}
		_, _, _ = m.MaskHead(after+value), m.MaskTail(value+after), m.MaskPart(after)
		got := m.Mask(before + value + after)
		should.Hold(t, !strings.HasPrefix(got, before+value), "%q is not masked in %q: %q", value, before+value+after, got)
	})
}

// awkward has every character that an encoder writes in another way.
const awkward = `s3cret/Pa+ss "word"&%'=$#ü~!`

// What the encoders of bash, dash, Node and Python print for it.
var encoded = map[string]string{
	"declare -p in bash":              `X="s3cret/Pa+ss \"word\"&%'=\$#ü~!"`,
	"printf %q in bash":               `s3cret/Pa+ss\ \"word\"\&%\'=\$#ü~\!`,
	"an assignment in dash":           `X='s3cret/Pa+ss "word"&%'"'"'=$#ü~!'`,
	"a password in Node's URL":        `s3cret%2FPa+ss%20%22word%22&%'%3D$%23%C3%BC~!`,
	"a path in Node's URL":            `/s3cret/Pa+ss%20%22word%22&%'=$%23%C3%BC~!`,
	"a query in Node's URL":           `?q=s3cret/Pa+ss%20%22word%22&%%27=$%23%C3%BC~!`,
	"a fragment in Node's URL":        `#s3cret/Pa+ss%20%22word%22&%'=$#%C3%BC~!`,
	"Node's URLSearchParams":          `q=s3cret%2FPa%2Bss+%22word%22%26%25%27%3D%24%23%C3%BC%7E%21`,
	"JavaScript's encodeURI":          `s3cret/Pa+ss%20%22word%22&%25'=$#%C3%BC~!`,
	"Python's quote":                  `s3cret/Pa%2Bss%20%22word%22%26%25%27%3D%24%23%C3%BC~%21`,
	"Python's requests":               `s3cret/Pa+ss%20%22word%22&%'=$#%C3%BC~!`,
	"Python's ascii":                  `'s3cret/Pa+ss "word"&%\'=$#\xfc~!'`,
	"Python's ascii, in bytes":        `s3cret/Pa+ss "word"&%'=$#\xfc~!`,
	"Python's bytes":                  `b's3cret/Pa+ss "word"&%\'=$#\xc3\xbc~!'`,
	"JSON in ASCII":                   `"s3cret/Pa+ss \"word\"&%'=$#\u00fc~!"`,
	"quoted-printable":                `s3cret/Pa+ss "word"&%'=3D$#=C3=BC~!`,
	"HTML":                            `s3cret/Pa+ss &quot;word&quot;&amp;%&#x27;=$#ü~!`,
	"hexadecimal digits with hyphens": `73-33-63-72-65-74-2f-50-61-2b-73-73-20-22-77-6f-72-64-22-26-25-27-3d-24-23-c3-bc-7e-21`,
	"base64 in PHP's JSON":            `czNjcmV0L1BhK3NzICJ3b3JkIiYlJz0kI8O8fiE=`,
}

func TestWhatEncodersPrintIsMasked(t *testing.T) {
	m := New(map[string]string{"KEY": awkward})
	for name, text := range encoded {
		if got := m.Mask(text); !strings.Contains(got, "[masked: KEY]") || len(got) > len("X='[masked: KEY]'")+len("Pz8/")+len(`\u003d`) {
			t.Errorf("%s: %q became %q", name, text, got)
		}
		for length := 1; length < len(text); length++ {
			var out strings.Builder
			streamed(t, m.Stream(&out), text+", and more", length)
			want := m.Mask(text + ", and more")
			should.Hold(t, out.String() == want, "%s in pieces of %d became %q instead of %q", name, length, out.String(), want)
			if got := m.MaskHead("It is: " + text[:length]); length >= 24 && (strings.Contains(got, text[4:12]) || !strings.Contains(got, "masked")) {
				t.Errorf("%s: the head %q became %q", name, text[:length], got)
			}
			if got := m.MaskTail(text[length:] + "."); length+24 < len(text) && !strings.HasPrefix(got, "[masked") && length > 5 {
				t.Errorf("%s: the tail %q became %q", name, text[length:], got)
			}
		}
	}
}

// Of a value of two lines, too, which are no secrets by themselves here.
func TestWhatEncodersPrintOfTwoLinesIsMasked(t *testing.T) {
	m := New(map[string]string{"KEY": "a+b/c\nü\"'"})
	for name, text := range map[string]string{
		"a password in Node's URL": "a+b%2Fc%0A%C3%BC%22'",
		"printf %q in bash":        `$'a+b/c\nü"\''`,
		"Python's ascii":           `'a+b/c\n\xfc"\''`,
		"quoted-printable":         "a+b/c=0A=C3=BC\"'",
	} {
		got := m.Mask(text)
		should.Hold(t, strings.Contains(got, "[masked: KEY]") && len(got) <= len("$'[masked: KEY]'"), "%s: %q became %q", name, text, got)
	}
}

// streamed writes a text in pieces of some length.
func streamed(t *testing.T, stream *Stream, text string, length int) {
	t.Helper()
	for len(text) > 0 {
		piece := text[:min(length, len(text))]
		text = text[len(piece):]
		must.OK(t, should.ErrOf(stream.Write([]byte(piece))))
	}
	must.OK(t, stream.Close())
}

func TestAStreamIsMaskedHoweverItIsCut(t *testing.T) {
	m := New(map[string]string{"KEY": secret, "FIRST": "abcdefgh", "SECOND": "efgh-more-of-it", "THIRD": "bcdefghX1"})
	encoded := base64.StdEncoding.EncodeToString([]byte("user:" + secret + ", and more"))
	for _, text := range []string{
		"", "nothing", secret, "key=" + secret + "; and " + url.QueryEscape(secret) + ".", secret[:8], "it is " + secret[:10], secret + secret,
		encoded, encoded[:20] + "\r\n" + encoded[20:], encoded[:20] + `\n` + encoded[20:], encoded[:20] + `\r\n` + encoded[20:],
		hex.EncodeToString([]byte(secret[:9])) + `\n` + hex.EncodeToString([]byte(secret[9:])), secret[:12] + "...", secret[:14] + "… and", secret[:12] + "..", secret[:11] + "...",
		`\\\x73` + secret[1:], "s3cret%2FPa+ss%20%22word%22&%", "%2s3cret%2fPa%2%2b", "abcdefgh", "abcdefgh-more", "abcdefgh-more-of-it.", "abcdefghX1.", "abcdefghX2", "abcdefgabcdefgh",
	} {
		for length := 1; length < len(text)+2; length++ {
			var out, sized strings.Builder
			streamed(t, m.Stream(&out), text, length)
			should.Equal(t, out.String(), m.Mask(text), "%q in pieces of %d", text, length)
			streamed(t, m.StreamBytes(&sized), text, length)
			if len(sized.String()) != len(text) || m.In([]byte(sized.String())) || m.In([]byte(text)) != strings.Contains(sized.String(), "****") {
				t.Errorf("%q in pieces of %d became %q", text, length, sized.String())
			}
		}
	}
}

// An escape that is not whole yet reads as more of the secret's second line.
func TestAStreamMasksNoMoreThanIsThere(t *testing.T) {
	m := New(map[string]string{"KEY": "'… \\d83dd83d ;2Bn\n&aa\"d83d\\"})
	const text = `x\'\u2026 \\d83dd83d ;2Bn\n\u0026aa\"d83d\\\'\xe2\x80\xa6 \\d83dd8…de00'`
	for length := 1; length < len(text); length++ {
		var out strings.Builder
		streamed(t, m.Stream(&out), text, length)
		should.Equal(t, out.String(), "x[masked: KEY][masked: KEY]…de00'", "in pieces of %d", length)
	}
}

func TestAStreamHoldsBackNoMoreThanABeginning(t *testing.T) {
	var out strings.Builder
	stream := New(map[string]string{"KEY": "hunter22"}).Stream(&out)
	for _, step := range []struct{ write, want string }{{"data: 1\n\n", "data: 1\n\n"}, {"a hunt", "data: 1\n\na "}, {"s", "data: 1\n\na hunts"}} {
		fmt.Fprint(stream, step.write)
		should.Equal(t, out.String(), step.want, "after %q there", step.write)
	}
}

func TestAStreamWithoutSecretsChangesNothing(t *testing.T) {
	var out strings.Builder
	streamed(t, (*Masker)(nil).StreamBytes(&out), "as it is", 3)
	should.Equal(t, out.String(), "as it is")
}

func FuzzStream(f *testing.F) {
	f.Add("hunter22", "a hunter22 hunter2hunter22", 3)
	f.Add("…\r0#aamp;#0bA", `…`+"\r0#aamp;#0b"+`\xe2\x80\xa6\r0#aamp;#0bA`, 1)
	f.Fuzz(func(t *testing.T, value, text string, length int) {
		m := New(map[string]string{"X": value, "Y": value + "-" + value})
		var out strings.Builder
		streamed(t, m.Stream(&out), text, max(1, length))
		should.Equal(t, out.String(), m.Mask(text), "%q with %q", text, value)
	})
}
