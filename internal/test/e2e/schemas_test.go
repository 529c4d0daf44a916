//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// outputs compiles the schemas that the program gives out for the answers of its tools.
var outputs = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	state, err := os.MkdirTemp("", "schemas-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(state)
	cmd := exec.Command(binary, "--state-dir", state, "--structured-content")
	cmd.Env = []string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH"), noSpares, "SANDBOX_SQL_MAIN=postgres://localhost/x"}
	const hello = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}`
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + hello + `}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n")
	answers, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(bytes.TrimSpace(answers), []byte("\n"))
	listed, err := jsonschema.UnmarshalJSON(bytes.NewReader(lines[len(lines)-1]))
	if err != nil {
		return nil, err
	}
	c, schemas := jsonschema.NewCompiler(), make(map[string]*jsonschema.Schema)
	if err := c.AddResource("list.json", listed); err != nil {
		return nil, err
	}
	all, _ := listed.(object)["result"].(object)["tools"].([]any)
	for i, tool := range all {
		name := tool.(object)["name"].(string)
		if schemas[name], err = c.Compile(fmt.Sprintf("list.json#/result/tools/%d/outputSchema", i)); err != nil {
			return nil, err
		}
	}
	return schemas, nil
})

// checkSchema holds the fields of an answer against what the tool says of them.
func (r toolResult) checkSchema(t *testing.T, tool string) {
	t.Helper()
	schemas, err := outputs()
	if err != nil {
		t.Fatal(err)
	}
	fields, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.StructuredContent))
	if err == nil && schemas[tool] != nil {
		err = schemas[tool].Validate(fields)
	}
	if err != nil || schemas[tool] == nil {
		t.Errorf("the fields of %s are not as its schema says: %v: %.600s", tool, err, r.StructuredContent)
	}
}
