package jsonbound

import (
	"errors"
	"testing"
)

func TestShapeCountsWhatIsOutsideOfText(t *testing.T) {
	for text, want := range map[string][2]int{
		``: {}, `1`: {}, `{}`: {1, 1}, `[[]]`: {2, 2}, `"[[[[,,"`: {}, `["\"[[,", [1]]`: {2, 3}, `{"a":[{"b":1}],"c":{}}`: {3, 5}, `"\\"[`: {1, 1},
	} {
		deepest, values := shape([]byte(text))
		if got := [2]int{deepest, values}; got != want {
			t.Errorf("shape(%s) = %v, want %v", text, got, want)
		}
	}
}

func TestWhatExceedsALimitIsRefused(t *testing.T) {
	l := Limits{Depth: 2, Values: 3}
	for text, want := range map[string]error{
		`[[1,2]]`: nil, `[1,2,3]`: nil, `"no end`: nil, `[[[]]]`: errTooDeep, `[1,2,3,4]`: ErrTooManyValues, `{"a":1,"b":2,"c":3,"d":4}`: ErrTooManyValues,
	} {
		if err := l.Check([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}
