package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Shortest is the length, in bytes, of the shortest masked value: shorter ones occur by chance, and masking them would garble ordinary
// output.
const Shortest = 6

// minLine is the length of the shortest line that is masked without the other lines of its secret: a key's lines are long, and those of a
// settings file can be anything.
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

// minNumber is the least number of digits that does not occur by chance.
const minNumber = 10

// Maskable reports whether a variable's value is masked in output of the sandbox. A short text, a common word, a number, the work folder,
// or one or two characters over and over is not: it occurs by chance, and masking would garble its other uses.
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

// longValue is the length, in bytes, above which fewer forms of a value are looked for: each takes memory.
const longValue = 1 << 10

// patternsOf returns all searched forms of a value: in texts, and in base64 and hexadecimal digits.
func patternsOf(name, value string) (texts, digits []pattern) {
	if !Maskable(value) {
		return nil, nil
	}
	value = strings.TrimSpace(value)
	for _, whole := range append([]string{value}, linesOf(value)...) {
		texts = append(texts, pattern{whole, name, plainFragment})
		forms := writtenForms(whole, len(value) > longValue)
		slices.Sort(forms)
		for _, form := range slices.Compact(forms) {
			if form != whole && len(form) >= Shortest {
				texts = append(texts, pattern{form, name, encodedFragment})
			}
		}
	}
	for _, core := range base64Cores(value) {
		for _, form := range []string{core, strings.NewReplacer("+", "-", "/", "_").Replace(core)} {
			digits = append(digits, pattern{form, name, base64Fragment})
		}
		if len(value) <= longValue { // in a URL, and in JSON as PHP writes it
			for _, form := range []string{percent(core, alphanumeric, "%%%02X"), percent(core, alphanumeric, "%%%02x"), strings.ReplaceAll(core, "/", `\/`)} {
				texts = append(texts, pattern{form, name, base64Fragment})
			}
		}
	}
	for _, format := range []string{"%02x", "%02X"} {
		digits = append(digits, pattern{percent(value, "", format), name, encodedFragment})
		if len(value) <= longValue {
			texts = append(texts, pattern{strings.TrimSuffix(percent(value, "", format+"-"), "-"), name, encodedFragment})
		}
	}
	return texts, digits
}

// linesOf returns the lines of a value that are secrets by themselves. In a variable line ends are often written as \n.
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

const (
	alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	printable    = alphanumeric + " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
)

// safeInURLs are the characters that encoders leave unchanged: Python's and Go's, with a slash, a form's, JavaScript's of a part and of a
// whole address, Go's of a path; and those of browsers and of Node in a query, a fragment, a path and a password.
var safeInURLs = []string{
	alphanumeric + "-_.~", alphanumeric + "-_.~/", alphanumeric + "-_.*", alphanumeric + "-_.~!'()*", alphanumeric + "-_.~!'()*;/?:@&=+$,#",
	alphanumeric + "-_.~$&+=:@", but(` "#<>'`), but(" \"<>`"), but(" \"#<>?`{}"), but(" \"#<>?`{}/:;=@[\\]^|"),
}

// but returns the printable characters without some.
func but(without string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(without, r) {
			return -1
		}
		return r
	}, printable)
}

// writtenForms returns the whole forms that encoders give a value, beside the value itself. fewer leaves rare ones out.
func writtenForms(value string, fewer bool) (forms []string) {
	add := func(more ...string) { forms = append(forms, more...) }
	quoted := inJSON(value, false)
	add(quoted, percent(value, safeInURLs[0], "%%%02X"))
	if fewer {
		return forms
	}
	add(strings.Map(text.Visible, strings.ToValidUTF8(value, "\ufffd")), strings.ReplaceAll(value, "\n", "\r\n"), strings.ReplaceAll(value, "\n", " "))
	safe := inJSON(value, true)
	escaped := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(value)
	for _, q := range []string{quoted, safe, inASCII(quoted), inASCII(safe), escaped, percent(escaped, printable, `\x%02x`), percent(latin1(escaped), printable, `\x%02x`)} {
		add(q, inJSON(q, false), strings.ReplaceAll(q, "'", `\'`), strings.ReplaceAll(q, "/", `\/`))
	}
	for _, format := range []string{"%%%02X", "%%%02x"} {
		add(percent(value, "", format))
		for _, signs := range safeInURLs {
			url := percent(value, signs, format)
			add(url, strings.ReplaceAll(url, "%20", "+"))
		}
	}
	for _, quotes := range [][2]string{{"&#34;", "&#39;"}, {"&quot;", "&#39;"}, {"&quot;", "&#x27;"}, {"&quot;", "&apos;"}, {"&quot;", "'"}, {`"`, "'"}} {
		add(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, quotes[0], "'", quotes[1]).Replace(value))
	}
	for _, quote := range []string{`'"'"'`, `'\''`} {
		add(strings.ReplaceAll(value, "'", quote))
	}
	return append(forms, behindBackslashes(value, "\"\\$`"), behindBackslashes(value, " !\"$&'()*,;<>?[\\]^`{|}"), percent(value, but("="), "=%02X"))
}

// behindBackslashes returns a shell's word with a backslash before these signs.
func behindBackslashes(value, signs string) string {
	var b strings.Builder
	for _, r := range value {
		if strings.ContainsRune(signs, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// percent writes each unsafe byte by a format.
func percent(value, safe, format string) string {
	var b strings.Builder
	for i := range len(value) {
		if strings.IndexByte(safe, value[i]) >= 0 {
			b.WriteByte(value[i])
		} else {
			fmt.Fprintf(&b, format, value[i])
		}
	}
	return b.String()
}

// latin1 writes each character by one byte, if it can.
func latin1(value string) string {
	var b []byte
	for _, r := range value {
		if r <= 0xff {
			b = append(b, byte(r))
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	return string(b)
}

func inJSON(value string, safeInHTML bool) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(safeInHTML)
	_ = encoder.Encode(value) // a text can be encoded
	return b.String()[1 : b.Len()-len("\"\n")]
}

func inASCII(value string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(value)) {
		if unit < utf8.RuneSelf {
			b.WriteByte(byte(unit))
		} else {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// base64Cores returns the forms of a value in base64 inside a longer text, for each of its three positions in the groups of three bytes:
// the characters that depend on the value alone.
func base64Cores(value string) (cores []string) {
	for shift := range 3 {
		padded := strings.Repeat("\x00", shift) + value
		text := base64.RawStdEncoding.EncodeToString([]byte(padded))
		from := (shift*8 + 5) / 6 // characters that hold bits of the text before
		to := len(padded) * 8 / 6 // and after
		if to-from >= Shortest {
			cores = append(cores, text[from:to])
		}
	}
	return cores
}
