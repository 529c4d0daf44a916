package secrets

import (
	"strings"
	"testing"
)

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
			if want := m.Mask(text + ", and more"); out.String() != want {
				t.Errorf("%s in pieces of %d became %q instead of %q", name, length, out.String(), want)
			}
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
		if got := m.Mask(text); !strings.Contains(got, "[masked: KEY]") || len(got) > len("$'[masked: KEY]'") {
			t.Errorf("%s: %q became %q", name, text, got)
		}
	}
}
