package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Shortest is the shortest value, in bytes, that is masked: shorter ones occur by chance, and
// masking them would garble ordinary output.
const Shortest = 6

// The shortest parts of a secret that are masked at a cut, in characters of its form.
const (
	plainFragment  = 3
	base64Fragment = 4
	hexFragment    = 6
)

// elidedFragment is the shortest part of a secret that is masked before or behind an ellipsis, as displays put
// in the place of what is too long: Python's reprlib leaves 12 characters.
const elidedFragment = 12

// mostElided is how many characters before its needle's end a part may begin that stands behind an ellipsis, so
// that the rests of a long secret are no more than those of a token.
const mostElided = 128

// publicBeginning is what many secrets begin with and all may know, so that it stands before an ellipsis in
// ordinary text: an address's scheme, the line before a key, the header of a JWT, a long prefix of API keys.
var publicBeginning = regexp.MustCompile(`^([a-zA-Z0-9+.-]+://|-----BEGIN [A-Z0-9 ]+-----(\s|\\n)*|eyJ[a-zA-Z0-9_-]+\.|sk-ant-[a-z]+[0-9]+-)`)

// publicEnd is the same behind one: a word, as the name of a database is, or the line behind a key.
var publicEnd = regexp.MustCompile(`^(\pL\p{Ll}*|\p{Lu}+|(\s|\\n)*-----END [A-Z0-9 ]+-----)$`)

// minLine is the shortest line of a secret of several lines that is masked without the others: a key's
// lines are long, and those of a settings file can be anything.
const minLine = 8

// commonValues are values that hide nothing and occur everywhere.
var commonValues = []string{
	"undefined", "default", "enabled", "disabled", "localhost", "127.0.0.1", "0.0.0.0", "production", "development", "staging",
	"testing", "sandbox", "password", "passwd", "secret", "changeme", "example", "masked", "postgres", "sqlite", "master",
	"python", "python3", "javascript", "nodejs", "docker", "podman", "string", "number", "object", "function", "return", "import",
	"export", "module", "completed", "failed", "output", "stdout", "stderr", "traceback", "result", "en_us.utf-8",
	"c.utf-8", "/bin/sh", "/bin/bash", "/usr/bin", "/dev/null", "unknown", "public", "private",
	"application/json", "text/plain", "/mnt", "/mnt/data",
}

// minNumber is how many digits a number has at the least that does not occur by chance.
const minNumber = 10

// Maskable reports whether a variable's value is masked in what leaves the sandbox. What is short, a
// common word, a number, the work folder, or one or two characters over and over is not: it occurs by
// chance, and everything else that reads like it would be garbled.
func Maskable(value string) bool {
	value = strings.TrimSpace(value)
	different := make(map[rune]bool)
	for _, r := range value {
		different[r] = true
	}
	number := strings.Trim(value, "0123456789") == "" && len(value) < minNumber
	common := slices.Contains(commonValues, strings.ToLower(strings.TrimRight(value, "/")))
	return len(value) >= Shortest && len(different) > 2 && !number && !common
}

// needlesOf returns every way in which a value is looked for.
func needlesOf(name, value string) (needles []*needle) {
	if !Maskable(value) {
		return nil
	}
	forms := make(plainForms)
	value = strings.TrimSpace(value)
	public := len(publicBeginning.FindString(value))
	add := func(chars []*char, between []string, fragment, elided int) {
		needles = append(needles, &needle{name: name, chars: chars, between: between, fragment: fragment, elided: elided})
	}
	add(forms.of(value), wide, plainFragment, elidedFragment+public)
	for _, line := range linesOf(value) {
		add(forms.of(line), wide, plainFragment, elidedFragment)
	}
	for _, core := range base64Cores(value) {
		add(base64Chars(core), base64Breaks, base64Fragment, elidedFragment+base64.RawStdEncoding.EncodedLen(public))
	}
	add(hexChars(hex.EncodeToString([]byte(value))), hexBreaks, hexFragment, elidedFragment+hex.EncodedLen(public))
	return needles
}

