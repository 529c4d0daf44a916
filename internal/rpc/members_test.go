package rpc

import (
	"errors"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestMembersOfAnObject(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                   "",
		`{"a":1 , "b\u0041" : [1,"}"] }`:       `a=1;bA=[1,"}"];`,
		`{"a":{"b":2},"a":"x\"y"}`:             `a={"b":2};a="x\"y";`,
		`[]`:                                   "!",
		``:                                     "!",
		` { "a" : -1e5 , "b":true}`:            `a=-1e5;b=true;`,
		`{"a\\":"\\\\\"}","b":[[],{"c":[1]}]}`: `a\="\\\\\"}";b=[[],{"c":[1]}];`,
	} {
		got := ""
		err := Members([]byte(text), func(name string, value []byte) error {
			got += name + "=" + string(value) + ";"
			return nil
		})
		if err != nil {
			got = "!"
		}
		should.Equal(t, got, want, "%s", text)
	}
}

func TestAVisitCanEndTheWalk(t *testing.T) {
	stop := errors.New("stop")
	should.Be(t, Members([]byte(`{"a":1,"b":2}`), func(string, []byte) error { return stop }), stop)
}
