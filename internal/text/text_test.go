package text

import (
	"strings"
	"testing"
)

func TestShortenCountsCharacters(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äöü…"}, {"a\xffbc", 3, "a\ufffdb…"}, {"abc", 0, "…"},
	} {
		if got := Shorten(test.text, test.most); got != test.want {
			t.Errorf("%q in %d characters: %q", test.text, test.most, got)
		}
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
		if got := Clip(test.text, test.most); got != test.want {
			t.Errorf("%q in %d bytes: %q", test.text, test.most, got)
		}
	}
}

func TestVisibleHasNoControlCharacters(t *testing.T) {
	if got := strings.Map(Visible, "a\x1bb\tc\n\x7f\u009b"); got != "a␛b\tc\n␡\ufffd" {
		t.Errorf("%q", got)
	}
}

func TestSeriesReadsAsASentence(t *testing.T) {
	for want, list := range map[string][]string{"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}} {
		if got := Series(list, "and"); got != want {
			t.Errorf("%q is %q", list, got)
		}
	}
}
