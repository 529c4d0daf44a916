package principal

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestNames(t *testing.T) {
	for name, good := range map[string]bool{
		"alice": true, "alice@example.com": true, "Zoë Müller": true, "李": true, "cn=alice,ou=staff": true, strings.Repeat("ü", maxName): true, "../x": true,
		"": false, " ": false, " alice": false, "alice\n": false, "al\x00ice": false, "al\x1b[2Jice": false, "al\u200bice": false, "al\u202eice": false, "al\xffice": false,
		"alice\u00a0": false, "al\u3164ice": false, "al\uffa0ice": false, "\u2800": false, "al\u2800ice": false, "alice\ufe0f": false, "al\u034fice": false,
		"Zo\u00eb": true, "Zoe\u0308": false, "\u212bke": false, "a\u0323\u0302": false, "\ud55c": true, "\u1112\u1161\u11ab": false,
		"x\u0323": true, // has no other form strings.Repeat("ü", maxName+1): false,
	} {
		err := CheckName(name)
		should.Hold(t, (err == nil) == good, "%q: %v", name, err)
	}
}

// What is on disks and engines has a principal's key in its name.
func TestKeysStayWhatTheyAre(t *testing.T) {
	for name, want := range map[string]string{"": "", "alice": "3sucf7hjtbrtflqy33daqmyp3i", "Alice": ""} {
		got := Principal{Name: name, Groups: []string{"staff"}, Source: "token"}.Key()
		if name != "" && len(got) != 26 || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz234567") != "" || want != "" && got != want || name == "" && got != "" {
			t.Errorf("%q has the key %q", name, got)
		}
	}
	should.Hold(t, (Principal{Name: "alice"}).Key() != (Principal{Name: "Alice"}).Key(), "two names have one key")
}

func TestTheBearerOfARequest(t *testing.T) {
	for want, headers := range map[string][][]string{
		"token": {{"Bearer token"}, {"bearer token"}, {"BEARER   token "}},
		"":      {nil, {""}, {"Bearer"}, {"Bearer "}, {"Basic token"}, {"token"}, {"Bearer token", "Bearer token"}, {"Bearer token", "Basic x"}},
	} {
		for _, header := range headers {
			should.Equal(t, Bearer(&http.Request{Header: http.Header{"Authorization": header}}), want, "%q", header)
		}
	}
}

// answers is an Authenticator that always says the same.
type answers struct {
	name string
	err  error
}

func (a answers) Authenticate(*http.Request) (Principal, error) {
	return Principal{Name: a.name}, a.err
}

func TestAChainTakesTheFirstThatKnows(t *testing.T) {
	bad, none := answers{err: errors.New("forged")}, answers{err: ErrNone}
	for _, test := range []struct {
		chain Chain
		want  string
		err   error
	}{
		{nil, "", ErrNone},
		{Chain{none, none}, "", ErrNone},
		{Chain{none, answers{name: "alice"}, answers{name: "bob"}}, "alice", nil},
		{Chain{answers{err: ErrUnproven}, none}, "", ErrUnproven},
		{Chain{answers{err: ErrUnproven}, answers{name: "alice"}}, "alice", nil},
		{Chain{bad, answers{name: "alice"}}, "", bad.err}, // what is forged is not given another chance
	} {
		p, err := test.chain.Authenticate(&http.Request{})
		should.Hold(t, p.Name == test.want && errors.Is(err, test.err), "%v: %+v, %v", test.chain, p, err)
	}
}

func TestWhoIsStillLetIn(t *testing.T) {
	for a, want := range map[answers]bool{{name: "alice"}: true, {name: "bob"}: false, {err: ErrNone}: false} {
		should.Equal(t, Still(a, &http.Request{}, Principal{Name: "alice", Source: "token"}), want, "%+v", a)
	}
}

func TestAContextIsOfAPrincipal(t *testing.T) {
	p := Of(context.Background())
	should.Hold(t, p.IsUser(), "nobody's is %+v", p)
	p = Of(With(context.Background(), Principal{Name: "alice"}))
	should.Hold(t, p.Name == "alice" && !p.IsUser(), "alice's is %+v", p)
}
