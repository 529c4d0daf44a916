package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

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
