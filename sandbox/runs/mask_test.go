package runs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// What a run came to is cut by the supervisor before it is masked, and by whoever renders it afterwards: neither
// may leave a part of a secret.
func TestNoPartOfASecretIsLeftOfWhatARunCameTo(t *testing.T) {
	const secret = "hunter22-hunter23-xyz"
	head, tail := secret[:12], secret[9:]
	value, long := "it is "+secret+"; "+head+"…", strings.Repeat("x", 996-len(head))+head
	config := &Config{OutputBytes: 1000, Mask: secrets.New(map[string]string{"KEY": secret})}
	for name, res := range map[string]*Result{
		"streams":      {Status: Completed, Stdout: Stream{Head: secret}, Stderr: Stream{Head: "a " + head, Tail: tail + " b " + secret, OmittedBytes: 1, Path: secret}},
		"a value":      {Status: Completed, Value: &value},
		"a long value": {Status: Completed, Value: &long},
		"an error":     {Status: Failed, Cause: secret, Error: &RunError{Name: secret, Message: secret + head + "…", Traceback: head + "…"}},
		"paths":        {Status: Completed, Artifacts: []Artifact{{Path: "output/" + secret}}},
		"sentences":    {Status: Completed, Notes: []string{secret}, GoesOn: []string{secret}},
		"background":   {Status: Completed, Background: []Background{{Path: secret, Text: tail + secret + head, OmittedBytes: 9}, {Text: secret}}},
	} {
		run := NewRun(t.Context(), config, "r", "s", RunOptions{Code: "print('" + secret + "')"})
		run.show(Display{Path: secret, Alt: head, Data: map[string][]byte{"text/html": []byte(secret + head + "…")}}, 1)
		run.advance(protocol.Progress{LastLine: tail})
		told := fmt.Sprintf("%+v %v", run.Progress(), run.Info())
		run.Finish(res, nil, func(recorded *Result, _ error) {
			should.Equal(t, recorded, res, "%s: another result is recorded", name)
		})
		for _, text := range []string{told, readable(res)} {
			if strings.Contains(text, "hunter") || strings.Contains(text, "-xyz") {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
	going := maskedStream(config, Stream{Head: "a " + head}, Running)
	if over := maskedStream(config, Stream{Head: "a hun"}, Completed); going.Head != "a [masked]" || over.Head != "a hun" {
		t.Errorf("while it runs: %q, when it is over: %q", going.Head, over.Head)
	}
	run := NewRun(t.Context(), config, "r", "s", RunOptions{})
	run.Finish(nil, fault.New(fault.EngineError, secret, "It said %s.", secret), nil)
	if _, err := run.Result(); fault.From(err).Message != "It said [masked: KEY]." || fault.From(err).Hint != "[masked: KEY]" {
		t.Errorf("a fault says %+v", err)
	}
}

// readable writes a result with what its pointers point at.
func readable(res *Result) string {
	text := fmt.Sprintf("%+v", *res)
	if res.Value != nil {
		text += *res.Value
	}
	if res.Error != nil {
		text += fmt.Sprintf("%+v", *res.Error)
	}
	for _, d := range res.Displays {
		for mime, data := range d.Data {
			text += mime + string(data)
		}
	}
	return text
}
