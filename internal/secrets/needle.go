package secrets

import (
	"slices"
	"strings"
)

// needle is one way in which a secret may show: its characters one behind the other, each in any of the
// forms that encoders give it.
type needle struct {
	name    string // of the secret
	chars   []*char
	between []string // what may stand between two characters, such as the ends of base64's lines
	// fragment is how many of the characters distinguish it from other text where the rest was cut off.
	fragment int
	elided   int // the same for a beginning, where an ellipsis is in the place of the rest
}

// rest is a needle from one of its characters on.
type rest struct {
	needle *needle
	first  int
}

// char is the forms of one character.
type char []form

// form is one way to write a character.
type form struct {
	text string
	fold bool // in capitals or not, as in %2F
}

// at reports whether text begins with the form.
func (f form) at(text string) bool {
	if len(text) < len(f.text) {
		return false
	}
	return text[:len(f.text)] == f.text || f.fold && strings.EqualFold(text[:len(f.text)], f.text)
}

// cutAt reports whether text is no more than the beginning of the form.
func (f form) cutAt(text string) bool {
	return len(text) < len(f.text) && form{f.text[:len(text)], f.fold}.at(text)
}

// beginnings are the bytes that the character can begin with.
func (c *char) beginnings() []byte {
	var bytes []byte
	for _, f := range *c {
		bytes = append(bytes, f.text[0])
		if f.fold {
			bytes = append(bytes, strings.ToUpper(f.text[:1])[0], strings.ToLower(f.text[:1])[0])
		}
	}
	slices.Sort(bytes)
	return slices.Compact(bytes)
}

// pairs are the two bytes that the needle goes on with from one of its characters, which is not the last and
// is written as it is. A letter behind it is, too: every letter has a form with a %, so that would find them all.
func (n *needle) pairs(first int) (pairs [][2]byte) {
	plain, next := (*n.chars[first])[:1], *n.chars[first+1]
	if text := plain[0].text; len(text) > 1 {
		return [][2]byte{{text[0], text[1]}}
	}
	if isAlphanumeric(rune(next[0].text[0])) {
		next = next[:1]
	}
	for _, a := range plain.beginnings() {
		for _, b := range next.beginnings() {
			pairs = append(pairs, [2]byte{a, b})
		}
	}
	return pairs
}

// mostPlaces bounds the places in a text that one character of a needle may end at.
const mostPlaces = 16

// match looks for the needle's characters from the first on, at a place in the text, and returns the
// place behind them, or 0. Where the text's end was cut off, a beginning of the needle there is one too,
// and so is one before an ellipsis.
//
// A character may have forms of which one begins another ("\" and "\\"), so there may be several places
// to go on from. They are kept together, not tried in turn: hostile text could make that take for ever.
func (n *needle) match(text string, place, first int, cutEnd bool) (end int, isWhole bool) {
	var room [2][8]int // most often there is one place
	places, next := append(room[0][:0], place), room[1][:0]
	for i := first; i < len(n.chars); i++ {
		next = next[:0]
		if i > 0 && n.between != nil {
			places = n.passOver(text, places)
		}
		for _, place := range places {
			rest := text[place:]
			if cutEnd && i-first >= n.fragment && n.cutAt(i, rest) {
				return len(text), false
			}
			for _, f := range *n.chars[i] {
				if to := place + len(f.text); f.at(rest) && len(next) < mostPlaces && !slices.Contains(next, to) {
					next = append(next, to)
				}
			}
		}
		if len(next) == 0 {
			return n.elision(text, places, i-first), false
		}
		places, next = next, places
	}
	return slices.Max(places), true
}

// cutAt reports whether text, which was cut off at its end, may go on with the character, or with what may stand
// before it.
func (n *needle) cutAt(i int, text string) bool {
	return n.chars[i].cutAt(text) || i > 0 && slices.ContainsFunc(n.between, func(b string) bool { return form{text: b}.cutAt(text) })
}

// elision returns the place of an ellipsis that so many of the needle's characters end at, or 0.
func (n *needle) elision(text string, places []int, shown int) int {
	at := slices.IndexFunc(places, func(place int) bool { return beginsWithEllipsis(text[place:]) })
	if shown < n.elided || at < 0 {
		return 0
	}
	return places[at]
}

func beginsWithEllipsis(text string) bool {
	return strings.HasPrefix(text, "...") || strings.HasPrefix(text, "…")
}

func endsInEllipsis(text string) bool {
	return strings.HasSuffix(text, "...") || strings.HasSuffix(text, "…")
}

// passOver adds the places behind what may stand between two characters.
func (n *needle) passOver(text string, places []int) []int {
	for _, place := range places {
		for _, separator := range n.between {
			if to := place + len(separator); strings.HasPrefix(text[place:], separator) && !slices.Contains(places, to) {
				places = append(places, to)
			}
		}
	}
	return places
}

// cutAt reports whether text, which was cut off at its end, may have the beginning of the character, or ends
// right before it.
func (c *char) cutAt(text string) bool {
	return len(text) == 0 || slices.ContainsFunc(*c, func(f form) bool { return f.cutAt(text) })
}

// remainder is how much of the text, whose beginning was cut off, is the rest of the needle.
func (n *needle) remainder(text string, cutEnd bool) (longest int) {
	for first := 1; first+n.fragment <= len(n.chars); first++ {
		for _, place := range n.chars[first-1].remainders(text) {
			end, _ := n.match(text, place, first, cutEnd)
			longest = max(longest, end)
		}
	}
	return longest
}

// remainders returns how much of the text may belong to the character before it: nothing, or the end of
// one of its forms.
func (c *char) remainders(text string) []int {
	places := []int{0}
	for _, f := range *c {
		for skip := 1; skip < len(f.text); skip++ {
			if to := len(f.text) - skip; (form{f.text[skip:], f.fold}).at(text) && !slices.Contains(places, to) {
				places = append(places, to)
			}
		}
	}
	return places
}
