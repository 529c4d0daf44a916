package server

import (
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
)

func TestVariablesThatAreNotMasked(t *testing.T) {
	for _, test := range []struct {
		name, value string
		unset       bool
		want        doctor.Status
		found       string
	}{
		{name: "a secret", value: "sk-7f3a90", want: doctor.OK, found: "masked"},
		{name: "not set", unset: true, want: doctor.Warn, found: "not set"},
		{name: "empty", value: "", want: doctor.Warn, found: "shorter than 6"},
		{name: "five characters", value: "abcde", want: doctor.Warn, found: "shorter than 6"},
		{name: "six", value: "abcdef", want: doctor.OK, found: "masked"},
		{name: "a word", value: "Production", want: doctor.Warn, found: "no secret"},
		{name: "a word in a longer text", value: "production-7f3a90", want: doctor.OK, found: "masked"},
		{name: "one character many times", value: "********", want: doctor.Warn, found: "no secret"},
		{name: "a number", value: "5432100", want: doctor.Warn, found: "no secret"},
		{name: "a long number", value: "54321005432100", want: doctor.OK, found: "masked"},
		{name: "the work folder", value: "/mnt/data/", want: doctor.Warn, found: "no secret"},
	} {
		t.Run(test.name, func(t *testing.T) {
			checks := passThroughChecks([]string{"NAME"}, func(string) (string, bool) { return test.value, !test.unset })
			if len(checks) != 1 {
				t.Fatalf("%+v", checks)
			}
			c := checks[0]
			if c.Name != "variable NAME" || c.Status != test.want || !strings.Contains(c.Found, test.found) || (c.Fix == "") != (c.Status == doctor.OK) {
				t.Errorf("%+v", c)
			}
			if test.value != "" && strings.Contains(c.Found+c.Why+c.Fix, test.value) {
				t.Errorf("it tells the value: %+v", c)
			}
		})
	}
}
