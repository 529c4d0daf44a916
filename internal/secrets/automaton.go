package secrets

import (
	"slices"
	"strings"
)

// The shortest parts of a secret that are masked where the rest was cut off, in bytes.
const (
	plainFragment   = 3
	base64Fragment  = 4
	encodedFragment = 6
)

// pattern is one way in which a secret is written.
type pattern struct {
	text, name string // name is that of the secret
	fragment   int    // how many of its bytes distinguish it from other text
}

// automaton finds all patterns in one pass, as Aho and Corasick do.
type automaton struct {
	patterns []pattern
	spaced   bool // what breaks digits into lines and groups may stand between any two bytes of a pattern
	nodes    []node
	edges    map[edge]int // those of nodes with several, but for the first one of each
	first    [256]int     // those of the first node, where most bytes lead nowhere
}

// node is a beginning of patterns. The first is the empty one.
type node struct {
	depth    int
	by       byte // the first edge to a longer beginning, and that
	to       int  // 0: no pattern goes on behind it
	fail     int  // the longest other beginning that this one ends with
	whole    int  // the length of the longest pattern that ends here; 0: none does
	name     string
	fragment int // the least one of the patterns that begin so
}

type edge struct {
	from int
	by   byte
}

func newAutomaton(patterns []pattern, spaced bool) *automaton {
	a := &automaton{patterns: patterns, spaced: spaced, nodes: make([]node, 1), edges: make(map[edge]int)}
	var levels [][]edge // by which the nodes of each depth are reached
	for _, p := range patterns {
		at := 0
		for i := range len(p.text) {
			if i == len(levels) {
				levels = append(levels, nil)
			}
			to := a.child(at, p.text[i])
			if to == 0 {
				to = a.grow(edge{at, p.text[i]}, node{depth: i + 1, fragment: p.fragment})
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

// grow adds a node and the edge to it.
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

// child returns the node that an edge leads to; 0: there is none.
func (a *automaton) child(at int, b byte) int {
	if at == 0 {
		return a.first[b]
	}
	if n := &a.nodes[at]; n.by == b || n.to == 0 {
		return n.to
	}
	return a.edges[edge{at, b}]
}

// step returns the node behind one and a byte.
func (a *automaton) step(at int, b byte) int {
	for ; at != 0; at = a.nodes[at].fail {
		if to := a.child(at, b); to != 0 {
			return to
		}
	}
	return a.first[b]
}

// find returns where secrets are in a text, and where one may begin that goes on behind the text; the text's length
// if there is none.
func (a *automaton) find(text string, where cut) (spans []span, unfinished int) {
	inside, places := a.joined(text)
	if where.beginning {
		if to := a.remainder(inside, where.end); to > 0 {
			spans = append(spans, span{to: to})
		}
	}
	at := 0
	for i := range len(inside) {
		at = a.step(at, inside[i])
		if n := a.nodes[at]; n.whole > 0 {
			spans = append(spans, span{i + 1 - n.whole, i + 1, n.name})
		}
	}
	for at != 0 && a.nodes[at].to == 0 {
		at = a.nodes[at].fail
	}
	unfinished = len(inside) - a.nodes[at].depth
	for where.end && at != 0 {
		if n := a.nodes[at]; n.to != 0 && n.depth >= n.fragment {
			spans = append(spans, span{from: len(inside) - n.depth, to: len(inside)})
			break
		}
		at = a.nodes[at].fail
	}
	if places == nil {
		return spans, unfinished
	}
	for i, s := range spans {
		spans[i].from, spans[i].to = places[s.from], places[s.to-1]+1
	}
	return spans, places[unfinished]
}

// mostBreaks is how many line ends and blanks in a row may break a pattern.
const mostBreaks = 2

// joined returns a text without what may stand between the bytes of a pattern, and where each byte of it, and its
// end, was; nil where nothing may.
func (a *automaton) joined(text string) (inside string, places []int) {
	if !a.spaced {
		return text, nil
	}
	kept := make([]byte, 0, len(text))
	places = make([]int, 0, len(text)+1)
	for at, breaks := 0, 0; at < len(text); {
		length := 0
		switch {
		case strings.IndexByte(" :\r\n", text[at]) >= 0:
			length = 1
		case strings.HasPrefix(text[at:], `\n`), strings.HasPrefix(text[at:], `\r`):
			length = 2
		}
		if breaks++; length > 0 && breaks <= mostBreaks {
			at += length
			continue
		}
		if length == 0 {
			breaks = 0
		}
		kept, places = append(kept, text[at]), append(places, at)
		at++
	}
	return string(kept), append(places, len(text))
}

// remainder is how much of a text, whose beginning was cut off, is the rest of a pattern.
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
