package text

import (
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestShortenCountsCharacters(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äöü…"}, {"a\xffbc", 3, "a\ufffdb…"}, {"abc", 0, "…"},
	} {
		should.Equal(t, Shorten(test.text, test.most), test.want, "%q in %d characters", test.text, test.most)
	}
}

func TestClipKeepsCharactersWhole(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"abc", 9, "abc"}, {"abc", 2, "ab"}, {"aä", 2, "a"}, {"aä", 3, "aä"}, {"€", 2, ""}, {"", 0, ""},
	} {
		should.Equal(t, Clip(test.text, test.most), test.want, "%q in %d bytes", test.text, test.most)
	}
}

func TestVisibleHasNoControlCharacters(t *testing.T) {
	should.Equal(t, strings.Map(Visible, "a\x1bb\tc\n\x7f\u009b"), "a␛b\tc\n␡\ufffd")
}

func TestSeriesReadsAsASentence(t *testing.T) {
	for want, list := range map[string][]string{"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}} {
		should.Equal(t, Series(list, "and"), want, "%q", list)
	}
}
