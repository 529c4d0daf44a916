package selftest

import (
	"context"
	"fmt"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
)

// keeping is an engine that may not remove what it is asked to.
type keeping struct {
	*enginetest.Processes
	keeps bool
}

func (k keeping) Remove(ctx context.Context, names, volumes []string) error {
	if k.keeps {
		return nil
	}
	return k.Processes.Remove(ctx, names, volumes)
}

func TestCopiesThatOutliveTheirSessionAreTold(t *testing.T) {
	for keeps, want := range map[bool]Status{false: Proven, true: Broken} {
		on := keeping{enginetest.New(t), keeps}
		config := sandbox.DefaultConfig()
		config.Engine, config.StateDir, config.Host, config.Spares = on, t.TempDir(), "host", 0
		config.Kernels = map[sandbox.Language]sandbox.KernelConfig{
			sandbox.Python: {Image: enginetest.Image, Interpreter: "python3", Join: containers.Join()},
		}
		token := fmt.Sprint("selftest-of-copies-", keeps) // the other case has processes of its own
		tr := &tester{o: Options{Config: config, Engine: on}, attacked: sandbox.NewManager(config), facts: attacks.Facts{Token: token}}
		t.Cleanup(func() { tr.attacked.Close(context.Background()) })
		p := promise{name: "twins", session: true, judge: judgeTwins}
		row := tr.try(t.Context(), p)
		should.Hold(t, row.Status == want, "where the engine keeps what it is to remove (%v): %+v", keeps, row)
	}
}
