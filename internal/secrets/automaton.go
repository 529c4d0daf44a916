package secrets

import (
	"slices"
	"strings"
)

// The shortest parts of a secret that are masked if the rest was cut off, in bytes.
const (
	plainFragment   = 3
	base64Fragment  = 4
	encodedFragment = 6
)

// pattern is one written form of a secret.
type pattern struct {
	text, name string // name is that of the secret
	fragment   int    // number of its bytes that distinguish it from other text
}

// automaton finds all patterns in one pass, as Aho and Corasick do.
type automaton struct {
	patterns []pattern
	longest  int  // the length of the longest
	grouped  bool // skips the blanks that group digits
	nodes    []node
	edges    map[edge]int // those of nodes with several, except for the first of each
	first    [256]int     // those of the first node; most bytes lead nowhere
}

// node is a beginning of patterns. The first is the empty one.
type node struct {
	depth    int
	of       int32 // the first pattern with this beginning
	by       byte  // the first edge to a longer beginning, and its end
	to       int   // 0: no pattern goes on behind it
	fail     int   // the longest other beginning that this one ends with
	whole    int   // the length of the longest pattern that ends here; 0: none
	name     string
	fragment int // the least one of the patterns with this beginning
}

type edge struct {
	from int
	by   byte
}

func newAutomaton(patterns []pattern, grouped bool) *automaton {
	a := &automaton{patterns: patterns, grouped: grouped, nodes: make([]node, 1), edges: make(map[edge]int)}
	var levels [][]edge // by which the nodes of each depth are reached
	for which, p := range patterns {
		a.longest = max(a.longest, len(p.text))
		at := 0
		for i := range len(p.text) {
			if i == len(levels) {
				levels = append(levels, nil)
			}
			to := a.child(at, p.text[i])
			if to == 0 {
				to = a.grow(edge{at, p.text[i]}, node{depth: i + 1, of: int32(which), fragment: p.fragment})
				levels[i] = append(levels[i], edge{at, p.text[i]})
			}
			a.nodes[to].fragment = min(a.nodes[to].fragment, p.fragment)
			at = to
		}
		if a.nodes[at].whole == 0 {
			a.nodes[at].whole, a.nodes[at].name = len(p.text), p.name
		}
	}
	for _, e := range slices.Concat(levels...) {
		n := &a.nodes[a.child(e.from, e.by)]
		if e.from != 0 {
			n.fail = a.step(a.nodes[e.from].fail, e.by)
		}
		if f := a.nodes[n.fail]; n.whole == 0 {
			n.whole, n.name = f.whole, f.name
		}
	}
	return a
}

func (a *automaton) grow(e edge, n node) int {
	to := len(a.nodes)
	a.nodes = append(a.nodes, n)
	switch from := &a.nodes[e.from]; {
	case e.from == 0:
		a.first[e.by], from.to = to, to
	case from.to == 0:
		from.by, from.to = e.by, to
	default:
		a.edges[e] = to
	}
	return to
}

// child returns the node at the end of an edge; 0: there is none.
func (a *automaton) child(at int, b byte) int {
	if at == 0 {
		return a.first[b]
	}
	if n := &a.nodes[at]; n.by == b || n.to == 0 {
		return n.to
	}
	return a.edges[edge{at, b}]
}

// step returns the next node after a byte.
func (a *automaton) step(at int, b byte) int {
	for ; at != 0; at = a.nodes[at].fail {
		if to := a.child(at, b); to != 0 {
			return to
		}
	}
	return a.first[b]
}

// mostBlanks bounds the blanks in a row within digits.
const mostBlanks = 2

// read returns the text to search, and the place of each of its bytes. Without places, the bytes are at their own.
func (a *automaton) read(text string) (inside string, places []int32) {
	const blanks = " :\r\n"
	if !a.grouped || !strings.ContainsAny(text, blanks) {
		return text, nil
	}
	kept := make([]byte, 0, len(text))
	places = make([]int32, 0, len(text))
	for at, skipped := 0, 0; at < len(text); at++ {
		if strings.IndexByte(blanks, text[at]) >= 0 && skipped < mostBlanks {
			skipped++
			continue
		}
		kept, places, skipped = append(kept, text[at]), append(places, int32(at)), 0
	}
	return string(kept), places
}

// find returns the places of secrets in a text, and the first place of a possible secret that goes on behind the text; the text's length if
// there is none.
func (a *automaton) find(text string, where cut) (spans []span, unfinished int) {
	inside, places := a.read(text)
	origin := func(i int) int {
		switch {
		case i == len(inside):
			return len(text)
		case places == nil:
			return i
		}
		return int(places[i])
	}
	add := func(from, to int, name string) { spans = append(spans, span{origin(from), origin(to-1) + 1, name}) }
	at, unfinished := 0, len(text)
	for i := range len(inside) {
		if at = a.step(at, inside[i]); at == 0 {
			continue
		}
		n := &a.nodes[at]
		if n.whole > 0 {
			add(i+1-n.whole, i+1, n.name)
		}
		if n.depth >= shownPart && i+1 < len(inside) && (inside[i+1] == '.' || inside[i+1] == ellipsis[0]) {
			for _, mark := range []string{ellipsis, "..."} {
				switch {
				case strings.HasPrefix(inside[i+1:], mark):
					add(i+1-n.depth, i+1, a.patterns[n.of].name)
				case strings.HasPrefix(mark, inside[i+1:]):
					unfinished = min(unfinished, origin(i+1-n.depth))
				}
			}
		}
	}
	if depth := a.begun(at); where.end && depth > 0 {
		spans = append(spans, span{from: origin(len(inside) - depth), to: len(text)})
	}
	for at != 0 && a.nodes[at].to == 0 {
		at = a.nodes[at].fail
	}
	return spans, min(unfinished, origin(len(inside)-a.nodes[at].depth))
}

const (
	// shownPart is how much of a secret is masked if an ellipsis stands for the rest.
	shownPart = 12
	ellipsis  = "…"
)

// begun returns how many bytes of a secret end the text, if it goes on and they distinguish it.
func (a *automaton) begun(at int) int {
	for ; at != 0; at = a.nodes[at].fail {
		if n := a.nodes[at]; n.to != 0 && n.depth >= n.fragment {
			return n.depth
		}
	}
	return 0
}

// rest returns the length of a secret's rest at the start of a text with a cut-off beginning.
func (a *automaton) rest(text string, cutEnd bool) int {
	head := text[:min(len(text), (1+mostBlanks)*(1+a.longest))]
	inside, places := a.read(head)
	n := a.remainder(inside, cutEnd && len(head) == len(text))
	if n > 0 && places != nil {
		n = int(places[n-1]) + 1
	}
	return n
}

// remainder returns the length of the rest of a pattern in a text with a cut-off beginning.
func (a *automaton) remainder(text string, cutEnd bool) (longest int) {
	for _, p := range a.patterns {
		for first := 1; first+max(p.fragment, longest+1) <= len(p.text); first++ {
			rest := p.text[first:]
			if strings.HasPrefix(text, rest) {
				longest = len(rest)
			} else if cutEnd && len(text) >= p.fragment && strings.HasPrefix(rest, text) {
				return len(text)
			}
		}
	}
	return longest
}
