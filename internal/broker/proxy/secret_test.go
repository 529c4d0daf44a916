package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func describe(all []Secret) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s=%s@%v query:%v body:%v\n", s.Name, s.Variable, s.Hosts, s.Query, s.Body)
	}
	return b.String()
}

func TestSecretsAreParsed(t *testing.T) {
	for list, want := range map[string]string{
		"":                               "",
		"KEY@api.example":                "KEY=KEY@[api.example] query:false body:false\n",
		"KEY@a.example,b.example:8443":   "KEY=KEY@[a.example b.example:8443] query:false body:false\n",
		"KEY@a.example,query,body,b.c":   "KEY=KEY@[a.example b.c] query:true body:true\n",
		"KEY=OTHER@a.example":            "KEY=OTHER@[a.example] query:false body:false\n",
		"A@a.example,query,B@a.example":  "A=A@[a.example] query:true body:false\nB=B@[a.example] query:false body:false\n",
		"A@a.example , b.example ,query": "A=A@[a.example b.example] query:true body:false\n",
	} {
		var items []string
		if list != "" {
			items = strings.Split(list, ",")
		}
		all, err := ParseSecrets(items)
		if got := describe(all); err != nil || got != want {
			t.Errorf("%q is %q (%v)", list, got, err)
		}
	}
	for list, words := range map[string]string{
		"KEY":                         "has no @",
		"query":                       "has no @",
		"KEY@":                        "names no host",
		"KEY@query":                   "has no host",
		"@a.example":                  "name of a variable",
		"1KEY@a.example":              "name of a variable",
		"MY-KEY@a.example":            "name of a variable",
		"KEY=@a.example":              "name of a variable",
		"KEY@*.a.example":             "one by one",
		"KEY@9.9.9.9":                 "one by one",
		"KEY@https://a.example":       "scheme",
		"KEY@10.0.0.1":                "open internet",
		"KEY@a.example,KEY@b.example": "given twice",
		"KEY@me@a.example":            "user name",
		"KEY@a.example GET /x":        "--allow-domain or --allow-private",
	} {
		should.Fail(t, should.ErrOf(ParseSecrets(strings.Split(list, ","))), words, "%q", list)
	}
}

func TestValuesOfSecrets(t *testing.T) {
	for value, words := range map[string]string{
		"sk-1234567890abcdef\n": "", "short12": "7 bytes", "": "0 bytes", "sk-1234567890\nabcdef": "fits into no header",
		"localhost": "cannot be masked", "12345678": "cannot be masked",
	} {
		s := Secret{Name: "KEY", Variable: "OTHER"}
		err := s.Fill(func(name string) (string, bool) { return value, name == "OTHER" })
		if words == "" && (err != nil || s.Value != strings.TrimSpace(value)) || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
			t.Errorf("%q: %v", value, err)
		}
		if err != nil && value != "" && strings.Contains(err.Error(), value) {
			t.Errorf("the error has the value in it: %v", err)
		}
	}
	s := Secret{Name: "KEY", Variable: "OTHER"}
	should.Fail(t, s.Fill(func(string) (string, bool) { return "", false }), "the variable OTHER is not set")
	if got := s.Placeholder(); got != (Secret{Name: "KEY"}).Placeholder() || !strings.HasPrefix(got, "sandbox-secret-KEY-placeholder-") {
		t.Errorf("the placeholder is %s", got)
	}
}

func FuzzParseSecrets(f *testing.F) {
	f.Add("KEY@a.example,query,B=C@b.example")
	f.Fuzz(func(t *testing.T, list string) {
		all, err := ParseSecrets(strings.Split(list, ","))
		if err != nil {
			return
		}
		for _, s := range all {
			if len(s.Hosts) == 0 || !variableName.MatchString(s.Name) {
				t.Errorf("%q is %s", list, describe(all))
			}
		}
	})
}