// linesOf returns the lines of a value of several lines that are secrets by themselves. In a variable
// their ends are often written as \n.
func linesOf(value string) (lines []string) {
	all := strings.Split(strings.ReplaceAll(value, `\n`, "\n"), "\n")
	if len(all) == 1 {
		return nil
	}
	for _, line := range all {
		line = strings.TrimSpace(line)
		armour := strings.HasPrefix(line, "-----") && strings.HasSuffix(line, "-----")
		if len(line) >= minLine && !armour && Maskable(line) && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// plainForms are the forms of the characters met so far.
type plainForms map[string]*char

func (p plainForms) of(text string) (chars []*char) {
	for len(text) > 0 {
		_, size := utf8.DecodeRuneInString(text)
		c := p[text[:size]]
		if c == nil {
			c = plainChar(text[:size])
			p[text[:size]] = c
		}
		chars = append(chars, c)
		text = text[size:]
	}
	return chars
}

// plainChar returns the ways in which a character is written: as it is, and where texts are quoted,
// escaped or encoded.
func plainChar(written string) *char {
	c := char{{text: written}, {percent(written), true}}
	r, _ := utf8.DecodeRuneInString(written)
	if isAlphanumeric(r) {
		return &c
	}
	for _, short := range namedForms[r] {
		c = append(c, form{text: short})
	}
	if r == utf8.RuneError {
		c = append(c, form{text: "\ufffd"}) // a byte that is no UTF-8
	}
	if r >= ' ' && r < utf8.RuneSelf {
		c = append(c, form{text: `\` + written}, form{text: `\\\` + written})
	}
	if shown := text.Visible(r); shown != r {
		c = append(c, form{text: string(shown)})
	}
	units := ""
	for _, unit := range utf16.Encode([]rune{r}) {
		units += fmt.Sprintf(`\u%04x`, unit)
	}
	c = append(c, form{strings.ReplaceAll(units, `\`, "%"), true}, form{units, true}, form{`\` + units, true}, form{byteEscapes(written), true},
		form{fmt.Sprintf("&#%d;", r), false}, form{fmt.Sprintf("&#%03d;", r), false}, form{fmt.Sprintf("&#x%x;", r), true})
	if r < 0x100 {
		c = append(c, form{fmt.Sprintf(`\x%02x`, r), true}, form{fmt.Sprintf("%%%02x", r), true})
	}
	return &c
}

// namedForms are those that encoders have for single characters.
var namedForms = map[rune][]string{
	' ': {"+"}, '\t': {`\t`, `\\t`}, '\r': {`\r`, `\\r`},
	'\n': {"\r\n", `\n`, `\r\n`, `\\n`, "%0D%0A", " "}, // the last one is a shell's
	'&':  {"&amp;"}, '<': {"&lt;"}, '>': {"&gt;"}, '"': {"&quot;"}, '\'': {"&apos;", `'"'"'`, `'\''`}, '\\': {`\\`, `\\\\`},
}

func isAlphanumeric(r rune) bool {
	return '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
}

func percent(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, "%%%02x", text[i])
	}
	return b.String()
}

func byteEscapes(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, `\x%02x`, text[i])
	}
	return b.String()
}

// base64Cores returns what a value looks like in base64 inside a longer text, for each of the three
// ways it can lie on the groups of three bytes: the characters that depend on it alone.
func base64Cores(value string) (cores []string) {
	for shift := range 3 {
		padded := strings.Repeat("\x00", shift) + value
		text := base64.RawStdEncoding.EncodeToString([]byte(padded))
		from := (shift*8 + 5) / 6 // characters that hold bits of what stands before
		to := len(padded) * 8 / 6 // and after
		if to-from >= Shortest {
			cores = append(cores, text[from:to])
		}
	}
	return cores
}

// What stands between characters in wider encodings, and what breaks base64 and hexadecimal digits into lines and groups.
var (
	base64Breaks = []string{"\n", "\r\n", `\n`, `\r\n`, "%0A", "%0D%0A"}
	wide         = []string{"\x00", "\x00\x00\x00", "\u2400", "\u2400\u2400\u2400"} // UTF-16 and UTF-32, and as the sandbox shows them
	hexBreaks    = []string{" ", ":", "-", "\n", `\n`}
)

// base64Chars are the digits of either alphabet.
func base64Chars(core string) (chars []*char) {
	plus := &char{{text: "+"}, {text: "-"}, {"%2b", true}, {`\u002b`, true}, {"&#43;", false}}
	slash := &char{{text: "/"}, {text: "_"}, {"%2f", true}, {`\/`, false}, {`\u002f`, true}, {"&#x2f;", true}}
	for i := range len(core) {
		switch core[i] {
		case '+':
			chars = append(chars, plus)
		case '/':
			chars = append(chars, slash)
		default:
			chars = append(chars, &char{{text: core[i : i+1]}})
		}
	}
	return chars
}

func hexChars(digits string) (chars []*char) {
	for i := range len(digits) {
		chars = append(chars, &char{{digits[i : i+1], true}})
	}
	return chars
}
