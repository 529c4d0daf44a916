package jsonbound

import (
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestShapeCountsWhatIsOutsideOfText(t *testing.T) {
	for text, want := range map[string][2]int{
		``: {}, `1`: {}, `{}`: {1, 1}, `[[]]`: {2, 2}, `"[[[[,,"`: {}, `["\"[[,", [1]]`: {2, 3}, `{"a":[{"b":1}],"c":{}}`: {3, 5}, `"\\"[`: {1, 1},
	} {
		deepest, values := shape([]byte(text))
		should.Equal(t, [2]int{deepest, values}, want, "shape(%s)", text)
	}
}

func TestWhatExceedsALimitIsRefused(t *testing.T) {
	l := Limits{Depth: 2, Values: 3}
	for text, want := range map[string]error{
		`[[1,2]]`: nil, `[1,2,3]`: nil, `"no end`: nil, `[[[]]]`: errTooDeep, `[1,2,3,4]`: ErrTooManyValues, `{"a":1,"b":2,"c":3,"d":4}`: ErrTooManyValues,
	} {
		should.Be(t, l.Check([]byte(text)), want, "%s", text)
	}
}
