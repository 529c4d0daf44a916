package jsonbound

import (
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestCountsAreOfWhatIsOutsideOfText(t *testing.T) {
	for text, want := range map[string]Limits{
		``: {}, `1`: {}, `{}`: {1, 1}, `[[]]`: {2, 2}, `"[[[[,,"`: {}, `["\"[[,", [1]]`: {2, 3}, `{"a":[{"b":1}],"c":{}}`: {3, 5}, `"\\"[`: {1, 1},
	} {
		values, err := want.Count([]byte(text))
		should.Equal(t, values, want.Values, "values of %s", text)
		should.OK(t, err, "%s", text)
		if want.Depth > 0 {
			want.Depth--
			should.Be(t, want.Check([]byte(text)), errTooDeep, "%s", text)
		}
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
