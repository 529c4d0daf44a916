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
			if got := m.Mask("x" + text + "y"); strings.Contains(got, "MIIE") || strings.Contains(got, "ggSj") {
				t.Errorf("%s: %q became %q", name, text, got)
			}
		}
		should.Equal(t, m.Mask("  3: ggSjAgEAAoIBAQC7VJTUt9Us8cKjMzEfYyji."), "  3: [masked: KEY].", "%s: a line", name)
		for _, text := range []string{"-----BEGIN PRIVATE KEY-----", "0vQ=", "a line\nand another"} {
			if got := m.Mask(text); got != text {
				t.Errorf("%s: %q became %q", name, text, got)
			}
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
	if nodes > 16*len(value) {
		t.Errorf("%d nodes for %d bytes", nodes, len(value))
	}
	quoted, _ := json.Marshal(value)
	for _, text := range []string{value, string(quoted), url.QueryEscape(value), base64.StdEncoding.EncodeToString([]byte(value)), hex.EncodeToString([]byte(value))} {
		if got := m.Mask(text); !strings.Contains(got, "[masked: KEY]") || len(got) > 20 {
			t.Errorf("%.40q became %.40q", text, got)
		}
	}
}

func TestALogIsMasked(t *testing.T) {
	var b strings.Builder
	m := New(map[string]string{"KEY": `hunt"er22`})
	slog.New(slog.NewJSONHandler(m.Writer(&b), nil)).Info("x", "said", `hunt"er22`)
	slog.New(slog.NewTextHandler(m.Writer(&b), nil)).Info("x", "error", errors.New(`it is hunt"er22`))
	if text := b.String(); strings.Contains(text, "er22") || strings.Count(text, "[masked: KEY]") != 2 {
		t.Errorf("the log: %s", text)
	}
}

// Text that was made to be slow to look through takes no longer than other text: were every way to read
// it tried in turn, this would never end.
func TestHostileTextIsMaskedInOneGo(t *testing.T) {
	m := New(map[string]string{"KEY": strings.Repeat(`\`, 40) + "ab"})
	text := strings.Repeat(`\`, 2000)
	if got := m.Mask(text + "!"); got != text+"!" {
		t.Errorf("became %.100q", got)
	}
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
		if got := m.Mask(before + value + after); strings.HasPrefix(got, before+value) {
			t.Errorf("%q is not masked in %q: %q", value, before+value+after, got)
		}
	})
}
